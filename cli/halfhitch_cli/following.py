"""Reading topics for `halfhitch tail` and for the events of `halfhitch dev`.

Owns the consumer with its hand-made assignment: it joins no group, commits nothing, and reads
committed records only. One thread uses each of these; everything blocks for a moment at most.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.log_ends import Log
from halfhitch.adapters.kafka.scan import LogScan
from halfhitch.errors import KafkaUnavailable

_ASK_S: Final = 10.0


def all_topics(consumer: Consumer) -> dict[str, int]:
    """Every topic with the number of its partitions. Raises KafkaUnavailable."""
    try:
        known = consumer.list_topics(timeout=_ASK_S).topics
    except KafkaException as error:
        raise KafkaUnavailable(f"The topics cannot be listed: {describe(error)}.") from error
    return {name: len(topic.partitions) for name, topic in known.items()}


def logs_of(partitions: Mapping[str, int]) -> list[Log]:
    """All logs of these topics."""
    return [(topic, p) for topic, count in partitions.items() for p in range(count)]


def bounds(consumer: Consumer, logs: Collection[Log]) -> dict[Log, tuple[int, int]]:
    """Where each begins and ends, for readers of committed records. Raises KafkaUnavailable."""
    found: dict[Log, tuple[int, int]] = {}
    for log in logs:
        try:
            pair = consumer.get_watermark_offsets(TopicPartition(*log), _ASK_S, cached=False)
        except KafkaException as error:
            raise KafkaUnavailable(f"{log[0]} cannot be read: {describe(error)}.") from error
        found[log] = (int(pair[0]), int(pair[1]))
    return found


def starts_since(
    consumer: Consumer, ends: Mapping[Log, tuple[int, int]], since_ms: int
) -> dict[Log, int]:
    """The first offset of each that was stored at this time or later. Raises KafkaUnavailable."""
    asked = [TopicPartition(*log, since_ms) for log in ends]
    try:
        found = consumer.offsets_for_times(asked, _ASK_S) if asked else []
    except KafkaException as error:
        raise KafkaUnavailable(f"Kafka does not say since when: {describe(error)}.") from error
    return {
        (where.topic, where.partition): where.offset
        if where.offset >= 0
        else ends[where.topic, where.partition][1]
        for where in found
    }


def read_between(
    consumer: Consumer, starts: Mapping[Log, int], ends: Mapping[Log, tuple[int, int]]
) -> Iterator[Any]:
    """All committed records from these starts to these ends, side by side.

    What a Kafka transaction that is open hides is not waited for.
    """
    scan = LogScan(consumer)
    wanted = {log: end for log, (_, end) in ends.items() if starts[log] < end}
    if not wanted:
        return
    scan.begin({log: starts[log] for log in wanted})
    try:
        while any(not scan.is_at_end(log) for log in scan.below(wanted)):
            for message in scan.some():
                if message.offset() < wanted[message.topic(), message.partition()]:
                    yield message
    finally:
        scan.leave(list(scan.followed))
