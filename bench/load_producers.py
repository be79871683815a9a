"""Check-back over HTTP: producers as applications have them, with the Python client.

They prepare and forget; later one comes back whose `check` knows what became of each transaction.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from typing import TYPE_CHECKING
from urllib.request import urlopen

import msgspec

from bench import stamps
from bench.children import Order, obey, run
from halfhitch.client import (
    AsyncTransactionProducer,
    LocalTransactionState,
    Message,
    TransactionProducer,
)

if TYPE_CHECKING:
    from halfhitch.client import Check

_PREPARE_CONCURRENCY = 32
_LOOK_S = 0.05
_OUTCOME = re.compile(r'^halfhitch_check_outcomes_total\{outcome="(\w+)"\} (\S+)$', re.MULTILINE)


async def prepare(order: Order) -> Order:
    """`count` orphans of a `group`."""
    cell, numbers = order["cell"], iter(range(order["count"]))
    began_s = time.monotonic()
    async with AsyncTransactionProducer(
        order["group"], order["address"], answers_checks=False
    ) as producer:

        async def caller() -> None:
            for number in numbers:
                message = Message(order["topic"], stamps.orphan(cell, number))
                await producer.prepare([message], f"orphan-{cell}-{number:026d}")

        await asyncio.gather(*[caller() for _ in range(_PREPARE_CONCURRENCY)])
    return {"seconds": time.monotonic() - began_s}


def come_back(order: Order) -> Order:
    """A producer of the `group` comes back; ends when nothing is undecided any more."""
    asked: Counter[str] = Counter()

    def check(question: Check) -> LocalTransactionState:
        asked[question.transaction_id] += 1
        value = question.messages[0].value
        assert isinstance(value, bytes)
        is_dropped = stamps.is_dropped(value)
        return LocalTransactionState.ROLLBACK if is_dropped else LocalTransactionState.COMMIT

    admin, give_up_s = order["admin"], time.monotonic() + order["within_s"]
    before = _outcomes(admin)
    started_s = time.monotonic()
    with TransactionProducer(order["group"], order["address"], check=check):
        while _pending_count(admin):
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"{len(asked)} of {order['count']} orphans were asked in time")
            time.sleep(_LOOK_S)
        decided_at_s = time.monotonic()
    return {
        "started_s": started_s,
        "decided_at_s": decided_at_s,
        "check_count": asked.total(),
        "repeated_count": sum(1 for times in asked.values() if times > 1),
        "outcomes": dict(_outcomes(admin) - before),
    }


def _pending_count(admin: str) -> int:
    with urlopen(f"{admin}/v1/status", timeout=10.0) as response:
        partitions = msgspec.json.decode(response.read())["partitions"]
    return sum(partition["pending_count"] for partition in partitions)


def _outcomes(admin: str) -> Counter[str]:
    with urlopen(f"{admin}/metrics", timeout=10.0) as response:
        text = response.read().decode()
    return Counter({name: int(float(count)) for name, count in _OUTCOME.findall(text)})


async def carry_out(order: Order) -> Order:
    """See the two."""
    if order.get("kind") == "prepare":
        return await prepare(order)
    if order.get("kind") == "return":
        return await asyncio.to_thread(come_back, order)
    return {}


if __name__ == "__main__":
    run(lambda: obey(carry_out))
