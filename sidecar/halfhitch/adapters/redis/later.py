"""The index before it can be opened: its keys carry the Kafka cluster's id, and Kafka may be away.

Until `opened` it is a Redis that is away. Used on any thread, as what it stands for.
"""

from collections.abc import Collection, Sequence

from halfhitch.adapters.redis.index import RedisIndex
from halfhitch.core.model import Identity
from halfhitch.errors import RedisUnavailable
from halfhitch.ports import Doubt


class LaterIndex:
    """ports.DoubtIndex and ports.Presence."""

    def __init__(self) -> None:
        self._index: RedisIndex | None = None
        self._announced: Collection[str] = ()

    def opened(self, index: RedisIndex) -> None:
        """It is there now."""
        self._index = index
        index.announce(self._announced)

    @property
    def trouble(self) -> str | None:
        """What is wrong and what to do; None while it is healthy, or not opened yet."""
        return None if self._index is None else self._index.trouble

    async def stop(self) -> None:
        """See RedisIndex."""
        if self._index is not None:
            await self._index.stop()

    # -- ports.DoubtIndex ------------------------------------------------------------------------

    def doubtful(self, partition: int, doubts: Sequence[Doubt]) -> None:
        """See ports.DoubtIndex."""
        if self._index is not None:
            self._index.doubtful(partition, doubts)

    def settled(self, partition: int, identities: Sequence[Identity]) -> None:
        """See ports.DoubtIndex."""
        if self._index is not None:
            self._index.settled(partition, identities)

    def owns(self, partition: int, *, is_owned: bool) -> None:
        """See ports.DoubtIndex."""
        if self._index is not None:
            self._index.owns(partition, is_owned=is_owned)

    def wants_all(self, partition: int) -> bool:
        """See ports.DoubtIndex."""
        return self._index is not None and self._index.wants_all(partition)

    def has_room(self, count: int) -> bool:
        """See ports.DoubtIndex."""
        return self._index is None or self._index.has_room(count)

    async def delivered(
        self, partition: int, identity: Identity, half_offsets: tuple[int, ...]
    ) -> int:
        """See ports.DoubtIndex."""
        if self._index is None:
            return 0
        return await self._index.delivered(partition, identity, half_offsets)

    async def list(self, partition: int, *, count_max: int) -> Sequence[Doubt]:
        """See ports.DoubtIndex."""
        return await self._opened().list(partition, count_max=count_max)

    async def find(self, partition: int, identities: Sequence[Identity]) -> Sequence[Doubt]:
        """See ports.DoubtIndex."""
        return await self._opened().find(partition, identities)

    async def owner(self, partition: int) -> str | None:
        """See ports.DoubtIndex."""
        return await self._opened().owner(partition)

    def _opened(self) -> RedisIndex:
        if self._index is None:
            raise RedisUnavailable("Redis is asked only once Kafka has been reached; see /readyz")
        return self._index

    # -- ports.Presence --------------------------------------------------------------------------

    def announce(self, producer_groups: Collection[str]) -> None:
        """See ports.Presence."""
        self._announced = producer_groups
        if self._index is not None:
            self._index.announce(producer_groups)

    def instances(self, producer_group: str) -> Sequence[str]:
        """See ports.Presence."""
        return () if self._index is None else self._index.instances(producer_group)

    def post(self, instance: str, kind: str, body: bytes) -> bool:
        """See ports.Presence."""
        return self._index is not None and self._index.post(instance, kind, body)
