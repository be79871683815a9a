"""Reading the audit topic: what it tells of a transaction or a key, and what has ended last.

By indexes: those are read first, as a whole, and then only the runs of records that one of them
names, or none speaks of. What is told of last is read from the end backwards, in ever larger parts.

Each search has a consumer of its own, which joins nothing. Everything blocks, in threads of its
own; what is asked and what is found is in service/operators/stories.py.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.log_ends import Log, LogEnds
from halfhitch.adapters.kafka.readable import headers_of
from halfhitch.adapters.kafka.scan import LogScan, LogTrimmed, NotInTime
from halfhitch.errors import KafkaUnavailable
from halfhitch.service.operators.stories import Found, Search, Told
from halfhitch.threads import Threads
from halfhitch.wire import story
from halfhitch.wire.half import Garbage
from halfhitch.wire.story import Index

_ASK_S: Final = 5.0
_READ_S: Final = 20.0
_POLL_S: Final = 0.02
_CHUNK: Final = 10_000
#: Records of one search that goes by no index; then it says that there is more.
_RECORDS_MAX: Final = 500_000
#: Whoever wants so few looks again and again, as a page does: that must cost little, also where
#: nearly all that is told is of other groups.
_FEW: Final = 20
_RECORDS_FOR_FEW: Final = 5_000
#: Records of each partition; then four times as many, and so on, as far as there is need.
_FIRST_LOOK: Final = 20
_THREADS: Final = 2
_CALLS_MAX: Final = 32

_Run = tuple[int, int]


class KafkaStoryLog:
    """service.operators.stories.StoryLog."""

    def __init__(
        self,
        make_consumer: Callable[[], Consumer],
        admin: AdminClient,
        ends: LogEnds,
        *,
        topic: str,
        index_partition: Callable[[], int | None],
    ) -> None:
        self._make_consumer = make_consumer
        self._admin = admin
        self._ends = ends
        self._topic = topic
        self._index_partition = index_partition
        self._threads = Threads("search the audit topic", _THREADS, calls_max=_CALLS_MAX)

    def stop(self) -> None:
        """Search nothing more."""
        self._threads.stop()

    async def find(self, search: Search) -> Found:
        """See service.operators.stories.StoryLog."""
        return await self._threads.call(self._patiently, self._find, search)

    async def latest(self, search: Search) -> Found:
        """See service.operators.stories.StoryLog."""
        return await self._threads.call(self._patiently, self._latest, search)

    # -- on a thread -----------------------------------------------------------------------------

    def _patiently(self, look: Callable[["_Reading", Search], Found], search: Search) -> Found:
        index_partition = self._index_partition()
        if index_partition is None:
            return Found([], None)
        while True:
            reading = _Reading(self._make_consumer(), self._topic, index_partition)
            try:
                return look(reading, search)
            except LogTrimmed:  # its retention has come by
                if time.monotonic() > reading.give_up_s:
                    raise
            except KafkaException as error:
                raise KafkaUnavailable(
                    f"{self._topic} cannot be read: {describe(error)}; try again"
                ) from error
            finally:
                reading.consumer.close()

    def _find(self, reading: "_Reading", search: Search) -> Found:
        begins, ends, found = self._bounds(reading, 0)
        indexes = reading.indexes(begins, ends)
        wanted: Search | None = search
        while wanted is not None:
            found.told = []
            runs = {
                (self._topic, partition): story.to_read(
                    begins[self._topic, partition],
                    ends[self._topic, partition],
                    [index for index in indexes if index.partition == partition],
                    wanted.marks,
                )
                for partition in range(reading.index_partition)
            }
            while runs := {log: left for log, left in runs.items() if left}:
                reading.collect({log: left.pop(0) for log, left in runs.items()}, wanted, found)
            wanted = wanted.then and wanted.then(found.told)
        return found

    def _latest(self, reading: "_Reading", search: Search) -> Found:
        begins, ends, found = self._bounds(reading, search.since_ms)
        begins.pop((self._topic, reading.index_partition), None)
        tos = {log: ends[log] for log in begins}
        count = _FIRST_LOOK
        read_count = 0
        enough = _RECORDS_FOR_FEW if search.count_max <= _FEW else _RECORDS_MAX
        while True:
            runs = {log: (max(begins[log], to - count), to) for log, to in tos.items()}
            runs = {log: run for log, run in runs.items() if run[0] < run[1]}
            if not runs or len(found.told) >= search.count_max or read_count >= enough:
                found.is_cut = bool(runs)
                break
            reading.collect(runs, search, found)
            read_count += sum(end - start for start, end in runs.values())
            tos = {log: start for log, (start, _) in runs.items()}
            count = max(1, min(count * 4, -(-(enough - read_count) // len(tos))))
        found.told.sort(key=lambda told: -told.written_ms)
        found.is_cut = found.is_cut or len(found.told) > search.count_max
        del found.told[search.count_max :]
        return found

    def _bounds(
        self, reading: "_Reading", since_ms: int
    ) -> tuple[dict[Log, int], dict[Log, int], Found]:
        """Where each partition is to be read, and since when anything is kept."""
        logs = [(self._topic, p) for p in range(reading.index_partition + 1)]
        ends, existing = self._ends.readable(logs), self._ends.existing(logs)
        firsts = self._since(logs, 0)
        kept = [stored_ms for log, (_, stored_ms) in firsts.items() if log in logs[:-1]]
        found = Found([], min(kept, default=None))
        found.hidden_count = sum(existing[log] - ends[log] for log in logs[:-1])
        starts = firsts if since_ms <= 0 else self._since(logs, since_ms)
        begins = {log: starts[log][0] if log in starts else ends[log] for log in logs}
        return begins, ends, found

    def _since(self, logs: list[Log], since_ms: int) -> dict[Log, tuple[int, int]]:
        """Offset and time of the first record from then on; none: not among them."""
        spec: Any = OffsetSpec.for_timestamp(since_ms)
        asked = {TopicPartition(*log): spec for log in logs}
        futures = self._admin.list_offsets(asked, request_timeout=_ASK_S)
        answers = {
            (where.topic, where.partition): future.result(_ASK_S + 1.0)
            for where, future in futures.items()
        }
        return {
            log: (int(answer.offset), int(answer.timestamp))
            for log, answer in answers.items()
            if answer.offset >= 0
        }


class _Reading:
    """One consumer, for the length of a search."""

    def __init__(self, consumer: Consumer, topic: str, index_partition: int) -> None:
        self.consumer = consumer
        self.index_partition = index_partition
        self.give_up_s = time.monotonic() + _READ_S
        self._topic = topic
        self._scan = LogScan(consumer, count_max=_CHUNK)

    def indexes(self, begins: Mapping[Log, int], ends: Mapping[Log, int]) -> list[Index]:
        """All that there are and that this release understands."""
        log = self._topic, self.index_partition
        run = begins[log], ends[log]
        found = [
            story.read_index(message.offset(), message.value(), headers_of(message))
            for message in self._records({log: run} if run[0] < run[1] else {})
        ]
        return [index for index in found if not isinstance(index, Garbage)]

    def collect(self, runs: Mapping[Log, _Run], search: Search, found: Found) -> None:
        """What the records of these runs tell of what is looked for."""
        needles = search.needles
        for message in self._records(runs):
            value = message.value() or b""
            if needles and not any(needle in value for needle in needles):
                continue
            record = story.read(message.offset(), value, headers_of(message))
            if isinstance(record, Garbage):
                found.unknown_count += record.is_newer
                continue
            found.unknown_count += record.unknown_count
            where = message.partition(), record.log_offset, record.written_ms, record.instance
            found.told += [Told(*where, e) for e in record.entries if search.accepts(e)]

    def _records(self, runs: Mapping[Log, _Run]) -> Iterator[Any]:
        """Side by side; each from its start to below its end, as far as it can be read now."""
        scan, ends = self._scan, {log: end for log, (_, end) in runs.items()}
        scan.begin({log: start for log, (start, _) in runs.items()})
        while left := {log for log in scan.below(ends) if not scan.is_at_end(log)}:
            for message in scan.some(_POLL_S):
                log = message.topic(), message.partition()
                if log in ends and message.offset() < ends[log]:
                    yield message
            if time.monotonic() > self.give_up_s:
                log = min(left)
                raise NotInTime(log, scan.read_to[log], ends[log], is_held=False, trouble=None)
        scan.leave(set(ends))
