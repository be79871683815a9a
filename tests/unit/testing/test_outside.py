"""What is the same for a sidecar in a process and in a container."""

from __future__ import annotations

import pytest

from halfhitch.config import SETTINGS
from halfhitch.testing import outside
from halfhitch.testing.outside import Doors, SidecarFailed, await_ready, doors_in, is_ready
from harness.admin_answers import readyz

SERVING = "INFO serving on http://127.0.0.1:{} and unix:/x.sock, admin on port {}\n"


def test_every_setting_s_variable_is_known_without_the_table():
    """A test that only starts the image has none of the sidecar's packages."""
    assert {setting.key: setting.env for setting in SETTINGS} == {
        setting.key: outside.variable_of(setting.key) for setting in SETTINGS
    }
    assert {*outside.SETTINGS_OF_TESTS} <= {setting.key for setting in SETTINGS}


def test_settings_become_what_a_sidecar_reads_from_its_environment():
    settings = {
        "topics.create": True,
        "http.port": 0,
        "topics.allow": ["a.*", "b"],
        "log.json": False,
    }
    assert outside.environment_of(settings) == {
        "HALFHITCH_TOPICS_CREATE": "true",
        "HALFHITCH_HTTP_PORT": "0",
        "HALFHITCH_TOPICS_ALLOW": "a.*,b",
        "HALFHITCH_LOG_JSON": "false",
    }


def test_doors_are_those_of_the_newest_start():
    assert doors_in("") is None
    assert doors_in("INFO starting\n") is None
    again = SERVING.format(1, 2) + "killed\n" + SERVING.format(3, 4)
    assert doors_in(again) == Doors("http://127.0.0.1:3", 4)


def test_a_sidecar_without_a_socket_tells_its_doors_too():
    """A container on this machine's network was waited for in vain."""
    assert doors_in("serving on http://127.0.0.1:5, admin on port 6\n") == Doors(
        "http://127.0.0.1:5", 6
    )


def test_ready_is_what_readyz_says_and_nobody_there_is_not():
    with readyz(503, 204, 200) as door:
        assert [is_ready(door.address) for _ in range(3)] == [False, True, False]
        assert door.asked == ["/readyz"] * 3
    assert not is_ready(door.address)


def test_it_is_waited_for_until_it_is_known_and_ready():
    with readyz(503, 503, 204) as door:
        known = iter([None, None])
        await_ready(lambda: next(known, door.address), lambda: False, lambda: "")
        assert len(door.asked) == 3


def test_one_that_has_ended_is_not_waited_for_and_its_log_is_shown():
    with pytest.raises(SidecarFailed, match=r"has ended:\nhandle\.key is not set"):
        await_ready(lambda: None, lambda: True, lambda: "handle.key is not set")


def test_one_that_never_gets_ready_shows_its_log(monkeypatch):
    monkeypatch.setattr(outside, "READY_S", 0.2)
    with pytest.raises(SidecarFailed, match=r"not ready after 0 s:\nno broker answers"):
        await_ready(lambda: None, lambda: False, lambda: "no broker answers")
