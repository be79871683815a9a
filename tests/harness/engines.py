"""Engines on a real Kafka, each test with internal and target topics of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import OffsetSpec

from halfhitch.core.model import Resolution
from halfhitch.engine import Engine, EngineOptions
from halfhitch.service.api import OutgoingMessage, PartitionPhase
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage
from halfhitch.wire.topics import InternalTopics
from harness.checkers import Fate, Truth, faults
from harness.defaults import engine_options
from harness.kafka import admin_client, create_topics, fresh_name, read_all
from harness.twin import RecordingObserver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from halfhitch.service.api import Prepared
    from halfhitch.wire.op import OpRead
    from harness.kafka import ReadRecord

PARTITION_COUNT = 2
TARGET_PARTITION_COUNT = 3
DEADLINE_S = 30.0
GROUP = "group"
HANDLE_KEY = b"k" * 32
#: The shortest that the broker takes: tests that kill wait for it.
SESSION_MS = 6_000


async def until(
    condition: Callable[[], object | Awaitable[object]],
    what: str | Callable[[], str],
    deadline_s: float = DEADLINE_S,
) -> None:
    """Wait for a condition that has no event; TimeoutError if it never holds."""
    end_s = time.monotonic() + deadline_s

    async def holds() -> object:
        found = condition()
        return await found if isinstance(found, Awaitable) else found

    while not await holds():
        if time.monotonic() > end_s:
            name = what if isinstance(what, str) else what()
            raise TimeoutError(f"{name} did not come true within {deadline_s:g} s")
        await asyncio.sleep(0.01)


def is_working(engine: Engine, count: int) -> bool:
    """Whether the engine works on exactly so many partitions."""
    states = engine.partitions()
    return len(states) == count and all(s.phase is PartitionPhase.WORKING for s in states)


async def until_working(engine: Engine, count: int = PARTITION_COUNT) -> None:
    """Wait until the engine works on so many partitions."""
    await until(
        lambda: is_working(engine, count), lambda: f"{count} working: {engine.partitions()}"
    )


async def until_idle(*engines: Engine) -> None:
    """Wait until everything that was decided has been carried out."""
    await until(
        lambda: not any(s.decided_count + s.early_count for e in engines for s in e.partitions()),
        lambda: f"idle: {[e.partitions() for e in engines]}",
    )


@dataclass
class Site:
    """One installation: its topics, what was asked of it, and what came of it."""

    bootstrap: str
    prefix: str = field(default_factory=lambda: fresh_name("engine") + "-")
    truths: list[Truth] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = InternalTopics(self.prefix)
        self.orders, self.points = self.prefix + "orders", self.prefix + "points"
        self.targets = (self.orders, self.points)
        self.observer = RecordingObserver()

    def create_targets(self) -> None:
        create_topics(self.bootstrap, dict.fromkeys(self.targets, TARGET_PARTITION_COUNT))

    def options(self, **changes: Any) -> EngineOptions:
        """An engine's options for this installation."""
        values: dict[str, Any] = {
            "bootstrap": self.bootstrap,
            "handle_keys": (HANDLE_KEY,),
            "instance": fresh_name("instance"),
            "topic_prefix": self.prefix,
            "partition_count": PARTITION_COUNT,
            "create_topics": True,
            "session_timeout_ms": SESSION_MS,
            **changes,
        }
        return engine_options(**values)

    @asynccontextmanager
    async def engine(self, *, working: int | None = PARTITION_COUNT, **changes: Any) -> Any:
        """A started engine, stopped at the end; `working`: wait for so many partitions."""
        engine = Engine(self.options(**changes), self.observer)
        await engine.start()
        try:
            if working is not None:
                await until_working(engine, working)
            yield engine
        finally:
            await engine.stop()

    # -- asking ----------------------------------------------------------------------------------

    def message(
        self, topic: str | None = None, key: bytes | None = None, value: bytes | None = b"v",
        headers: list[tuple[str, bytes | None]] | None = None, partition: int | None = None,
    ) -> OutgoingMessage:  # fmt: skip
        return OutgoingMessage(topic or self.orders, key, value, headers or [], partition)

    def pair(self, name: str) -> list[OutgoingMessage]:
        """An order and its points."""
        raw = name.encode()
        return [
            self.message(self.orders, raw, b"order " + raw, [("kind", b"order")]),
            self.message(self.points, None, b"points " + raw),
        ]

    async def prepare(
        self, engine: Engine, messages: Sequence[OutgoingMessage], transaction_id: str | None = None
    ) -> Prepared:
        return await engine.transactions.prepare(
            producer_group=GROUP, messages=messages, transaction_id=transaction_id
        )

    async def run(
        self,
        engine: Engine,
        messages: Sequence[OutgoingMessage],
        fate: Fate,
        *,
        ended_by: Engine | None = None,
        wait_visible: bool = False,
    ) -> str:
        """Prepare, end as `fate` says, note the truth; gives the handle."""
        prepared = await self.prepare(engine, messages)
        if fate in (Fate.COMMITTED, Fate.ROLLED_BACK):
            resolution = Resolution.COMMIT if fate is Fate.COMMITTED else Resolution.ROLLBACK
            await (ended_by or engine).transactions.end(
                prepared.handle, resolution, wait_visible=wait_visible
            )
        self.note(prepared.transaction_id, messages, fate)
        return prepared.handle

    def note(self, transaction_id: str, messages: Sequence[OutgoingMessage], fate: Fate) -> None:
        """What became of a transaction, as its producer knows it; the last word counts."""
        self.truths = [t for t in self.truths if t.transaction_id != transaction_id]
        self.truths.append(Truth(transaction_id, tuple(messages), fate))

    # -- looking ---------------------------------------------------------------------------------

    def read(self, topic: str, isolation: str = "read_committed") -> list[ReadRecord]:
        """Everything in a topic now."""
        return read_all(self.bootstrap, topic, isolation)

    def records(self, isolation: str = "read_committed") -> dict[str, list[ReadRecord]]:
        """Everything in both target topics now."""
        return {topic: self.read(topic, isolation) for topic in self.targets}

    def faults(self, isolation: str = "read_committed") -> dict[str, list[str]]:
        """What the judges say now."""
        return faults(self.truths, self.records(isolation))

    async def until_faultless(self) -> dict[str, list[ReadRecord]]:
        """Wait until the judges are content; gives the records.

        A commit is acknowledged before its markers are in every topic, so a reader may be told of
        a loss that passes by itself. Nothing else may ever be found.
        """
        found: dict[str, list[str]] = {}

        async def only_late() -> bool:
            nonlocal found
            found = await asyncio.to_thread(self.faults)
            assert not found.keys() & {"doubled", "invented"}, found
            return not found

        end_s = time.monotonic() + DEADLINE_S
        while not await only_late():
            assert time.monotonic() < end_s, found
            await asyncio.sleep(0.02)
        return await asyncio.to_thread(self.records)

    def ops(self) -> list[OpRead]:
        """Every entry of the op log."""
        entries: list[OpRead] = []
        for record in self.read(self.names.op):
            events = op_wire.read(record.offset, 0, record.value, list(record.headers))
            assert not isinstance(events, Garbage), events
            entries += events
        return entries

    def reset_watermarks(self) -> None:
        """Set the stored watermarks back to the starts of both logs, as an operator might."""
        admin = admin_client(self.bootstrap)
        asked = {
            TopicPartition(topic, partition): OffsetSpec.earliest()
            for topic in (self.names.half, self.names.op)
            for partition in range(PARTITION_COUNT)
        }
        places = [
            TopicPartition(where.topic, where.partition, future.result(DEADLINE_S).offset)
            for where, future in admin.list_offsets(asked).items()
        ]
        request = [ConsumerGroupTopicPartitions(self.names.owner_group, places)]
        for future in admin.alter_consumer_group_offsets(request).values():
            for place in future.result(DEADLINE_S).topic_partitions:
                assert place.error is None, place.error


@asynccontextmanager
async def site(bootstrap: str) -> AsyncIterator[Site]:
    """A fresh installation with its target topics."""
    made = Site(bootstrap)
    await asyncio.to_thread(made.create_targets)
    yield made
