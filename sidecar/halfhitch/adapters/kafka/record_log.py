"""Appends to the half and op topics from the event loop.

One idempotent producer, one thread that polls it. Delivery reports arrive on that thread in bursts;
they are put into a queue and the loop is woken once for each burst, because a wake-up costs more
than a report.

A fatal error of an idempotent producer is final for that producer only: it is replaced, and what
was in flight is answered as unknown.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from halfhitch.adapters.kafka.errors import append_error, describe
from halfhitch.errors import HalfHitchError, KafkaUnavailable, Overloaded
from halfhitch.ports import KafkaHeaders

logger = logging.getLogger(__name__)

_POLL_S = 0.2

Result = int | HalfHitchError


class KafkaRecordLog:
    """ports.RecordLog over a producer. Start and use it on one event loop."""

    def __init__(
        self, make_producer: Callable[[], Producer], *, half_topic: str, op_topic: str
    ) -> None:
        self._make_producer = make_producer
        self._half_topic = half_topic
        self._op_topic = op_topic
        self._producer: Any = make_producer()  # the stubs forbid null header values, Kafka does not
        self._reports: deque[tuple[asyncio.Future[int], Result]] = deque()  # bounded by the queue
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = threading.Event()
        self._broken = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="record-log", daemon=True)

    def start(self) -> None:
        """Begin polling; call on the event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def stop(self, drain_s: float) -> None:
        """Wait for what is in flight, at most `drain_s`, then stop the thread."""
        await asyncio.to_thread(self._producer.flush, drain_s)
        self._stopping.set()
        await asyncio.to_thread(self._thread.join, _POLL_S * 5)
        self._deliver()
        await asyncio.to_thread(self._producer.close)

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

    def _append(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: KafkaHeaders,
    ) -> "asyncio.Future[int]":
        assert self._loop is not None, "start() first"
        future: asyncio.Future[int] = self._loop.create_future()
        try:
            self._producer.produce(
                topic,
                value,
                key,
                partition,
                partial(self._delivered, future),
                headers=headers,
            )
        except BufferError:
            future.set_exception(
                Overloaded("too many records are waiting for Kafka; try again in a moment")
            )
        except KafkaException as error:
            future.set_exception(append_error(error.args[0], topic))
        return future

    def _delivered(
        self, future: "asyncio.Future[int]", error: KafkaError | None, message: Any
    ) -> None:
        """On the polling thread; must not raise (librdkafka would lose the report)."""
        if error is None:
            self._reports.append((future, message.offset()))
            return
        if error.fatal():
            self._broken.set()
        self._reports.append((future, append_error(error, message.topic() or "?")))

    def _poll(self) -> None:
        assert self._loop is not None
        while not self._stopping.is_set():
            self._producer.poll(_POLL_S)
            if self._reports:
                try:
                    self._loop.call_soon_threadsafe(self._deliver)
                except RuntimeError:  # the loop is closed; nobody waits any more
                    return
            if self._broken.is_set():
                self._replace()

    def _replace(self) -> None:
        """After a fatal error: purge what is left (answered as unknown) and begin anew."""
        self._broken.clear()
        logger.error(
            "the record producer met a fatal error and is replaced",
            extra={"action": "record_producer_replaced"},
        )
        broken, self._producer = self._producer, self._make_producer()
        broken.purge()
        broken.flush(1.0)

    def _deliver(self) -> None:
        """On the loop: answer everyone whose report has come."""
        reports = self._reports
        for _ in range(len(reports)):
            future, result = reports.popleft()
            if future.done():  # whoever waited has gone
                continue
            if isinstance(result, int):
                future.set_result(result)
            else:
                future.set_exception(result)

    def probe(self) -> None:
        """Raise KafkaUnavailable unless the brokers answer; blocks, call it on a thread."""
        try:
            self._producer.list_topics(self._half_topic, 3.0)
        except KafkaException as error:
            raise KafkaUnavailable(f"Kafka does not answer: {describe(error)}") from error
