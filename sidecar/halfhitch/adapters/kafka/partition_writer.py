"""The owner's writing side: each step is one Kafka transaction of one producer.

Used by one thread, the partition's worker. Everything here may block; librdkafka releases the
interpreter lock meanwhile, but for `begin_transaction`: the watchdog (adapters/watchdog.py) is what
ends a call that hangs.

What holds:
- A producer that failed, aborted, or is suspect (guard.py) is never used for another Kafka
  transaction: `write` refuses until `fence` has made a new one.
- Before the commit is asked for, every trouble is a FAIL: nothing can commit the step any more once
  the next fence has come. Afterwards only the commit is repeated, and what it does not say is
  UNKNOWN (error_table.py).
"""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from halfhitch.adapters.kafka.clients import OwnerProducer, begin_producing
from halfhitch.adapters.kafka.error_table import AWAY, ErrorClass, judge, judge_commit
from halfhitch.adapters.kafka.errors import POISON, TOPIC_REFUSED, describe
from halfhitch.adapters.kafka.partition_reader import pair_metadata
from halfhitch.adapters.watchdog import progress
from halfhitch.crash_points import reached
from halfhitch.errors import KafkaUnavailable
from halfhitch.ports import KafkaHeaders, TargetRecord, WriteOutcome, WriteResult

logger = logging.getLogger(__name__)

_ANSWER_S: Final = 10.0
#: A look at the metadata before a target is tried again.
_LOOK_S: Final = 1.0
#: Between two tries of a call; librdkafka mostly waits by itself, but not for every error.
_RESUME_PAUSE_S: Final = 0.02
_REASONS_MAX: Final = 10


