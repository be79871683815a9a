"""Finding one transaction's messages in half partitions that other instances own.

For operators only: it reads the half logs, which hold what is pending and what ended since they
were trimmed last. Committed records only; hints save time and are not believed.
"""

import time
from collections.abc import Callable, Collection
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.log_ends import LogEnds, patiently
from halfhitch.adapters.kafka.scan import NotInTime, records
from halfhitch.core.model import Identity
from halfhitch.errors import KafkaUnavailable
from halfhitch.service.operators.operations import FoundHalves
from halfhitch.threads import Threads
from halfhitch.wire import half as half_wire
from halfhitch.wire.half import Garbage

_ASK_S: Final = 5.0
_SEARCH_S: Final = 20.0
#: Each reads for as long as that, and other work must not wait for it.
_THREADS: Final = 2
_CALLS_MAX: Final = 32


class KafkaHalfSearch:
    """service.operators.operations.HalfSearch."""

    def __init__(
        self, make_consumer: Callable[[], Consumer], ends: LogEnds, *, half_topic: str
    ) -> None:
        self._make_consumer = make_consumer
        self._ends = ends
        self._half_topic = half_topic
        self._threads = Threads("search half logs", _THREADS, calls_max=_CALLS_MAX)

    def stop(self) -> None:
        """Search nothing more."""
        self._threads.stop()

    async def find(
        self, partitions: Collection[int], identity: Identity, hints: dict[int, int]
    ) -> FoundHalves | None:
        """See service.operators.operations.HalfSearch. Takes a thread for as long as it reads."""
        return await self._threads.call(self._find, sorted(partitions), identity, hints)

    def _find(
        self, partitions: list[int], identity: Identity, hints: dict[int, int]
    ) -> FoundHalves | None:
        consumer = self._make_consumer()
        give_up_s = time.monotonic() + _SEARCH_S
        try:
            for partition, hint in hints.items():
                found = self._in_partition(consumer, partition, identity, hint, give_up_s)
                if found is not None:
                    return found
            for partition in partitions:
                found = self._in_partition(consumer, partition, identity, 0, give_up_s)
                if found is not None:
                    return found
        except KafkaException as error:
            raise KafkaUnavailable(
                f"{self._half_topic} cannot be read: {describe(error)}; try again"
            ) from error
        finally:
            consumer.close()
        return None

    def _in_partition(
        self, consumer: Consumer, partition: int, identity: Identity, hint: int, give_up_s: float
    ) -> FoundHalves | None:
        low, end = patiently(lambda: self._bounds(consumer, partition), _ASK_S)
        start = hint if low <= hint < end else low
        half_offsets: dict[int, int] = {}  # by index; a later copy stands for the earlier one
        log = (self._half_topic, partition)
        try:
            for message in records(consumer, log, start, end, give_up_s):
                found = half_wire.read_identity(message.offset(), 0, 0, message.headers())
                if not isinstance(found, Garbage) and found.identity == identity:
                    half_offsets[found.index] = message.offset()
        except NotInTime as error:
            if error.is_held:
                raise
            raise KafkaUnavailable(
                f"{self._half_topic}-{partition} is too long to be searched from here: ask the "
                "instance that owns this half partition (halfhitch status shows which it owns)"
            ) from error
        indexes = sorted(half_offsets)
        is_whole = indexes == list(range(len(indexes)))
        if not indexes or (start > low and not is_whole):
            return None  # nothing, or the hint was wrong: search from the start
        ordered = tuple(half_offsets[index] for index in indexes)
        return FoundHalves(partition, ordered, indexes[-1] + 1)

    def _bounds(self, consumer: Consumer, partition: int) -> tuple[int, int]:
        log = (self._half_topic, partition)
        low, _ = consumer.get_watermark_offsets(TopicPartition(*log), _ASK_S)
        return int(low), self._ends.existing([log])[log]
