"""Looking for forwarded messages on their topics, about the time when their owner told of them.

Each question has a consumer of its own, which joins nothing. Two looks at each transaction: one at
the moments around it, and, where clocks differ or the broker was slow, one at minutes. A look ends
with the last message of the transaction, at the end of what can be read, or where it has been long
enough. Only whoever asks waits.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.log_ends import Log
from halfhitch.adapters.kafka.readable import headers_of
from halfhitch.adapters.kafka.scan import LogScan
from halfhitch.errors import KafkaUnavailable
from halfhitch.service.operators.landings import Landed, Landing, Showing, Wanted
from halfhitch.threads import Threads
from halfhitch.wire.forwarded import producer_headers, read_forwarded

_ASK_S: Final = 5.0
#: For all transactions of one question.
_LOOK_S: Final = 10.0
_POLL_S: Final = 0.02
#: Before and after the moment at which the owner told of it.
_LOOKS_MS: Final = ((200, 2_000), (60_000, 180_000))
#: Of one transaction.
_RECORDS_MAX: Final = 300_000
_PARTITIONS_MAX: Final = 2_000
_THREADS: Final = 2
_CALLS_MAX: Final = 32


class KafkaTargetLogs:
    """service.operators.landings.TargetLogs."""

    def __init__(self, make_consumer: Callable[[], Consumer]) -> None:
        self._make_consumer = make_consumer
        self._threads = Threads("look for forwarded messages", _THREADS, calls_max=_CALLS_MAX)

    def stop(self) -> None:
        """Look for nothing more."""
        self._threads.stop()

    async def find(self, wanted: Sequence[Wanted], showing: Showing) -> list[Landed]:
        """See service.operators.landings.TargetLogs."""
        return await self._threads.call(self._find, wanted, showing)

    def _find(self, wanted: Sequence[Wanted], showing: Showing) -> list[Landed]:
        consumer = self._make_consumer()
        give_up_s = time.monotonic() + _LOOK_S
        try:
            return [_Hunt(consumer, each, give_up_s, showing).landed() for each in wanted]
        except KafkaException as error:
            raise KafkaUnavailable(
                f"the topics of forwarded messages cannot be read: {describe(error)}; try again"
            ) from error
        finally:
            consumer.close()


class _Hunt:
    """For the messages of one transaction."""

    def __init__(
        self, consumer: Consumer, wanted: Wanted, give_up_s: float, showing: Showing
    ) -> None:
        self._consumer = consumer
        self._wanted = wanted
        self._give_up_s = give_up_s
        self._showing = showing
        self._found: dict[int, Landing] = {}
        self._seen_count = 0
        self._missing: list[str] = []  # topics
        self._stopped: str | None = None

    def landed(self) -> Landed:
        """What is found, and why it is not all."""
        logs = self._logs()
        for before_ms, after_ms in _LOOKS_MS:
            if logs and not self._is_complete and self._stopped is None:
                at_ms = self._wanted.forwarded_ms
                self._look(logs, at_ms - before_ms, at_ms + after_ms)
        messages = [self._found[index] for index in sorted(self._found)]
        return Landed(messages, None if self._is_complete else self._trouble())

    @property
    def _is_complete(self) -> bool:
        return len(self._found) >= self._wanted.message_count

    def _logs(self) -> list[Log]:
        found: set[Log] = set()
        for topic in sorted({topic for topic, _ in self._wanted.places}):
            known = self._consumer.list_topics(topic, _ASK_S).topics[topic]
            if known.error is not None:
                self._missing.append(f"{topic} is not there, or may not be seen: {known.error}")
                continue
            chosen = {partition for name, partition in self._wanted.places if name == topic}
            found |= {
                (topic, partition)
                for partition in known.partitions
                if None in chosen or partition in chosen
            }
        if len(found) > _PARTITIONS_MAX:
            self._stopped = f"{len(found)} partitions are more than are looked through"
            return []
        return sorted(found)

    def _look(self, logs: Sequence[Log], from_ms: int, to_ms: int) -> None:
        starts, ends = self._offsets(logs, from_ms), self._offsets(logs, to_ms)
        starts = {log: start for log, start in starts.items() if start >= 0}
        scan = LogScan(self._consumer)
        scan.begin(starts)
        try:
            while not self._is_complete and self._goes_on(scan, starts, ends):
                for message in scan.some(_POLL_S):
                    self._take(message)
        finally:
            scan.leave(set(starts))

    def _offsets(self, logs: Sequence[Log], at_ms: int) -> dict[Log, int]:
        """Of the first record from then on; negative: there is none yet."""
        asked = [TopicPartition(*log, max(0, at_ms)) for log in logs]
        answers = self._consumer.offsets_for_times(asked, _ASK_S)
        return {(each.topic, each.partition): each.offset for each in answers if each.error is None}

    def _goes_on(self, scan: LogScan, starts: dict[Log, int], ends: dict[Log, int]) -> bool:
        if scan.refused:
            topics = ", ".join(sorted(scan.refused))
            self._stopped = (
                f"the sidecar may not read {topics}: it needs Kafka's right Read there for this, "
                "and for nothing else"
            )
            return False
        if time.monotonic() > self._give_up_s or self._seen_count > _RECORDS_MAX:
            why = "" if scan.trouble is None else f" ({scan.trouble})"
            self._stopped = f"it took too long, {self._seen_count} records were read{why}"
            return False
        return any(
            not scan.is_at_end(log) and (ends.get(log, -1) < 0 or scan.read_to[log] < ends[log])
            for log in starts
        )

    def _take(self, message: Any) -> None:
        self._seen_count += 1
        headers = headers_of(message)
        found = read_forwarded(headers)
        wanted = self._wanted
        if found is None or found[:2] != (wanted.producer_group, wanted.transaction_id):
            return
        if found.message_index not in self._found:
            self._found[found.message_index] = self._landing(message, found.message_index)

    def _landing(self, message: Any, index: int) -> Landing:
        """Without the message, which may be large: what is shown of it is a copy of a part."""
        content = None
        if self._wanted.shows_content:
            headers = producer_headers(headers_of(message) or [])
            content = self._showing.shown(message.key(), message.value(), headers)
        return Landing(
            topic=message.topic(),
            partition=message.partition(),
            log_offset=message.offset(),
            stored_ms=message.timestamp()[1],
            index=index,
            content=content,
        )

    def _trouble(self) -> str:
        found, count = len(self._found), self._wanted.message_count
        rest = self._stopped or (
            "its topics do not have it, or not any more: retention and compaction take messages, "
            "and clocks that differ by minutes hide them"
        )
        return f"{found} of {count} found: {'; '.join(self._missing) or rest}"
