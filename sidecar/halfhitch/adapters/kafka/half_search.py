"""Finding transactions' messages in half partitions that other instances own.

For operators only: it reads the half logs, which hold what is pending and what ended since they
were trimmed last. Committed records only; hints save time and are not believed. However many are
asked for at once, each log is read once, and by requests that follow each other, once for all.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.kept_logs import KEPT_S, KeptLog, KeptLogs
from halfhitch.adapters.kafka.log_ends import LogEnds, patiently
from halfhitch.adapters.kafka.readable import headers_of
from halfhitch.adapters.kafka.scan import LogTrimmed, NotInTime, records
from halfhitch.core.model import Identity
from halfhitch.errors import KafkaUnavailable
from halfhitch.service.operators.parts import FoundHalves, Searched
from halfhitch.threads import Threads
from halfhitch.wire import half as half_wire
from halfhitch.wire.half import Garbage

_ASK_S: Final = 5.0
_SEARCH_S: Final = 20.0
#: Each reads for as long as that, and other work must not wait for it.
_THREADS: Final = 2
#: As many as the admin door works on, of which one identity has half.
_CALLS_MAX: Final = 64


class KafkaHalfSearch:
    """service.operators.parts.HalfSearch."""

    def __init__(
        self, make_consumer: Callable[[], Consumer], ends: LogEnds, *, half_topic: str
    ) -> None:
        self._make_consumer = make_consumer
        self._ends = ends
        self._half_topic = half_topic
        self._kept = KeptLogs[tuple[int, int]]()  # index and offset; a later copy stands
        self._threads = Threads("search half logs", _THREADS, calls_max=_CALLS_MAX)

    def stop(self) -> None:
        """Search nothing more."""
        self._threads.stop()

    async def find(
        self,
        partitions: Collection[int],
        identities: Collection[Identity],
        hints: Mapping[int, int],
    ) -> Searched:
        """See service.operators.parts.HalfSearch. Takes a thread for as long as it reads."""
        asyncio.get_running_loop().call_later(_SEARCH_S + KEPT_S, self._kept.forget_idle)
        return await self._threads.call(self._find, sorted(partitions), set(identities), hints)

    def _find(
        self, partitions: list[int], left: set[Identity], hints: Mapping[int, int]
    ) -> Searched:
        consumer = self._make_consumer()
        give_up_s = time.monotonic() + _SEARCH_S
        searched = Searched({})
        try:
            for partition, hint in [*hints.items(), *((partition, 0) for partition in partitions)]:
                if not left:
                    break
                found = self._patiently(consumer, partition, left, hint, give_up_s)
                searched.found.update(found)
                left -= found.keys()
        except KafkaException as error:
            searched.trouble = KafkaUnavailable(
                f"{self._half_topic} cannot be read: {describe(error)}; try again"
            )
        except KafkaUnavailable as error:
            searched.trouble = error
        finally:
            consumer.close()
        return searched

    def _patiently(
        self,
        consumer: Consumer,
        partition: int,
        wanted: Collection[Identity],
        hint: int,
        give_up_s: float,
    ) -> dict[Identity, FoundHalves]:
        """The owner trims what is done, and does so most while thousands are decided."""
        while True:
            try:
                return self._in_partition(consumer, partition, wanted, hint, give_up_s)
            except LogTrimmed:
                if time.monotonic() > give_up_s:
                    raise

    def _in_partition(
        self,
        consumer: Consumer,
        partition: int,
        wanted: Collection[Identity],
        hint: int,
        give_up_s: float,
    ) -> dict[Identity, FoundHalves]:
        try:
            with self._kept.lent(partition, give_up_s) as lent:
                low, end = patiently(lambda: self._bounds(consumer, partition), _ASK_S)
                kept = lent.begin(hint if low <= hint < end else low, end)
                self._read_on(consumer, partition, wanted, kept, end, give_up_s)
                by_identity = {identity: dict(kept.of(identity, low)) for identity in wanted}
        except NotInTime as error:
            if error.is_held:
                raise
            raise KafkaUnavailable(
                f"{self._half_topic}-{partition} is too long to be searched from here: ask the "
                "instance that owns this half partition (halfhitch status shows which it owns)"
            ) from error
        return {
            identity: _halves(partition, half_offsets)
            for identity, half_offsets in by_identity.items()
            # Else the hint may have been wrong: search from the start.
            if half_offsets
            and (kept.start <= low or sorted(half_offsets) == list(range(len(half_offsets))))
        }

    def _read_on(
        self,
        consumer: Consumer,
        partition: int,
        wanted: Collection[Identity],
        kept: KeptLog[tuple[int, int]],
        end: int,
        give_up_s: float,
    ) -> None:
        log = (self._half_topic, partition)
        for message in records(consumer, log, kept.read_to, end, give_up_s):
            at = message.offset()
            found = half_wire.read_identity(at, 0, 0, headers_of(message))
            if not isinstance(found, Garbage) and (not kept.is_full or found.identity in wanted):
                kept.put(at, found.identity, (found.index, at))
            kept.read_to = at + 1
        kept.read_to = end

    def _bounds(self, consumer: Consumer, partition: int) -> tuple[int, int]:
        log = (self._half_topic, partition)
        low, _ = consumer.get_watermark_offsets(TopicPartition(*log), _ASK_S)
        return int(low), self._ends.existing([log])[log]


def _halves(partition: int, half_offsets: Mapping[int, int]) -> FoundHalves:
    indexes = sorted(half_offsets)
    return FoundHalves(partition, tuple(half_offsets[i] for i in indexes), indexes[-1] + 1)
