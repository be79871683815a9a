"""The doubt index, presence and inboxes in memory, for several instances in one process.

`MemoryRedis` is what they share; each instance has a `MemoryDoubtIndex`. What it simplifies: what
is written is there within the call, nothing expires but by `stop`, and posts arrive in the loop's
next round. `is_away`, `flush` and `restore` stand for a Redis in trouble; as with the real one, an
instance then asks for everything anew.
"""

import copy
from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from halfhitch.core.model import Identity
from halfhitch.errors import RedisUnavailable
from halfhitch.ports import Doubt, Observer, OnPost

#: No owner is this one, nor None.
_NOBODY: Final = object()


@dataclass(slots=True)
class _Content:
    """What Redis holds."""

    doubts: dict[int, dict[Identity, Doubt]] = field(default_factory=dict)
    listed: dict[int, set[Identity]] = field(default_factory=dict)
    owners: dict[int, str] = field(default_factory=dict)
    whole: dict[int, str] = field(default_factory=dict)
    producers: dict[str, set[str]] = field(default_factory=dict)


class MemoryRedis:
    """What the instances share."""

    def __init__(self) -> None:
        self.content = _Content()
        self.indexes: dict[str, MemoryDoubtIndex] = {}
        self.list_count = 0
        self._is_away = False

    @property
    def is_away(self) -> bool:
        """Nothing is taken and nothing answered. When it comes back, everything is asked anew."""
        return self._is_away

    @is_away.setter
    def is_away(self, is_away: bool) -> None:
        if is_away == self._is_away:
            return
        self._is_away = is_away
        for index in self.indexes.values():
            index.changed(None if is_away else "away")

    def flush(self) -> None:
        """Everything is lost; the instances notice."""
        self._replace(_Content(), "wiped")

    def dump(self) -> _Content:
        """For `restore`."""
        return copy.deepcopy(self.content)

    def restore(self, dump: _Content) -> None:
        """As it was then; the instances notice."""
        self._replace(copy.deepcopy(dump), "old")

    def _replace(self, content: _Content, reason: str) -> None:
        self.content = content
        for index in self.indexes.values():
            index.changed(reason)


