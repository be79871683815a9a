"""The reader of the target topic: read_committed, and a note of when each message could be seen.

A consumer thread reads for the whole run; the main thread takes orders. It also finds what must
not be there: messages that come twice, and messages of no known cell.
"""

from __future__ import annotations

import asyncio
import threading
import time
from array import array
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bench import stamps
from bench.children import Order, arguments, obey, run

_READ_MAX = 1_000
_ANSWER_S = 10.0


class Seen:
    """What was seen of one cell: arrival by number of the transaction (0.0: not yet)."""

    def __init__(self) -> None:
        self.arrived_at_s = array("d")
        self.distinct_count = 0
        self.doubled_count = 0

    def note(self, number: int, now_s: float) -> None:
        """One message has arrived."""
        arrived_at_s = self.arrived_at_s
        if number >= len(arrived_at_s):
            arrived_at_s.extend([0.0] * (number + 1024 - len(arrived_at_s)))
        if arrived_at_s[number]:
            self.doubled_count += 1
        else:
            arrived_at_s[number] = now_s
            self.distinct_count += 1


class Watcher:
    """One consumer, one thread."""

    def __init__(self, bootstrap: str, topic: str, partition_count: int) -> None:
        self.cells: dict[int, Seen] = {}
        self._places = [TopicPartition(topic, p, 0) for p in range(partition_count)]
        self._config = {
            "bootstrap.servers": bootstrap,
            "group.id": "bench-watcher",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            # Everything else is what a consumer gets that sets nothing.
        }
        self._consumer = Consumer(self._config)
        self._consumer.assign(self._places)
        self._ends = dict.fromkeys(range(partition_count), 0)  # up to where all was handed out
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        consumer, unpack = self._consumer, stamps.read_stamp
        while not self._stopping.is_set():
            first = consumer.poll(0.2)
            if first is None:
                continue
            messages: list[Any] = [first, *consumer.consume(_READ_MAX, 0)]
            now_s = time.monotonic()
            for message in messages:
                error = message.error()
                if error is not None:
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    self._ends[message.partition()] = message.offset()
                    continue
                cell, number = unpack(message.value())
                seen = self.cells.get(cell)
                if seen is None:
                    # Orders put cells in as well, on another thread.
                    seen = self.cells.setdefault(cell, Seen())
                seen.note(number, now_s)

    @property
    def is_alive(self) -> bool:
        """False when reading has failed; the log says why."""
        return self._thread.is_alive()

    def is_at_end(self) -> bool:
        """Whether everything that lies in the topic now has been handed out. Blocks."""
        # Another consumer asks: a question to one that is polled elsewhere may never return.
        asker = Consumer(self._config)
        try:
            return all(
                self._ends[place.partition] >= asker.get_watermark_offsets(place, _ANSWER_S)[1]
                for place in self._places
            )
        finally:
            asker.close()

    def close(self) -> None:
        """End reading."""
        self._stopping.set()
        self._thread.join()
        self._consumer.close()


async def carry_out(watcher: Watcher, order: Order) -> Order:
    """`cell`, `count`, `stamps`: wait for all messages of a cell. `totals`: what was ever seen."""
    give_up_s = time.monotonic() + order.get("within_s", 60.0)
    if "cell" in order:
        seen = watcher.cells.setdefault(order["cell"], Seen())
        while seen.distinct_count < order["count"]:
            _check(watcher, give_up_s, f"{seen.distinct_count} of {order['count']} messages came")
            await asyncio.sleep(0.01)
        stamps.save(Path(order["stamps"]), seen.arrived_at_s[: order["count"]])
        return {}
    if "totals" in order:
        while not await asyncio.to_thread(watcher.is_at_end):
            _check(watcher, give_up_s, "the end of the topic was not reached")
            await asyncio.sleep(0.05)
        return {
            str(cell): [seen.distinct_count, seen.doubled_count]
            for cell, seen in watcher.cells.items()
        }
    return {}


def _check(watcher: Watcher, give_up_s: float, what: str) -> None:
    if not watcher.is_alive:
        raise RuntimeError("the consumer has failed; see the watcher's log")
    if time.monotonic() > give_up_s:
        raise TimeoutError(f"{what} in time")


async def main() -> None:
    """Read until there are no more orders."""
    given = arguments()
    watcher = Watcher(given["bootstrap"], given["topic"], given["partition_count"])
    try:
        await obey(lambda order: carry_out(watcher, order))
    finally:
        watcher.close()


if __name__ == "__main__":
    run(main)
