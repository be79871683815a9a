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
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from halfhitch.adapters.kafka.clients import begin_producing
from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.letting_go import let_go
from halfhitch.adapters.kafka.log_ends import Log
from halfhitch.adapters.kafka.parked_log import Outdated, ParkedReading, fetch
from halfhitch.adapters.kafka.parked_resume import Order, Resumption, user_message
from halfhitch.core.model import Identity
from halfhitch.errors import (
    HalfHitchError,
    InvalidRequest,
    KafkaUnavailable,
    MessageTooLarge,
    OutcomeUnknown,
    ShuttingDown,
    TransactionNotFound,
)
from halfhitch.observability.lines import LineBudget
from halfhitch.ports import ParkedContent
from halfhitch.wire.parked_fold import KEPT_MAX, ParkedAt, ParkedFold, Parking

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
#: Transactions that are put back by one Kafka transaction.
_TOGETHER_MAX: Final = 64
_TOGETHER_BYTES_MAX: Final = 16 * 1_048_576


class KafkaParkedStore:
    """ports.ParkedStore. `make_producer(transactional_id)`: see clients.resume_producer."""

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
        #: Of one transaction alone, the last that was asked for: there are more than can be kept.
        self._alone: tuple[Identity, ParkedReading] | None = None
        self._is_stopped = False
        self._asked_count = 0
        self._waiting: deque[_Asked] = deque()  # at most one for each caller
        self._left_out_lines = LineBudget()

    # -- on the loop -----------------------------------------------------------------------------

    async def parkings(self, identity: Identity | None = None) -> tuple[Sequence[Parking], int]:
        """See ports.ParkedStore."""
        return await self._run(partial(self._parkings, identity))

    async def content(self, identity: Identity) -> tuple[Parking, Sequence[ParkedContent]]:
        """See ports.ParkedStore."""
        return await self._run(partial(self._content, identity))

    async def extent(self) -> Mapping[Log, tuple[int, int]]:
        """Where the topic's logs begin and end. Raises KafkaUnavailable."""
        return await self._on_thread(self._new_reading().extent)

    async def resume(self, identity: Identity, *, reason: str, operator: str) -> Parking:
        """See ports.ParkedStore. What is asked for at the same time shares Kafka transactions."""
        asked = _Asked(identity, reason, operator, Future())
        self._waiting.append(asked)
        await self._run(self._resume_waiting)
        return await asyncio.wrap_future(asked.answer)

    def stop(self) -> None:
        """Take nothing new; what is under way ends soon. Does not wait."""
        self._is_stopped = True
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[[], _T]) -> _T:
        self._asked_count += 1
        try:
            return await self._on_thread(work)
        finally:
            loop = asyncio.get_running_loop()
            loop.call_later(_IDLE_S, self._forget, self._asked_count)

    async def _on_thread(self, work: Callable[[], _T]) -> _T:
        self._check()
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _forget(self, asked_count: int) -> None:
        """Nobody has asked since: what was read is only in the way."""
        if asked_count == self._asked_count:
            self._reading = self._alone = None

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
            reading = self._read_alone(identity, time.monotonic() + _READ_S, _OPEN_S)
        return reading

    def _alone_reading(self, identity: Identity) -> ParkedReading:
        """Of one transaction; it goes on from where it was read before."""
        if self._alone is None or self._alone[0] != identity:
            self._alone = identity, self._new_reading(identity)
        return self._alone[1]

    def _read_alone(
        self, identity: Identity, give_up_s: float, open_wait_s: float = math.inf
    ) -> ParkedReading:
        """What is on record of one transaction."""
        reading = self._alone_reading(identity)
        try:
            reading.read_on(give_up_s, open_wait_s=open_wait_s)
        except Outdated:
            self._alone = None
            reading = self._alone_reading(identity)
            reading.read_on(give_up_s, open_wait_s=open_wait_s)
        return reading

    def _parkings(self, identity: Identity | None) -> tuple[Sequence[Parking], int]:
        fold = self._read(identity).fold
        more = self._left_out_lines.take() if fold.left_out_count else None
        if more is not None:
            logger.warning(
                "%d parked messages are more than can be listed at once; %d were left out%s",
                len(fold) + fold.left_out_count,
                fold.left_out_count,
                more,
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

    def _fetched(self, places: Sequence[ParkedAt]) -> dict[ParkedAt, Any]:
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

    def _resume_waiting(self) -> None:
        """Those that wait, together. What does not go together is tried alone."""
        while self._waiting:
            batch: dict[Identity, _Asked] = {}
            while self._waiting and len(batch) < _TOGETHER_MAX:
                asked = self._waiting.popleft()
                if asked.identity in batch:  # twice: the second after the first
                    self._waiting.appendleft(asked)
                    break
                batch[asked.identity] = asked
            if len(batch) > 1:
                self._resume_some(list(batch.values()))
            for asked in batch.values():
                self._resume_some([asked])

    def _resume_some(self, batch: Sequence["_Asked"]) -> None:
        """Everybody is answered; except that several are left without answer when that failed."""
        left = [asked for asked in batch if not asked.answer.done()]
        try:
            if left:
                self._resume_together(left)
        except HalfHitchError as error:
            if len(left) == 1:
                left[0].fail(error)
        except Exception as error:
            logger.exception("putting back failed", extra={"action": "resume_failed"})
            for asked in left:
                asked.fail(error)

    def _resume_together(self, batch: Sequence["_Asked"]) -> None:
        by_partition: dict[int, list[_Asked]] = {}
        fold = self._read().fold
        has_all = not fold.left_out_count
        for asked in batch:
            fold = fold if has_all else self._read(asked.identity).fold
            try:
                half_partition = _oldest(fold, asked.identity).half_partition
            except TransactionNotFound as error:
                asked.fail(error)
            else:
                by_partition.setdefault(half_partition, []).append(asked)
        for half_partition, some in by_partition.items():
            self._check_partition(half_partition)
            self._put_back(half_partition, some)

    def _put_back(self, half_partition: int, batch: Sequence["_Asked"]) -> None:
        resumption = Resumption(
            self._fenced(half_partition),
            half_topic=self._half_topic,
            op_topic=self._op_topic,
            parked_topic=self._parked_topic,
            timeout_s=self._transaction_timeout_ms / 1000,
        )
        try:
            orders = self._orders(half_partition, batch)
            if not orders:
                return
            try:
                resumption.put_back([order for _, order in orders], self._fetched)
            except OutcomeUnknown:
                for asked, order in orders:
                    self._find_out(asked, order.parking)
                return
        finally:
            resumption.close()
        for asked, order in orders:
            asked.succeed(order.parking)

    def _orders(
        self, half_partition: int, batch: Sequence["_Asked"]
    ) -> list[tuple["_Asked", Order]]:
        """What can be put back in one Kafka transaction. Who is too much is left without answer."""
        parkings = self._still_parked([asked.identity for asked in batch])
        orders: list[tuple[_Asked, Order]] = []
        size_bytes = 0
        for asked in batch:
            parking = parkings.get(asked.identity)
            if parking is None:
                asked.fail(_not_parked(asked.identity))
                continue
            if parking.half_partition != half_partition:
                asked.fail(KafkaUnavailable("somebody was just quicker; look again"))
                continue
            size_bytes += parking.size_bytes
            if orders and size_bytes > _TOGETHER_BYTES_MAX:
                break
            orders.append((asked, Order(parking, asked.reason, asked.operator)))
        return orders

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
        producer = self._make_producer(resumer_id(self._owner_group, half_partition))
        try:
            begin_producing(producer, self._half_topic, _INIT_S)
        except KafkaException as error:
            let_go(producer)
            del producer  # the traceback would keep it alive
            raise KafkaUnavailable(
                f"no Kafka transaction could be begun: {describe(error)}; try again"
            ) from error
        return producer

    def _still_parked(self, identities: Sequence[Identity]) -> dict[Identity, Parking]:
        """Read until nothing of these transactions can be hidden; those that are there.

        What is seen of one was written whole before that, so one more look at the ends of all
        partitions covers the rest of it.
        """
        reading = self._reading
        if reading is None or reading.fold.left_out_count:
            # Then they come one by one.
            is_alone = len(identities) == 1
            reading = self._alone_reading(identities[0]) if is_alone else self._new_reading()
        give_up_s = time.monotonic() + _READ_S
        before: list[frozenset[ParkedAt]] | None = None
        for _ in range(_LOOKS_MAX):
            reading.read_on(give_up_s)
            seen = [reading.fold.places(identity) for identity in identities]
            if seen == before:
                break
            before = seen
        else:
            raise KafkaUnavailable("more and more of their messages are being parked; try again")
        if reading.fold.left_out_count:
            raise KafkaUnavailable("there is more on the parked topic than can be kept")
        found = ((identity, reading.fold.parkings(identity)) for identity in identities)
        return {identity: parkings[0] for identity, parkings in found if parkings}

    def _find_out(self, asked: "_Asked", parking: Parking) -> None:
        """The commit was not confirmed: the topic says what became of it."""
        try:
            let_go(self._fenced(parking.half_partition))
            reading = self._read_alone(parking.identity, time.monotonic() + _READ_S)
        except KafkaUnavailable as error:
            asked.fail(
                OutcomeUnknown(
                    f"Kafka did not confirm that {parking.identity[1]} was put back "
                    f"({error.message}): look with `halfhitch parked list` before you repeat; to "
                    "repeat is safe, it is put back once"
                )
            )
            return
        if reading.fold.places(parking.identity) & {m.place for m in parking.messages}:
            asked.fail(
                KafkaUnavailable(
                    f"{parking.identity[1]} was not put back: Kafka did not take it; try again"
                )
            )
        else:
            asked.succeed(parking)


def resumer_id(owner_group: str, half_partition: int) -> str:
    """The transactional id of whoever puts parked messages back into a half partition."""
    return f"{owner_group}-resume-{half_partition}"


@dataclass(slots=True)
class _Asked:
    """Somebody waits for this to be put back."""

    identity: Identity
    reason: str
    operator: str
    answer: "Future[Parking]"

    def succeed(self, parking: Parking) -> None:
        """Done, once."""
        logger.info(
            "transaction %s of group %s was put back", self.identity[1], self.identity[0],
            extra={"action": "transaction_resumed"},
        )  # fmt: skip
        if self.answer.set_running_or_notify_cancel():
            self.answer.set_result(parking)

    def fail(self, error: BaseException) -> None:
        """Not done, or not known to be."""
        if self.answer.set_running_or_notify_cancel():
            self.answer.set_exception(error)


def _oldest(fold: ParkedFold, identity: Identity) -> Parking:
    found = fold.parkings(identity)
    if not found:
        raise _not_parked(identity)
    return found[0]


def _not_parked(identity: Identity) -> TransactionNotFound:
    return TransactionNotFound(
        f"no transaction {identity[1]} of group {identity[0]} is parked: it never was, or it was "
        "put back before; `halfhitch parked list` shows what is, `halfhitch tx show` what is "
        "undecided"
    )


def _listed(parking: Parking) -> str:
    places = [f"{message.place[0]}-{message.place[1]}" for message in parking.messages]
    return ", ".join(places[:10]) + (" and more" if len(places) > 10 else "")
