"""What the program does before it opens a door."""

from __future__ import annotations

import pytest

from halfhitch import composition
from halfhitch.config import load

GOOD: dict[str, object] = {"kafka.bootstrap": "k:1", "handle.key": "k" * 32}


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        ({"http.connections_max": 100}, 740),
        ({"http.connections_max": 100, "rocketmq.enabled": True}, 2788),
    ],
)
def test_it_asks_for_as_many_files_as_its_doors_take_connections_and_warns_of_fewer(
    flags: dict[str, object],
    wanted: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = load({**GOOD, **flags})
    asked: list[int] = []
    monkeypatch.setattr(composition, "have_descriptors", lambda n: asked.append(n) or n)
    composition._have_files_for_connections(settings)
    assert (asked, caplog.messages) == ([wanted], [])
    monkeypatch.setattr(composition, "have_descriptors", lambda _: 64)
    composition._have_files_for_connections(settings)
    (said,) = caplog.messages
    assert all(word in said for word in ("64", str(wanted), "ulimit -n", "http.connections_max"))
