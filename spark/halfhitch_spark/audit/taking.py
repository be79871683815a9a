"""What a task makes of the records of one partition: pieces of facts, and what it has seen besides.

This runs on the executors, in Python. Records come in their order; the facts go out by bucket of
transactions, a part of them whenever there are many, so that a task's memory does not grow with its
partition. Last comes what is not of one transaction (`Seen`), under the key `SEEN`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from halfhitch.core.model import ConflictRead
from halfhitch.ports import KafkaHeaders
from halfhitch.verify.account import Account, Place
from halfhitch.verify.facts import FactStore
from halfhitch.verify.pieces import Piece, pieces_of, rest_of
from halfhitch_spark.audit.measures import Measures, measure_stories
from halfhitch_spark.audit.plan import Plan

#: The key of what goes to the driver.
SEEN: Final = -1
_CHUNK: Final = 2_000
#: Records whose facts are held; some 30 MB.
HELD_MAX: Final = 300_000
#: Conflicts that a task tells one by one; all are counted.
CONFLICTS_MAX: Final = 20_000
#: Gaps of which it is remembered where they are; more are as good as one.
_GAPS_MAX: Final = 1_000
#: Between two records of one log lies the marker of one Kafka transaction, as a rule.
_MARKERS: Final = 1

#: The columns of a row, in this order.
COLUMNS: Final = (
    *("topic", "partition", "offset", "time_ms", "time_type"),
    *("key", "value", "names", "contents"),
)


class RowRecord:
    """A row as a Kafka client's message."""

    __slots__ = ("_headers", "_key", "_row", "_value")

    def __init__(self, row: Sequence[Any]) -> None:
        self._row = row
        key, value, contents = row[5], row[6], row[8]
        self._key = None if key is None else bytes(key)
        self._value = None if value is None else bytes(value)
        self._headers: KafkaHeaders | None = None
        if contents:
            given = [None if content is None else bytes(content) for content in contents]
            self._headers = list(zip(row[7], given, strict=True))

    def topic(self) -> str:
        """Topic name."""
        return str(self._row[0])

    def partition(self) -> int:
        """Partition number."""
        return int(self._row[1])

    def offset(self) -> int:
        """Position in its log."""
        return int(self._row[2])

    def timestamp(self) -> tuple[int, int]:
        """Kafka's clients count its types from 1, Spark counts them from 0."""
        return int(self._row[4]) + 1, int(self._row[3])

    def key(self) -> bytes | None:
        """The user's key."""
        return self._key

    def value(self) -> bytes | None:
        """The user's value."""
        return self._value

    def headers(self) -> KafkaHeaders | None:
        """Headers in order."""
        return self._headers


@dataclass(frozen=True, slots=True)
class Conflict:
    """Something that lost against the winning decision."""

    producer_group: str
    transaction_id: str
    kind: str
    partition: int  # of the op topic
    op_offset: int
    losing_op_offset: int
    message_count: int
    stored_ms: int


@dataclass(slots=True)
class Seen:
    """What one task tells the driver."""

    place: Place
    first_read: int
    next_read: int
    account: Account | None = None  # without its facts
    groups: frozenset[str] = frozenset()
    gaps: list[tuple[int, int]] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    conflict_counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    measures: Measures = field(default_factory=Measures)


class TaskAccount(Account):
    """Keeps conflicts one by one, too."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.layout, since_ms=plan.since_ms)
        self.conflicts: list[Conflict] = []
        self.conflict_counts: Counter[tuple[str, str]] = Counter()

    def conflict(self, partition: int, event: ConflictRead) -> None:
        """See Account."""
        super().conflict(partition, event)
        group, transaction_id = event.identity
        self.conflict_counts[group, event.kind.value] += 1
        if len(self.conflicts) < CONFLICTS_MAX:
            at = (partition, event.op_offset, event.losing_op_offset)
            self.conflicts.append(
                Conflict(
                    group,
                    transaction_id,
                    event.kind.value,
                    *at,
                    len(event.half_offsets),
                    event.stored_at_ms,
                )
            )


def taken(plan: Plan, rows: Iterable[Sequence[Any]]) -> Iterator[tuple[int, Piece | Seen]]:
    """Of the rows of one partition, in their order."""
    records = map(RowRecord, rows)
    first = next(records, None)
    if first is None:
        return
    place = first.topic(), first.partition()
    seen = Seen(place, first.offset(), first.offset())
    chunks = _chunks(seen, first, records)
    if place[0] == plan.names.audit:
        seen.measures = measure_stories(record for chunk in chunks for record in chunk)
        yield SEEN, seen
        return
    account = TaskAccount(plan)
    plan.on(account)
    held = number = 0
    for chunk in chunks:
        _take(account, chunk, plan.cuts.get(place))
        held += len(chunk)
        if held >= HELD_MAX:
            yield from pieces_of(account, (*place, number))
            held, number = 0, number + 1
    seen.groups = frozenset(account.facts.groups)
    yield from rest_of(account, (*place, number))
    seen.conflicts, account.conflicts = account.conflicts, []
    seen.conflict_counts = account.conflict_counts
    account.facts = FactStore()
    seen.account = account
    yield SEEN, seen


def _chunks(
    seen: Seen, first: RowRecord, records: Iterator[RowRecord]
) -> Iterator[Sequence[RowRecord]]:
    chunk = [first, *islice(records, _CHUNK - 1)]
    while chunk:
        for record in chunk:
            log_offset = record.offset()
            if log_offset - seen.next_read > _MARKERS and len(seen.gaps) < _GAPS_MAX:
                seen.gaps.append((seen.next_read, log_offset))
            seen.next_read = log_offset + 1
        yield chunk
        chunk = list(islice(records, _CHUNK))


def _take(account: Account, chunk: Sequence[RowRecord], cut: int | None) -> None:
    if cut is None or account.is_cut or chunk[-1].offset() < cut:
        account.take(chunk)
        return
    account.take([record for record in chunk if record.offset() < cut])
    account.cut()
    account.take([record for record in chunk if record.offset() >= cut])
