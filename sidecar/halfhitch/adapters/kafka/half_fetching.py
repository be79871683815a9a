"""Single halves, read again by their offsets. One thread uses a fetcher; everything may block."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.log_consumer import LogConsumer
from halfhitch.adapters.kafka.readable import headers_of
from halfhitch.adapters.watchdog import progress
from halfhitch.errors import KafkaUnavailable
from halfhitch.ports import StoredRecord

ANSWER_S: Final = 10.0
#: Halves that lie this close together are fetched in one go.
_FETCH_GAP: Final = 500

LOG_IS_GONE: Final = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
_NOTHING_MORE: Final = LOG_IS_GONE | {KafkaError._PARTITION_EOF}


def low_of(consumer: Consumer | LogConsumer, log: tuple[str, int]) -> int:
    """Where the log starts. Raises KafkaUnavailable."""
    progress()
    try:
        low, _ = consumer.get_watermark_offsets(TopicPartition(*log), ANSWER_S)
    except KafkaException as error:
        raise KafkaUnavailable(f"{log[0]}-{log[1]} cannot be read: {describe(error)}") from error
    return int(low)


class HalfFetcher:
    """Makes its consumer when it is needed first."""

    def __init__(self, make_consumer: Callable[[], Consumer], half_topic: str) -> None:
        self._make_consumer = make_consumer
        self._half_topic = half_topic
        #: To be closed by whoever has made the fetcher.
        self.consumer: Consumer | None = None

    def fetch(self, partition: int, half_offsets: Iterable[int]) -> dict[int, StoredRecord]:
        """Those that are still there. Raises KafkaUnavailable."""
        found: dict[int, StoredRecord] = {}
        log = (self._half_topic, partition)
        if self.consumer is None:
            self.consumer = self._make_consumer()
        # A run that began below the log's start would be answered with an error, and those of its
        # halves that are still there would look as if they were gone too.
        low = low_of(self.consumer, log)
        wanted = sorted({half_offset for half_offset in half_offsets if half_offset >= low})
        run: list[int] = []
        for half_offset in [*wanted, None]:
            if run and (half_offset is None or half_offset - run[-1] > _FETCH_GAP):
                self._fetch_run(self.consumer, log, run, found)
                run = []
            if half_offset is not None:
                run.append(half_offset)
        self.consumer.unassign()
        return found

    def _fetch_run(
        self,
        consumer: Consumer,
        log: tuple[str, int],
        run: list[int],
        found: dict[int, StoredRecord],
    ) -> None:
        consumer.assign([TopicPartition(*log, run[0])])
        missing = deque(run)
        give_up_s = time.monotonic() + ANSWER_S
        while missing:
            progress()
            message: Any = consumer.poll(0.5)
            if message is not None and message.error() is None:
                half_offset = message.offset()
                while missing and missing[0] < half_offset:
                    missing.popleft()  # it is gone
                if missing and missing[0] == half_offset:
                    headers_of(message)
                    found[missing.popleft()] = message
            elif message is not None and message.error().code() in _NOTHING_MORE:
                return
            if missing and time.monotonic() > give_up_s:
                raise KafkaUnavailable(f"half messages of {log[0]} could not be read again")
