"""The canary tells every loss and every late write, and is silent otherwise."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from halfhitch.adapters.redis.canary import Canary


@dataclass
class Server:
    """One string key."""

    value: bytes | None = None

    def getset(self, value: str) -> bytes | None:
        before, self.value = self.value, value.encode()
        return before


def batch(canary: Canary, server: Server) -> str | None:
    first, last = canary.begin()
    return canary.judge(server.getset(first), server.getset(last))


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def canary(server: Server) -> Canary:
    """One that has written before."""
    made = Canary("aa")
    assert batch(made, server) is None
    return made


def test_nothing_is_said_while_nothing_is_lost(canary: Canary, server: Server) -> None:
    assert [batch(canary, server) for _ in range(50)] == [None] * 50


def test_what_an_earlier_process_left_says_nothing(server: Server) -> None:
    server.value = b"bb:77"
    assert batch(Canary("aa"), server) is None


def test_a_wipe_is_told_once(canary: Canary, server: Server) -> None:
    server.value = None
    assert [batch(canary, server), batch(canary, server)] == ["wiped", None]


def test_a_wipe_in_the_middle_of_a_batch_is_told(canary: Canary, server: Server) -> None:
    first, last = canary.begin()
    at_start = server.getset(first)
    server.value = None
    assert canary.judge(at_start, server.getset(last)) == "wiped"
    assert batch(canary, server) is None


@pytest.mark.parametrize("age", [1, 2, 5])
def test_an_old_dump_is_told_however_young_it_is(age: int) -> None:
    server, canary = Server(), Canary("aa")
    values = []
    for _ in range(10):
        assert batch(canary, server) is None
        values.append(server.value)
    server.value = values[-1 - age]
    assert [batch(canary, server), batch(canary, server)] == ["old", None]


@pytest.mark.parametrize(
    ("value", "reason"),
    [(b"bb:2", "old"), (b"aa:99", "old"), (b"", "garbage"), (b"aa:", "garbage"),
     (b"aa:2 ", "garbage"), (b"\xff", "garbage"), (b"aa:-2", "garbage")],
)  # fmt: skip
def test_what_is_none_of_ours_is_told(
    canary: Canary, server: Server, value: bytes, reason: str
) -> None:
    server.value = value
    assert [batch(canary, server), batch(canary, server)] == [reason, None]


@pytest.mark.parametrize("executed", [0, 1, 2])
def test_a_batch_without_an_answer_may_or_may_not_have_been_written(
    canary: Canary, server: Server, executed: int
) -> None:
    for value in canary.begin()[:executed]:
        server.getset(value)
    assert batch(canary, server) is None


@pytest.mark.parametrize("position", [1, 2])
def test_a_late_batch_that_overtakes_a_newer_one_is_told(
    canary: Canary, server: Server, position: int
) -> None:
    late = canary.begin()  # lies in the buffer of a paused server; we have given up waiting
    first, last = canary.begin()
    at_start = server.getset(first)
    if position == 1:
        for value in late:
            server.getset(value)
        assert canary.judge(at_start, server.getset(last)) == "old"
    else:
        assert canary.judge(at_start, server.getset(last)) is None
        for value in late:
            server.getset(value)
        assert batch(canary, server) == "old"
    assert batch(canary, server) is None
