"""A Redis and the doubt indexes of several instances on it: the real thing and the twin in memory.

Owns `RealRedis` and `TwinRedis`, which offer tests the same handles. A real one needs a server to
itself, because tests wipe, pause and restore it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from redis import Redis

from halfhitch.adapters.memory.doubt_index import MemoryDoubtIndex, MemoryRedis
from halfhitch.adapters.redis.index import RedisIndex
from halfhitch.core.model import ProducerGroup, TransactionId
from halfhitch.embedded import EmbeddedRedis
from halfhitch.ports import Doubt

if TYPE_CHECKING:
    from collections.abc import Callable

    from halfhitch.core.model import Identity

CLUSTER = "test"


@dataclass
class SeenByObserver:
    """What an index told its observer."""

    health: list[bool] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)

    def redis(self, healthy: bool) -> None:
        self.health.append(healthy)

    def redis_rebuilt(self, reason: str) -> None:
        self.rebuilt.append(reason)


class World(Protocol):
    """What a test may do to a Redis."""

    async def index(self, instance: str, inbox: list[tuple[str, bytes]] | None = None) -> Any: ...

    def flush(self) -> None: ...

    def dump(self) -> None: ...

    def restore(self) -> None: ...

    def go_away(self) -> None: ...

    def come_back(self) -> None: ...

    async def close(self) -> None: ...


class _Indexes:
    def __init__(self) -> None:
        self.all: list[Any] = []
        self.seen: dict[str, SeenByObserver] = {}

    async def started(self, instance: str, index: Any, *cluster: str) -> Any:
        index.start(*cluster)
        self.all.append(index)
        return index

    async def close(self) -> None:
        await asyncio.gather(*[index.stop() for index in self.all])


class TwinRedis(_Indexes):
    """MemoryRedis."""

    def __init__(self) -> None:
        super().__init__()
        self.redis = MemoryRedis()
        self._dump: Any = None

    async def index(self, instance: str, inbox: list[tuple[str, bytes]] | None = None) -> Any:
        taken: list[tuple[str, bytes]] = [] if inbox is None else inbox
        seen: Any = self.seen.setdefault(instance, SeenByObserver())
        index = MemoryDoubtIndex(
            self.redis,
            instance=instance,
            on_post=lambda kind, body, _: taken.append((kind, body)),
            observer=seen,
        )
        return await self.started(instance, index)

    def flush(self) -> None:
        self.redis.flush()

    def dump(self) -> None:
        self._dump = self.redis.dump()

    def restore(self) -> None:
        self.redis.restore(self._dump)

    def go_away(self) -> None:
        self.redis.is_away = True

    def come_back(self) -> None:
        self.redis.is_away = False


class RealRedis(_Indexes):
    """An empty redis-server that nobody else uses meanwhile; it is given back empty."""

    def __init__(self, server: EmbeddedRedis) -> None:
        super().__init__()
        self.server = server.start()
        self.url = self.server.url
        self.client = Redis.from_url(self.url, protocol=2)

    async def index(
        self, instance: str, inbox: list[tuple[str, bytes]] | None = None, **options: Any
    ) -> Any:
        taken: list[tuple[str, bytes]] = [] if inbox is None else inbox
        seen: Any = self.seen.setdefault(instance, SeenByObserver())
        settings = {"url": self.url, **options}
        index = RedisIndex(
            settings.pop("url"),
            instance=instance,
            observer=seen,
            on_post=settings.pop("on_post", lambda kind, body, _: taken.append((kind, body))),
            **settings,
        )
        started = await self.started(instance, index, CLUSTER)
        if self.server.is_running:
            # What was in the inbox before its reader began is thrown away, rightly.
            await eventually(lambda: index.healthy and not index._inbox._is_fresh)
        return started

    def flush(self) -> None:
        self.client.flushall()

    def dump(self) -> None:
        self.client.save()

    def restore(self) -> None:
        self.server.kill()
        self.server.start()

    def go_away(self) -> None:
        self.server.pause()

    def come_back(self) -> None:
        self.server.resume()

    async def close(self) -> None:
        if self.server.is_running:
            self.server.resume()
        await super().close()
        if self.server.is_running:
            self.client.flushall()
        self.client.close()

    def names(self) -> list[str]:
        """All keys but the canaries."""
        names = sorted(key.decode() for key in self.client.keys("*"))
        return [name for name in names if ":canary:" not in name]


async def eventually(condition: Callable[[], Any], within_s: float = 30.0) -> Any:
    """The first true answer. The deadline is for what never comes, not for a busy machine."""
    deadline_s = time.monotonic() + within_s
    while True:
        answer = condition()
        if asyncio.iscoroutine(answer):
            answer = await answer
        if answer:
            return answer
        assert time.monotonic() < deadline_s, f"not within {within_s} s"
        await asyncio.sleep(0.01)


#: Where the halves of every doubt lie.
OFFSETS = (17, 18)


def identity(transaction_id: str, group: str = "orders") -> Identity:
    return ProducerGroup(group), TransactionId(transaction_id)


def doubt(
    transaction_id: str, *, group: str = "orders", due_ms: int = 1_000, **changes: Any
) -> Doubt:
    """One with every field set to something."""
    values: dict[str, Any] = {
        "identity": identity(transaction_id, group),
        "topics": ("shop.orders", "points"),
        "message_count": 2,
        "half_offsets": OFFSETS,
        "born_ms": 1_700_000_000_000,
        "immune_until_ms": 1_700_000_006_000,
        "due_ms": due_ms,
        "check_count": 0,
    }
    return Doubt(**{**values, **changes})
