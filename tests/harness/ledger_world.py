"""One half partition without Kafka: logs as lists, a ledger driven as its owner drives it.

Records are written and read through the real codecs. What Kafka promises is modelled in the
simplest way that is true: the records of a Kafka transaction lie in the logs when they are written
and can be read when it is committed (nobody reads past an open one), all of them or none; an
aborted one and every end marker leave offsets that are never delivered; deleted records are gone.
The judge of what should have happened is ledger_model.py, which shares no code with the ledger.

Simplification: one process. An owner that was fenced cannot write, so there is only ever one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from halfhitch.core import ledger as ledger_module
from halfhitch.core.check_rules import CheckRules
from halfhitch.core.model import (
    HalfOffset,
    Identity,
    LateNote,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TransactionId,
)
from halfhitch.core.states import State
from halfhitch.wire import half as half_wire
from halfhitch.wire import op as op_wire
from halfhitch.wire import parked as parked_wire
from halfhitch.wire.half import Garbage, HalfRecord, Headers
from harness.defaults import check_rules
from harness.logs import ABORTED, COMMITTED, OPEN, KafkaTransaction, Log, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halfhitch.core.transaction import Transaction

TARGET = "orders"
#: The contract's figure, not the ledger's constant: so often a number may get lost on the way.
LOST_MAX = 3
SOURCES = {Resolution.PARK: ResolutionSource.POLICY}


def identity_of(name: str, group: str = "g") -> Identity:
    """Short names for tests."""
    return ProducerGroup(group), TransactionId(name)


@dataclass
class Asked:
    """A number that is in the log: what was known when it was written."""

    identity: Identity
    resumed_count: int
    number: int
    before_is_known: bool  # that the number before it was delivered
    op_position: int  # the op log was read to there


@dataclass
class Appended:
    """What lies in the world besides logs: what became visible, what was asked."""

    forwarded: list[tuple[Identity, list[tuple[int, bytes]]]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    #: (identity, life) -> highest number of which it is known that it was delivered
    delivered: dict[tuple[Identity, int], int] = field(default_factory=dict)
    lost: Counter[tuple[Identity, int, int]] = field(default_factory=Counter)

    def copy(self) -> Appended:
        delivered, lost = dict(self.delivered), Counter(self.lost)
        return Appended(list(self.forwarded), list(self.asked), delivered, lost)


class LedgerWorld:
    """The logs, the target, the committed watermarks, and the ledger of the owner of the moment."""

    def __init__(
        self,
        *,
        horizon_ms: int = 900_000,
        finished_max: int = 200_000,
        op_clock_ahead_ms: int = 0,
        rules: CheckRules | None = None,
    ) -> None:
        self.horizon_ms = horizon_ms
        self.finished_max = finished_max
        self.op_clock_ahead_ms = op_clock_ahead_ms
        self.rules = rules or check_rules()
        self.is_checked = rules is not None  # else time is never brought
        self.now_ms = 1_000_000
        self.half_log = Log()
        self.op_log = Log()
        self.parked_log = Log()
        self.appended = Appended()
        self.watermarks = (0, 0)
        self._earlier_watermarks = (0, 0)
        self.garbage_count = 0
        self.unknown_decision_count = 0
        self.step: ledger_module.Step | None = None
        self.step_is_committed = False
        self.step_op_offset = 0  # its op records begin there, or will not begin before
        self._open: KafkaTransaction | None = None
        #: Numbers that were handed over and of which nothing is known yet.
        self.on_the_way: list[tuple[Identity, int, int]] = []
        self._aside: list[Transaction] = []  # in the order in which they became ready
        self._ledger: ledger_module.Ledger | None = None
        self.half_position = self.op_position = 0
        self.take_over()

    @property
    def forwarded(self) -> list[tuple[Identity, list[tuple[int, bytes]]]]:
        """What became visible on the target."""
        return self.appended.forwarded

    # -- what clients, other instances and strangers append -------------------------------------

    def prepare(self, identity: Identity, index: int = 0, payload: bytes = b"") -> int:
        # The same message each time, as far as the ledger can see.
        record = HalfRecord(
            identity[1], identity[0], index, self.now_ms, "i-1", TARGET, digest=index + 1
        )
        return self.append_half(payload, half_wire.system_headers(record))

    def decide(
        self,
        identity: Identity,
        resolution: Resolution,
        covered_count: int = 1,
        half_offsets: tuple[int, ...] = (),
        source: ResolutionSource | None = None,
    ) -> int:
        together = [(identity, covered_count, half_offsets)]
        return self.decide_together(resolution, together, source)

    def decide_together(
        self,
        resolution: Resolution,
        decisions: list[tuple[Identity, int, tuple[int, ...]]],
        source: ResolutionSource | None = None,
    ) -> int:
        source = source or SOURCES.get(resolution, ResolutionSource.PRODUCER)
        entries: list[op_wire.Entry] = [
            op_wire.DecisionEntry(*identity, covered_count, len(half_offsets), source)
            for identity, covered_count, half_offsets in decisions
        ]
        offsets = [offset for _, _, half_offsets in decisions for offset in half_offsets]
        return self.append_op(*op_wire.write(op_wire.tag_of(resolution), entries, offsets))

    def append_half(
        self, value: bytes | None, headers: Headers | None, part_of: KafkaTransaction | None = None
    ) -> int:
        return self.half_log.append(Record(self.now_ms, value, headers, part_of))

    def append_op(
        self,
        value: bytes | None,
        headers: Headers | None,
        part_of: KafkaTransaction | None = None,
        key: bytes | None = None,
    ) -> int:
        stored_at_ms = self.now_ms + self.op_clock_ahead_ms
        return self.op_log.append(Record(stored_at_ms, value, headers, part_of, key))

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms

    # -- the owner ------------------------------------------------------------------------------

    @property
    def ledger(self) -> ledger_module.Ledger:
        assert self._ledger is not None, "nobody owns the partition: take it over"
        return self._ledger

    @property
    def is_owned(self) -> bool:
        return self._ledger is not None

    def crash(self) -> None:
        """The owner is gone, with its memory. A step that is not committed never will be."""
        if self.step is not None and not self.step_is_committed:
            self._end_transaction(ABORTED)
        self._ledger = self.step = None
        self.on_the_way.clear()
        self._aside.clear()

    def take_over(self) -> None:
        """As service.owner.turn does: from the committed watermarks, half log to its end first."""
        self.half_position, self.op_position = self.watermarks
        self._ledger = ledger_module.Ledger(
            half_position=self.half_position,
            op_position=self.op_position,
            horizon_ms=self.horizon_ms,
            finished_max=self.finished_max,
            rules=self.rules,
        )
        self.step = None
        self._aside.clear()
        self.read_half()
        self.read_op()

    def tick(self) -> None:
        """Time, as the owner brings it; those given up are decided by the policy."""
        self.ledger.tick(self.now_ms)
        is_caught_up = not self.half_log.read(self.half_position, 1)
        if is_caught_up:
            self.ledger.end_incomplete()
        for transaction in self.ledger.checks.given_up(100):
            self.decide(transaction.identity, Resolution.PARK)
            self.ledger.checks.postpone(transaction)

    def read_half(self, count: int | None = None) -> None:
        """Feed the next half records, all of them if no count is given."""
        for offset, record in self.half_log.read(self.half_position, count):
            size_bytes = len(record.value or b"")
            event = half_wire.read_identity(offset, record.stored_at_ms, size_bytes, record.headers)
            if isinstance(event, Garbage):
                self.garbage_count += 1
                self.ledger.pass_half(offset)
            else:
                self.ledger.half(event)
            self.half_position = offset + 1

    def read_op(self, count: int | None = None) -> None:
        """Feed the next op records, all of them if no count is given."""
        for offset, record in self.op_log.read(self.op_position, count):
            events = op_wire.read(
                offset, record.stored_at_ms, record.value, record.headers, record.key
            )
            if isinstance(events, Garbage):
                self.garbage_count += 1
                self.ledger.pass_op(offset)
            else:
                for event in events:
                    self.ledger.op(event)
            self.op_position = offset + 1

    def expire_early(self) -> None:
        """Only when the half log is read to its end, else by the time of what was read last."""
        read_until_ms = self.now_ms
        if self.half_log.read(self.half_position, 1):
            read = [r.stored_at_ms for r in self.half_log.records[: self.half_position] if r]
            read_until_ms = read[-1] if read else 0
        self.ledger.expire_early(read_until_ms)
        self.unknown_decision_count += self.ledger.unknown_decision_count
        self.ledger.unknown_decision_count = 0

    def put_aside(self, count: int) -> None:
        """The target of the next ones is away; those that are only to be dropped go on."""
        ready = self.ledger.ready
        chosen = [t for t in ready.look(count, 1_000_000) if t.resolution is Resolution.COMMIT]
        ready.put_aside(chosen)
        self._aside += chosen

    def take_back(self) -> None:
        """It is there again."""
        self.ledger.ready.take_back(self._aside)
        self._aside.clear()

    def renew(self, count: int) -> None:
        """The target is away for long: the first ones are appended anew with their decision."""
        chosen = [t for t in self._aside if t.state is State.ASIDE][:count]
        if self.plan(renewals=chosen):
            self.commit()
            self.confirm()
            self._aside = [t for t in self._aside if t not in chosen]  # ready once it is read

    def plan(
        self,
        message_count_max: int = 1_000,
        rooms: dict[ProducerGroup, int] | None = None,
        renewals: Sequence[Transaction] = (),
    ) -> ledger_module.Step | None:
        if rooms:
            for transaction in self.ledger.checks.again(rooms):
                self._deliver(transaction, transaction.check_count)
        self.step = self.ledger.plan(
            message_count_max=message_count_max,
            bytes_max=1_000_000,
            rooms=rooms,
            renewals=renewals,
        )
        self.step_is_committed = False
        self.step_op_offset = self.op_log.end
        return self.step

    @property
    def step_is_appended(self) -> bool:
        return self._open is not None or self.step_is_committed

    def append_step(self) -> None:
        """The step's records lie in the logs; nobody can read them yet."""
        step = self.step
        assert step is not None
        assert self._open is None
        open_ = self._open = KafkaTransaction()
        self.step_op_offset = self.op_log.end
        for order in step.copies:
            self._copy(order.transaction, order.number, open_)
        for value, headers, key in op_wire.write_step(step.all_done, step.conflicts):
            self.append_op(value, headers, open_, key)
        outcomes = iter(step.forwards)
        for transaction in step.transactions:
            if transaction.resolution is Resolution.PARK or transaction.parked:
                self._park(transaction, next(outcomes), open_)
            elif transaction.resolution is Resolution.COMMIT:
                open_.forwards.append(self._forwarded(next(outcomes)))
        assert next(outcomes, None) is None
        for note in step.notes:
            self._note(note, open_)

    def commit(self) -> None:
        """The step's Kafka transaction commits. The ledger does not know it yet."""
        assert self.step is not None
        assert not self.step_is_committed
        if self._open is None:
            self.append_step()
        assert self._open is not None
        self.forwarded.extend(self._open.forwards)
        for order in self.step.copies:
            if order.is_check:
                self._ask(order.transaction, order.number)
        self._end_transaction(COMMITTED)
        self._earlier_watermarks = self.watermarks
        self.watermarks = (self.step.half_watermark, self.step.op_watermark)
        self.step_is_committed = True

    def confirm(self) -> None:
        """... and now it knows, and hands the checks over."""
        step = self.step
        assert step is not None
        assert self.step_is_committed
        numbers = [(order.transaction, order.number) for order in step.copies if order.is_check]
        self.ledger.confirm(step)
        for transaction, number in numbers:
            self._deliver(transaction, number)
        self.step = None

    def abort(self) -> None:
        """The step's Kafka transaction is surely aborted, and the ledger is told."""
        assert self.step is not None
        assert not self.step_is_committed
        self._end_transaction(ABORTED)
        self.ledger.abort(self.step)
        self.step = None

    def write(
        self, message_count_max: int = 1_000, rooms: dict[ProducerGroup, int] | None = None
    ) -> bool:
        """Plan, commit, confirm; False when there is nothing to do."""
        if self.plan(message_count_max, rooms) is None:
            return False
        self.commit()
        self.confirm()
        return True

    def report(self, place: int, *, is_counted: bool, is_lost: bool) -> None:
        """What became of one of the numbers on the way."""
        identity, resumed_count, number = self.on_the_way.pop(place)
        key = (identity, resumed_count)
        if is_lost:
            self.appended.lost[identity, resumed_count, number] += 1
        if is_counted or self.appended.lost[identity, resumed_count, number] >= LOST_MAX:
            self.appended.delivered[key] = max(number, self.appended.delivered.get(key, 0))
        transaction = self.ledger.find(identity)
        if transaction is not None:
            self.ledger.checks.reported(
                transaction, number, "unknown", "p-1", is_counted=is_counted, is_lost=is_lost
            )

    def settle(self) -> None:
        """Read everything and write steps until there is nothing left to do."""
        self.take_back()
        for _ in range(1_000):
            self.read_half()
            self.read_op()
            if self.is_checked:
                self.tick()
            if not self.write() and self.op_position >= self.op_log.readable_end:
                return
        raise AssertionError("the ledger always finds something more to do")

    def trim(self) -> None:
        """DeleteRecords below what an earlier Kafka transaction committed."""
        half, op = self._earlier_watermarks
        self.half_log.start = max(self.half_log.start, half)
        self.op_log.start = max(self.op_log.start, op)

    # -- for judges -------------------------------------------------------------------------------

    def successor(self) -> LedgerWorld:
        """What another owner would find if this one died now."""
        other = LedgerWorld(
            horizon_ms=self.horizon_ms,
            finished_max=self.finished_max,
            op_clock_ahead_ms=self.op_clock_ahead_ms,
            rules=self.rules if self.is_checked else None,
        )
        other.now_ms = self.now_ms
        other.half_log, other.op_log = self.half_log.copy(), self.op_log.copy()
        other.parked_log = self.parked_log.copy()
        other.appended = self.appended.copy()
        other.watermarks = self.watermarks
        other._earlier_watermarks = self._earlier_watermarks
        other.take_over()
        return other

    # -- parts of a step --------------------------------------------------------------------------

    def _half_at(self, half_offset: int) -> Record:
        assert half_offset >= self.half_log.start, f"half {half_offset} was deleted"
        record = self.half_log.records[half_offset]
        assert record is not None
        return record

    def _forwarded(self, half_offsets: list[HalfOffset]) -> tuple[Identity, list]:
        messages = []
        identities = set()
        for half_offset in half_offsets:
            record = self._half_at(half_offset)
            event = half_wire.read_identity(half_offset, 0, 0, record.headers)
            assert not isinstance(event, Garbage)
            identities.add(event.identity)
            messages.append((event.index, record.value or b""))
        assert len(identities) == 1, identities
        return identities.pop(), messages

    def _copy(self, transaction: Transaction, number: int, open_: KafkaTransaction) -> None:
        resolution = transaction.resolution
        decision = None if resolution is None else (resolution, transaction.covered_count)
        for _, half_offset in transaction.messages():
            record = self._half_at(half_offset)
            headers = half_wire.copied_headers(
                record.headers or [],
                half_offset,
                check_count=number,
                stored_ms=transaction.stored_at_ms,
                decision=decision,
            )
            self.append_half(record.value, headers, open_)

    def _park(
        self, transaction: Transaction, half_offsets: list[HalfOffset], open_: KafkaTransaction
    ) -> None:
        is_undecided = transaction.resolution is Resolution.PARK
        reason = parked_wire.CHECKS_EXHAUSTED if is_undecided else parked_wire.INCOMPLETE
        decision = None if is_undecided else Resolution.COMMIT.value
        for half_offset in half_offsets:
            record = self._half_at(half_offset)
            why = parked_wire.Parked(reason, "", 0, half_offset, decision)
            headers = parked_wire.parked_headers(record.headers or [], why)
            self.parked_log.append(Record(self.now_ms, record.value, headers, open_))

    def _note(self, note: LateNote, open_: KafkaTransaction) -> None:
        late = parked_wire.LateDecision(*note.identity, note.resolution.value, 0, note.op_offset)
        headers = parked_wire.note_headers(late)
        self.parked_log.append(Record(self.now_ms, None, headers, open_))

    def _end_transaction(self, state: str) -> None:
        """Its end markers take an offset in every log it has written to."""
        open_, self._open = self._open, None
        for log in (self.half_log, self.op_log, self.parked_log):
            if open_ is None or any(r is not None and r.part_of is open_ for r in log.records):
                log.append(None)
        if open_ is not None:
            assert open_.state == OPEN
            open_.state = state

    # -- checks -----------------------------------------------------------------------------------

    def _ask(self, transaction: Transaction, number: int) -> None:
        key = (transaction.identity, transaction.resumed_count)
        is_known = self.appended.delivered.get(key, 0) >= number - 1
        self.appended.asked.append(Asked(*key, number, is_known, self.op_position))

    def _deliver(self, transaction: Transaction, number: int) -> None:
        self.on_the_way.append((transaction.identity, transaction.resumed_count, number))
