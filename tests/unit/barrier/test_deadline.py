"""A check's time: whoever asked goes on when it is over, and what hangs is cut off and counted."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.barrier.deadline import LEFT_BEHIND_MAX, Deadline, Overdue
from halfhitch.barrier.deadline_aio import AsyncDeadline
from harness.kafka import wait_until

if TYPE_CHECKING:
    from halfhitch.barrier.deadline import Watch

TRACE: ContextVar[str] = ContextVar("TRACE")
_END_S = 20.0


class Hanging:
    """Checks that hang until they are let go."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.ended_count = 0

    def __call__(self, watch: Watch) -> None:
        self.may_end.wait(_END_S)
        self.ended_count += 1


def test_what_a_check_says_or_raises_is_told() -> None:
    TRACE.set("seen")
    assert Deadline(_END_S).run(lambda _: TRACE.get()) == "seen"

    def fails(_: Watch) -> None:
        raise KeyError("why")

    with pytest.raises(KeyError, match="why"):
        Deadline(_END_S).run(fails)


def test_checks_that_hang_block_nobody_for_ever_and_leak_no_threads_without_bound() -> None:
    deadline = Deadline(0.05)
    hanging = Hanging()
    before_count = threading.active_count()
    for _ in range(LEFT_BEHIND_MAX):
        with pytest.raises(Overdue, match=r"no answer within 0\.05 s"):
            deadline.run(hanging)
    for _ in range(3):
        with pytest.raises(Overdue, match="8 earlier checks still hang"):
            deadline.run(hanging)
    assert threading.active_count() == before_count + LEFT_BEHIND_MAX
    hanging.may_end.set()
    wait_until(lambda: hanging.ended_count == LEFT_BEHIND_MAX, _END_S)
    wait_until(lambda: not deadline._running, _END_S)
    deadline.wait_s = _END_S
    assert deadline.run(lambda _: "answered") == "answered"


async def test_tasks_that_hang_are_bounded_too() -> None:
    deadline = AsyncDeadline(0.05)
    may_end = asyncio.Event()

    async def stubborn(_: Watch) -> None:
        try:
            await may_end.wait()
        except asyncio.CancelledError:
            await may_end.wait()  # a driver that takes its time to close

    for _ in range(LEFT_BEHIND_MAX):
        with pytest.raises(Overdue, match="no answer within"):
            await deadline.run_task(stubborn)
    with pytest.raises(Overdue, match="earlier checks still hang"):
        await deadline.run_task(stubborn)
    may_end.set()
    while deadline._running:
        await asyncio.sleep(0)

    async def answers(_: Watch) -> str:
        return "answered"

    deadline.wait_s = _END_S
    assert await deadline.run_task(answers) == "answered"


async def test_a_check_that_ends_by_itself_is_not_cancelled_but_counted() -> None:
    deadline = AsyncDeadline(0.05, cancels=False)
    may_end = asyncio.Event()
    endings: list[bool] = []

    async def patient(watch: Watch) -> None:
        await may_end.wait()
        endings.append(watch.is_cut)

    for _ in range(LEFT_BEHIND_MAX):
        with pytest.raises(Overdue, match="no answer within"):
            await deadline.run_task(patient)
    with pytest.raises(Overdue, match="earlier checks still hang"):
        await deadline.run_task(patient)
    may_end.set()
    while deadline._running:
        await asyncio.sleep(0)
    assert endings == [True] * LEFT_BEHIND_MAX
    assert not deadline._tasks


def test_what_hangs_on_a_socket_is_cut_off() -> None:
    ours, theirs = socket.socketpair()
    seen: list[bytes] = []

    def reads(watch: Watch) -> None:
        watch.hold(ours)
        seen.append(ours.recv(1))  # nothing will ever come

    with ours, theirs:
        with pytest.raises(Overdue):
            Deadline(0.05).run(reads)
        wait_until(lambda: seen == [b""], _END_S, what="the reader to be cut off")


def test_a_late_check_touches_no_connection() -> None:
    ours, theirs = socket.socketpair()
    said: list[str] = []
    connected = threading.Event()

    def late(watch: Watch) -> None:
        connected.wait(_END_S)
        for step in (lambda: watch.hold(ours), watch.patience_ms):
            try:
                step()
            except Overdue as error:
                said.append(str(error))

    with ours, theirs:
        with pytest.raises(Overdue):
            Deadline(0.05).run(late)
        connected.set()
        wait_until(lambda: len(said) == 2, _END_S)
        ours.send(b"x")
        assert theirs.recv(1) == b"x"  # nobody has cut it off