class MemoryDoubtIndex:
    """ports.DoubtIndex and ports.Presence of one instance; the life of RedisIndex."""

    def __init__(
        self,
        redis: MemoryRedis,
        *,
        instance: str,
        on_post: OnPost,
        observer: Observer | None = None,
    ) -> None:
        self._redis = redis
        self._instance = instance
        self._on_post = on_post
        self._observer = observer
        self._loop: AbstractEventLoop | None = None
        self._owned: dict[int, object] = {}
        self._wanted: set[int] = set()
        self._announced: frozenset[str] = frozenset()

    def start(self) -> None:
        """See RedisIndex."""
        self._loop = get_running_loop()
        self._redis.indexes[self._instance] = self
        self.changed(None)

    async def stop(self) -> None:
        """See RedisIndex."""
        self.announce(())
        for partition, by in list(self._owned.items()):
            self.owns(partition, is_owned=False, by=by)
        self._redis.indexes.pop(self._instance, None)
        self._loop = None

    @property
    def healthy(self) -> bool:
        """Redis takes what we write."""
        return self._loop is not None and not self._redis.is_away

    @property
    def trouble(self) -> str | None:
        """A sentence while it is not healthy."""
        return None if self.healthy else "Redis does not answer: see that it runs."

    def changed(self, reason: str | None) -> None:
        """For MemoryRedis: it went away, or (with a reason) what it held is not ours any more."""
        if self._observer is not None:
            self._observer.redis(self.healthy)
            if reason is not None:
                self._observer.redis_rebuilt(reason)
        if reason is None:
            return
        self._wanted |= self._owned.keys()
        content = self._redis.content
        for partition in self._owned:
            content.doubts.pop(partition, None)
            content.listed.pop(partition, None)
            content.whole.pop(partition, None)
            content.owners[partition] = self._instance
        for members in content.producers.values():
            members.discard(self._instance)
        for group in self._announced:
            content.producers.setdefault(group, set()).add(self._instance)

    # -- ports.DoubtIndex ------------------------------------------------------------------------

    def doubtful(self, partition: int, doubts: Sequence[Doubt]) -> None:
        """See ports.DoubtIndex."""
        if not self._takes(partition):
            return
        held = self._redis.content.doubts.setdefault(partition, {})
        self._redis.content.listed.setdefault(partition, set()).update(d.identity for d in doubts)
        for doubt in doubts:
            before = held.get(doubt.identity)
            held[doubt.identity] = _merged(doubt, before)

    def settled(self, partition: int, identities: Sequence[Identity]) -> None:
        """See ports.DoubtIndex."""
        if self._takes(partition):
            held = self._redis.content.doubts.get(partition, {})
            self._redis.content.listed.get(partition, set()).difference_update(identities)
            for identity in identities:
                held.pop(identity, None)

    def owns(self, partition: int, *, is_owned: bool, by: object = None) -> None:
        """See ports.DoubtIndex."""
        owners = self._redis.content.owners
        if is_owned:
            if self._owned.get(partition, _NOBODY) is not by:
                self._owned[partition] = by
                self._wanted.add(partition)
                self._redis.content.listed.pop(partition, None)
                self._redis.content.whole.pop(partition, None)
            owners[partition] = self._instance
        elif self._owned.get(partition, _NOBODY) is by:
            del self._owned[partition]
            self._wanted.discard(partition)
            if owners.get(partition) == self._instance:
                del owners[partition]
                self._redis.content.whole.pop(partition, None)

    def wants_all(self, partition: int) -> bool:
        """See ports.DoubtIndex."""
        if partition not in self._wanted or not self.healthy:
            return False
        self._wanted.discard(partition)
        return True

    def has_room(self, count: int) -> bool:
        """See RedisIndex: there is always room here."""
        return count >= 0

    def told_all(self, partition: int) -> None:
        """See ports.DoubtIndex."""
        if self._takes(partition) and partition not in self._wanted:
            self._redis.list_count += 1
            self._redis.content.whole[partition] = f"{self._redis.list_count}"

    async def whole(self, partition: int) -> str | None:
        """See ports.DoubtIndex."""
        self._answer()
        return self._redis.content.whole.get(partition)

    async def delivered(
        self, partition: int, identity: Identity, half_offsets: tuple[int, ...]
    ) -> int:
        """See ports.DoubtIndex."""
        doubt = self._redis.content.doubts.get(partition, {}).get(identity)
        if doubt is None or not self.healthy or doubt.half_offsets != half_offsets:
            return 0
        return doubt.delivered

    async def list(self, partition: int, *, count_max: int) -> Sequence[Doubt]:
        """See ports.DoubtIndex."""
        self._answer()
        held = self._redis.content.doubts.get(partition, {})
        found = [held[identity] for identity in self._redis.content.listed.get(partition, ())]
        return sorted(found, key=lambda doubt: (doubt.due_ms, doubt.identity))[: max(0, count_max)]

    async def find(self, partition: int, identities: Sequence[Identity]) -> Sequence[Doubt]:
        """See ports.DoubtIndex."""
        self._answer()
        held = self._redis.content.doubts.get(partition, {})
        return [held[identity] for identity in identities if identity in held]

    async def owner(self, partition: int) -> str | None:
        """See ports.DoubtIndex."""
        self._answer()
        return self._redis.content.owners.get(partition)

    def _takes(self, partition: int) -> bool:
        return partition in self._owned and self.healthy

    def _answer(self) -> None:
        if not self.healthy:
            raise RedisUnavailable("Redis does not answer; try again.")

    # -- ports.Presence --------------------------------------------------------------------------

    def announce(self, producer_groups: Collection[str]) -> None:
        """See ports.Presence."""
        producers = self._redis.content.producers
        groups = frozenset(producer_groups)
        for group in self._announced - groups:
            producers.get(group, set()).discard(self._instance)
        for group in groups:
            producers.setdefault(group, set()).add(self._instance)
        self._announced = groups

    def instances(self, producer_group: str) -> Sequence[str]:
        """See ports.Presence."""
        members = self._redis.content.producers.get(producer_group, set())
        return sorted(members - {self._instance}) if self.healthy else ()

    def post(self, instance: str, kind: str, body: bytes) -> bool:
        """See ports.Presence."""
        if not self.healthy:
            return False
        there = self._redis.indexes.get(instance)
        if there is not None:
            there.take(kind, body)
        return True

    def take(self, kind: str, body: bytes) -> None:
        """For other instances: hand it over on our loop."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._on_post, kind, body, 0.0)


def _merged(doubt: Doubt, before: Doubt | None) -> Doubt:
    """As RedisIndex: an owner that does not know something yet does not wipe it out."""
    if doubt.delivered != doubt.check_count:
        known = 0 if before is None else before.delivered
        doubt = replace(doubt, delivered=known if known <= doubt.check_count else 0)
    if before is None or doubt.last_answer is not None or not doubt.check_count:
        return doubt
    return replace(
        doubt,
        last_answer=before.last_answer,
        last_instance=before.last_instance,
        last_reason=before.last_reason,
    )
