"""The owners' group: generations, cooperative assignment, session timeouts; a member's consumer.

Kafka's client joins by itself, between polls; the application hears of it when it polls. So a
member's generation may be newer than what its callbacks have said. A partition that moves is first
revoked where it was; only then, one generation later, somebody else gets it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from harness.simulation.cluster import HALF

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.simulation.several.instance import Instance
    from harness.simulation.several.tasks import Tasks
    from harness.simulation.timeline import Timeline

TICK_MS = 500


class Member:
    """As the coordinator knows it."""

    def __init__(self, name: str, consumer: MemberConsumer) -> None:
        self.name = name
        self.consumer = consumer
        self.heard_ms = 0
        self.has_joined = False  # the rebalance that is under way
        self.owned: set[int] = set()  # as it said when it joined
        self.assigned: set[int] = set()


class Group:
    """The group coordinator."""

    def __init__(self, timeline: Timeline, partition_count: int, session_ms: int) -> None:
        self._timeline = timeline
        self._partition_count = partition_count
        self._session_ms = session_ms
        self.generation = 0
        self.members: dict[str, Member] = {}
        self._is_rebalancing = False
        self._until_ms = 0
        self._joined_count = 0

    def knows(self, name: str, generation: int) -> bool:
        """TxnOffsetCommit's question."""
        return name in self.members and generation == self.generation

    def owner_of(self, partition: int) -> str | None:
        """Whose it is in this generation."""
        for member in self.members.values():
            if partition in member.assigned:
                return member.name
        return None

    def join(self, consumer: MemberConsumer) -> Member:
        self._joined_count += 1
        member = Member(f"{consumer.instance.name}.{self._joined_count}", consumer)
        member.heard_ms = self._timeline.now_ms
        self.members[member.name] = member
        self.rebalance()
        return member

    def leave(self, member: Member) -> None:
        if self.members.pop(member.name, None) is not None:
            self.rebalance()

    def rebalance(self) -> None:
        """Everybody has to join again, with what he owns."""
        self._timeline.count["rebalances"] += 1
        self._is_rebalancing = True
        self._until_ms = self._timeline.now_ms + self._session_ms
        for member in self.members.values():
            member.has_joined = False

    def tick(self) -> None:
        """Heartbeats, timeouts, and the end of a rebalance."""
        now_ms = self._timeline.now_ms
        for member in list(self.members.values()):
            if member.consumer.is_heard:
                member.heard_ms = now_ms
            elif now_ms - member.heard_ms > self._session_ms:
                self._timeline.count["sessions timed out"] += 1
                self._timeline.note("{} is not heard of any more", member.name)
                self.leave(member)
        if not self._is_rebalancing:
            return
        for member in self.members.values():
            consumer = member.consumer
            if not member.has_joined and consumer.is_heard and not consumer.is_busy:
                member.has_joined, member.owned = True, set(consumer.owned)
        late = [member for member in self.members.values() if not member.has_joined]
        if late and now_ms >= self._until_ms:
            for member in late:
                del self.members[member.name]
        elif late:
            return
        self._assign()

    def _assign(self) -> None:
        self._is_rebalancing = False
        self.generation += 1
        members = list(self.members.values())
        if not members:
            return
        least, rest = divmod(self._partition_count, len(members))
        target: dict[int, Member] = {}
        room = {member.name: least for member in members}
        owned_before = [(p, m) for m in members for p in sorted(m.owned)]
        for partition, member in owned_before:
            if partition in target:
                continue
            if room[member.name] > 0:
                room[member.name] -= 1
            elif rest > 0 and room[member.name] == 0:
                rest, room[member.name] = rest - 1, -1
            else:
                continue
            target[partition] = member
        for partition in range(self._partition_count):
            if partition in target:
                continue
            free = [m for m in members if room[m.name] > 0] or [
                m for m in members if room[m.name] == 0
            ]
            target[partition] = free[0]
            room[free[0].name] -= 1
        claimed = dict(owned_before)
        for member in members:
            mine = {p for p, m in target.items() if m is member}
            member.assigned = {p for p in mine if claimed.get(p, member) is member}
            member.consumer.joined(self.generation, member.assigned)
        self._timeline.note("generation {}: {}", self.generation,
                            {m.name: sorted(m.assigned) for m in members})  # fmt: skip


