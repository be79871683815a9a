"""The world of a scenario: both logs, the parked topic, what is visible, and who appends to them.

It also knows what no text can make right: see `_check`, `_check_number`. Owners are in scenario.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from halfhitch.core.model import (
    ConflictRead,
    DecisionRead,
    DoneRead,
    HalfOffset,
    HalfRead,
    Identity,
    OpOffset,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TimestampMs,
    TransactionId,
)
from harness.defaults import check_rules
from harness.ledger_script import first_offset_of
from harness.scenario_text import (
    RESOLUTIONS,
    WORDS,
    ScenarioError,
    duration_ms,
    names_of,
    options_of,
    seconds,
)

if TYPE_CHECKING:
    from halfhitch.core.ledger import Step
    from halfhitch.core.transaction import Transaction

GROUP = "orders"
#: Broker time when the scenario's is 0.
EPOCH_MS = 1_000_000_000
LOST_MAX = 3

OpEvents = list[DecisionRead | DoneRead | ConflictRead]


@dataclass
class Life:
    """What the world knows of a transaction from when it is stored, or put back."""

    stored_ms: int
    immunity_ms: int
    count: int = 0  # how often it was put back before
    number: int = 0  # the highest that was written
    delivered: int = 0  # the highest that was reported as delivered
    lost: int = 0  # reports in a row


@dataclass
class Parking:
    """What lies on the parked topic and was not put back."""

    halves: list[HalfRead]
    decision: Resolution | None
    count: int  # lives before this one


class World:
    """Transactions are known by their names."""

    def __init__(self) -> None:
        self._half_log: list[HalfRead | None] = []  # None: cannot be read
        self._op_log: list[OpEvents | None] = []
        self._now_ms = 0
        self._stored = (0, 0)
        self._names: list[str] = []
        self._visible: list[str] = []
        self._parked: list[str] = []
        self._groups: dict[str, str] = {}
        self._lives: dict[str, Life] = {}
        self._parkings: dict[str, Parking] = {}
        self._noted: dict[str, dict[int, Resolution]] = {}  # beside what is parked, by op offset
        self._rules = check_rules(jitter=0.0)
        self._asking: list[tuple[str, int]] = []  # by the step that is committed
        self._printed: list[str] = []

    # -- what clients and strangers append ------------------------------------------------------

    def _do_half(self, words: list[str]) -> None:
        name, *rest = words
        options = options_of(rest, message="0", immunity="", group=self._groups.get(name, GROUP))
        self._meet(name, options["group"])
        index = int(options["message"])
        immunity_ms = duration_ms(options["immunity"]) if options["immunity"] else -1
        half = HalfRead(
            HalfOffset(len(self._half_log)), self._stored_at(), self._identity(name), index, 100,
            immunity_ms=immunity_ms,
            digest=index + 1,  # the same message each time
        )  # fmt: skip
        self._half_log.append(half)
        if name not in self._lives:
            asked_ms = self._rules.immunity_ms if immunity_ms < 0 else immunity_ms
            self._lives[name] = Life(half.stored_at_ms, asked_ms)
        self._print(f"half {half.half_offset}: {name}" + (f" message {index}" if index else ""))

    def _stored_at(self) -> TimestampMs:
        return TimestampMs(EPOCH_MS + self._now_ms)

    def _identity(self, name: str) -> Identity:
        return ProducerGroup(self._groups.get(name, GROUP)), TransactionId(name)

    def _do_decide(self, words: list[str]) -> None:
        name, resolution, *rest = words
        covers = int(options_of(rest, covers="1")["covers"])
        self._meet(name)
        self._append_decision(name, resolution, covers, ResolutionSource.PRODUCER)

    def _append_decision(
        self, name: str, resolution: str, covers: int, source: ResolutionSource
    ) -> None:
        op_offset = OpOffset(len(self._op_log))
        event = DecisionRead(
            op_offset,
            self._stored_at(),
            self._identity(name),
            RESOLUTIONS[resolution],
            covers,
            source,
        )
        self._op_log.append([event])
        covered = f", covers {covers}" if covers > 1 else ""
        by = " by policy" if source is ResolutionSource.POLICY else ""
        self._print(f"op {op_offset}: {resolution} {name}{covered}{by}")

    def _do_garbage(self, words: list[str]) -> None:
        (log,) = words
        if log == "half":
            place = len(self._half_log)
            self._half_log.append(None)
        else:
            place = len(self._op_log)
            self._op_log.append(None)
        self._print(f"{log} {place}: garbage")

    def _do_time(self, words: list[str]) -> None:
        (passed,) = words
        self._now_ms += duration_ms(passed.removeprefix("+"))
        self._print(f"time {seconds(self._now_ms)}")

    def _do_producers(self, words: list[str]) -> None:
        self._producers = {}
        for word in words:
            group, _, count = word.partition("=")
            if not count.isdecimal():
                raise ScenarioError(f"{word!r} is not a number of permits: write orders=2")
            self._producers[group] = int(count)

    def _do_resume(self, words: list[str]) -> None:
        (name,) = words
        parking = self._parkings.pop(name, None)
        if parking is None:
            self._print(f"{name} is not parked")
            return
        noted = self._noted.pop(name, {})
        born = parking.decision or (noted[min(noted)] if noted else None)
        fence = OpOffset(len(self._op_log))
        self._op_log.append([])
        self._print(f"op {fence}: resume {name}")
        life = parking.count + 1
        for half in parking.halves:
            again = replace(
                half,
                half_offset=HalfOffset(len(self._half_log)),
                stored_at_ms=self._stored_at(),
                check_count=0,
                first_stored_ms=0,
                first_half_offset=first_offset_of(half),
                resumed_count=life,
                fence=fence,
                born=born,
                born_count=0 if born is None else parking.halves[-1].index + 1,
            )
            self._half_log.append(again)
            with_decision = "" if born is None else f", born {WORDS[born]}"
            message = f" message {half.index}" if half.index else ""
            self._print(f"half {again.half_offset}: {name}{message}, life {life}{with_decision}")
        immunity_ms = parking.halves[0].immunity_ms
        asked_ms = self._rules.immunity_ms if immunity_ms < 0 else immunity_ms
        self._lives[name] = Life(self._stored_at(), asked_ms, life)
        self._parked.remove(name)

    # -- what a step leaves ---------------------------------------------------------------------

    def _store(self, step: Step) -> None:
        """What a committed step leaves in the logs and topics."""
        for transaction, halves in self._outgoing(step):
            self._deliver(transaction, halves)
        self._append_copies(step)
        for note in step.notes:
            name = note.identity[1]
            self._noted.setdefault(name, {})[note.op_offset] = note.resolution
        done: OpEvents = [
            DoneRead(
                OpOffset(len(self._op_log)),
                self._stored_at(),
                mark.identity,
                mark.ending,
                tuple(mark.half_offsets),
                mark.digests,
            )
            for mark in step.all_done
        ]
        self._append(f"done {names_of([mark.identity for mark in step.all_done])}", done)
        lost: OpEvents = [
            ConflictRead(
                OpOffset(len(self._op_log)),
                self._stored_at(),
                mark.identity,
                mark.kind,
                mark.losing_op_offset,
                tuple(mark.half_offsets),
            )
            for mark in step.conflicts
        ]
        self._append(f"lost {names_of([mark.identity for mark in step.conflicts])}", lost)
        self._stored = (step.half_watermark, step.op_watermark)

    def _deliver(self, transaction: Transaction, halves: list[HalfOffset]) -> None:
        name = transaction.identity[1]
        if transaction.ending > 0:
            self._visible.append(name)
            return
        is_decided = transaction.resolution is not Resolution.PARK
        decision = transaction.resolution if is_decided else None
        kept = [half for o in halves if (half := self._half_log[o]) is not None]
        if transaction.resolution is None and name in self._parkings:
            self._parkings[name].halves += kept  # it came late, and belongs to what is parked
            return
        self._parked.append(name)
        if kept:
            self._parkings[name] = Parking(kept, decision, transaction.resumed_count)

    def _append_copies(self, step: Step) -> None:
        self._asking = []
        for order in step.copies:
            transaction, name = order.transaction, order.transaction.identity[1]
            for _, half_offset in transaction.messages():
                half = self._half_log[half_offset]
                assert half is not None
                copy = replace(
                    half,
                    half_offset=HalfOffset(len(self._half_log)),
                    stored_at_ms=self._stored_at(),
                    check_count=order.number,
                    first_stored_ms=transaction.stored_at_ms,
                    first_half_offset=first_offset_of(half),
                )
                self._half_log.append(copy)
                why = f"number {order.number}" if order.is_check else "renewed"
                message = f" message {half.index}" if half.index else ""
                self._print(f"half {copy.half_offset}: {name}{message}, {why}")
            if order.is_check:
                self._lives[name].number = order.number
                self._asking.append((name, order.number))

    def _append(self, what: str, events: OpEvents) -> None:
        if events:
            self._print(f"op {len(self._op_log)}: {what}")
            self._op_log.append(events)

    @staticmethod
    def _outgoing(step: Step) -> list[tuple[Transaction, list[HalfOffset]]]:
        """The transactions that the step delivers, or parks, with their halves."""
        going = (Resolution.COMMIT, Resolution.PARK)
        transactions = [t for t in step.transactions if t.resolution in going or t.parked]
        return list(zip(transactions, step.forwards, strict=True))

    # -- what is printed ------------------------------------------------------------------------

    def _print(self, line: str) -> None:
        self._printed.append(line)

    def _meet(self, name: str, group: str = GROUP) -> None:
        if name not in self._names:
            self._names.append(name)
            self._groups[name] = group

    # -- what no text can make right ------------------------------------------------------------

    def _check_number(self, name: str, number: int) -> None:
        life = self._lives[name]
        age_ms = self._stored_at() - life.stored_ms
        if age_ms < life.immunity_ms:
            raise ScenarioError(f"{name} is checked early: it is {seconds(age_ms)} old")
        if number > self._rules.count_max:
            raise ScenarioError(f"{name} is checked more often than allowed: {number}")
        if number > life.delivered + 1:
            raise ScenarioError(f"{name}: number {number} is written before {number - 1} arrived")

    def _check(self) -> None:
        delivered = self._visible + self._parked
        twice = sorted({name for name in delivered if delivered.count(name) > 1})
        if twice:
            raise ScenarioError(f"delivered twice: {' '.join(twice)}")
        for name, parking in self._parkings.items():
            indexes = [half.index for half in parking.halves]
            if len(set(indexes)) < len(indexes):
                raise ScenarioError(f"parked twice: {name}, {indexes}")
        done = {
            half_offset
            for events in self._op_log
            for event in events or ()
            if isinstance(event, DoneRead)
            for half_offset in event.half_offsets
        }
        for half_offset, half in enumerate(self._half_log[: self._stored[0]]):
            if half is not None and half_offset not in done:
                raise ScenarioError(f"half {half_offset} lies below the watermark and is not done")
