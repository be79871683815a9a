"""The owner's writing side: each step is one Kafka transaction of one producer.

Used by one thread, the partition's worker. Everything here may block; librdkafka releases the
interpreter lock meanwhile, but for `begin_transaction`: the watchdog (adapters/watchdog.py) is what
ends a call that hangs. Except for `send_offsets_to_transaction`, which keeps no bound of time: that
one is left to itself (left_calls.py), and its step is a FAIL like any other before the commit.

What holds:
- A producer that failed, aborted, or is suspect (guard.py) is never used for another Kafka
  transaction: `write` refuses until `fence` has made a new one. One that met trouble while it was
  made is not used either.
- Before the commit is asked for, every trouble is a FAIL: nothing can commit the step any more once
  the next fence has come. Afterwards only the commit is repeated, and what it does not say is
  UNKNOWN (error_table.py).
- Of a FAIL it is said whose fault it is only where Kafka says so (blame.py).
"""

import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from halfhitch.adapters.kafka.blame import Blame, leaderless
from halfhitch.adapters.kafka.clients import OwnerProducer, begin_producing
from halfhitch.adapters.kafka.error_table import ErrorClass, judge, judge_commit
from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.left_calls import CallHangs, SideThread, leave, may_leave, outdate
from halfhitch.adapters.kafka.letting_go import let_go
from halfhitch.adapters.kafka.outside import Forward, runs, spelled_out
from halfhitch.adapters.kafka.partition_reader import pair_metadata
from halfhitch.adapters.watchdog import progress
from halfhitch.crash_points import reached
from halfhitch.errors import KafkaUnavailable
from halfhitch.ports import TargetRecord, WriteOutcome, WriteResult
from halfhitch.wire.op import StepRecord

logger = logging.getLogger(__name__)

