"""RedisIndex: ports.DoubtIndex and ports.Presence over a real Redis, and this instance's inbox.

Owns the three threads (writer, asker, inbox reader) and their start and stop. Invariants: what the
ports call from any thread only appends to a bounded queue or reads a table; nothing of Redis's
state or behaviour raises into a caller, except that `list` and `owner` say RedisUnavailable.

It holds no truth: whatever Redis loses comes again from the owners, asked for by `wants_all`.
"""

import asyncio
import time
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Final

from halfhitch.adapters.redis import connect, doubts
from halfhitch.adapters.redis.address import parse
from halfhitch.adapters.redis.asker import Asker
from halfhitch.adapters.redis.inbox import InboxReader
from halfhitch.adapters.redis.keys import KEPT_S, Keys, identity_of, keys_of, member_of
from halfhitch.adapters.redis.outbox import Outbox
from halfhitch.adapters.redis.presence import PresenceTable
from halfhitch.adapters.redis.writer import Writer
from halfhitch.core.model import Identity
from halfhitch.errors import RedisUnavailable
from halfhitch.ports import Doubt, Observer, OnPost

_STOP_S: Final = 1.0
_LIST_PAGE: Final = 200
_POSTS_BYTES_MAX: Final = 32 * 1_048_576
#: Room for the largest message (messages.bytes_max, 1 MB by default) as base64 in a check.
BODY_BYTES_MAX: Final = 4 * 1_048_576
#: Some 600 bytes each while they wait.
ENTRIES_MAX: Final = 100_000


