"""The ceiling: the records of a transaction and nothing else. No coordinator, no Kafka transaction.

For each transaction: a half record, then an op record, each awaited as a caller awaits prepare and
commit; then the record on the target topic, which nobody waits for, as nobody waits for the
coordinator's forward. Producer settings and hand-over to the loop are the sidecar's. What it
leaves out is what the coordinator is for; decisions do not share records, as the coordinator's do.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any

from bench import stamps
from bench.children import Order, arguments, obey, run
from halfhitch.adapters.kafka import clients

_HALF_HEADERS = [
    ("HALFHITCH", b"1;0;1700000000000;bench"),
    ("UNIQ_KEY", b"0123456789abcdef0123456789abcdef"),
    ("PGROUP", b"bench"),
    ("REAL_TOPIC", b"bench-target"),
    ("TRAN_MSG", b"true"),
]
_OP_HEADERS = [
    ("TAGS", b"c"),
    ("HALFHITCH", b'1[["bench","0123456789abcdef0123456789abcdef",1,1,"producer",null]]'),
]
_TARGET_HEADERS = _HALF_HEADERS[:3]


class Log:
    """Appends whose delivery reports wake the loop once for each burst."""

    def __init__(self, bootstrap: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._producer: Any = clients.record_producer(
            clients.record_config(
                clients.base(bootstrap, "bench-raw", {}),
                delivery_ms=8_000,
                message_bytes_max=1_000_000,
            )
        )
        self._reports: deque[tuple[asyncio.Future[None], Any]] = deque()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def append(
        self, topic: str, partition: int, key: bytes | None, value: bytes, headers: Any
    ) -> asyncio.Future[None]:
        """Done when the broker has it."""
        future: asyncio.Future[None] = self._loop.create_future()
        report = partial(self._reported, future)
        self._producer.produce(topic, value, key, partition, report, headers=headers)
        return future

    def _reported(self, future: asyncio.Future[None], error: Any, _message: Any) -> None:
        self._reports.append((future, error))

    def _poll(self) -> None:
        while not self._stopping.is_set():
            self._producer.poll(0.2)
            if self._reports:
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        reports = self._reports
        for _ in range(len(reports)):
            future, error = reports.popleft()
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(RuntimeError(error.str()))

    def close(self) -> None:
        """Nothing is under way any more."""
        self._stopping.set()
        self._thread.join()
        self._producer.close()


async def load(log: Log, given: Order, order: Order) -> Order:
    """One closed loop."""
    tally = stamps.Tally()
    cell, keyed = order["cell"], order["keyed"]
    draw = random.Random(cell)
    half_topic, op_topic, target = given["half_topic"], given["op_topic"], given["topic"]
    forwards: list[asyncio.Future[None]] = []
    started_s = time.monotonic()
    stop_s = started_s + order["seconds"]

    async def caller() -> None:
        now_s = time.monotonic()
        while now_s < stop_s:
            number = tally.begin()
            key = draw.randbytes(8) if keyed else None
            partition = draw.randrange(given["partition_count"]) if keyed else 0
            value = stamps.body(cell, number)
            began_s = time.monotonic()
            await log.append(half_topic, partition, key, value, _HALF_HEADERS)
            stored_s = time.monotonic()
            await log.append(op_topic, partition, None, b"%d," % number, _OP_HEADERS)
            now_s = time.monotonic()
            tally.prepared(number, stored_s - began_s)
            tally.committed(number, now_s - stored_s, now_s)
            forwards.append(log.append(target, -1, key, value, _TARGET_HEADERS))

    await asyncio.gather(*[caller() for _ in range(order["concurrency"])])
    await asyncio.gather(*forwards)
    count = tally.save(Path(order["stamps"]))
    return {"started_s": started_s, "ended_s": time.monotonic(), "count": count}


async def main() -> None:
    """Load Kafka as ordered."""
    given = arguments()
    log = Log(given["bootstrap"])

    async def carry_out(order: Order) -> Order:
        return await load(log, given, order) if "cell" in order else {}

    try:
        await obey(carry_out)
    finally:
        log.close()


if __name__ == "__main__":
    run(main)