class MemberConsumer:
    """confluent_kafka.Consumer, as far as GroupMembership uses it."""

    def __init__(self, instance: Instance, group: Group, tasks: Tasks) -> None:
        self.instance = instance
        self._process = instance.process  # a later one of the instance is another member
        self._group = group
        self._tasks = tasks
        self._member: Member | None = None
        self._generation = -1
        self.owned: set[int] = set()
        self._news: set[int] | None = None  # an assignment that no poll has told of
        self.is_busy = False  # in a callback: it joins when it is back
        self._on: dict[str, Callable[[Any, list[TopicPartition]], None]] = {}
        self._is_closed = False

    # -- the client's own thread ------------------------------------------------------------------

    @property
    def is_heard(self) -> bool:
        process = self._process
        is_running = not process.is_dead and not process.is_stopped and not self._is_closed
        return is_running and not self.instance.is_cut_off and not self.instance.is_deaf

    def joined(self, generation: int, assigned: set[int]) -> None:
        self._generation = generation
        self._news = set(assigned)
        self.is_busy = assigned != self.owned  # its callbacks come first

    # -- the application's ------------------------------------------------------------------------

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        assert topics == [HALF]
        self._on = callbacks
        self._member = self._group.join(self)

    def poll(self, wait_s: float) -> Any:
        """Callbacks come from within it."""
        often = [100, 300, 700] if self.instance.world.is_faulty else [700, 3_000]
        self._tasks.sleep(self._tasks.timeline.dice.choice(often))
        member = self._member
        assert member is not None
        if not self.is_heard:
            return None
        if self._group.members.get(member.name) is not member:
            self._lost()
        elif self._news is not None:
            news, self._news = self._news, None
            self._told(news)
        return None

    def _lost(self) -> None:
        """Others may own them by now. It joins again when the application has let go."""
        self._news, self._generation = None, -1
        owned = sorted(self.owned)
        self._tasks.timeline.count["partitions lost"] += len(owned)
        self._tasks.timeline.note("{} has lost {}", self.instance.name, owned)
        if owned:
            self._on["on_lost"](self, [TopicPartition(HALF, p) for p in owned])
        self.owned = set()
        self.is_busy = False
        self._member = self._group.join(self)

    def _told(self, news: set[int]) -> None:
        revoked, added = sorted(self.owned - news), sorted(news - self.owned)
        member = self._member
        if revoked:
            self._tasks.timeline.count["partitions revoked"] += len(revoked)
            self._on["on_revoke"](self, [TopicPartition(HALF, p) for p in revoked])
            self.owned -= set(revoked)
            if member is not None and member.name in self._group.members:
                self._group.rebalance()
        if added:
            self.owned |= set(added)
            self._on["on_assign"](self, [TopicPartition(HALF, p) for p in added])
        self.is_busy = self._news is not None

    def memberid(self) -> str | None:
        """As the client knows it: of a session that has ended it knows nothing any more."""
        member = self._member
        return None if member is None else member.name

    def consumer_group_metadata(self) -> tuple[str, int]:
        member = self._member
        if member is None or self._generation < 0:
            raise KafkaException(KafkaError(KafkaError._STATE, "not joined"))
        return member.name, self._generation

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Nothing is read."""

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Nothing was read."""

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Nothing is read."""

    def close(self) -> None:
        """Revoke, leave. A killed process does neither."""
        if self._process.is_dead:
            return
        if self.owned:
            self.is_busy = True
            self._on["on_revoke"](self, [TopicPartition(HALF, p) for p in sorted(self.owned)])
            self.owned = set()
        self._is_closed = True
        if self._member is not None:
            self._group.leave(self._member)
