"""The owner's two adapters to Kafka: reading one half partition and its op twin, and writing steps.

Both are used by one thread, the partition's worker. Everything here may block; librdkafka releases
the interpreter lock meanwhile.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from halfhitch.adapters.kafka.errors import POISON, TOPIC_REFUSED, describe
from halfhitch.errors import KafkaUnavailable, TopologyError
from halfhitch.ports import (
    KafkaHeaders,
    ReadBatch,
    StoredRecord,
    TargetRecord,
    WriteOutcome,
    WriteResult,
)

logger = logging.getLogger(__name__)

#: One read takes at most this many records: a turn must stay short.
READ_MAX: Final = 2_000
_ANSWER_S: Final = 10.0
#: Halves that lie this close together are fetched in one go.
_FETCH_GAP: Final = 500
#: librdkafka retries EndTxn silently, and a delayed one can end the NEXT transaction (KAFKA-17754).
#: A commit that took this long may have been retried: the producer is fenced before it is used
#: again. A reset connection and its retry were seen to take 0.4 s.
_SLOW_COMMIT_S: Final = 0.3

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
        half_topic: str,
        op_topic: str,
        partition: int,
    ) -> None:
        self._make_consumer = make_consumer
        self._consumer = make_consumer()
        self._fetcher: Consumer | None = None
        self._half = (half_topic, partition)
        self._op = (op_topic, partition)
        self._half_at_end = self._op_at_end = False
        self._half_read_to = 0

    def committed_positions(self) -> tuple[int | None, int | None]:
        """See ports.PartitionReader."""
        asked = [TopicPartition(*self._half), TopicPartition(*self._op)]
        try:
            half, op = self._consumer.committed(asked, _ANSWER_S)
        except KafkaException as error:
            raise KafkaUnavailable(
                f"the stored watermarks cannot be read: {describe(error)}"
            ) from error
        return _position(half), _position(op)

    def begin(self, half_position: int | None, op_position: int | None) -> tuple[int, int]:
        """See ports.PartitionReader. A position below the log's start is refused, loudly."""
        half_start = self._start(self._half, half_position)
        op_start = self._start(self._op, op_position)
        self._half_at_end = self._op_at_end = False
        self._half_read_to = half_start
        self._consumer.assign(
            [TopicPartition(*self._half, half_start), TopicPartition(*self._op, op_start)]
        )
        self.hold_op()
        return half_start, op_start

    def _start(self, log: tuple[str, int], position: int | None) -> int:
        low, high = self._bounds(log)
        if position is None:
            return low
        if not low <= position <= high:
            raise TopologyError(
                f"{log[0]}-{log[1]} holds offsets {low} to {high}, but the stored watermark is "
                f"{position}: records were deleted or the topic was recreated; nothing is "
                "forwarded from this partition until an operator has looked (halfhitch doctor)"
            )
        return position

    def _bounds(self, log: tuple[str, int]) -> tuple[int, int]:
        try:
            low, high = self._consumer.get_watermark_offsets(TopicPartition(*log), _ANSWER_S)
        except KafkaException as error:
            raise KafkaUnavailable(
                f"{log[0]}-{log[1]} cannot be read: {describe(error)}"
            ) from error
        return int(low), int(high)

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
        self._half_at_end = self._op_at_end = False
        first = self._consumer.poll(wait_s)
        if first is not None:
            half_topic = self._half[0]
            for message in [first, *self._consumer.consume(READ_MAX, 0)]:
                if message.error() is not None:
                    self._event(message)
                elif message.topic() == half_topic:
                    self._half_at_end = False
                    half.append(message)
                else:
                    self._op_at_end = False
                    op.append(message)
        if half:
            self._half_read_to = max(self._half_read_to, half[-1].offset() + 1)
        return ReadBatch(half, op, self._half_at_end, self._op_at_end)

    def _event(self, message: Any) -> None:
        error: Any = message.error()
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            if message.topic() == self._half[0]:
                self._half_at_end = True
                self._half_read_to = max(self._half_read_to, message.offset())
            else:
                self._op_at_end = True
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
        try:
            _, high = self._consumer.get_watermark_offsets(TopicPartition(*self._half), _ANSWER_S)
        except KafkaException as error:
            raise KafkaUnavailable(
                f"the end of {self._half[0]} is not known: {describe(error)}"
            ) from error
        return int(high)

    def half_read_to(self) -> int:
        """See ports.PartitionReader."""
        return self._half_read_to

    def fetch_halves(self, half_offsets: Sequence[int]) -> dict[int, StoredRecord]:
        """See ports.PartitionReader."""
        found: dict[int, StoredRecord] = {}
        if self._fetcher is None:
            self._fetcher = self._make_consumer()
        # A run that began below the log's start would be answered with an error, and those of its
        # halves that are still there would look as if they were gone too.
        low, _ = self._bounds(self._half)
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
                try:
                    consumer.close()
                except (KafkaException, RuntimeError, SystemError) as error:
                    logger.debug("a consumer did not close cleanly: %s", error)


