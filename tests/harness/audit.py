"""The audit topic of a played Kafka: what an owner tells, and reading all of it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from halfhitch.service.owner.stories import AuditPlace, Stories
from halfhitch.wire import story
from halfhitch.wire.half import Garbage
from halfhitch.wire.story import Ended, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from halfhitch.adapters.memory.kafka import MemoryKafka
    from halfhitch.core.model import Identity
    from halfhitch.ports import Clock, Observer
    from halfhitch.service.owner.spans import Spans

AUDIT: Final = "audit"


def stories_of(
    kafka: MemoryKafka,
    partition: int,
    *,
    observer: Observer,
    clock: Clock,
    index_partition: int = 1,
    instance: str = "owner-1",
    ask_end: Callable[[], Callable[[], int | None]] | None = None,
    index_entries: int = 20,
    doubts_max: int = 3,
    spans: Spans | None = None,
) -> Stories:
    """What an owner of this half partition tells."""
    place = AuditPlace(
        topic=AUDIT,
        index_partition=lambda: index_partition if kafka.partition_count(AUDIT) else None,
        ask_end=ask_end or (lambda: lambda: kafka.log(AUDIT, partition).end),
    )
    return Stories(
        partition, place, instance=instance, observer=observer, clock=clock,
        index_entries=index_entries, doubts_max=doubts_max, spans=spans,
    )  # fmt: skip


def told(kafka: MemoryKafka, partition: int = 0) -> list[Ended | Event]:
    """All entries of a partition, in their order."""
    return [entry for _, entry in _entries(kafka, partition)]


def _entries(kafka: MemoryKafka, partition: int) -> Iterator[tuple[int, Ended | Event]]:
    for record in kafka.log(AUDIT, partition).records:
        if record.is_committed:
            found = story.read(record.offset(), record.value(), record.headers())
            assert not isinstance(found, Garbage), found
            assert not found.unknown_count
            for entry in found.entries:
                yield record.offset(), entry


def indexes(kafka: MemoryKafka, index_partition: int = 1) -> list[story.Index]:
    """All indexes."""
    found: list[Any] = [
        story.read_index(record.offset(), record.value(), record.headers())
        for record in kafka.log(AUDIT, index_partition).records
        if record.is_committed
    ]
    assert not any(isinstance(index, Garbage) for index in found), found
    return found


def judge_ended(
    kafka: MemoryKafka, identity: Identity, endings: dict[int, int], partition: int = 0
) -> None:
    """Each ended life is told exactly once, as its done mark has it. `endings`: by life."""
    mine = [
        e for e in told(kafka, partition) if isinstance(e, Ended) and identity_of(e) == identity
    ]
    found = sorted((entry.life, entry.ending) for entry in mine)
    assert found == sorted(endings.items()), f"A1: {identity} is told of as {found}, not {endings}"


def judge_indexes(kafka: MemoryKafka, partition: int = 0, index_partition: int = 1) -> int:
    """Whoever goes by the indexes finds every entry. Gives how many indexes there are."""
    mine = [i for i in indexes(kafka, index_partition) if i.partition == partition]
    end = kafka.log(AUDIT, partition).end
    for log_offset, entry in _entries(kafka, partition):
        marks = [[story.mark_of(entry.transaction_id)]]
        if isinstance(entry, Ended):
            marks += [[story.mark_of_key(t.key_hash)] for t in entry.targets if t.key_hash]
        for each in marks:
            runs = story.to_read(0, end, mine, each)
            is_found = any(start <= log_offset < until for start, until in runs)
            assert is_found, f"A2: {entry} at {log_offset} is not found by way of {mine}"
    return len(mine)


def identity_of(entry: Ended | Event) -> tuple[str, str]:
    return entry.producer_group, entry.transaction_id
