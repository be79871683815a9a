"""Reading the op log on instances that do not own the partition.

`KafkaOpTail` follows op partitions while somebody waits there for a done mark; `KafkaInquiry` looks
one transaction up. Both read committed records only, by hand-made assignment, outside the group's
life.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.kept_consumers import KeptConsumers
from halfhitch.adapters.kafka.kept_logs import KEPT_S, KeptLog, KeptLogs
from halfhitch.adapters.kafka.log_ends import Log, LogEnds
from halfhitch.adapters.kafka.readable import headers_of
from halfhitch.adapters.kafka.scan import LogTrimmed, NotInTime, records
from halfhitch.core.early import EARLY_MS
from halfhitch.core.model import HalfRead, Identity, Resolution
from halfhitch.errors import HalfHitchError, KafkaUnavailable, TransactionGone
from halfhitch.service.transactions.first import LookedUp
from halfhitch.service.transactions.looking_up import Look, Told, told_in
from halfhitch.service.transactions.visibility import Visibility
from halfhitch.threads import Threads
from halfhitch.wire import half as half_wire
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage

logger = logging.getLogger(__name__)

_POLL_S: Final = 0.1
#: After the last waiter has gone the tail lingers: the next one is likely to come.
_LINGER_S: Final = 20.0
_ANSWER_S: Final = 5.0
_LOOK_UP_S: Final = 10.0
#: Each reads for as long as that, and other work must not wait for it.
_THREADS: Final = 4
_CALLS_MAX: Final = 128

_GONE: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})


class KafkaOpTail:
    """transactions.visibility.OpTail: a consumer and a thread, alive only while somebody waits."""

    def __init__(self, make_consumer: Callable[[], Consumer], *, op_topic: str) -> None:
        self._make_consumer = make_consumer
        self._op_topic = op_topic
        self._visibility: Visibility | None = None
        self._lock = threading.Lock()
        self._asked: dict[int, int] = {}  # partition -> offset, not yet assigned
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def attach(self, visibility: Visibility) -> None:
        """Who is to be told."""
        self._visibility = visibility

    def follow(self, partition: int, from_op_offset: int) -> None:
        """See service.transactions.visibility.OpTail."""
        with self._lock:
            earlier = self._asked.get(partition)
            self._asked[partition] = (
                from_op_offset if earlier is None else min(earlier, from_op_offset)
            )
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._run, name="op-tail", daemon=True)
                self._thread.start()

    def stop(self, wait_s: float) -> None:
        """End the thread, if there is one."""
        self._stopping.set()
        thread = self._thread
        if thread is not None:
            thread.join(wait_s)

    def _run(self) -> None:
        consumer: Consumer | None = None
        positions: dict[int, int] = {}
        idle_since_s = time.monotonic()
        try:
            consumer = self._make_consumer()
            while not self._stopping.is_set():
                self._take_asked(consumer, positions)
                message = consumer.poll(_POLL_S)
                if message is not None and message.error() is not None:
                    self._event(consumer, message)
                elif message is not None:
                    self._tell(message, positions)
                visibility = self._visibility
                if visibility is not None and any(map(visibility.is_waited_for, positions)):
                    idle_since_s = time.monotonic()
                elif time.monotonic() - idle_since_s > _LINGER_S and self._retire():
                    return
        except Exception as error:  # a dead thread would look like a busy one
            known = isinstance(error, KafkaException)
            logger.warning(
                "the op log cannot be followed: %s",
                describe(error) if isinstance(error, KafkaException) else error,
                exc_info=None if known else error,
                extra={"action": "op_tail_failed"},
            )
            self._retire(force=True)
        finally:
            if consumer is not None:
                consumer.close()

    def _retire(self, *, force: bool = False) -> bool:
        """End this thread unless somebody has asked meanwhile; the next who asks starts another."""
        with self._lock:
            if self._asked and not force:
                return False
            self._thread = None
            return True

    def _take_asked(self, consumer: Consumer, positions: dict[int, int]) -> None:
        with self._lock:
            asked, self._asked = self._asked, {}
        for partition, from_op_offset in asked.items():
            known = positions.get(partition)
            if known is not None and known <= from_op_offset:
                continue  # what is asked for is still to come
            where = TopicPartition(self._op_topic, partition, from_op_offset)
            if known is None:
                consumer.incremental_assign([where])
            else:
                consumer.seek(where)
            positions[partition] = from_op_offset

    def _event(self, consumer: Consumer, message: Any) -> None:
        """End of log or reconnecting: nothing to do. Below the log's start: go on where it begins.

        What was deleted there was done long ago; without this nothing would be read any more.
        """
        if message.error().code() in _GONE:
            where = TopicPartition(self._op_topic, message.partition(), OFFSET_BEGINNING)
            consumer.incremental_unassign([where])
            consumer.incremental_assign([where])

    def _tell(self, message: Any, positions: dict[int, int]) -> None:
        partition = message.partition()
        op_offset = message.offset()
        positions[partition] = op_offset + 1
        events = op_wire.read(op_offset, 0, message.value(), headers_of(message))
        if not isinstance(events, Garbage) and self._visibility is not None:
            self._visibility.read(partition, events)


class KafkaInquiry:
    """service.transactions.first.Inquiry: reads the op log from the half's own time on."""

    def __init__(
        self,
        make_consumer: Callable[[], Consumer],
        ends: LogEnds,
        *,
        half_topic: str,
        op_topic: str,
    ) -> None:
        self._consumers = KeptConsumers(make_consumer)
        self._ends = ends
        self._half_topic = half_topic
        self._op_topic = op_topic
        self._kept = KeptLogs[Told]()
        self._threads = Threads("read the logs", _THREADS, calls_max=_CALLS_MAX)
        #: Whoever only looks keeps nobody waiting who ends something.
        self._viewing = Threads("look a transaction up", _THREADS, calls_max=_CALLS_MAX)

    def stop(self) -> None:
        """Look nothing up any more."""
        self._threads.stop()
        self._viewing.stop()
        self._consumers.stop()

    async def look_up(
        self, partition: int, identity: Identity, half_offset: int
    ) -> tuple[Resolution | None, bool]:
        """See service.transactions.first.Inquiry. Takes a thread for as long as it reads."""
        asked = {identity: half_offset}
        found = (await self._viewing.call(self._look_up, partition, asked))[identity]
        if isinstance(found, HalfHitchError):
            raise found
        return found

    async def look_up_many(
        self, partition: int, half_offsets: Mapping[Identity, int], seen_ms: int | None = None
    ) -> dict[Identity, LookedUp]:
        """See service.transactions.first.Inquiry. The logs are read once for all of them, and with
        `seen_ms` the op log once for requests that follow each other."""
        if seen_ms is not None:
            asyncio.get_running_loop().call_later(_LOOK_UP_S + KEPT_S, self._kept.forget_idle)
        return await self._threads.call(self._look_up, partition, half_offsets, seen_ms)

    def _look_up(
        self, partition: int, half_offsets: Mapping[Identity, int], seen_ms: int | None = None
    ) -> dict[Identity, LookedUp]:
        looks = {identity: Look(at) for identity, at in half_offsets.items()}
        try:
            with self._consumers.lent() as consumer:
                halves, half_start = self._halves_patiently(consumer, partition, half_offsets)
                for identity, half in halves.items():
                    looks[identity].begin(half)
                times_ms = [looks[identity].began_ms for identity in halves]
                if len(halves) < len(looks) and seen_ms is not None:
                    times_ms.append(seen_ms)
                if times_ms:
                    # A decision may lie before its half, and clocks of two brokers need not agree.
                    start = self._since(consumer, partition, max(0, min(times_ms) - EARLY_MS))
                    self._decided(consumer, start, partition, looks, keeps=seen_ms is not None)
                trimmed = {
                    identity: Look(half_offsets[identity])
                    for identity, look in looks.items()
                    if identity not in halves
                    and half_offsets[identity] < half_start
                    and not look.told[1]
                }
                if trimmed and seen_ms is None:
                    looks |= trimmed
                    self._ended(consumer, partition, trimmed)
        except KafkaException as error:
            raise KafkaUnavailable(f"the logs cannot be read: {describe(error)}") from error
        # Of one whose messages are gone it counts only that it is done: how it was decided may lie
        # before what was read.
        return {
            identity: look.refusal
            or (look.told if identity in halves or look.told[1] else _gone(identity))
            for identity, look in looks.items()
        }

    def _since(self, consumer: Consumer, partition: int, since_ms: int) -> int:
        """The first op record that was stored then or later, or where it would be."""
        log = self._op_topic, partition
        # Asked before: Kafka finds nothing as well where a Kafka transaction that is open hides it.
        readable = self._ends.readable([log])[log]
        asked = [TopicPartition(*log, since_ms)]
        start = int(consumer.offsets_for_times(asked, _ANSWER_S)[0].offset)
        return readable if start < 0 else start

    def _ended(self, consumer: Consumer, partition: int, looks: Mapping[Identity, Look]) -> None:
        """Of those whose messages are gone: how they ended may lie anywhere in what is left."""
        try:
            self._decided(
                consumer, self._since(consumer, partition, 0), partition, looks, keeps=False
            )
        except NotInTime as error:
            for look in looks.values():
                if not look.told[1]:  # the others need not wait until it can be read
                    look.refusal = error

    def _halves_patiently(
        self, consumer: Consumer, partition: int, half_offsets: Mapping[Identity, int]
    ) -> tuple[dict[Identity, HalfRead], int]:
        give_up_s = time.monotonic() + _LOOK_UP_S
        while True:
            try:
                return self._halves(consumer, partition, half_offsets)
            except LogTrimmed:  # by its owner: what is done needs no messages
                if time.monotonic() > give_up_s:
                    raise

    def _halves(
        self, consumer: Consumer, partition: int, half_offsets: Mapping[Identity, int]
    ) -> tuple[dict[Identity, HalfRead], int]:
        """The half of each, or the copy of it that says most; those that are gone are missing. And
        where the log begins."""
        log, found = (self._half_topic, partition), dict[Identity, HalfRead]()
        low, _ = consumer.get_watermark_offsets(TopicPartition(*log), _ANSWER_S)
        end = self._ends.existing([log])[log]
        there = {identity: at for identity, at in half_offsets.items() if low <= at < end}
        if there:
            self._find(consumer, log, (min(there.values()), max(there.values()) + 1), there, found)
        # Of the others the first copy is deleted. It may have been appended anew, by a check or
        # because it was old; what is still pending lies somewhere in what is left of the log.
        moved = {identity: None for identity, at in half_offsets.items() if at < low}
        if moved:
            self._find(consumer, log, (low, end), moved, found)
        return found, low

    def _find(
        self,
        consumer: Consumer,
        log: Log,
        run: tuple[int, int],
        wanted: Mapping[Identity, int | None],
        found: dict[Identity, HalfRead],
    ) -> None:
        """These records, by transaction; None: the one that says most, wherever it lies."""
        left = dict(wanted)
        for message in records(consumer, log, *run, time.monotonic() + _LOOK_UP_S):
            stored_ms = int(message.timestamp()[1])
            half = half_wire.read_identity(message.offset(), stored_ms, 0, headers_of(message))
            if isinstance(half, Garbage) or half.identity not in left:
                continue
            if left[half.identity] is None:
                known = found.get(half.identity)
                if known is None or _says(half) > _says(known):
                    found[half.identity] = half
            elif left[half.identity] == message.offset():
                found[half.identity] = half
                del left[half.identity]
                if not left:
                    return

    def _decided(
        self,
        consumer: Consumer,
        start: int,
        partition: int,
        looks: Mapping[Identity, Look],
        *,
        keeps: bool,
    ) -> None:
        log = (self._op_topic, partition)
        give_up_s = time.monotonic() + _LOOK_UP_S
        if not keeps:  # callers that conflict must not wait for each other
            end = self._ends.existing([log])[log]
            self._read_on(consumer, log, KeptLog(start, 0), end, give_up_s, dict(looks))
            return
        with self._kept.lent(partition, give_up_s) as lent:
            end = self._ends.existing([log])[log]
            kept = lent.begin(start, end)
            left = {
                identity: look
                for identity, look in looks.items()
                if not any(map(look.take, kept.of(identity, start)))
            }
            self._read_on(consumer, log, kept, end, give_up_s, left)

    def _read_on(
        self,
        consumer: Consumer,
        log: Log,
        kept: KeptLog[Told],
        end: int,
        give_up_s: float,
        left: dict[Identity, Look],
    ) -> None:
        if not left:
            return
        for message in records(consumer, log, kept.read_to, end, give_up_s):
            at = message.offset()
            stored_ms = int(message.timestamp()[1])
            for event in told_in(at, stored_ms, message.value(), headers_of(message)):
                if not kept.is_full:
                    kept.put(at, event.identity, event)
                if event.identity in left and left[event.identity].take(event):
                    del left[event.identity]
            kept.read_to = at + 1
            if not left:
                return
        kept.read_to = end


def _says(half: HalfRead) -> tuple[int, bool, int]:
    """Of two copies the newer life's tells more, then the one that says how it was decided."""
    first = half.half_offset if half.first_half_offset < 0 else half.first_half_offset
    return half.resumed_count, half.born is not None, -first


def _gone(identity: Identity) -> TransactionGone:
    return TransactionGone(
        f"the half messages of transaction {identity[1]} are no longer in the log: it ended "
        "long ago"
    )
