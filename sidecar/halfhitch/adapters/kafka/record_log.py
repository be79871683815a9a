"""Appends from the event loop: to the half and op topics, and plain messages to users' topics.

Records of one partition gather while others of it are on their way, and leave together. An
idempotent producer may have five messages of a partition in flight; handed more, its broker thread
spins on the partition's lock and fights with the loop for it.

One idempotent producer, one thread that polls it. Delivery reports arrive on that thread in bursts;
they are put into a queue and the loop is woken once for each burst, because a wake-up costs more
than a report.

A fatal error of an idempotent producer is final for that producer only: it is replaced, and what
was in flight is answered as unknown.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from halfhitch.adapters.kafka.errors import CLOSE_ERRORS, append_error, describe, message_error
from halfhitch.adapters.kafka.letting_go import let_go
from halfhitch.adapters.watchdog import progress
from halfhitch.errors import HalfHitchError, KafkaUnavailable, OutcomeUnknown, Overloaded
from halfhitch.ports import KafkaHeaders

logger = logging.getLogger(__name__)

_POLL_S = 0.2
#: Between two new producers: what makes every one fail at once must not keep a processor busy.
_REPLACE_S: Final = 1.0

#: More than this waiting for one partition is refused: Kafka does not keep up.
_WAITING_MAX: Final = 50_000

#: Kafka's client takes it for: choose one.
_ANY_PARTITION: Final = -1

Result = int | tuple[int, int] | HalfHitchError
#: Of one record: its offset, or partition and offset where nobody knows the partition beforehand.
_Answer = asyncio.Future[Any]
_Waiting = tuple[_Answer, bytes | None, bytes | None, KafkaHeaders]


@dataclass(slots=True)
class _Lane:
    """What waits and what is on its way for one partition; belongs to the loop."""

    topic: str
    partition: int
    is_plain: bool = False  # a topic of the users
    waiting: list[_Waiting] = field(default_factory=list)
    in_flight: int = 0
    is_due: bool = False  # it will be sent when the loop comes round
    sent_s: float = 0.0  # when what is on its way was handed over

    def error(self, error: KafkaError) -> HalfHitchError:
        """Why an append failed."""
        return (message_error if self.is_plain else append_error)(error, self.topic)


def _unheard(_: float) -> None:
    """Nobody wants to know."""


class KafkaRecordLog:
    """ports.RecordLog over a producer. Start and use it on one event loop."""

    def __init__(
        self,
        make_producer: Callable[[], Producer],
        *,
        half_topic: str,
        op_topic: str,
        on_answered: Callable[[float], None] = _unheard,
    ) -> None:
        self._make_producer = make_producer
        self._half_topic = half_topic
        self._op_topic = op_topic
        self._on_answered = on_answered  # on the loop: what was sent together has taken so long
        self._producer: Any = make_producer()  # the stubs forbid null header values, Kafka does not
        # Bounded by what is in flight.
        self._reports: deque[tuple[_Lane, _Answer, Result]] = deque()
        self._lanes: dict[tuple[str, int], _Lane] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = threading.Event()
        self._broken = threading.Event()
        self._replaced_s = -_REPLACE_S
        self._poller = threading.Thread(target=self._poll, name="record-log", daemon=True)

    def start(self) -> None:
        """Begin polling; call on the event loop."""
        self._loop = asyncio.get_running_loop()
        self._poller.start()

    @property
    def is_alive(self) -> bool:
        """False when the thread has died: nothing is acknowledged, and only a restart helps."""
        return self._poller.is_alive()

    @property
    def queued_count(self) -> int:
        """Records that wait or are on their way. On any thread."""
        return sum(len(lane.waiting) + lane.in_flight for lane in self._lanes.copy().values())

    async def stop(self, drain_s: float) -> None:
        """Wait for what is in flight, at most `drain_s`, then stop the thread."""
        give_up_s = time.monotonic() + drain_s
        while any(lane.waiting for lane in self._lanes.values()):
            if time.monotonic() > give_up_s:
                break
            await asyncio.sleep(0.01)
        await asyncio.to_thread(_quietly, self._producer.flush, drain_s)
        self._stopping.set()
        await asyncio.to_thread(self._poller.join, _POLL_S * 5)
        self._deliver()
        await asyncio.to_thread(_quietly, self._producer.close)

    def append_half(
        self, partition: int, key: bytes | None, value: bytes | None, headers: KafkaHeaders
    ) -> "asyncio.Future[int]":
        """See ports.RecordLog."""
        return self._append(self._half_topic, partition, key, value, headers)

    def append_op(
        self, partition: int, value: bytes, headers: KafkaHeaders
    ) -> "asyncio.Future[int]":
        """See ports.RecordLog."""
        return self._append(self._op_topic, partition, None, value, headers)

    def append_message(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: KafkaHeaders,
    ) -> "asyncio.Future[tuple[int, int]]":
        """See ports.RecordLog."""
        where = _ANY_PARTITION if partition is None else partition
        return self._append(topic, where, key, value, headers, is_plain=True)

    def _append(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: KafkaHeaders,
        *,
        is_plain: bool = False,
    ) -> "asyncio.Future[Any]":
        assert self._loop is not None, "start() first"
        future: asyncio.Future[Any] = self._loop.create_future()
        lane = self._lanes.get((topic, partition))
        if lane is None:
            lane = self._lanes[topic, partition] = _Lane(topic, partition, is_plain)
        if len(lane.waiting) >= _WAITING_MAX:
            future.set_exception(_overloaded())
            return future
        lane.waiting.append((future, key, value, headers))
        if lane.in_flight == 0 and not lane.is_due:
            self._send_soon(self._loop, lane)
        return future

    def _send_soon(self, loop: asyncio.AbstractEventLoop, lane: _Lane) -> None:
        """Whatever else is appended in this round of the loop goes along."""
        lane.is_due = True
        loop.call_soon(self._send, lane)

    def _send(self, lane: _Lane) -> None:
        lane.is_due = False
        waiting, lane.waiting = lane.waiting, []
        lane.sent_s = time.monotonic()
        produce, topic, partition = self._producer.produce, lane.topic, lane.partition
        for future, key, value, headers in waiting:
            report = partial(self._delivered, lane, future)
            try:
                produce(topic, value, key, partition, report, headers=headers)
                lane.in_flight += 1
            except BufferError:
                future.set_exception(_overloaded())
            except KafkaException as error:
                future.set_exception(lane.error(error.args[0]))

    def _delivered(
        self, lane: _Lane, future: _Answer, error: KafkaError | None, message: Any
    ) -> None:
        """On the polling thread; must not raise (librdkafka would lose the report)."""
        if error is None:
            log_offset = message.offset()
            result: Result = _lost_offset(lane.is_plain) if log_offset is None else log_offset
            if lane.is_plain and log_offset is not None:
                result = (message.partition(), log_offset)
            self._reports.append((lane, future, result))
            return
        if error.fatal():
            self._broken.set()
        self._reports.append((lane, future, lane.error(error)))

    def _poll(self) -> None:
        assert self._loop is not None
        while not self._stopping.is_set():
            progress()
            self._serve_callbacks()
            if self._reports:
                try:
                    self._loop.call_soon_threadsafe(self._deliver)
                except RuntimeError:  # the loop is closed; nobody waits any more
                    return
            if self._broken.is_set():
                self._replace()

    def _serve_callbacks(self) -> None:
        """Callbacks of the producer. Its fatal error is raised by whatever serves them."""
        try:
            self._producer.poll(_POLL_S)
        except (KafkaException, SystemError) as error:
            logger.warning(
                "the record producer has failed: %s",
                describe(error),
                extra={"action": "record_producer_failed"},
            )
            self._broken.set()

    def _replace(self) -> None:
        """After a fatal error: purge what is left (answered as unknown) and begin anew."""
        self._stopping.wait(max(0.0, self._replaced_s + _REPLACE_S - time.monotonic()))
        self._replaced_s = time.monotonic()
        self._broken.clear()
        logger.error(
            "the record producer met a fatal error and is replaced",
            extra={"action": "record_producer_replaced"},
        )
        broken, self._producer = self._producer, self._make_producer()
        # Its reports are put into the same queue. Not by `flush`, which raises the error again.
        let_go(broken)

    def _deliver(self) -> None:
        """On the loop: answer everyone whose report has come, send what has gathered meanwhile."""
        reports = self._reports
        for _ in range(len(reports)):
            lane, future, result = reports.popleft()
            lane.in_flight -= 1
            if lane.in_flight == 0:
                self._on_answered(time.monotonic() - lane.sent_s)
                if lane.waiting and not lane.is_due and self._loop is not None:
                    self._send_soon(self._loop, lane)
            if future.done():  # whoever waited has gone
                continue
            if isinstance(result, HalfHitchError):
                future.set_exception(result)
            else:
                future.set_result(result)

    def probe(self) -> None:
        """Raise KafkaUnavailable unless the brokers answer; blocks, call it on a thread."""
        try:
            self._producer.list_topics(self._half_topic, 3.0)
        except KafkaException as error:
            raise KafkaUnavailable(f"Kafka does not answer: {describe(error)}") from error


def _quietly(call: Callable[..., object], *arguments: object) -> None:
    """At the end, when a producer that has failed may say so once more."""
    try:
        call(*arguments)
    except CLOSE_ERRORS as error:
        logger.debug("the record producer did not end cleanly: %s", error)


def _lost_offset(is_plain: bool) -> OutcomeUnknown:  # noqa: FBT001 - one fact
    """An earlier try was stored, and the broker remembers that, but not where."""
    advice = (
        "sending it again would store it twice"
        if is_plain
        else "repeat the request with the same transaction id: that is safe"
    )
    return OutcomeUnknown(f"Kafka has stored the record and cannot say where; {advice}")


def _overloaded() -> Overloaded:
    return Overloaded("too many records are waiting for Kafka; try again in a moment")
