"""Check-back in process: orphans, producers that come back, and one that never answers.

An orphan is a transaction that was prepared and left alone; `stamps.orphan` says what is to become
of it. Links stand for producers: they are what the desk knows of one, without a door in between.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from array import array
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench import load_engine, stamps
from bench.children import Order, arguments, obey, run
from halfhitch.composition import engine_options
from halfhitch.config import Settings
from halfhitch.core.model import ProducerGroup, Resolution, ResolutionSource
from halfhitch.engine import Engine, EngineOptions
from halfhitch.observability.metrics import Metrics
from halfhitch.service.api import OutgoingMessage
from halfhitch.service.checking.breaker import BreakerLimits

if TYPE_CHECKING:
    from collections.abc import Callable

    from halfhitch.core.model import Identity
    from halfhitch.wire.check import Check

_PREPARE_CONCURRENCY = 128


class Tally(Metrics):
    """Metrics as in the sidecar, and every lag beside its histogram."""

    def __init__(self) -> None:
        super().__init__()
        self.lag_s = array("d")
        self.outcomes: Counter[str] = Counter()

    def check_sent(self, producer_group: str, lag_s: float, trace_id: str | None = None) -> None:
        super().check_sent(producer_group, lag_s, trace_id)
        self.lag_s.append(lag_s)

    def check_settled(self, producer_group: str, outcome: str) -> None:
        super().check_settled(producer_group, outcome)
        self.outcomes[outcome] += 1


class Producer:
    """A ProducerLink. One that is mute takes every check and never answers."""

    at_once = 256

    def __init__(self, engine: Engine, group: str, *, is_mute: bool = False) -> None:
        self.producer_group = ProducerGroup(group)
        self.name = f"producer of {group}"
        self.asked: Counter[Identity] = Counter()
        self.decided_count = 0
        self.decided_at_s = 0.0
        self._engine = engine
        self._is_mute = is_mute
        self._tasks: set[asyncio.Task[None]] = set()

    def offer(self, check: Check) -> bool:
        self.asked[check.identity] += 1
        if not self._is_mute:
            task = asyncio.ensure_future(self._answer(check))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return True

    async def _answer(self, check: Check) -> None:
        value = check.messages[0].value
        assert value is not None
        resolution = Resolution.ROLLBACK if stamps.is_dropped(value) else Resolution.COMMIT
        await self._engine.transactions.end(check.handle, resolution, source=ResolutionSource.CHECK)
        self.decided_count += 1
        self.decided_at_s = time.monotonic()

    async def settled(self) -> None:
        """All answers that are under way have been given; raises what one of them raised."""
        await asyncio.gather(*self._tasks)


class Load:
    """Carries orders out on one engine."""

    def __init__(self, engine: Engine, tally: Tally, topic: str) -> None:
        self._engine = engine
        self._tally = tally
        self._topic = topic
        self._mutes: dict[str, Producer] = {}
        self._handles: dict[str, list[str]] = {}  # of groups that are told to be rolled back

    async def carry_out(self, order: Order) -> Order:
        kind = order.get("kind")
        return {} if kind is None else await getattr(self, f"_{kind}")(order)

    async def _prepare(self, order: Order) -> Order:
        """`count` orphans of a `group`; checks begin after `immunity_s`, from .. to."""
        group, cell, (low_s, high_s) = order["group"], order["cell"], order["immunity_s"]
        dice, numbers = random.Random(cell), iter(range(order["count"]))
        handles = self._handles.setdefault(group, [])

        async def caller() -> None:
            for number in numbers:
                message = OutgoingMessage(self._topic, None, stamps.orphan(cell, number), [])
                prepared = await self._engine.transactions.prepare(
                    producer_group=group,
                    messages=[message],
                    transaction_id=f"orphan-{cell}-{number:026d}",  # as long as an id of its own
                    immunity_s=dice.randint(low_s, high_s),
                )
                handles.append(prepared.handle)

        began_s = time.monotonic()
        await asyncio.gather(*[caller() for _ in range(_PREPARE_CONCURRENCY)])
        return {"seconds": time.monotonic() - began_s}

    async def _return(self, order: Order) -> Order:
        """A producer of the `group` comes back; ends when `count` are decided."""
        producer = Producer(self._engine, order["group"])
        before = Counter(self._tally.outcomes)
        started_s = time.monotonic()
        self._engine.desk.connect(producer)
        try:
            count = order["count"]
            await _until(lambda: producer.decided_count >= count, order["within_s"], "decided")
            await producer.settled()
        finally:
            self._engine.desk.disconnect(producer)
        return {
            "started_s": started_s,
            "decided_at_s": producer.decided_at_s,
            "check_count": producer.asked.total(),
            "repeated_count": sum(1 for times in producer.asked.values() if times > 1),
            "outcomes": dict(self._tally.outcomes - before),
        }

    async def _hang(self, order: Order) -> Order:
        """A producer of the `group` comes that never answers; ends when it has been asked."""
        mute = self._mutes[order["group"]] = Producer(self._engine, order["group"], is_mute=True)
        self._engine.desk.connect(mute)
        await _until(lambda: bool(mute.asked), order["within_s"], "asked")
        return {}

    async def _roll_back(self, order: Order) -> Order:
        """All orphans of the `group`, as an operator would; gives how often they were asked."""
        transactions, handles = self._engine.transactions, iter(self._handles.pop(order["group"]))

        async def caller() -> None:
            for handle in handles:
                await transactions.end(handle, Resolution.ROLLBACK)

        await asyncio.gather(*[caller() for _ in range(_PREPARE_CONCURRENCY)])
        mute = self._mutes.pop(order["group"])
        self._engine.desk.disconnect(mute)
        return {"check_count": mute.asked.total()}

    async def _lag(self, order: Order) -> Order:
        """A producer answers for the `group`, beside a closed loop of others, until all were asked.

        `pending`: how many were undecided, all in all, when that began.
        """
        pending_count = sum(state.pending_count for state in self._engine.partitions())
        self._tally.lag_s = array("d")
        ended = asyncio.ensure_future(self._return(order))
        loaded = await load_engine.load(self._engine.transactions, self._topic, order["load"])
        answer = await ended
        lag_s = self._tally.lag_s.tolist()
        return {**answer, "load": loaded, "lag_s": lag_s, "pending_count": pending_count}

    async def _idle(self, order: Order) -> Order:
        """Everything that was decided has been carried out."""

        def is_idle() -> bool:
            states = self._engine.partitions()
            return not any(state.decided_count + state.early_count for state in states)

        await _until(is_idle, order["within_s"], "carried out")
        return {"pending_count": sum(s.pending_count for s in self._engine.partitions())}


async def _until(condition: Callable[[], bool], within_s: float, what: str) -> None:
    give_up_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > give_up_s:
            raise TimeoutError(f"not all were {what} within {within_s:g} s")
        await asyncio.sleep(0.01)


def _options(given: dict[str, Any]) -> EngineOptions:
    options = engine_options(Settings())
    limits = options.owner_limits
    return replace(
        options,
        replication_factor=1,
        bootstrap=given["bootstrap"],
        handle_keys=(load_engine.HANDLE_KEY,),
        instance="bench",
        topic_prefix=given["prefix"],
        create_topics=True,
        owner_limits=replace(limits, check_rules=replace(limits.check_rules, **given["rules"])),
        desk_limits=replace(
            options.desk_limits, **given["desk"], breaker=BreakerLimits(**given["breaker"])
        ),
    )


async def main() -> None:
    """Start the engine, carry orders out, stop it."""
    logging.basicConfig(level=logging.ERROR)  # a mute producer is worth a warning, each time
    given, tally = arguments(), Tally()
    async with load_engine.working(_options(given), tally) as engine:
        await obey(Load(engine, tally, given["topic"]).carry_out)


if __name__ == "__main__":
    run(main)
