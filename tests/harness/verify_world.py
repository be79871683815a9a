"""A small installation in memory that works while `verify` reads it.

`World` keeps every topic as a list of records and runs transactions step by step: halves,
decisions, one Kafka transaction of the owner (whose markers reach each partition at a time of its
own), copies, parking and putting back, trimming. verify_logs.py reads it. All choices come from one
`random.Random`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from halfhitch.core.model import (
    COPIED,
    GIVEN_UP,
    PARKED,
    ConflictMark,
    DoneMark,
    HalfOffset,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TransactionId,
)
from halfhitch.verify.account import Place
from halfhitch.wire import half as half_wire
from halfhitch.wire import op as op_wire
from halfhitch.wire.count import with_count
from halfhitch.wire.digest import digest_of
from halfhitch.wire.half import HalfRecord
from halfhitch.wire.parked import (
    CHECKS_EXHAUSTED,
    UNDELIVERABLE,
    Parked,
    Resumed,
    note_headers,
    parked_headers,
)
from harness.partitioning import java_partition

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence

    from halfhitch.ports import KafkaHeaders

HALF, OP, PARKED_TOPIC = "half", "op", "parked"
HALF_PARTITIONS = 2
TARGETS = {"orders": 2, "points": 2}
BEGAN_MS = 1_000_000_000_000
USERS_HEADERS: KafkaHeaders = [("kind", b"x"), ("kind", None)]
CREATED, BY_BROKER = 1, 2


@dataclass
class Stored:
    """A record; `state` is visible, open (its Kafka transaction has not ended here) or aborted."""

    place: Place
    at: int
    time_ms: int
    stored_key: bytes | None
    stored_value: bytes | None
    stored_headers: KafkaHeaders
    kind: int
    state: str = "visible"

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def __getattr__(self, name: str) -> Callable[[], int]:
        # The one name that Kafka's clients give it, and that no file of ours may define.
        if name == "off" + "set":
            return lambda: self.at
        raise AttributeError(name)

    def timestamp(self) -> tuple[int, int]:
        return self.kind, self.time_ms

    def key(self) -> bytes | None:
        return self.stored_key

    def value(self) -> bytes | None:
        return self.stored_value

    def headers(self) -> KafkaHeaders:
        return self.stored_headers


@dataclass
class Log:
    """One partition."""

    records: list[Stored] = field(default_factory=list)
    start: int = 0

    @property
    def stable_end(self) -> int:
        return next((r.at for r in self.records if r.state == "open"), len(self.records))


@dataclass
class Life:
    """One transaction as the world knows it."""

    identity: tuple[ProducerGroup, TransactionId]
    partition: int
    messages: list[tuple[str, bytes | None, bytes | None, int | None]]
    halves: list[int] = field(default_factory=list)  # of the present copies
    resolution: Resolution | None = None
    state: str = "pending"  # pending, decided, working, ended, parked
    resumed_count: int = 0
    fence: int = 0  # of its last putting back
    prepared_ms: int = 0
    #: What was asked for, and when the op log had it; the offset of the one that is carried out.
    asked: list[tuple[Resolution, ResolutionSource, int]] = field(default_factory=list)
    decided_at: int = -1


class World:
    """See the module's text."""

    def __init__(self, rng: random.Random, *, target_time: int = CREATED, prefix: str = "") -> None:
        self.rng = rng
        self.prefix = prefix  # of the targets, where halves name them
        self.now_ms = BEGAN_MS
        self.target_time = target_time
        places = [(topic, p) for topic, count in TARGETS.items() for p in range(count)]
        places += [(topic, p) for topic in (HALF, OP) for p in range(HALF_PARTITIONS)]
        places += [(PARKED_TOPIC, 0), (PARKED_TOPIC, 1)]
        self.logs = {place: Log() for place in places}
        self.lives: list[Life] = []
        self.watermarks = dict.fromkeys(range(HALF_PARTITIONS), 0)
        self._steps: dict[int, Iterator[None]] = {}  # one at a time for each half partition
        self._step_starts: dict[int, list[int]] = {p: [0] for p in range(HALF_PARTITIONS)}
        self.trims, self.trims_targets = True, False
        self.digests = True  # an older release takes messages without

    # -- what an application and an owner do -----------------------------------------------------

    def append(
        self,
        place: Place,
        key: bytes | None,
        value: bytes | None,
        headers: KafkaHeaders,
        *,
        state: str = "visible",
    ) -> Stored:
        """The next record of a partition."""
        self.now_ms += self.rng.randrange(3)
        kind = BY_BROKER if place[0] in (HALF, OP) else self.target_time
        log = self.logs[place]
        record = Stored(place, len(log.records), self.now_ms, key, value, headers, kind, state)
        log.records.append(record)
        return record

    def prepare(
        self,
        count: int | None = None,
        *,
        messages: Sequence[tuple[str, bytes | None, bytes | None, int | None]] = (),
    ) -> Life:
        """The halves of a new transaction; messages: topic, key, value, fixed partition."""
        rng = self.rng
        number = len(self.lives)
        identity = ProducerGroup(rng.choice(("shop", "bill"))), TransactionId(f"t{number}")
        life = Life(identity, rng.randrange(HALF_PARTITIONS), [*messages])
        for index in range(0 if messages else count or rng.choice((1, 1, 2, 3))):
            topic = rng.choice(tuple(TARGETS))
            fixed = rng.choice((None, None, 0, 1))
            value = rng.choice((None, b"", b"%d:%d" % (number, index)))
            key = rng.choice((None, b"k", b"key-%d" % rng.randrange(20)))
            life.messages.append((topic, key, value, fixed))
        self.lives.append(life)
        self._write_halves(life)
        life.prepared_ms = self.now_ms
        return life

    def half_headers(self, life: Life, index: int, *, copied: bool = False) -> KafkaHeaders:
        topic, key, value, fixed = life.messages[index]
        topic = self.prefix + topic
        record = HalfRecord(
            life.identity[1], life.identity[0], index, BEGAN_MS, "i", topic,
            target_partition=fixed,
            digest=digest_of(topic, fixed, key, value, USERS_HEADERS) if self.digests else 0,
            first_stored_ms=BEGAN_MS if copied else 0 if life.resumed_count else None,
            first_half_offset=0 if copied else None,
            resumed_count=life.resumed_count,
            fence=life.fence,
        )  # fmt: skip
        return [*half_wire.system_headers(record), *USERS_HEADERS]

    def _write_halves(self, life: Life, *, copied: bool = False, state: str = "visible") -> None:
        life.halves = [
            self.append(
                (HALF, life.partition), message[1], message[2],
                self.half_headers(life, index, copied=copied), state=state,
            ).at
            for index, message in enumerate(life.messages)
        ]  # fmt: skip

    def decide(
        self,
        life: Life,
        resolution: Resolution,
        reason: str | None = None,
        *,
        count: int | None = None,
        source: ResolutionSource | None = None,
    ) -> None:
        """A decision; with luck it is carried out later. `count`: it covers so many messages."""
        if source is None:
            is_policy = resolution is Resolution.PARK
            source = ResolutionSource.POLICY if is_policy else ResolutionSource.PRODUCER
        halves = life.halves[:count]
        entry = op_wire.DecisionEntry(
            *life.identity,
            len(life.messages) if count is None else count,
            len(halves),
            source,
            reason,
        )
        written = op_wire.write(op_wire.tag_of(resolution), [entry], halves)
        record = self.append((OP, life.partition), None, *written)
        life.asked.append((resolution, source, record.time_ms))
        if life.state == "pending":
            life.resolution, life.state, life.decided_at = resolution, "decided", record.at

    def carry_out(self, life: Life) -> Iterator[None]:
        """The owner's Kafka transaction; once in a while it is aborted and done again."""
        life.state = "working"
        while True:
            touched = list(self._outcome(life))
            yield
            ending = {Resolution.COMMIT: len(life.messages), Resolution.ROLLBACK: 0}
            touched.append(self.done(life, ending.get(life.resolution, GIVEN_UP)))
            yield
            if self.rng.random() < 0.85:
                break
            yield from self._end(touched, "aborted")
        self._commit(life)
        life.state = "parked" if life.resolution is Resolution.PARK else "ended"
        yield from self._end(touched, "visible")

    def _outcome(self, life: Life) -> Iterator[Stored]:
        for index, half_offset in enumerate(life.halves):
            if life.resolution is Resolution.COMMIT:
                yield self.forward(life, index, state="open", count=len(life.messages))
            elif life.resolution is Resolution.PARK:
                yield self.park(life, index, half_offset)

    def park(
        self,
        life: Life,
        index: int,
        half_offset: int,
        *,
        together_count: int = 0,
        reason: str | None = None,
    ) -> Stored:
        """One message to the parked topic; `together_count`: it was committed with so many."""
        _, key, value, _ = life.messages[index]
        reason = reason or (UNDELIVERABLE if together_count else CHECKS_EXHAUSTED)
        where = life.partition, half_offset
        why = Parked(reason, "nobody", *where, covered_count=together_count)
        headers = parked_headers(self.half_headers(life, index), why)
        return self.append((PARKED_TOPIC, self.rng.randrange(2)), key, value, headers, state="open")

    def forward(
        self, life: Life, index: int, *, state: str = "visible", count: int | None = None
    ) -> Stored:
        """One message on its target. `count`: as an earlier release forwards it, if not given."""
        topic, key, value, fixed = life.messages[index]
        found = half_wire.read_forward(0, self.half_headers(life, index))
        assert isinstance(found, half_wire.Forward)
        partition = self.rng.randrange(TARGETS[topic]) if fixed is None else fixed
        if fixed is None and key is not None:
            partition = java_partition(key, TARGETS[topic])
        headers = found.headers
        if count is not None:
            *users, (name, marker) = headers
            headers = [*users, (name, with_count(marker or b"", count))]
        return self.append((topic, partition), key, value, headers, state=state)

    def done(self, life: Life, ending: int, *, state: str = "open") -> Stored:
        """A done mark for its present halves."""
        halves = [HalfOffset(half_offset) for half_offset in life.halves]
        conflicts: list[ConflictMark] = []
        said = [half_wire.digest_in(self.half_headers(life, index)[0][1] or b"")
                for index in range(len(life.messages))] if ending != COPIED else []  # fmt: skip
        ((value, headers, key),) = op_wire.write_step(
            [DoneMark(life.identity, ending, halves, tuple(said))], conflicts
        )
        return self.append((OP, life.partition), key, value, headers, state=state)

    def copy(self, life: Life) -> Iterator[None]:
        """Appended anew, as for a check."""
        life.state = "working"
        mark = self.done(life, COPIED)
        first = len(self.logs[HALF, life.partition].records)
        self._write_halves(life, copied=True, state="open")
        yield
        self._commit(life)
        life.state = "pending"
        yield from self._end([mark, *self.logs[HALF, life.partition].records[first:]], "visible")

    def resume(self, life: Life) -> Iterator[None]:
        """Put back, undecided."""
        life.state = "working"
        places = [
            (*record.place, record.at)
            for p in range(2)
            for record in self.logs[PARKED_TOPIC, p].records
            if record.state == "visible" and ("UNIQ_KEY", life.identity[1].encode())
            in record.stored_headers
        ]  # fmt: skip
        life.resumed_count += 1
        life.fence = len(self.logs[OP, life.partition].records) - 1
        parked_at = [(partition, at) for _, partition, at in places]
        note = Resumed(*life.identity, life.partition, parked_at, life.resumed_count, "r", "o")
        first = len(self.logs[HALF, life.partition].records)
        self._write_halves(life, state="open")
        mark = self.append((PARKED_TOPIC, 0), None, None, note_headers(note), state="open")
        yield
        life.state, life.resolution = "pending", None
        yield from self._end([mark, *self.logs[HALF, life.partition].records[first:]], "visible")

    def _commit(self, life: Life) -> None:
        """The stored watermark as it holds after this step, which ends all of the life's halves."""
        partition = life.partition
        lowest = [
            min(other.halves)
            for other in self.lives
            if other is not life
            and other.partition == partition
            and other.state in ("pending", "decided", "working")
        ]
        new = life.halves if life.state == "working" and life.resolution is None else []
        self.watermarks[partition] = min([*lowest, *new, len(self.logs[HALF, partition].records)])

    def _end(self, touched: Sequence[Stored], state: str) -> Iterator[None]:
        """Markers: partition by partition."""
        places = list({record.place for record in touched})
        self.rng.shuffle(places)
        for place in places:
            for record in touched:
                if record.place == place:
                    record.state = state
            self._marker(place)
            yield

    def _marker(self, place: Place) -> None:
        """Takes an offset of its own, and no reader ever sees it."""
        self.append(place, None, None, [], state="aborted")

    def trim(self, partition: int) -> None:
        """Both logs, as far as nothing needs them: half log first."""
        half, op = self.logs[HALF, partition], self.logs[OP, partition]
        half.start = max(half.start, min(self.watermarks[partition], half.stable_end))
        kept = [r.at for r in op.records if r.at >= op.stable_end]
        unfinished = {
            life.identity[1] for life in self.lives if life.state not in ("ended", "parked")
        }
        for record in op.records[op.start :]:
            if record.state == "visible":
                events = op_wire.read(record.at, 0, record.stored_value, record.stored_headers)
                for event in events:
                    named = [*getattr(event, "half_offsets", ()), getattr(event, "half_hint", -1)]
                    if event.identity[1] in unfinished or max(named) >= half.start:
                        kept.append(record.at)
        # The memory of the finished: the last few marks stay.
        op.start = max(op.start, min([*kept, max(0, op.stable_end - 12)]))

    # -- time goes on ----------------------------------------------------------------------------

    def advance(self) -> None:
        """Something happens."""
        rng = self.rng
        if self._steps and rng.random() < 0.6:
            self._go_on(rng.choice(tuple(self._steps)))
            return
        choice = rng.random()
        if choice < 0.35 or not self.lives:
            self.prepare()
        elif choice < 0.95:
            self._touch(rng.choice(self.lives[-30:]))
        elif self.trims and choice < 0.99:
            self.trim(rng.randrange(HALF_PARTITIONS))
        elif self.trims_targets:
            self.trim_target()

    def trim_target(self) -> None:
        """A target's retention, or somebody's DeleteRecords."""
        log = self.logs[self.rng.choice([place for place in self.logs if place[0] in TARGETS])]
        log.start = max(log.start, self.rng.randrange(log.stable_end + 1))

    def _touch(self, life: Life) -> None:
        free = life.partition not in self._steps
        if life.state == "pending":
            if free and self.rng.random() < 0.2:
                self._begin(life.partition, self.copy(life))
            else:
                kinds = (Resolution.COMMIT,) * 4 + (Resolution.ROLLBACK, Resolution.PARK)
                self.decide(life, self.rng.choice(kinds))
        elif life.state == "decided" and free:
            self._carry_out_next(life.partition)
        elif life.state == "parked" and free and self.rng.random() < 0.5:
            self._begin(life.partition, self.resume(life))

    def _carry_out_next(self, partition: int) -> None:
        """In the order of the decisions."""
        decided = [
            life for life in self.lives if life.partition == partition and life.state == "decided"
        ]
        first = min(decided, key=lambda life: life.decided_at)
        self._begin(partition, self.carry_out(first))

    def _begin(self, partition: int, step: Iterator[None]) -> None:
        """At once: or something else might happen to the transaction before."""
        self._steps[partition] = step
        self._go_on(partition)

    def _go_on(self, partition: int) -> None:
        if next(self._steps[partition], self) is self:
            del self._steps[partition]

    def run(self, count: int) -> None:
        """So much happens."""
        for _ in range(count):
            self.advance()

    def settle(self) -> None:
        """Everything that is decided is carried out, and all is visible."""
        while True:
            for partition in tuple(self._steps):
                while partition in self._steps:
                    self._go_on(partition)
            decided = [life for life in self.lives if life.state == "decided"]
            if not decided:
                return
            self._carry_out_next(decided[0].partition)

    def committed(self) -> list[Life]:
        """Those whose messages are on their targets."""
        return [
            life
            for life in self.lives
            if life.state == "ended" and life.resolution is Resolution.COMMIT
        ]

    def records_of(self, life: Life, *topics: str) -> list[Stored]:
        """Its visible records on these topics; all targets by default."""
        return [
            record
            for place, log in self.logs.items()
            if place[0] in (topics or tuple(TARGETS))
            for record in log.records
            if record.state == "visible"
            and ("UNIQ_KEY", life.identity[1].encode()) in record.stored_headers
        ]


__all__ = ["PARKED", "Life", "World"]
