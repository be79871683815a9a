"""The one Kafka transaction that puts parked transactions back into their half partition.

Owns what is written, and what each way of failing means. Before the commit was asked for, every
failure is a sure "no": the producer is dropped and the next one's epoch ends what is open. After
that only Kafka's word counts.

An operator's note is stored first: its op offset is the fence of a transaction's new life. What
the op log says before it was said of the former life, except for a decision, which goes along in
the halves. Their age begins anew: the broker's time of the new halves counts.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from halfhitch.adapters.kafka.errors import CLOSE_ERRORS, TOO_LARGE, describe
from halfhitch.adapters.kafka.letting_go import let_go
from halfhitch.core.model import Resolution
from halfhitch.crash_points import reached
from halfhitch.errors import (
    HalfHitchError,
    InvariantViolation,
    KafkaUnavailable,
    MessageTooLarge,
    OutcomeUnknown,
)
from halfhitch.ports import KafkaHeaders, ParkedContent
from halfhitch.wire import headers as names
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import (
    HalfRecord,
    Headers,
    copied_headers,
    system_headers,
    user_headers,
)
from halfhitch.wire.parked import Resumed, note_headers
from halfhitch.wire.parked_fold import ParkedAt, ParkedHalf, Parking

logger = logging.getLogger(__name__)

#: Payloads that are in memory at a time; a single message may be larger.
_CHUNK_BYTES: Final = 16 * 1_048_576
_ABORT_S: Final = 10.0
_DECISIONS: Final = (Resolution.COMMIT.value, Resolution.ROLLBACK.value)


#: The records that lie at these places of the parked topic.
Fetch = Callable[[Sequence[ParkedAt]], Mapping[ParkedAt, Any]]


@dataclass(slots=True)
class Order:
    """Put this back."""

    parking: Parking
    reason: str
    operator: str


class Resumption:
    """One use of an initialised producer."""

    def __init__(
        self,
        producer: Producer,
        *,
        half_topic: str,
        op_topic: str,
        parked_topic: str,
        timeout_s: float,
    ) -> None:
        self._producer: Producer | None = producer
        self._half_topic, self._op_topic, self._parked_topic = half_topic, op_topic, parked_topic
        self._timeout_s = timeout_s
        self._give_up_s = 0.0
        self._failure: KafkaError | None = None
        self._is_committing = False

    def put_back(self, orders: Sequence[Order], fetched: Fetch) -> None:
        """All of them or none. Raises KafkaUnavailable (surely none) or OutcomeUnknown."""
        producer = self._producer
        if producer is None:
            raise InvariantViolation("a producer does one Kafka transaction only")
        self._give_up_s = time.monotonic() + self._timeout_s
        try:
            # Before the Kafka transaction begins: while it is open nobody reads what lies behind it
            # in the op log.
            fetched = _all_at_once(orders, fetched)
            producer.begin_transaction()
            fences = self._noted(producer, orders)
            for order, fence in zip(orders, fences, strict=True):
                self._halves(producer, order.parking, fetched, _life(order.parking, fence))
                self._mark(producer, order, fence)
            self._flush(producer)
        except (KafkaException, BufferError) as error:
            self.close()
            why = describe(error) if isinstance(error, KafkaException) else str(error)
            raise self._refused(why) from error
        except HalfHitchError:
            self.close()
            raise
        reached("before_resume_commit")
        self._commit(producer)

    # -- what is written -------------------------------------------------------------------------

    def _noted(self, producer: Producer, orders: Sequence[Order]) -> list[int]:
        """The op log's account of it; the op offsets."""
        op_offsets: list[int] = []
        for order in orders:
            value, headers = op_wire.write_note(
                order.parking.identity,
                action="resume",
                operator=order.operator,
                reason=order.reason,
            )
            where = (self._op_topic, order.parking.half_partition)
            # Reports come in the order of the log: all notes are for one partition.
            self._produce(producer, where, None, value, headers, op_offsets.append)
        self._flush(producer)
        if len(op_offsets) != len(orders):
            raise KafkaUnavailable("Kafka did not confirm the notes; nothing was put back")
        return op_offsets

    def _halves(
        self,
        producer: Producer,
        parking: Parking,
        fetched: Fetch,
        life: bytes,
    ) -> None:
        """The messages in their order."""
        where = (self._half_topic, parking.half_partition)
        for chunk in _chunks(parking.messages):
            records = fetched([message.place for message in chunk])
            for message in chunk:
                record = records[message.place]
                headers = half_headers(message, record, life)
                self._produce(producer, where, record.key(), record.value(), headers)
            if len(chunk) < len(parking.messages):  # else there is room for all of them
                self._flush(producer)

    def _mark(self, producer: Producer, order: Order, fence: int) -> None:
        """What keeps everybody from doing it again."""
        parking = order.parking
        note = Resumed(
            *parking.identity,
            parking.half_partition,
            [message.place for message in parking.messages],
            parking.resumed_count + 1,
            order.reason,
            order.operator,
            parking.decision,
            fence,
        )
        where = (self._parked_topic, parking.first.place[0])
        self._produce(producer, where, None, None, note_headers(note))

    # -- how it goes -----------------------------------------------------------------------------

    def _produce(
        self,
        producer: Producer,
        where: tuple[str, int],
        key: bytes | None,
        value: bytes | None,
        headers: KafkaHeaders,
        stored: Callable[[int], None] | None = None,
    ) -> None:
        def reported(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self._failure = self._failure or error
            elif stored is not None:
                stored(message.offset())

        produce: Any = producer.produce  # the stubs forbid null header values, Kafka does not
        topic, partition = where
        produce(topic, value, key, partition, reported, headers=headers)

    def _flush(self, producer: Producer) -> None:
        left_s = self._give_up_s - time.monotonic()
        try:
            still_there = producer.flush(max(0.0, left_s)) if left_s > 0 else 1
        except (RuntimeError, SystemError) as error:
            raise KafkaUnavailable(
                f"nothing was put back: somebody else resumes at the same time ({error}); try again"
            ) from error
        if self._failure is not None:
            raise KafkaException(self._failure)
        if still_there:
            raise KafkaUnavailable(
                "Kafka did not take the messages in time; nothing was put back, try again"
            )

    def _refused(self, why: str) -> HalfHitchError:
        if self._failure is not None and self._failure.code() in TOO_LARGE:
            return MessageTooLarge(
                f"{self._half_topic} does not take a message of this size; raise its "
                f"max.message.bytes ({why})"
            )
        return KafkaUnavailable(f"nothing was put back: {why}; try again")

    def _commit(self, producer: Producer) -> None:
        """Asked for until it is known; aborting now would be a guess."""
        self._is_committing = True
        give_up_s = time.monotonic() + self._timeout_s
        while True:
            try:
                producer.commit_transaction(self._timeout_s)
            except KafkaException as error:
                reason: Any = error.args[0]
                if reason.txn_requires_abort():  # EndTxn was not sent
                    self._is_committing = False
                    self.close()
                    raise self._refused(describe(error)) from error
                if reason.retriable() and time.monotonic() < give_up_s:
                    continue
                raise OutcomeUnknown(describe(error)) from error
            except (RuntimeError, SystemError) as error:
                raise OutcomeUnknown(f"Kafka's client says nothing ({error})") from error
            return

    def close(self) -> None:
        """Let the producer go; what was not asked to be committed is aborted. Never raises."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.purge()
            if not self._is_committing:
                producer.abort_transaction(_ABORT_S)
        except CLOSE_ERRORS as error:
            # None was open, or Kafka is away: then the next producer's epoch ends it.
            logger.debug("no abort: %s", error)
        let_go(producer)


def _life(parking: Parking, fence: int) -> bytes:
    """What the new halves say of their new life, in header HALFHITCH_COPY."""
    decided = parking.decision in _DECISIONS
    record = HalfRecord(
        parking.identity[1],
        parking.identity[0],
        index=0,
        born_ms=0,
        instance="",
        target_topic="",
        first_stored_ms=0,  # the halves' own time counts
        resumed_count=parking.resumed_count + 1,
        fence=fence,
        born=Resolution(parking.decision) if decided else None,
        # As many as the decision covered: what is incomplete does not become whole by being put
        # back. By the highest index and not by their number, where the record does not say.
        born_count=_covered_count(parking) if decided else 0,
    )
    return dict(system_headers(record))[names.HALFHITCH_COPY] or b""


def _covered_count(parking: Parking) -> int:
    return max(parking.first.why.covered_count, parking.messages[-1].index + 1)


def half_headers(message: ParkedHalf, record: Any, life: bytes) -> Headers:
    """Of the half record that a parked message becomes: unchecked, new, the user's as before."""
    headers = copied_headers(
        _half_headers(record.headers()), message.why.half_offset, check_count=0, stored_ms=0
    )
    return [(name, life if name == names.HALFHITCH_COPY else value) for name, value in headers]


def user_message(message: ParkedHalf, record: Any) -> ParkedContent:
    """The message as its producer gave it."""
    return ParkedContent(
        message.topic,
        message.partition,
        record.key(),
        record.value(),
        user_headers(_half_headers(record.headers())),
    )


def _half_headers(headers: KafkaHeaders) -> Headers:
    return [header for header in headers if header[0] != names.HALFHITCH_PARKED]


def _all_at_once(orders: Sequence[Order], fetched: Fetch) -> Fetch:
    """Many small transactions are read in one go."""
    if sum(order.parking.size_bytes for order in orders) > _CHUNK_BYTES:
        return fetched
    found = fetched([m.place for order in orders for m in order.parking.messages])
    return lambda _: found


def _chunks(messages: Sequence[ParkedHalf]) -> Iterator[Sequence[ParkedHalf]]:
    chunk: list[ParkedHalf] = []
    size_bytes = 0
    for message in messages:
        if chunk and size_bytes + message.size_bytes > _CHUNK_BYTES:
            yield chunk
            chunk, size_bytes = [], 0
        chunk.append(message)
        size_bytes += message.size_bytes
    if chunk:
        yield chunk