class KafkaPartitionWriter:
    """ports.PartitionWriter."""

    def __init__(
        self,
        make_producer: Callable[[], Producer],
        *,
        admin: AdminClient,
        group_metadata: Callable[[], Any],
        half_topic: str,
        op_topic: str,
        partition: int,
        transaction_timeout_ms: int,
    ) -> None:
        self._make_producer = make_producer
        self._admin = admin
        self._group_metadata = group_metadata
        self._half = (half_topic, partition)
        self._op = (op_topic, partition)
        self._timeout_s = transaction_timeout_ms / 1000
        self._producer: Producer | None = None
        self._failures: list[str] = []
        self._refused_topics: dict[str, str] = {}  # by the broker, for good: topic -> why
        self._poisoned: dict[int, str] = {}
        self._refused_some = False

    def fence(self) -> None:
        """See ports.PartitionWriter. A new producer each time: its epoch outdates late requests."""
        self.close()
        producer = self._make_producer()
        try:
            producer.init_transactions(_ANSWER_S)
        except KafkaException as error:
            raise KafkaUnavailable(
                f"{self._half[0]}-{self._half[1]} cannot be taken over: {describe(error)}"
            ) from error
        self._producer = producer

    def write(
        self,
        targets: Sequence[TargetRecord],
        ops: Sequence[tuple[bytes, KafkaHeaders]],
        half_watermark: int,
        op_watermark: int,
    ) -> WriteResult:
        """See ports.PartitionWriter."""
        producer = self._producer
        if producer is None:
            return WriteResult(WriteOutcome.FAIL, "the producer was not fenced")
        self._failures.clear()
        self._refused_topics.clear()
        self._poisoned.clear()
        self._refused_some = False
        try:
            producer.begin_transaction()
            self._produce(producer, targets, ops)
            producer.send_offsets_to_transaction(
                [
                    TopicPartition(*self._half, half_watermark),
                    TopicPartition(*self._op, op_watermark),
                ],
                self._group_metadata(),
                _ANSWER_S,
            )
        except (KafkaException, BufferError) as error:
            # The commit was never asked for: fencing (or the abort) ends it, whatever else happens.
            self._abort(producer)
            return self._failed(self._reason(error), targets)
        result = self._commit(producer)
        if result.outcome is WriteOutcome.FAIL:
            return self._failed(result.reason, targets)
        return result

    def _failed(self, reason: str, targets: Sequence[TargetRecord]) -> WriteResult:
        """Surely aborted; say which records Kafka will never take, as far as that is known."""
        reasons = {t: why for t, why in self._refused_topics.items() if self._is_refused(t)}
        poisoned = {
            place: reasons[target.topic]
            for place, target in enumerate(targets)
            if target.topic in reasons
        }
        poisoned.update(self._poisoned)
        return WriteResult(
            WriteOutcome.FAIL, reason, poisoned=poisoned, is_poisoned=self._refused_some
        )

    def _is_refused(self, topic: str) -> bool:
        """Ask once more before messages are given up: metadata may just have been behind."""
        if topic in (self._half[0], self._op[0]):
            return False
        try:
            found = self._admin.list_topics(topic, _ANSWER_S).topics.get(topic)
        except KafkaException:
            return False
        return found is None or found.error is not None

    def _produce(
        self,
        producer: Producer,
        targets: Sequence[TargetRecord],
        ops: Sequence[tuple[bytes, KafkaHeaders]],
    ) -> None:
        produce: Any = producer.produce  # the stubs forbid null header values, Kafka does not
        failed = self._delivery_failed
        for place, target in enumerate(targets):
            partition = -1 if target.partition is None else target.partition
            try:
                produce(
                    target.topic,
                    target.value,
                    target.key,
                    partition,
                    failed,
                    headers=target.headers,
                )
            except KafkaException as error:
                if error.args[0].code() in POISON:
                    self._poisoned[place] = f"{target.topic}: {describe(error)}"
                raise
            except (OverflowError, TypeError, ValueError) as error:
                # What Kafka's client cannot even express; it came from a stranger's half record.
                self._poisoned[place] = f"{target.topic}: {error}"
                raise KafkaException(KafkaError(KafkaError._INVALID_ARG, str(error))) from error
        op_topic, partition = self._op
        for value, headers in ops:
            produce(op_topic, value, None, partition, failed, headers=headers)

    def _delivery_failed(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            return
        topic = message.topic() or "?"
        if error.code() in TOPIC_REFUSED:
            self._refused_topics[topic] = f"{topic}: {error.str()}"
        elif error.code() in POISON:
            # The broker refuses a whole batch: which record of it is at fault is not said.
            self._refused_some = True
        if len(self._failures) < 10:
            self._failures.append(f"{topic}: {error.str()}")

    def _commit(self, producer: Producer) -> WriteResult:
        began_s = time.monotonic()
        while True:
            try:
                producer.commit_transaction(self._timeout_s)
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    # Delivery failed while flushing: EndTxn was not sent.
                    reason = self._reason(error)
                    aborted = self._abort(producer)
                    outcome = WriteOutcome.FAIL if aborted else WriteOutcome.UNKNOWN
                    return WriteResult(outcome, reason)
                late = time.monotonic() - began_s > self._timeout_s
                if error.args[0].retriable() and not late:
                    continue  # only ever resumed; aborting now would be a guess
                self.close()
                return WriteResult(WriteOutcome.UNKNOWN, self._reason(error))
            is_slow = time.monotonic() - began_s > _SLOW_COMMIT_S
            return WriteResult(WriteOutcome.OK, is_suspect=is_slow)

    def _reason(self, error: KafkaException | BufferError) -> str:
        first = describe(error) if isinstance(error, KafkaException) else str(error)
        return "; ".join([first, *self._failures])

    def _abort(self, producer: Producer) -> bool:
        """End the open transaction, let the producer go: a late request must find no heir."""
        try:
            producer.abort_transaction(_ANSWER_S)
        except KafkaException as error:
            logger.info("abort did not succeed: %s", describe(error))
            return False
        finally:
            self.close()
        return True

    def delete_below(self, half_offset: int, op_offset: int) -> None:
        """See ports.PartitionWriter."""
        # The half log first: a half whose done mark is gone would be taken for a new transaction,
        # should the stored watermarks ever be lost.
        for log, position in ((self._half, half_offset), (self._op, op_offset)):
            if position > 0 and not self._trim(TopicPartition(*log, position)):
                return

    def _trim(self, where: TopicPartition) -> bool:
        try:
            for future in self._admin.delete_records([where], request_timeout=5.0).values():
                future.result(6.0)
        except (KafkaException, TimeoutError) as error:
            logger.info(
                "%s-%s was not trimmed: %s",
                where.topic,
                where.partition,
                error,
                extra={"action": "trim_failed"},
            )
            return False
        return True

    def close(self) -> None:
        """See ports.PartitionWriter."""
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                producer.purge()
                producer.close()
            except (KafkaException, RuntimeError, SystemError) as error:
                # SystemError: what confluent_kafka makes of closing a fenced producer.
                logger.debug("a producer did not close cleanly: %s", error)


def _position(stored: TopicPartition) -> int | None:
    return stored.offset if stored.offset >= 0 else None
