"""The owner's reading side: one half partition and its op twin, and the watermarks stored for them.

Used by one thread, the partition's worker. Everything here may block; librdkafka releases the
interpreter lock meanwhile.

A stored watermark names its twin: the half watermark says in its metadata which op watermark was
stored with it, and the other way round. Whoever sets one of them from outside breaks the pair, and
a broken pair is not believed: done marks below the op watermark are needed again when the half
watermark has gone back, or what they finished would be forwarded once more. The op log is read
from its start then, which is always right and only slow.

The pair also carries the stamp of the write that stored it. Watermarks may stand still while steps
are written; the stamp never does, so it tells whether anybody has written since we did.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.log_ends import LogEnds, held_sentence
from halfhitch.adapters.watchdog import progress, resting
from halfhitch.errors import KafkaUnavailable, TopologyError
from halfhitch.ports import ReadBatch, StoredRecord

logger = logging.getLogger(__name__)

#: One read takes at most this many records: a turn must stay short.
READ_MAX: Final = 2_000
_ANSWER_S: Final = 10.0
#: Halves that lie this close together are fetched in one go.
_FETCH_GAP: Final = 500

_LOG_IS_GONE: Final = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
_NOTHING_MORE: Final = _LOG_IS_GONE | {KafkaError._PARTITION_EOF}


class KafkaPartitionReader:
    """ports.PartitionReader."""

    def __init__(
        self,
        make_consumer: Callable[[], Consumer],
        *,
        ends: LogEnds,
        half_topic: str,
        op_topic: str,
        partition: int,
    ) -> None:
        self._make_consumer = make_consumer
        self._consumer = make_consumer()
        self._ends = ends
        self._fetcher: Consumer | None = None
        self._half = (half_topic, partition)
        self._op = (op_topic, partition)
        self._half_read_to = self._op_read_to = 0
        #: See ports.PartitionReader.
        self.stamp = ""

    def committed_positions(self) -> tuple[int | None, int | None]:
        """See ports.PartitionReader."""
        asked = [TopicPartition(*self._half), TopicPartition(*self._op)]
        progress()
        try:
            half, op = self._consumer.committed(asked, _ANSWER_S)
        except KafkaException as error:
            raise KafkaUnavailable(
                f"the stored watermarks cannot be read: {describe(error)}"
            ) from error
        self.stamp = stamp_of(half, op)
        return believed(half, op)

    def begin(self, half_position: int | None, op_position: int | None) -> tuple[int, int]:
        """See ports.PartitionReader. A position below the log's start is refused, loudly."""
        half_start = self._start(self._half, half_position)
        op_start = self._start(self._op, op_position)
        self._half_read_to, self._op_read_to = half_start, op_start
        self._consumer.assign(
            [TopicPartition(*self._half, half_start), TopicPartition(*self._op, op_start)]
        )
        self.hold_op()
        return half_start, op_start

    def _start(self, log: tuple[str, int], position: int | None) -> int:
        low, high = self._low(log), self._end(log)
        if position is None:
            return low
        if not low <= position <= high:
            raise TopologyError(
                f"{log[0]}-{log[1]} holds offsets {low} to {high}, but the stored watermark is "
                f"{position}: records were deleted or the topic was recreated; nothing is "
                "forwarded from this partition until an operator has looked (halfhitch doctor)"
            )
        return position

    def _low(self, log: tuple[str, int]) -> int:
        progress()
        try:
            low, _ = self._consumer.get_watermark_offsets(TopicPartition(*log), _ANSWER_S)
        except KafkaException as error:
            raise KafkaUnavailable(
                f"{log[0]}-{log[1]} cannot be read: {describe(error)}"
            ) from error
        return int(low)

    def _end(self, log: tuple[str, int]) -> int:
        progress()
        return self._ends.existing([log])[log]

    def hold_op(self) -> None:
        """See ports.PartitionReader."""
        self._consumer.pause([TopicPartition(*self._op)])

    def release_op(self) -> None:
        """See ports.PartitionReader."""
        self._consumer.resume([TopicPartition(*self._op)])

    def read(self, wait_s: float) -> ReadBatch:
        """See ports.PartitionReader."""
        half: list[Any] = []  # Kafka's messages are StoredRecords, but their stubs are looser
        op: list[Any] = []
        progress()
        first = self._consumer.poll(wait_s)
        if first is not None:
            half_topic = self._half[0]
            for message in [first, *self._consumer.consume(READ_MAX, 0)]:
                if message.error() is not None:
                    self._event(message)
                elif message.topic() == half_topic:
                    half.append(message)
                else:
                    op.append(message)
        if half:
            self._half_read_to = max(self._half_read_to, half[-1].offset() + 1)
        if op:
            self._op_read_to = max(self._op_read_to, op[-1].offset() + 1)
        return ReadBatch(half, op)

    def _event(self, message: Any) -> None:
        error: Any = message.error()
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            if message.topic() == self._half[0]:
                self._half_read_to = max(self._half_read_to, message.offset())
            else:
                self._op_read_to = max(self._op_read_to, message.offset())
        elif code in _LOG_IS_GONE:
            raise TopologyError(
                f"{message.topic()}-{message.partition()} cannot be read where it was left: "
                f"{error.str()}; records were deleted or the topic is gone (halfhitch doctor)"
            )
        elif not error.retriable() and code not in (
            KafkaError._TRANSPORT,
            KafkaError._ALL_BROKERS_DOWN,
            KafkaError._RESOLVE,
        ):
            raise KafkaUnavailable(f"reading {message.topic()} failed: {error.str()}")

    def half_end(self) -> int:
        """See ports.PartitionReader."""
        return self._end(self._half)

    def op_end(self) -> int:
        """See ports.PartitionReader."""
        return self._end(self._op)

    def half_read_to(self) -> int:
        """See ports.PartitionReader."""
        return self._half_read_to

    def op_read_to(self) -> int:
        """See ports.PartitionReader."""
        return self._op_read_to

    def held(self) -> str | None:
        """See ports.PartitionReader."""
        logs = (self._half, self._op)
        progress()
        try:
            existing, readable = self._ends.existing(logs), self._ends.readable(logs)
        except KafkaUnavailable:
            return None
        return held_sentence(logs, existing, readable)

    def fetch_halves(self, half_offsets: Sequence[int]) -> dict[int, StoredRecord]:
        """See ports.PartitionReader."""
        found: dict[int, StoredRecord] = {}
        if self._fetcher is None:
            self._fetcher = self._make_consumer()
        # A run that began below the log's start would be answered with an error, and those of its
        # halves that are still there would look as if they were gone too.
        low = self._low(self._half)
        wanted = sorted(half_offset for half_offset in half_offsets if half_offset >= low)
        run: list[int] = []
        for half_offset in [*wanted, None]:
            if run and (half_offset is None or half_offset - run[-1] > _FETCH_GAP):
                self._fetch_run(self._fetcher, run, found)
                run = []
            if half_offset is not None:
                run.append(half_offset)
        self._fetcher.unassign()
        return found

    def _fetch_run(self, fetcher: Consumer, run: list[int], found: dict[int, StoredRecord]) -> None:
        fetcher.assign([TopicPartition(*self._half, run[0])])
        missing = set(run)
        give_up_s = time.monotonic() + _ANSWER_S
        while missing:
            progress()
            message: Any = fetcher.poll(0.5)
            if message is not None and message.error() is None:
                half_offset = message.offset()
                if half_offset in missing:
                    found[half_offset] = message
                missing = {wanted for wanted in missing if wanted > half_offset}
            elif message is not None and message.error().code() in _NOTHING_MORE:
                return
            if missing and time.monotonic() > give_up_s:
                raise KafkaUnavailable(f"half messages of {self._half[0]} could not be read again")

    def close(self) -> None:
        """See ports.PartitionReader."""
        for consumer in (self._consumer, self._fetcher):
            if consumer is not None:
                progress()
                try:
                    consumer.close()
                except (KafkaException, RuntimeError, SystemError) as error:
                    logger.debug("a consumer did not close cleanly: %s", error)
        resting()


