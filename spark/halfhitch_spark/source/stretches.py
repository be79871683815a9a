"""Which stretch of each partition is read, and what a stream's offsets keep.

Offsets are `{topic: {"id": ..., "0": 17, ...}}`: with the topic's id, for of a topic that was
deleted and made anew a stream would pass over as many messages as it had read of the old one. The
end of a query's first batch has, under `from`, where this begins: Spark's checkpoint keeps ends
only. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.datasource import InputPartition

from halfhitch.errors import ConfigurationError, HalfHitchError
from halfhitch_spark.kafka_topics import NO_ID, Topic
from halfhitch_spark.source.wish import Place

ID: Final = "id"
BEGIN: Final = "from"

Offsets = dict[str, dict[str, Any]]


class MessagesGone(HalfHitchError):
    """Kafka has deleted what was not read yet."""


@dataclass(frozen=True)
class Stretch(InputPartition):
    """What one task reads: from `start` to below `end`."""

    topic: str
    partition: int
    start: int
    end: int


def as_offsets(
    found: Mapping[str, Topic], at: Mapping[Place, int], begun: Mapping[Place, int] | None = None
) -> Offsets:
    """What Spark keeps in the checkpoint. The same for the same, to the letter."""
    kept: Offsets = {}
    for name in sorted(found):
        kept[name] = {ID: found[name].topic_id}
        numbers = range(found[name].partition_count)
        for partition in numbers:
            kept[name][str(partition)] = at[name, partition]
        if begun is not None:
            kept[name][BEGIN] = {str(partition): begun[name, partition] for partition in numbers}
    return kept


def positions(kept: Offsets) -> dict[Place, int]:
    """Of each partition."""
    return {
        (name, int(partition)): int(at)
        for name, told in kept.items()
        for partition, at in told.items()
        if partition not in (ID, BEGIN)
    }


def begin_of(end: Offsets) -> dict[Place, int]:
    """Where the batch with this end begins; of a query's first one only."""
    return {
        (name, int(partition)): int(at)
        for name, told in end.items()
        for partition, at in told.get(BEGIN, {}).items()
    }


def is_there(told: Offsets, now: Offsets) -> bool:
    """Whether nothing has come since, whatever it says of its begin."""
    ids = [{name: of[ID] for name, of in kept.items()} for kept in (told, now)]
    return ids[0] == ids[1] and positions(told) == positions(now)


def require_same(kept: Offsets, found: Mapping[str, Topic], *, accept_gone: bool) -> None:
    """ConfigurationError: one of these topics was made anew, or is there no longer."""
    for name, told in kept.items():
        if name not in found:
            if accept_gone:
                continue
            raise ConfigurationError(
                f"the checkpoint was begun with topic {name}, and this query does not read it: the "
                "checkpoint is another query's, or the topic was deleted. failOnDataLoss=false "
                "goes on without it"
            )
        if told[ID] != found[name].topic_id and NO_ID not in (told[ID], found[name].topic_id):
            raise ConfigurationError(
                f"topic {name} was deleted and made anew since the checkpoint was begun (its id "
                f"was {told[ID]}, and is {found[name].topic_id}): going on would pass over the "
                "first messages of the new one. Start with a new checkpoint"
            )


def stretches(
    starts: Mapping[Place, int],
    ends: Mapping[Place, int],
    earliest: Mapping[Place, int],
    *,
    accept_data_loss: bool,
) -> list[Stretch]:
    """What lies between, of each partition; one that has no start begins with what is left.

    MessagesGone, unless that is accepted: something of it was deleted, or the log has become
    shorter.
    """
    wanted = []
    for place, end in sorted(ends.items()):
        first = earliest.get(place, 0)
        start = starts.get(place, first)
        if start == end:  # also what Spark asks for when it goes on from a checkpoint
            continue
        if start < first or end < start:
            if not accept_data_loss:
                raise MessagesGone(gone_sentence(place, start, end, first))
            start = max(start, first)
        if start < end:
            wanted.append(Stretch(*place, start, end))
    return wanted


def gone_sentence(place: Place, start: int, end: int, first: int) -> str:
    """What is lost, and how to go on all the same."""
    log = f"{place[0]}-{place[1]}"
    lost = (
        f"messages {start} to {min(first, end) - 1} of {log} were deleted before they were read"
        if start < first
        else f"{log} ends at {end}, and was read to {start} already: Kafka has lost messages"
    )
    return f"{lost}. failOnDataLoss=false goes on with what is left"
