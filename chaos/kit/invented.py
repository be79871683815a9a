"""A run that was never run: logs, readings and truths made by hand, to show what the checker sees.

The records are written by the product's own codecs, so the checker's own parsing is proven against
them. What `Invented` makes is faultless; a test then spoils one thing. Times are milliseconds from
an invented beginning; every record is stored a moment after the one before.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from chaos.kit.checker import Limits, Readings, Report, check
from chaos.kit.history import Asked, Checked, Identity, Message, Outcome, Truth
from chaos.kit.log_model import LogModel
from chaos.kit.readers import Sample, Seen, Stall
from halfhitch.core.model import ConflictKind, ConflictMark, DoneMark, Resolution, ResolutionSource
from halfhitch.wire import count as count_wire
from halfhitch.wire import half as half_wire
from halfhitch.wire import op as op_wire
from halfhitch.wire import parked as parked_wire
from harness.checkers import Fate
from harness.partitioning import java_partition

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUP = "orders"
HALF, OP, PARKED, TARGET, OTHER = "half", "op", "parked", "orders", "points"
PARTITION_COUNT = 3
STEP_MS = 10
IMMUNITY_MS, INTERVAL_MS = 1_000, 2_000


@dataclass
class Invented:
    """One half partition, two target topics of three partitions."""

    half: list[Seen] = field(default_factory=list)
    op: list[Seen] = field(default_factory=list)
    parked: list[Seen] = field(default_factory=list)
    final: list[Seen] = field(default_factory=list)
    uncommitted: list[Seen] = field(default_factory=list)
    committed: list[Seen] | None = None  # None: as the final reader
    stalls: list[Stall] = field(default_factory=list)
    open_transactions: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    truths: dict[Identity, Truth] = field(default_factory=dict)
    now_ms: int = 1_000_000

    def tick(self, passed_ms: int = STEP_MS) -> int:
        """Time passes."""
        self.now_ms += passed_ms
        return self.now_ms

    # -- what a transaction leaves behind ----------------------------------------------------------

    def transaction(self, name: str, fate: Fate, *, count: int = 2, key: bytes = b"k") -> Identity:
        """Prepared, ended, carried out, as it should be."""
        identity = self.prepare(name, count=count, key=key)
        if fate is Fate.PENDING:
            return identity
        self.end(identity, fate)
        tag = "c" if fate is Fate.COMMITTED else "r"
        self.decide(identity, tag, count=count)
        if fate is Fate.COMMITTED:
            self.forward(identity)
        self.done(identity, count if fate is Fate.COMMITTED else 0)
        self.sample()
        return identity

    def prepare(self, name: str, *, count: int = 2, key: bytes = b"k") -> Identity:
        """Halves, and a producer that knows of them."""
        identity = (GROUP, name)
        truth = Truth(identity, prepared=Outcome.OK, first_prepare_ms=self.tick())
        self.truths[identity] = truth
        truth.acked_count = count
        for index in range(count):
            value = f"{name} {index}".encode()
            topic = TARGET if index == 0 else OTHER
            message = Message.of(topic, value, key, headers=[("h", b"1"), ("h", None)])
            truth.messages[index] = [message]
            truth.acked_ms[index] = self.now_ms
            self.append_half(identity, index, value, key, topic=topic)
        return identity

    def append_half(
        self,
        identity: Identity,
        index: int,
        value: bytes,
        key: bytes | None,
        *,
        topic: str = TARGET,
        **more: Any,
    ) -> Seen:
        """One half record."""
        record = half_wire.HalfRecord(
            identity[1], identity[0], index, self.now_ms, "instance", topic, **more
        )
        headers = [*half_wire.system_headers(record), ("h", b"1"), ("h", None)]
        return self._append(self.half, HALF, value, headers, key)

    def copy(self, identity: Identity, check_count: int) -> None:
        """All its halves anew with a check's number, and a mark for the old ones."""
        old = [s for s in self.half if _id_of(s) == identity[1]]
        newest = {_index_of(seen): seen for seen in old}
        for index, seen in sorted(newest.items()):
            headers = half_wire.copied_headers(
                list(seen.headers),
                seen.log_offset,
                check_count=check_count,
                stored_ms=old[0].stored_ms,
            )
            self._append(self.half, HALF, seen.value, headers, seen.key)
            self.done(identity, -3, [newest[index].log_offset])

    def end(self, identity: Identity, fate: Fate, outcome: Outcome = Outcome.OK) -> None:
        """A producer asks for an ending."""
        at_ms = self.tick()
        asked = Asked(fate, "producer", outcome, at_ms, at_ms + 1)
        self.truths[identity].asked.append(asked)

    def asked(self, identity: Identity, number: int, answer: str | None = "UNKNOWN") -> None:
        """A check comes to a producer."""
        self.truths[identity].checks.append(Checked(number, self.tick(), "app", answer))

    def decide(
        self, identity: Identity, tag: str, *, count: int = 2, source: str = "producer"
    ) -> Seen:
        """A decision in the op log."""
        offsets = self.offsets_of(identity)
        entry = op_wire.DecisionEntry(*identity, count, len(offsets), ResolutionSource(source))
        return self._op(op_wire.write(op_wire.tag_of(Resolution(tag)), [entry], offsets))

    def done(self, identity: Identity, ending: int, offsets: Sequence[int] | None = None) -> Seen:
        """A done mark."""
        if offsets is None:
            marked = {
                o
                for account in [self.model().accounts[identity]]
                for mark in account.done
                for o in mark.half_offsets
            }
            offsets = [o for o in self.offsets_of(identity) if o not in marked]
        mark: Any = DoneMark(identity, ending, list(offsets))  # type: ignore[arg-type]
        (record,) = op_wire.write_step([mark], [])
        return self._op((record.value, record.headers))

    def conflict(self, identity: Identity, losing_op_offset: int) -> None:
        """A decision that lost is on record."""
        mark: Any = ConflictMark(identity, ConflictKind.CONTRARY, losing_op_offset, [])  # type: ignore[arg-type]
        (record,) = op_wire.write_step([], [mark])
        self._op((record.value, record.headers))

    def forward(self, identity: Identity, *, only: Sequence[int] | None = None) -> list[Seen]:
        """Its messages on their targets."""
        made = []
        for seen in self.halves_of(identity):
            if only is not None and _index_of(seen) not in only:
                continue
            forward = half_wire.read_forward(0, list(seen.headers))
            assert isinstance(forward, half_wire.Forward)
            partition = java_partition(seen.key or b"", PARTITION_COUNT)
            topic = forward.target_topic
            headers = forward.headers
            if only is None:
                *users, (name, marker) = headers
                counted = count_wire.with_count(marker or b"", len(self.halves_of(identity)))
                headers = [*users, (name, counted)]
            made.append(self._append(self.final, topic, seen.value, headers, seen.key, partition))
        return made

    def park(self, identity: Identity, reason: str = parked_wire.CHECKS_EXHAUSTED) -> None:
        """Its messages on the parked topic."""
        for seen in self.halves_of(identity):
            why = parked_wire.Parked(reason, "", 0, seen.log_offset)
            headers = parked_wire.parked_headers(list(seen.headers), why)
            self._append(self.parked, PARKED, seen.value, headers, seen.key)

    def note(self, identity: Identity) -> Seen:
        """An operator's note in the op log."""
        return self._op(op_wire.write_note(identity, action="resume", operator="o", reason="r"))

    def resume(self, identity: Identity, fence: int) -> None:
        """What was parked of it has been put back."""
        told = parked_wire.Resumed(*identity, 0, [(0, 0)], 1, "r", "o", None, fence)
        self._append(self.parked, PARKED, None, parked_wire.note_headers(told), None)

    def give_up(self, identity: Identity, checks: int) -> None:
        """So many checks, each with its number in the log and unanswered, then parked."""
        for number in range(1, checks + 1):
            self.tick(IMMUNITY_MS if number == 1 else INTERVAL_MS)
            self.copy(identity, number)
            self.asked(identity, number)
        self.decide(identity, "p", source="policy")
        self.park(identity)
        self.done(identity, -2)
        self.sample()

    def sample(self, *, half: int | None = None, op: int | None = None) -> None:
        """Stored watermarks, by default as high as is lawful for what is there."""
        done = {
            o
            for account in self.model().accounts.values()
            for mark in account.done
            for o in mark.half_offsets
        }
        lowest = next((s.log_offset for s in self.half if s.log_offset not in done), None)
        self.samples.append(
            Sample(
                self.tick(),
                {0: len(self.half) if lowest is None else lowest} if half is None else {0: half},
                {0: 0 if op is None else op},
                {0: 0},
                {0: 0},
            )
        )

    # -- looking ---------------------------------------------------------------------------------

    def halves_of(self, identity: Identity) -> list[Seen]:
        """The first copy of each message."""
        found: dict[int, Seen] = {}
        for seen in self.half:
            if _id_of(seen) == identity[1]:
                found.setdefault(_index_of(seen), seen)
        return list(found.values())

    def offsets_of(self, identity: Identity) -> list[int]:
        """Of all its halves."""
        return [seen.log_offset for seen in self.half if _id_of(seen) == identity[1]]

    def model(self) -> LogModel:
        """What the model makes of the logs."""
        return LogModel(self.half, self.op)

    def readings(self) -> Readings:
        """What the checker is handed."""
        return Readings(
            final=self.final,
            committed=self.final if self.committed is None else self.committed,
            uncommitted=[*self.final, *self.uncommitted],
            parked=self.parked,
            stalls=self.stalls,
            open_transactions=self.open_transactions,
            gaps=self.gaps,
        )

    def report(self, *, counters: dict[str, int] | None = None, **changes: Any) -> Report:
        """The verdict."""
        given: dict[str, Any] = {
            "check_count_max": 2,
            "immunity_ms": IMMUNITY_MS,
            "interval_ms": INTERVAL_MS,
            "clock_slack_ms": 0,
            "decided_slack_ms": 100,
            "partition_counts": {TARGET: PARTITION_COUNT, OTHER: PARTITION_COUNT},
            "deliveries_are_certain": True,
            "stall_ms_max": 5_000,
            "late_ms_max": 60_000,
            "required": (),
            **changes,
        }
        return check(
            self.truths, self.model(), self.readings(), self.samples, Limits(**given), counters
        )

    # -- appending -------------------------------------------------------------------------------

    def _op(self, record: tuple[bytes, Any]) -> Seen:
        return self._append(self.op, OP, record[0], record[1], None)

    def _append(
        self,
        log: list[Seen],
        topic: str,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        key: bytes | None,
        partition: int = 0,
    ) -> Seen:
        log_offset = sum((s.topic, s.partition) == (topic, partition) for s in log)
        at_ms = self.tick()
        seen = Seen(topic, partition, log_offset, key, value, tuple(headers), at_ms, at_ms + 1)
        log.append(seen)
        return seen


def spoiled(seen: Seen, **changes: Any) -> Seen:
    """The same record, but for these."""
    return replace(seen, **changes)


def _id_of(seen: Seen) -> str:
    return (seen.headers[1][1] or b"").decode()


def _index_of(seen: Seen) -> int:
    return int((seen.headers[0][1] or b"").split(b";")[1])
