"""The owner's part: its turns, without its reader and its writer.

The logs are played: halves and decisions that were made beforehand. Imported once by each tree.
"""

from __future__ import annotations

import time
from typing import Any, Final

from confluent_kafka import Message

from halfhitch.core.model import Resolution, ResolutionSource
from halfhitch.ports import ReadBatch, WriteOutcome, WriteResult
from halfhitch.wire import half, op
from harness.audit import AUDIT, stories_of
from harness.twin import Twin

_HALVES_A_TURN: Final = 200
_DECISIONS_A_RECORD: Final = 50
_GROUP: Final = "bench-group"
_BORN_MS = 1_700_000_000_000
_USER = [("KEYS", b"key-123"), ("trace", b"0123456789abcdef")]


class Silent:
    """An observer of whom nothing is expected."""

    def __getattr__(self, name: str) -> Any:
        def nothing(*_: Any, **__: Any) -> None:
            return None

        setattr(self, name, nothing)
        return nothing


class PlayedLogs:
    """ports.PartitionReader of logs in which every half is committed at once."""

    def __init__(self, count: int, *, halves: int, decisions: int) -> None:
        self._halves_a_turn = halves
        self._decisions_a_record = decisions
        ids = [f"{number:032X}" for number in range(count)]
        self._halves = [_half(number, name) for number, name in enumerate(ids)]
        self._decisions = [
            _decisions(ids, range(at, min(at + decisions, count)))
            for at in range(0, count, decisions)
        ]
        self._next = self._next_op = 0
        self._is_open = False
        self.own: list[Any] = []  # done marks that were just written
        self.spent_s = 0.0

    def open(self) -> None:
        """From now on there is something to read."""
        self._is_open = True
        self.spent_s = 0.0

    def read(self, wait_s: float) -> ReadBatch:
        """The next of both."""
        began = time.thread_time()
        at = self._next
        halves = self._halves[at : at + self._halves_a_turn] if self._is_open else []
        records, self.own = self.own, []
        if halves:
            self._next = at + len(halves)
            each = self._decisions_a_record
            records = records + self._decisions[at // each : self._next // each]
        ops = []
        for one in records:
            ops.append(_message("op", self._next_op, one.key, one.value, one.headers, at))
            self._next_op += 1
        self.spent_s += time.thread_time() - began
        return ReadBatch(halves, ops)

    def half_end(self) -> int:
        """How many halves were read."""
        return self._next

    def wake(self) -> None:
        """Nothing waits here."""

    def half_read_to(self) -> int:
        """The same."""
        return self._next

    def op_end(self) -> int:
        """How many op records were read."""
        return self._next_op

    def op_read_to(self) -> int:
        """The same."""
        return self._next_op

    #: Nothing was stored.
    stamp = ""

    def committed_positions(self) -> tuple[int, int]:
        """From the beginning."""
        return 0, 0

    def begin(self, *_: Any) -> tuple[int, int]:
        """From the beginning."""
        return 0, 0

    def hold_op(self) -> None:
        """Nothing is held."""

    def release_op(self) -> None:
        """Nothing was."""


class PlayedWriter:
    """ports.PartitionWriter that keeps nothing but the done marks."""

    def __init__(self, logs: PlayedLogs) -> None:
        self._logs = logs
        self.written_count = 0

    def write(self, targets: Any, ops: Any, half_watermark: int, op_watermark: int) -> WriteResult:
        """A Kafka transaction."""
        self.written_count += sum(target.topic != AUDIT for target in targets)
        self._logs.own = list(ops)
        return WriteResult(WriteOutcome.OK)

    def fence(self) -> None:
        """Nobody else is there."""

    def idle(self) -> bool:
        """Nothing happened."""
        return False

    def delete_below(self, *_: int) -> None:
        """Nothing is kept."""

    def leaderless(self, *_: Any) -> frozenset[Any]:
        """All lead."""
        return frozenset()


def _half(number: int, name: str) -> Message:
    record = half.HalfRecord(name, _GROUP, 0, _BORN_MS + number // 10, "instance-1", "orders")
    headers = half.system_headers(record) + _USER
    return _message("half", number, name.encode(), b"x" * 1024, headers, number)


def _decisions(ids: list[str], numbers: range) -> op.StepRecord:
    entries = [
        op.DecisionEntry(_GROUP, ids[number], 1, 1, ResolutionSource.PRODUCER) for number in numbers
    ]
    return op.StepRecord(*op.write(op.tag_of(Resolution.COMMIT), entries, numbers))


def _message(
    topic: str, place: int, key: bytes | None, value: bytes, headers: Any, number: int
) -> Message:
    stored = (2, _BORN_MS + number // 10)
    return Message(
        topic=topic, partition=0, offset=place, key=key, value=value, headers=headers,
        timestamp=stored,
    )  # fmt: skip


def owner_us(count: int) -> dict[str, float]:
    """Of each transaction: what the owner's turns take, without its reader and its writer."""
    return {
        "owner: turn": _turns_us(count, tells=False),
        "owner: turn that tells": _turns_us(count, tells=True),
    }


def _turns_us(count: int, *, tells: bool) -> float:
    twin = Twin()
    twin.observer = Silent()
    logs = PlayedLogs(count, halves=_HALVES_A_TURN, decisions=_DECISIONS_A_RECORD)
    writer = PlayedWriter(logs)
    more: dict[str, Any] = {}
    if tells:
        twin.kafka.create_topic(AUDIT, 2)
        more["stories"] = stories_of(twin.kafka, 0, observer=twin.observer, clock=twin.clock)
    owner = twin.owner(reader=logs, writer=writer, **more)
    owner.take_over()
    logs.open()
    began = time.thread_time()
    while logs.half_end() < count:
        owner.turn(0.0)
    spent = time.thread_time() - began - logs.spent_s
    assert writer.written_count == count, writer.written_count
    return spent / count * 1e6