class KafkaPartitionWriter:
    """ports.PartitionWriter."""

    def __init__(
        self,
        make_producer: Callable[[], OwnerProducer],
        *,
        make_resumer: Callable[[], Producer],
        admin: AdminClient,
        group_metadata: Callable[[], Any],
        half_topic: str,
        op_topic: str,
        partition: int,
        transaction_timeout_ms: int,
    ) -> None:
        self._make_producer = make_producer
        self._make_resumer = make_resumer
        self._admin = admin
        self._group_metadata = group_metadata
        self._half = (half_topic, partition)
        self._op = (op_topic, partition)
        self._timeout_s = transaction_timeout_ms / 1000
        self._producer: OwnerProducer | None = None
        self._failures: list[str] = []
        self._refused_topics: dict[str, str] = {}  # by the broker, for good: topic -> why
        self._away_topics: set[str] = set()
        self._poisoned: dict[int, str] = {}
        self._refused_some = False

    # -- the producer's life ---------------------------------------------------------------------

    def fence(self) -> None:
        """See ports.PartitionWriter. A new producer each time: its epoch outdates late requests."""
        self.close()
        reached("before_fence")
        producer = self._make_producer()
        progress()
        try:
            begin_producing(producer, self._op[0], _ANSWER_S)
        except KafkaException as error:
            _let_go(producer)
            del producer  # the traceback would keep it alive
            raise KafkaUnavailable(
                f"{self._half[0]}-{self._half[1]} cannot be taken over: {describe(error)}"
            ) from error
        producer.poll(0)
        producer.suspicion.start()  # with the new epoch, what was before is over
        self._producer = producer
        reached("after_fence")

    def end_resume(self) -> None:
        """See ports.PartitionWriter. The next epoch of its transactional id ends what is open."""
        producer = self._make_resumer()
        progress()
        try:
            begin_producing(producer, self._op[0], _ANSWER_S)
        except KafkaException as error:
            raise KafkaUnavailable(
                f"a resume of parked messages of {self._half[0]}-{self._half[1]} cannot be ended: "
                f"{describe(error)}"
            ) from error
        finally:
            _let_go(producer)

    def idle(self) -> bool:
        """See ports.PartitionWriter."""
        producer = self._producer
        if producer is None:
            return False  # no trouble of ours: the next write says what is missing
        producer.poll(0)
        reason = producer.suspicion.reason
        if reason is None:
            return False
        self._tell(reason)
        return True

    def close(self) -> None:
        """See ports.PartitionWriter."""
        producer, self._producer = self._producer, None
        if producer is not None:
            progress()
            _let_go(producer)

    def _tell(self, reason: str) -> None:
        logger.info(
            "the producer of %s-%d is made anew, a late request of it could do harm: %s",
            *self._half,
            reason,
            extra={"action": "producer_suspect"},
        )

    # -- one step --------------------------------------------------------------------------------

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
        if self.idle():
            # Noticed since its last Kafka transaction: what is late could end this one.
            self.close()
            return WriteResult(WriteOutcome.FAIL, f"the producer: {producer.suspicion.reason}")
        self._forget()
        reached("before_begin")
        producer.suspicion.begin(time.monotonic())
        progress()
        try:
            producer.begin_transaction()
            reached("after_begin")
            self._produce(producer, targets, ops)
            reached("after_produce")
            self._send_offsets(producer, half_watermark, op_watermark)
            reached("after_send_offsets")
        except (KafkaException, BufferError) as error:
            # The commit was never asked for: fencing (or the abort) ends it, whatever else happens.
            reason = self._reason(error)
            if isinstance(error, KafkaException) and _is_fatal(error):
                self.close()
            else:
                self._abort(producer)
            return self._failed(reason, targets)
        result = self._commit(producer)
        if result.outcome is WriteOutcome.FAIL:
            return self._failed(result.reason, targets)
        return result

    def _forget(self) -> None:
        self._failures.clear()
        self._refused_topics.clear()
        self._away_topics.clear()
        self._poisoned.clear()
        self._refused_some = False

    def _produce(
        self,
        producer: OwnerProducer,
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

    def _send_offsets(
        self, producer: OwnerProducer, half_watermark: int, op_watermark: int
    ) -> None:
        """Always real offsets: with an empty list the group's generation would not be checked."""
        pair = pair_metadata(half_watermark, op_watermark)
        offsets = [
            TopicPartition(*self._half, half_watermark, pair),
            TopicPartition(*self._op, op_watermark, pair),
        ]
        metadata = self._group_metadata()
        give_up_s = time.monotonic() + _ANSWER_S
        while True:
            progress()
            try:
                producer.send_offsets_to_transaction(offsets, metadata, _ANSWER_S)
            except KafkaException as error:
                is_over = time.monotonic() > give_up_s
                if is_over or judge(error.args[0]).kind is not ErrorClass.RETRIABLE:
                    raise
                producer.suspicion.note(f"the watermarks were sent again: {describe(error)}")
                time.sleep(_RESUME_PAUSE_S)
            else:
                return

    def _commit(self, producer: OwnerProducer) -> WriteResult:
        give_up_s = time.monotonic() + self._timeout_s
        producer.suspicion.end_asked()
        while True:
            progress()
            try:
                producer.commit_transaction(self._timeout_s)
            except KafkaException as error:
                kind = judge_commit(error.args[0])
                if kind is ErrorClass.ABORTABLE:
                    # Delivery failed while flushing: EndTxn was not sent, or was refused.
                    reason = self._reason(error)
                    aborted = self._abort(producer)
                    outcome = WriteOutcome.FAIL if aborted else WriteOutcome.UNKNOWN
                    return WriteResult(outcome, reason)
                if kind is ErrorClass.RETRIABLE and time.monotonic() < give_up_s:
                    producer.suspicion.note(f"the commit was asked for again: {describe(error)}")
                    time.sleep(_RESUME_PAUSE_S)
                    continue  # only ever resumed; aborting now would be a guess
                self.close()
                return WriteResult(WriteOutcome.UNKNOWN, self._reason(error))
            reached("after_commit")
            # What librdkafka has to say about repeated requests was queued before it returned.
            producer.poll(0)
            reason = producer.suspicion.end(time.monotonic()) or ""
            if reason:
                self._tell(reason)
            return WriteResult(WriteOutcome.OK, reason, is_suspect=bool(reason))

    def _abort(self, producer: OwnerProducer) -> bool:
        """End the open transaction, let the producer go: a late request must find no heir."""
        progress()
        try:
            producer.abort_transaction(_ANSWER_S)
        except KafkaException as error:
            # Not asked again: the next fence aborts it, and `_CONFLICT` would be asked for ever.
            logger.info("abort did not succeed: %s", describe(error))
            return False
        finally:
            self.close()
        return True

    # -- why it failed ---------------------------------------------------------------------------

    def _delivery_failed(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            return
        topic = message.topic() or "?"
        code = error.code()
        if code in TOPIC_REFUSED:
            self._refused_topics[topic] = f"{topic}: {error.str()}"
        elif code in POISON:
            # The broker refuses a whole batch: which record of it is at fault is not said.
            self._refused_some = True
        elif code in AWAY:
            self._away_topics.add(topic)
        if len(self._failures) < _REASONS_MAX:
            self._failures.append(f"{topic}: {error.str()}")

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
            WriteOutcome.FAIL,
            reason,
            poisoned=poisoned,
            is_poisoned=self._refused_some,
            away_topics=self._away(),
        )

    def _away(self) -> frozenset[str]:
        """Targets that could not be reached in time, while our own op log could."""
        ours = {self._half[0], self._op[0]}
        if ours & self._away_topics:
            return frozenset()  # all of Kafka is away: that is no target's fault
        return frozenset(self._away_topics)

    def _is_refused(self, topic: str) -> bool:
        """Ask once more before messages are given up: metadata may just have been behind."""
        if topic in (self._half[0], self._op[0]):
            return False
        progress()
        try:
            found = self._admin.list_topics(topic, _ANSWER_S).topics.get(topic)
        except KafkaException:
            return False
        return found is None or found.error is not None

    def _reason(self, error: KafkaException | BufferError) -> str:
        first = describe(error) if isinstance(error, KafkaException) else str(error)
        return "; ".join([first, *self._failures])

    # -- beside the steps ------------------------------------------------------------------------

    def leaderless(self, topics: Collection[str]) -> frozenset[str]:
        """See ports.PartitionWriter."""
        give_up_s = time.monotonic() + _LOOK_S
        found = set()
        for topic in topics:
            left_s = give_up_s - time.monotonic()
            if left_s <= 0:
                break
            try:
                known = self._admin.list_topics(topic, left_s).topics.get(topic)
            except KafkaException:
                break  # no answer is no reason to hold a target back
            if known is not None and any(p.leader < 0 for p in known.partitions.values()):
                found.add(topic)
        return frozenset(found)

    def delete_below(self, half_offset: int, op_offset: int) -> None:
        """See ports.PartitionWriter."""
        # The half log first: a half whose done mark is gone would be taken for a new transaction,
        # should the stored watermarks ever be lost.
        for log, position in ((self._half, half_offset), (self._op, op_offset)):
            if position > 0 and not self._trim(TopicPartition(*log, position)):
                return

    def _trim(self, where: TopicPartition) -> bool:
        progress()
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


def _is_fatal(error: KafkaException) -> bool:
    first = error.args[0]
    return isinstance(first, KafkaError) and first.fatal()


def _let_go(producer: Producer) -> None:
    """Forget what it still has to send; with its last reference it ends.

    Not `Producer.close`: that aborts what is open without any bound of time, so that a Kafka which
    is away would hold this thread until it comes back; and it would ask for an abort where nobody
    knows what became of a commit.
    """
    try:
        producer.purge()
    except (KafkaException, RuntimeError) as error:
        logger.debug("a producer did not let go cleanly: %s", error)
