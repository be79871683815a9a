"""A task reads its stretch of one partition. Runs on the executors, in Python.

The consumer joins no group and commits nothing. It reads committed records only, which is why an
end is reached by position, not by a record's offset: the last ones before it may be markers, or of
an aborted Kafka transaction. That every end lies at or below the last stable offset is whoever's
made the stretch; so librdkafka's word that it can read no further comes at the end or behind it.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from halfhitch.errors import KafkaUnavailable
from halfhitch_spark.source.brokers import client_of
from halfhitch_spark.source.rows import Rows
from halfhitch_spark.source.stretches import MessagesGone, Stretch, gone_sentence

_CLIENT: Final[Mapping[str, Any]] = {
    "group.id": "halfhitch-spark",
    "fetch.wait.max.ms": 100,
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 100_000,
    "queued.max.messages.kbytes": 65_536,
    "max.partition.fetch.bytes": 8 * 1_024 * 1_024,
    "check.crcs": True,
}
_FIXED: Final[Mapping[str, Any]] = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
    "log_level": 0,
}
_CHUNK: Final = 5_000
_POLL_S: Final = 0.1
_ANSWER_S: Final = 15.0
#: Nothing comes and the position does not move: give up after this.
_STUCK_S: Final = 120.0

_TRIMMED: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})  # noqa: SLF001
_DELETED: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})  # noqa: SLF001
_REFUSED: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED})


def read_stretch(
    client: Mapping[str, str], stretch: Stretch, *, accept_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    """The committed messages of it. MessagesGone, KafkaUnavailable."""
    consumer: Consumer = client_of(Consumer, {**_CLIENT, **client, **_FIXED})
    try:
        yield from _Task(consumer, stretch, accept_data_loss=accept_data_loss).batches()
    except KafkaException as problem:
        raise KafkaUnavailable(
            f"{stretch.topic}-{stretch.partition} cannot be read: {problem}"
        ) from problem
    finally:
        consumer.close()


class _Task:
    def __init__(self, consumer: Consumer, stretch: Stretch, *, accept_data_loss: bool) -> None:
        self._consumer = consumer
        self._stretch = stretch
        self._accept_data_loss = accept_data_loss
        self._rows = Rows(stretch.topic, stretch.partition)
        #: Everything below it was given away.
        self._read_to = stretch.start
        self._trouble = ""

    def batches(self) -> Iterator[pa.RecordBatch]:
        self._go_to(self._stretch.start)
        moved_s = time.monotonic()
        while self._read_to < self._stretch.end:
            before = self._read_to
            self._take_some()
            if self._rows:
                yield self._rows.taken()
            now_s = time.monotonic()
            if self._read_to > before:
                moved_s = now_s
            elif now_s > moved_s + _STUCK_S:
                raise KafkaUnavailable(
                    f"{self._name} gave nothing behind {self._read_to} of {self._stretch.end} for "
                    f"{_STUCK_S:.0f} s{self._trouble}. Is a broker away?"
                )

    @property
    def _name(self) -> str:
        return f"{self._stretch.topic}-{self._stretch.partition}"

    def _go_to(self, start: int) -> None:
        self._consumer.assign([TopicPartition(self._stretch.topic, self._stretch.partition, start)])
        self._read_to = start

    def _take_some(self) -> None:
        # `consume` alone would wait for so many.
        first: Any = self._consumer.poll(_POLL_S)
        if first is None:
            self._pass_markers()
            return
        end = self._stretch.end
        for message in (first, *self._consumer.consume(_CHUNK, 0)):
            if message.error() is not None:
                self._event(message)
                continue
            self._read_to = message.offset() + 1
            if self._read_to > end:
                return
            self._rows.add(message)

    def _pass_markers(self) -> None:
        asked = [TopicPartition(self._stretch.topic, self._stretch.partition)]
        (where,) = self._consumer.position(asked)
        self._read_to = max(self._read_to, where.offset)

    def _event(self, message: Any) -> None:
        error: Any = message.error()
        code = error.code()
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001
            self._read_to = max(self._read_to, message.offset())
        elif code in _TRIMMED:
            self._trimmed()
        elif code in _DELETED or code in _REFUSED or error.fatal():
            raise KafkaUnavailable(f"{self._name} cannot be read: {error.str()}")
        else:
            self._trouble = f" ({error.str()})"

    def _trimmed(self) -> None:
        """Between the driver's look and here."""
        place = TopicPartition(self._stretch.topic, self._stretch.partition)
        first, _ = self._consumer.get_watermark_offsets(place, _ANSWER_S)
        if not self._accept_data_loss:
            at = self._stretch.topic, self._stretch.partition
            raise MessagesGone(gone_sentence(at, self._read_to, self._stretch.end, first))
        self._go_to(max(first, self._read_to))
