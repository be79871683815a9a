"""The parked topic for operators: what is parked, its content, and putting it back.

Putting back is exactly once for each parked message, whatever crashes and whoever else tries:

1. A new producer with the transactional id of the half partition is initialised. That ends what a
   rival left open, and no rival can commit any more without being seen in step 2.
2. The topic is read to its end. Whoever has put the messages back before left a note there.
3. The operator's note, the halves (with the decision, if there is one) and the note `resumed` are
   written in ONE Kafka transaction.

A producer does one Kafka transaction and goes: a late EndTxn of librdkafka finds an older epoch.

Everything blocks on one thread of the store's own. Memory: see ParkedFold; it is given back a
minute after the last question.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.parked_log import Outdated, ParkedReading, fetch
from halfhitch.adapters.kafka.parked_resume import CLOSE_ERRORS, Resumption, user_message
from halfhitch.core.model import Identity
from halfhitch.errors import (
    InvalidRequest,
    KafkaUnavailable,
    MessageTooLarge,
    OutcomeUnknown,
    ShuttingDown,
    TransactionNotFound,
)
from halfhitch.ports import ParkedContent
from halfhitch.wire.parked_fold import KEPT_MAX, ParkedFold, Parking, Place

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: For reading the whole topic; what was read in vain is not read again.
_READ_S: Final = 30.0
_INIT_S: Final = 10.0
#: To look at what is parked does not wait longer for Kafka transactions that are open there.
_OPEN_S: Final = 2.0
#: Content that is shown at once; more is for a consumer of the topic.
CONTENT_BYTES_MAX: Final = 32 * 1_048_576
#: What was read is forgotten when nobody has asked for so long.
_IDLE_S: Final = 60.0
#: Kafka transactions of others may be seen in one partition and not yet in another.
_LOOKS_MAX: Final = 20


class KafkaParkedStore:
    """ports.ParkedStore. `make_producer` takes the transactional id."""

    def __init__(
        self,
        make_consumer: Callable[[], Consumer],
        make_producer: Callable[[str], Producer],
        admin: Callable[[], AdminClient],
        *,
        half_topic: str,
        op_topic: str,
        parked_topic: str,
        owner_group: str,
        transaction_timeout_ms: int,
        kept_max: int = KEPT_MAX,
    ) -> None:
        self._make_consumer = make_consumer
        self._make_producer = make_producer
        self._admin = admin
        self._half_topic, self._op_topic, self._parked_topic = half_topic, op_topic, parked_topic
        self._owner_group = owner_group
        self._transaction_timeout_ms = transaction_timeout_ms
        self._kept_max = kept_max
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="parked")
        self._reading: ParkedReading | None = None
        self._is_stopped = False
        self._asked_count = 0

    # -- on the loop -----------------------------------------------------------------------------

    async def parkings(self, identity: Identity | None = None) -> tuple[Sequence[Parking], int]:
        """See ports.ParkedStore."""
        return await self._run(partial(self._parkings, identity))

    async def content(self, identity: Identity) -> tuple[Parking, Sequence[ParkedContent]]:
        """See ports.ParkedStore."""
        return await self._run(partial(self._content, identity))

    async def resume(self, identity: Identity, *, reason: str, operator: str) -> Parking:
        """See ports.ParkedStore."""
        return await self._run(partial(self._resume, identity, reason, operator))

    def stop(self) -> None:
        """Take nothing new; what is under way ends soon. Does not wait."""
        self._is_stopped = True
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[[], _T]) -> _T:
        if self._is_stopped:
            raise ShuttingDown("this instance is stopping; ask another one")
        loop = asyncio.get_running_loop()
        self._asked_count += 1
        try:
            return await loop.run_in_executor(self._executor, work)
        finally:
            loop.call_later(_IDLE_S, self._forget, self._asked_count)

    def _forget(self, asked_count: int) -> None:
        """Nobody has asked since: what was read is only in the way."""
        if asked_count == self._asked_count:
            self._reading = None

    # -- on the thread ---------------------------------------------------------------------------

    def _check(self) -> None:
        if self._is_stopped:
            raise ShuttingDown("this instance is stopping; ask another one")

    def _new_reading(self, only: Identity | None = None) -> ParkedReading:
        return ParkedReading(
            self._make_consumer,
            self._admin(),
            topic=self._parked_topic,
            fold=ParkedFold(kept_max=self._kept_max, only=only),
            check=self._check,
        )

    def _read(self, identity: Identity | None = None) -> ParkedReading:
        """Everything up to now; or one transaction, where there is more than can be kept."""
        give_up_s = time.monotonic() + _READ_S
        reading = self._reading = self._reading or self._new_reading()
        try:
            reading.read_on(give_up_s, open_wait_s=_OPEN_S)
        except Outdated:
            reading = self._reading = self._new_reading()
            reading.read_on(give_up_s, open_wait_s=_OPEN_S)
        left_out = reading.fold.left_out_count
        if left_out and len(reading.fold) < self._kept_max // 2:
            reading = self._reading = self._new_reading()  # there is room again
            reading.read_on(give_up_s, open_wait_s=_OPEN_S)
        if identity is not None and reading.fold.left_out_count:
            reading = self._new_reading(identity)
            reading.read_on(give_up_s, open_wait_s=_OPEN_S)
        return reading

    def _parkings(self, identity: Identity | None) -> tuple[Sequence[Parking], int]:
        fold = self._read(identity).fold
        if fold.left_out_count:
            logger.warning(
                "%d parked messages are more than can be listed at once; %d were left out",
                len(fold) + fold.left_out_count,
                fold.left_out_count,
                extra={"action": "parked_left_out"},
            )
        return fold.parkings(identity), fold.left_out_count

    def _content(self, identity: Identity) -> tuple[Parking, Sequence[ParkedContent]]:
        parking = _oldest(self._read(identity).fold, identity)
        if parking.size_bytes > CONTENT_BYTES_MAX:
            raise MessageTooLarge(
                f"the messages of {identity[1]} take {parking.size_bytes} bytes, more than can be "
                f"shown at once: read {self._parked_topic} from {_listed(parking)} (partition-"
                "offset) with a consumer"
            )
        messages = parking.messages
        found = self._fetched([message.place for message in messages])
        return parking, [user_message(message, found[message.place]) for message in messages]

    def _fetched(self, places: Sequence[Place]) -> dict[Place, Any]:
        consumer = self._make_consumer()
        try:
            found = fetch(consumer, self._parked_topic, places, time.monotonic() + _READ_S)
        except KafkaException as error:
            raise KafkaUnavailable(
                f"{self._parked_topic} cannot be read: {describe(error)}"
            ) from error
        finally:
            consumer.close()
        if len(found) < len(places):
            raise TransactionNotFound(
                f"messages of this transaction are gone from {self._parked_topic}: somebody has "
                "deleted records there"
            )
        return found

    # -- putting back ----------------------------------------------------------------------------

    def _resume(self, identity: Identity, reason: str, operator: str) -> Parking:
        half_partition = _oldest(self._read(identity).fold, identity).half_partition
        self._check_partition(half_partition)
        producer = self._fenced(half_partition)
        resumption = Resumption(
            producer,
            half_topic=self._half_topic,
            op_topic=self._op_topic,
            parked_topic=self._parked_topic,
            timeout_s=self._transaction_timeout_ms / 1000,
        )
        try:
            parking = self._still_parked(identity, half_partition)
            try:
                resumption.put_back(parking, self._fetched, reason=reason, operator=operator)
            except OutcomeUnknown:
                self._find_out(parking)
        finally:
            resumption.close()
        logger.info(
            "transaction %s of group %s was put back by %s: %s", identity[1], identity[0], operator,
            reason, extra={"action": "transaction_resumed"},
        )  # fmt: skip
        return parking

    def _check_partition(self, half_partition: int) -> None:
        try:
            found = self._admin().list_topics(self._half_topic, 5.0).topics[self._half_topic]
        except KafkaException as error:
            raise KafkaUnavailable(f"Kafka does not answer: {describe(error)}") from error
        if found.error is None and half_partition not in found.partitions:
            raise InvalidRequest(
                f"it belongs to half partition {half_partition}, and {self._half_topic} has only "
                f"{len(found.partitions)}: give the topic its partitions back, or export the "
                "messages (halfhitch parked export) and send them anew"
            )

    def _fenced(self, half_partition: int) -> Producer:
        producer = self._make_producer(f"{self._owner_group}-resume-{half_partition}")
        try:
            producer.init_transactions(_INIT_S)
        except KafkaException as error:
            _let_go(producer)
            raise KafkaUnavailable(
                f"no Kafka transaction could be begun: {describe(error)}; try again"
            ) from error
        return producer

    def _still_parked(self, identity: Identity, half_partition: int) -> Parking:
        """Read until nothing of this transaction can be hidden, then look whether it is there.

        What is seen of it was written whole before that, so one more look at the ends of all
        partitions covers the rest of it.
        """
        reading = self._reading
        if reading is None or reading.fold.left_out_count:
            reading = self._new_reading(identity)
        give_up_s = time.monotonic() + _READ_S
        seen: frozenset[Place] | None = None
        for _ in range(_LOOKS_MAX):
            before, seen = seen, None
            reading.read_on(give_up_s)
            seen = reading.fold.places(identity)
            if seen == before:
                break
        else:
            raise KafkaUnavailable(
                f"more and more messages of {identity[1]} are being parked; try again"
            )
        parking = _oldest(reading.fold, identity)
        if parking.half_partition != half_partition:
            raise KafkaUnavailable(f"{identity[1]} was just put back by somebody else; look again")
        return parking

    def _find_out(self, parking: Parking) -> None:
        """The commit was not confirmed: the topic says what became of it. Raises if it does not."""
        try:
            _let_go(self._fenced(parking.half_partition))
            reading = self._new_reading(parking.identity)
            reading.read_on(time.monotonic() + _READ_S)
        except KafkaUnavailable as error:
            raise OutcomeUnknown(
                f"Kafka did not confirm that {parking.identity[1]} was put back ({error.message}): "
                "look with `halfhitch parked list` before you repeat; to repeat is safe, it is put "
                "back once"
            ) from error
        if reading.fold.places(parking.identity) & {m.place for m in parking.messages}:
            raise KafkaUnavailable(
                f"{parking.identity[1]} was not put back: Kafka did not take it; try again"
            )


def _oldest(fold: ParkedFold, identity: Identity) -> Parking:
    found = fold.parkings(identity)
    if not found:
        raise TransactionNotFound(
            f"no transaction {identity[1]} of group {identity[0]} is parked: it never was, or it "
            "was put back before; `halfhitch parked list` shows what is, `halfhitch tx show` what "
            "is undecided"
        )
    return found[0]


def _listed(parking: Parking) -> str:
    places = [f"{message.place[0]}-{message.place[1]}" for message in parking.messages]
    return ", ".join(places[:10]) + (" and more" if len(places) > 10 else "")


def _let_go(producer: Producer) -> None:
    try:
        producer.purge()
        producer.close()
    except CLOSE_ERRORS as error:
        logger.debug("a producer did not close cleanly: %s", error)