def test_a_connection_is_not_cut_off_after_its_check() -> None:
    ours, theirs = socket.socketpair()
    deadline = Deadline(_END_S)
    watches: list[Any] = []

    def quick(watch: Watch) -> None:
        watches.append(watch)
        watch.hold(ours)

    with ours, theirs:
        deadline.run(quick)
        watches[0].cut()
        ours.send(b"x")
        assert theirs.recv(1) == b"x"


def test_the_database_is_told_to_give_up_first() -> None:
    patience_ms = Deadline(_END_S).run(lambda watch: watch.patience_ms())
    assert 0 < patience_ms < _END_S * 1000 * 0.9


def test_a_file_is_no_socket() -> None:
    with Path(os.devnull).open() as file:
        Deadline(_END_S).run(lambda watch: watch.hold(file))
        assert not file.closed


def test_what_hangs_in_the_parent_does_not_count_in_a_forked_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deadline = Deadline(0.05)
    hanging = Hanging()
    for _ in range(LEFT_BEHIND_MAX):
        with pytest.raises(Overdue):
            deadline.run(hanging)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    deadline.wait_s = _END_S
    assert deadline.run(lambda _: "answered") == "answered"
    hanging.may_end.set()


# -- a lock that SQLite does not wait for ---------------------------------------------------------


def busy() -> sqlite3.OperationalError:
    """As `PRAGMA journal_mode=WAL` says, at once, where two begin with it."""
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = 261  # SQLITE_BUSY_RECOVERY: the low byte counts
    return error


class Locked:
    """A check that meets locks first."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.count = 0

    def __call__(self, _: Watch) -> str:
        self.count += 1
        if self._errors:
            raise self._errors.pop(0)
        return "answered"

    async def awaited(self, watch: Watch) -> str:
        return self(watch)


def wrapped() -> Exception:
    """As SQLAlchemy gives it on."""
    error = RuntimeError("(sqlite3.OperationalError) database is locked")
    error.orig = busy()  # type: ignore[attr-defined]
    return error


async def test_a_lock_that_was_not_waited_for_ended_the_check() -> None:
    assert Deadline(_END_S).run(Locked(busy(), wrapped())) == "answered"
    assert await AsyncDeadline(_END_S).run_task(Locked(busy(), wrapped()).awaited) == "answered"


async def test_a_check_that_waited_for_its_lock_or_failed_otherwise_does_not_begin_again() -> None:
    for check in (Locked(ValueError("wrong"), busy()), Locked(RuntimeError("more"), busy())):
        with pytest.raises((ValueError, RuntimeError)):
            Deadline(_END_S).run(check)
        assert check.count == 1
    late = Locked(*[busy() for _ in range(3)])

    def waits(watch: Watch) -> str:
        watch._end_s -= 0.6 * _END_S
        return late(watch)

    async def awaits(watch: Watch) -> str:
        return waits(watch)

    with pytest.raises(sqlite3.OperationalError, match="locked"):
        Deadline(_END_S).run(waits)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        await AsyncDeadline(_END_S).run_task(awaits)
    assert late.count == 2


#: A generator that the last garbage collection closes, with a block open.
_LEFT_OPEN = """
import sys
from halfhitch.barrier.deadline import Deadline, Overdue

class Left:
    deadline, finalizing, overdue = Deadline(30.0), sys.is_finalizing, Overdue
    def __del__(self):
        assert self.finalizing()
        try:
            self.deadline.run(lambda _: None)
        except self.overdue as error:
            print(error)

left = Left()
left.itself = left
sys.modules["left"] = left
"""


def test_a_check_of_an_interpreter_that_ends_kept_the_process_for_ever() -> None:
    """A thread that is begun then never gets the interpreter lock, and its start waits for it."""
    done = subprocess.run(
        [sys.executable, "-c", _LEFT_OPEN], capture_output=True, text=True, timeout=60, check=True
    )
    assert "the interpreter is ending" in done.stdout, done.stderr