class RedisIndex:
    """Until `start` it is a Redis that is away: Kafka has not been reached yet.

    instance: this instance's name, the same that others know it by.
    on_post: gets (kind, body, age_s) of everything that other instances `post` to this one.
    kept_s: how long a doubt stays in Redis without being written again; longer than the age limit.
    """

    def __init__(
        self,
        url: str,
        *,
        instance: str,
        observer: Observer,
        on_post: OnPost,
        kept_s: int = KEPT_S,
        entries_max: int = ENTRIES_MAX,
        body_bytes_max: int = BODY_BYTES_MAX,
    ) -> None:
        """Raises ConfigurationError for a URL that `address.parse` does not take."""
        address = parse(url)
        self._instance = instance
        self._keys: Keys | None = None
        self._body_bytes_max = body_bytes_max
        self._outbox = Outbox(entries_max=entries_max, posts_bytes_max=_POSTS_BYTES_MAX)
        self._table = PresenceTable(instance)
        self._writer = Writer(
            address,
            instance,
            outbox=self._outbox,
            presence=self._table,
            observer=observer,
            kept_s=kept_s,
        )
        self._asker = Asker(address)
        self._inbox = InboxReader(
            address,
            on_post=on_post,
            now_ms=lambda: self._writer.now_ms,
            body_bytes_max=body_bytes_max,
        )

    # -- life ------------------------------------------------------------------------------------

    def start(self, cluster: str) -> None:
        """Begin; Redis need not be there yet. Call it on the event loop, where `on_post` is called.

        cluster: keeps several installations on one Redis apart; part of every key.
        """
        self._keys = keys = keys_of(cluster)
        self._inbox.start(keys.inbox(self._instance), asyncio.get_running_loop())
        self._asker.start()
        self._writer.start(keys)

    async def stop(self) -> None:
        """Take our presence and ownership out of Redis, if it is there, and end within a second."""
        parts = (self._writer, self._inbox, self._asker)
        for part in parts:
            part.stop()
        await asyncio.to_thread(self._join)

    def _join(self) -> None:
        deadline_s = time.monotonic() + _STOP_S
        for part in (self._writer, self._inbox, self._asker):
            part.join(max(0.0, deadline_s - time.monotonic()))

    @property
    def healthy(self) -> bool:
        """Redis takes what we write."""
        return self._writer.healthy

    @property
    def trouble(self) -> str | None:
        """What is wrong and what to do, for /readyz; None while it is healthy, or not started."""
        if self._keys is None:
            return None
        return self._writer.trouble or self._writer.namesake.trouble

    def _started(self) -> Keys:
        if self._keys is None:
            raise RedisUnavailable("Redis is asked only once Kafka has been reached; see /readyz")
        return self._keys

    # -- ports.DoubtIndex ------------------------------------------------------------------------

    def doubtful(self, partition: int, doubts: Sequence[Doubt]) -> None:
        """See ports.DoubtIndex."""
        self._outbox.doubtful(partition, doubts)

    def settled(self, partition: int, identities: Sequence[Identity]) -> None:
        """See ports.DoubtIndex."""
        self._outbox.settled(partition, identities)

    def owns(self, partition: int, *, is_owned: bool, by: object = None) -> None:
        """See ports.DoubtIndex. What is said of a partition that is not owned is ignored."""
        if is_owned:
            self._outbox.own(partition, by)
        else:
            self._outbox.release(partition, by)
        self._writer.pulse_now()

    def wants_all(self, partition: int) -> bool:
        """See ports.DoubtIndex. False while Redis is away."""
        return self._outbox.wants_all(partition, is_healthy=self._writer.healthy)

    def has_room(self, count: int) -> bool:
        """Whether so many doubts can be taken now: an owner with more than fit at once (100,000)
        goes on with `doubtful` when this is true."""
        return self._outbox.has_room(count)

    def told_all(self, partition: int) -> None:
        """See ports.DoubtIndex."""
        self._outbox.told_all(partition)

    async def whole(self, partition: int) -> str | None:
        """See ports.DoubtIndex."""
        return await self._asker.ask([("GET", self._started().whole(partition))], _name)

    async def delivered(
        self, partition: int, identity: Identity, half_offsets: tuple[int, ...]
    ) -> int:
        """See ports.DoubtIndex."""
        try:
            key = self._started().tx(partition, member_of(identity))
            return await self._asker.ask(
                [("HMGET", key, *doubts.DELIVERED_FIELDS)],
                lambda answers: doubts.read_delivered(identity, half_offsets, answers[0]),
            )
        except RedisUnavailable:
            return 0

    async def list(self, partition: int, *, count_max: int) -> Sequence[Doubt]:
        """See ports.DoubtIndex."""
        if count_max < 1:
            return []
        members = await self._asker.ask(
            [("ZRANGE", self._started().due(partition), 0, count_max - 1)], _members
        )
        return await self.find(partition, members)

    async def find(self, partition: int, identities: Sequence[Identity]) -> Sequence[Doubt]:
        """See ports.DoubtIndex."""
        found: list[Doubt] = []
        keys = self._started()
        for start in range(0, len(identities), _LIST_PAGE):
            page = identities[start : start + _LIST_PAGE]
            commands = [
                ("HMGET", keys.tx(partition, member_of(identity)), *doubts.FIELDS)
                for identity in page
            ]
            found += await self._asker.ask(commands, partial(_doubts, page))
        return found

    async def owner(self, partition: int) -> str | None:
        """See ports.DoubtIndex."""
        return await self._asker.ask([("GET", self._started().owner(partition))], _name)

    # -- ports.Presence --------------------------------------------------------------------------

    def announce(self, producer_groups: Collection[str]) -> None:
        """See ports.Presence."""
        if self._table.announce(producer_groups):
            self._writer.pulse_now()

    def instances(self, producer_group: str) -> Sequence[str]:
        """See ports.Presence."""
        names, is_new = self._table.instances(producer_group)
        if is_new:
            self._writer.pulse_now()
        return names

    def post(self, instance: str, kind: str, body: bytes) -> bool:
        """See ports.Presence. False also for a body that is too large, or when too much waits."""
        if not self._writer.healthy or len(body) > self._body_bytes_max:
            return False
        return self._outbox.post(instance, kind, body)


def _members(answers: list[Any]) -> list[Identity]:
    """Of a sorted set; what is no member of ours is passed over."""
    if connect.is_garbage(answers[0]):
        return []
    return [identity for raw in answers[0] if (identity := identity_of(raw)) is not None]


def _doubts(identities: Sequence[Identity], answers: list[Any]) -> list[Doubt]:
    return [
        doubt
        for identity, answer in zip(identities, answers, strict=True)
        if (doubt := doubts.read(identity, answer)) is not None
    ]


def _name(answers: list[Any]) -> str | None:
    raw = answers[0]
    if not isinstance(raw, bytes) or not 0 < len(raw) <= 1_024:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