def pair_metadata(half_watermark: int, op_watermark: int, stamp: str) -> str:
    """What is stored beside both watermarks of one Kafka transaction."""
    return f"1;{half_watermark};{op_watermark};{stamp}"


def stamp_of(half: TopicPartition, op: TopicPartition) -> str:
    """Of the write that stored both; empty where earlier releases did, or two different writes."""
    said = half.metadata or ""
    return "".join(said.split(";", 3)[3:]) if said == op.metadata else ""


def believed(half: TopicPartition, op: TopicPartition) -> tuple[int | None, int | None]:
    """Both stored watermarks; the op watermark is None (the log's start) unless they are a pair."""
    half_position, op_position = _position(half), _position(op)
    if half_position is None or op_position is None:
        paired = False
    else:
        # Earlier releases wrote no stamp.
        pair = f"1;{half_position};{op_position}"
        said = half.metadata or ""
        paired = said == op.metadata and (said == pair or said.startswith(f"{pair};"))
    if paired:
        return half_position, op_position
    if half.metadata or op.metadata:
        logger.warning(
            "the stored watermarks %s-%d %s and %s-%d %s were not stored together: somebody has "
            "changed them from outside; the op log is read from its start, nothing is done twice",
            half.topic,
            half.partition,
            half_position,
            op.topic,
            op.partition,
            op_position,
            extra={"action": "watermarks_changed"},
        )
    return half_position, None


def _position(stored: TopicPartition) -> int | None:
    return stored.offset if stored.offset >= 0 else None