_ANSWER_S: Final = 10.0
#: After the bound that librdkafka was given it has this long to keep it.
_GRACE_S: Final = 1.0
#: Between two tries of a call; librdkafka mostly waits by itself, but not for every error.
_RESUME_PAUSE_S: Final = 0.02
#: So many producers are made until one meets no trouble.
_MAKINGS_MAX: Final = 5
#: What a call of a producer may raise: the binding also returns with an error still set.
_RAISED: Final = (KafkaException, SystemError)


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
        on_left: Callable[[bool], None] = lambda _: None,
        forward: Forward | None = None,
    ) -> None:
        """`on_left`: told True when a producer is left in a call that hangs, False when it is
        gone. `forward`: for content outside of Python; None: it is spelled out.
        """
        self._make_producer = make_producer
        self._make_resumer = make_resumer
        self._admin = admin
        self._group_metadata = group_metadata
        self._half = (half_topic, partition)
        self._op = (op_topic, partition)
        self._timeout_s = transaction_timeout_ms / 1000
        self._on_left = on_left
        self._forward = forward
        #: A write has failed with content outside, whose deliveries are not reported: until one has
        #: succeeded it is spelled out, so that Kafka's client says whose fault it is.
        self._spells_out = False
        self._producer: OwnerProducer | None = None
        self._side = SideThread(f"offsets-{partition}")
        self._run = secrets.token_hex(4)
        self._write_count = 0
        self._blame = Blame(admin, half_topic, op_topic)

    # -- the producer's life ---------------------------------------------------------------------

    def fence(self) -> None:
        """See ports.PartitionWriter. A new producer each time: its epoch outdates late requests."""
        self.close()
        reached("before_fence")
        give_up_s = time.monotonic() + _ANSWER_S
        for _ in range(_MAKINGS_MAX):
            trouble = self._make()
            if trouble is None:
                reached("after_fence")
                return
            if time.monotonic() > give_up_s:
                break
        raise KafkaUnavailable(
            f"{self._half[0]}-{self._half[1]} cannot be taken over: connections to Kafka break "
            f"again and again while a producer is made ({trouble}); look at the network between "
            "here and the brokers"
        )

    def _make(self) -> str | None:
        """One producer. Gives the trouble that it has met, for which it is not used.

        One of its requests may have been repeated, and its ears are worse than those of a new one:
        librdkafka keeps to itself what it has logged twice.
        """
        producer = self._make_producer()
        progress()
        try:
            begin_producing(producer, self._op[0], _ANSWER_S)
        except _RAISED as error:
            let_go(producer)
            del producer  # the traceback would keep it alive
            raise KafkaUnavailable(
                f"{self._half[0]}-{self._half[1]} cannot be taken over: {describe(error)}"
            ) from error
        _serve_callbacks(producer)
        trouble = producer.suspicion.reason
        outdate(self._op)
        if trouble is None:
            self._producer = producer
        else:
            self._tell(trouble)
            let_go(producer)
        return trouble

    def end_resume(self) -> None:
        """See ports.PartitionWriter. The next epoch of its transactional id ends what is open."""
        producer = self._make_resumer()
        progress()
        try:
            begin_producing(producer, self._op[0], _ANSWER_S)
        except _RAISED as error:
            raise KafkaUnavailable(
                f"a resume of parked messages of {self._half[0]}-{self._half[1]} cannot be ended: "
                f"{describe(error)}"
            ) from error
        finally:
            let_go(producer)
            del producer

    def idle(self) -> bool:
        """See ports.PartitionWriter."""
        producer = self._producer
        if producer is None:
            return False  # no trouble of ours: the next write says what is missing
        _serve_callbacks(producer)
        reason = producer.suspicion.reason
        if reason is None:
            return False
        self._tell(reason)
        return True

    def close(self) -> None:
        """See ports.PartitionWriter."""
        producer, self._producer = self._producer, None
        self._fresh_side().end()
        if producer is not None:
            progress()
            let_go(producer)

    def _fresh_side(self) -> SideThread:
        """Gives the side thread that was; the next call has another one."""
        side, self._side = self._side, SideThread(f"offsets-{self._half[1]}")
        return side

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
        ops: Sequence[StepRecord],
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
        except CallHangs:
            return self._failed(self._leave(producer), targets)
        except (*_RAISED, BufferError) as error:
            # The commit was never asked for: fencing (or the abort) ends it, whatever else happens.
            reason = self._blame.reason(error)
            if isinstance(error, KafkaException) and _is_fatal(error):
                self.close()
            else:
                self._abort(producer)
            return self._failed(reason, targets)
        result = self._commit(producer)
        if result.outcome is WriteOutcome.FAIL:
            return self._failed(result.reason, targets)
        if result.outcome is WriteOutcome.OK:
            self._spells_out = False
        result.stamp = self._stamp
        return result

    @property
    def _stamp(self) -> str:
        return f"{self._run}.{self._write_count}"

    def _forget(self) -> None:
        self._write_count += 1
        self._blame.forget()

    def _produce(
        self,
        producer: OwnerProducer,
        targets: Sequence[TargetRecord],
        ops: Sequence[StepRecord],
    ) -> None:
        place = 0
        for is_outside, run in runs(targets):
            if is_outside and self._forward is not None and not self._spells_out:
                self._hand_on(producer, self._forward, place, run)
            else:
                self._produce_each(producer, place, map(spelled_out, run))
            place += len(run)
        self._produce_each(producer, place, (), ops)

    def _hand_on(
        self, producer: OwnerProducer, forward: Forward, first: int, run: Sequence[TargetRecord]
    ) -> None:
        """Without their content. `first`: the place of the first of them among all."""
        client = producer.client
        if client is None:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self._blame.is_unreported = True
        try:
            refused = forward(client, [t.outside for t in run if t.outside is not None])
        finally:
            del client  # what keeps an exception keeps this frame, and would keep the client
        if refused is not None:
            place = first + refused.place
            self._blame.refused(refused.error, run[refused.place].topic, place)
            refused.raised()

    def _produce_each(
        self,
        producer: OwnerProducer,
        first: int,
        targets: Iterable[TargetRecord],
        ops: Sequence[StepRecord] = (),
    ) -> None:
        produce: Any = producer.produce  # the stubs forbid null header values, Kafka does not
        failed = partial(self._delivery_failed, self._write_count)
        try:
            for place, target in enumerate(targets, first):
                partition = -1 if target.partition is None else target.partition
                try:
                    produce(
                        target.topic, target.value, target.key, partition, failed,
                        headers=target.headers,
                    )  # fmt: skip
                except KafkaException as error:
                    self._blame.refused(error.args[0], target.topic, place)
                    raise
                except (OverflowError, TypeError, ValueError) as error:
                    # What Kafka's client cannot express; it came from a stranger's half record.
                    self._blame.poisoned[place] = f"{target.topic}: {error}"
                    raise KafkaException(KafkaError(KafkaError._INVALID_ARG, str(error))) from error
            op_topic, partition = self._op
            for value, headers, key in ops:
                produce(op_topic, value, key, partition, failed, headers=headers)
        finally:
            del produce  # what keeps an exception keeps this frame, and would keep the client

    def _send_offsets(
        self, producer: OwnerProducer, half_watermark: int, op_watermark: int
    ) -> None:
        """Always real offsets: with an empty list the group's generation would not be checked."""
        pair = pair_metadata(half_watermark, op_watermark, self._stamp)
        offsets = [
            TopicPartition(*self._half, half_watermark, pair),
            TopicPartition(*self._op, op_watermark, pair),
        ]
        self._blame.is_ours = True  # should there be none, because the partition is ours no more
        metadata = self._group_metadata()
        self._blame.is_ours = False
        give_up_s = time.monotonic() + _ANSWER_S
        while True:
            progress()
            answer_s = max(_GRACE_S, give_up_s - time.monotonic())
            send = partial(producer.send_offsets_to_transaction, offsets, metadata, answer_s)
            try:
                # Without an end only where leaving does not help any more: the watchdog ends it.
                self._side.call(send, answer_s + _GRACE_S if may_leave(self._op) else None)
            except KafkaException as error:
                is_over = time.monotonic() > give_up_s
                if is_over or judge(error.args[0]).kind is not ErrorClass.RETRIABLE:
                    raise
                producer.suspicion.note(f"the watermarks were sent again: {describe(error)}")
                time.sleep(_RESUME_PAUSE_S)
            else:
                return

    def _leave(self, producer: OwnerProducer) -> str:
        """Its call hangs. Gives the reason; no commit was asked for, the next fence outdates it."""
        self._producer = None
        self._blame.is_ours = True  # a smaller step would hang as well
        leave(producer, self._fresh_side(), self._op, self._on_left)
        reason = (
            "Kafka's client did not come back from sending the watermarks: the broker that was the "
            "coordinator of the owners' group is gone"
        )
        logger.warning(
            "%s; %s-%d goes on with a new producer, this one is left to itself",
            reason,
            *self._half,
            extra={"action": "producer_left"},
        )
        return reason

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
                    reason = self._blame.reason(error)
                    aborted = self._abort(producer)
                    outcome = WriteOutcome.FAIL if aborted else WriteOutcome.UNKNOWN
                    return WriteResult(outcome, reason)
                if kind is ErrorClass.RETRIABLE and time.monotonic() < give_up_s:
                    producer.suspicion.note(f"the commit was asked for again: {describe(error)}")
                    time.sleep(_RESUME_PAUSE_S)
                    continue  # only ever resumed; aborting now would be a guess
                self.close()
                return WriteResult(WriteOutcome.UNKNOWN, self._blame.reason(error))
            except SystemError as error:
                self.close()
                reason = f"Kafka's client does not say what became of the commit: {error}"
                return WriteResult(WriteOutcome.UNKNOWN, reason)
            reached("after_commit")
            # What librdkafka has to say about repeated requests was queued before it returned.
            _serve_callbacks(producer)
            reason = producer.suspicion.end(time.monotonic()) or ""
            if reason:
                self._tell(reason)
            return WriteResult(WriteOutcome.OK, reason, is_suspect=bool(reason))

    def _abort(self, producer: OwnerProducer) -> bool:
        """End the open transaction, let the producer go: a late request must find no heir."""
        progress()
        try:
            producer.abort_transaction(_ANSWER_S)
        except _RAISED as error:
            # Not asked again: the next fence aborts it, and `_CONFLICT` would be asked for ever.
            logger.info("no abort: %s", describe(error), extra={"action": "abort_failed"})
            return False
        finally:
            self.close()
        return True

    def _delivery_failed(self, number: int, error: KafkaError | None, message: Message) -> None:
        if error is None or self._producer is None or number != self._write_count:
            return  # of a producer that is let go: what was purged says nothing about a topic
        self._blame.undelivered(error, message.topic() or "?")

    def _failed(self, reason: str, targets: Sequence[TargetRecord]) -> WriteResult:
        """Surely aborted; say whose fault it is, as far as that is known."""
        self._spells_out = self._spells_out or self._blame.is_unreported
        return self._blame.result(reason, targets)

    # -- beside the steps ------------------------------------------------------------------------

    def leaderless(self, topics: Collection[str]) -> frozenset[str]:
        """See ports.PartitionWriter."""
        return leaderless(self._admin, topics)

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


def _serve_callbacks(producer: OwnerProducer) -> None:
    """Its callbacks. What they raise is its fatal error: it is not to be used any more."""
    try:
        producer.poll(0)
    except _RAISED as error:
        producer.suspicion.note(f"it has failed: {describe(error)}")


def _is_fatal(error: KafkaException) -> bool:
    first = error.args[0]
    return isinstance(first, KafkaError) and first.fatal()
