"""Two processes of one name are noticed; one after the other is not two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfhitch.adapters.redis.namesake import Namesake
from halfhitch.adapters.redis.pipeline import Work

if TYPE_CHECKING:
    import pytest


class Server:
    """The one key, as each pulse reads and writes it."""

    def __init__(self) -> None:
        self.value: bytes | None = None

    def pulse(self, of: Namesake) -> None:
        of.add(Work())  # what it adds is run on a real server in the integration tests
        of.found(self.value)
        self.value = of.mark.encode()


def process(mark: str) -> Namesake:
    return Namesake("host", "hh:c:name:host", mark)


def test_two_that_live_at_once_both_say_so() -> None:
    server, a, b = Server(), process("a"), process("b")
    for _ in range(3):
        server.pulse(a)
        server.pulse(b)
    for one in (a, b):
        assert one.trouble is not None
        assert "'host'" in one.trouble
        assert "instance.id" in one.trouble


def test_the_one_that_stays_is_content_again() -> None:
    server, a, b = Server(), process("a"), process("b")
    for _ in range(3):
        server.pulse(a)
        server.pulse(b)
    for _ in range(6):
        server.pulse(a)
    assert a.trouble is None


def test_two_of_which_one_was_late_now_and_then_were_told_of_again_and_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, a, b = Server(), process("a"), process("b")
    for _ in range(20):
        server.pulse(a)
        server.pulse(a)
        server.pulse(b)
    assert a.trouble is not None
    assert len(caplog.records) == 2, "each of them, once"


def test_a_process_that_follows_another_of_its_name_is_no_namesake() -> None:
    server, before, after = Server(), process("before"), process("after")
    server.pulse(before)
    server.pulse(after)
    server.pulse(before)  # the last word of one that is stopping
    server.pulse(after)
    assert after.trouble is None
    server.pulse(after)
    assert after.trouble is None


def test_a_server_that_was_wiped_tells_nothing() -> None:
    server, a = Server(), process("a")
    server.pulse(a)
    for _ in range(3):
        server.value = None
        server.pulse(a)
    assert a.trouble is None
