"""A member outside the group: when it is waited for, when another takes its place, who is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from halfhitch.adapters.kafka.membership import GroupMembership
from halfhitch.errors import TopologyError

if TYPE_CHECKING:
    from collections.abc import Callable

SESSION_S = 10.0
POLL_S = 0.2


class PlayedConsumer:
    """As Kafka's: callbacks come within a poll, and a name is forgotten with its session."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self.number = number
        self.name: str | None = None
        self.callbacks: dict[str, Callable[..., None]] = {}
        self.is_closed = False
        self.failure: Any = None

    def subscribe(self, _: list[str], **callbacks: Callable[..., None]) -> None:
        self.callbacks = callbacks

    def poll(self, wait_s: float) -> Any:
        self._world.now_s += wait_s
        self._world.step(self)
        return self.failure

    def memberid(self) -> str | None:
        return self.name

    def told(self, callback: str, *partitions: int) -> None:
        self.callbacks[callback](self, [TopicPartition("half", p) for p in partitions])

    def consumer_group_metadata(self) -> object:
        if self.name is None:
            raise KafkaException
        return object()

    def incremental_assign(self, _: list[TopicPartition]) -> None:
        pass

    def incremental_unassign(self, _: list[TopicPartition]) -> None:
        pass

    def pause(self, _: list[TopicPartition]) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True
        if self.name is not None:
            self.told("on_revoke", *self._world.owned)


class World:
    """A membership on a played Kafka: `at` says what it does, `look` when it is looked at."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.end_s = 0.0
        self.kafka_answers = True
        self.consumers: list[PlayedConsumer] = []
        self.owned: set[int] = set()
        self.lost_count = 0  # how often this instance was told that it is outside
        #: time -> what was owned, how long it was outside, what it said
        self.seen: dict[float, tuple[set[int], float, list[str]]] = {}
        self._plan: list[tuple[float, Callable[[PlayedConsumer], None]]] = []
        listener: Any = self
        make: Any = self._make
        self.membership = GroupMembership(
            make,
            half_topic="half",
            listener=listener,
            session_s=SESSION_S,
            kafka_answers=lambda: self.kafka_answers,
            now_s=lambda: self.now_s,
            leave_to_itself=lambda close: close(),
        )
        thread: Any = SimpleNamespace(ident=1)
        self.membership._thread = thread

    def _make(self) -> PlayedConsumer:
        self.consumers.append(PlayedConsumer(self, len(self.consumers)))
        return self.consumers[-1]

    def at(self, at_s: float, act: Callable[[PlayedConsumer], None]) -> None:
        self._plan.append((at_s, act))

    def look(self, at_s: float) -> None:
        def see(_: PlayedConsumer) -> None:
            state = self.membership.state()
            assert state is not None
            assert state.is_joined == (state.outside_s == 0.0)
            self.seen[at_s] = set(self.owned), state.outside_s, self.membership.troubles()

        self.at(at_s, see)

    def step(self, consumer: PlayedConsumer) -> None:
        while self._plan and self._plan[0][0] <= self.now_s:
            self._plan.pop(0)[1](consumer)
        if self.now_s >= self.end_s:
            self.membership._stopping.set()

    def live(self, until_s: float) -> None:
        self.end_s = until_s
        self.membership._run()

    def assigned(self, partitions: list[int]) -> None:
        self.owned |= set(partitions)

    def revoked(self, partitions: list[int]) -> None:
        self.owned -= set(partitions)

    def lost(self, partitions: list[int]) -> None:
        self.owned -= set(partitions)
        self.lost_count += 1


@pytest.fixture
def world() -> World:
    return World()


def joins(consumer: PlayedConsumer, *partitions: int) -> None:
    consumer.name = f"member-{consumer.number}"
    consumer.told("on_assign", *partitions)


def loses_its_session(consumer: PlayedConsumer) -> None:
    consumer.name = None


def test_a_client_that_joins_and_joins_and_gets_no_answer_is_replaced_by_another(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.look(30.0)
    world.at(30.5, lambda consumer: joins(consumer, 0, 1))
    world.look(31.0)
    world.live(until_s=31.5)
    first, second = world.consumers
    assert first.is_closed
    assert first.name is None
    assert second.name == "member-1"
    assert [owned for owned, _, _ in world.seen.values()] == [set(), {0, 1}]
    assert "has not answered for 30 s" in caplog.text


def test_while_kafka_is_away_no_client_is_made_anew(world: World) -> None:
    world.kafka_answers = False
    world.live(until_s=600.0)
    assert len(world.consumers) == 1


@pytest.mark.parametrize(("later_s", "consumer_count"), [(29.0, 1), (31.0, 2)])
def test_waiting_counts_from_when_kafka_answers(
    world: World, later_s: float, consumer_count: int
) -> None:
    world.kafka_answers = False
    world.at(300.0, lambda _: setattr(world, "kafka_answers", True))
    world.live(until_s=300.0 + later_s)
    assert len(world.consumers) == consumer_count


def test_a_group_that_is_slow_is_disturbed_less_and_less(world: World) -> None:
    world.live(until_s=30 + 60 + 120 + 240 + 300 + 300 + 100)
    assert len(world.consumers) == 7


def test_a_member_of_the_group_waits_for_nothing_whatever_it_was_given(world: World) -> None:
    world.at(1.0, joins)
    world.look(499.0)
    world.live(until_s=500.0)
    assert len(world.consumers) == 1
    assert world.seen[499.0] == (set(), 0.0, []), "there are more instances than half partitions"


def test_who_has_lost_nothing_but_its_session_is_outside_and_says_so(world: World) -> None:
    """A client with an empty assignment loses its session without any callback."""
    world.kafka_answers = False
    world.at(1.0, joins)
    world.at(20.0, loses_its_session)
    world.look(61.0)
    world.live(until_s=62.0)
    _, outside_s, (sentence,) = world.seen[61.0]
    assert outside_s == pytest.approx(41.0, abs=0.5)
    assert "owns no half partition" in sentence
    assert "for 41 s it has been waiting" in sentence


def test_joining_takes_a_moment_and_nobody_is_told_of_that(world: World) -> None:
    world.look(4.0)
    world.live(until_s=5.0)
    _, outside_s, told = world.seen[4.0]
    assert outside_s == pytest.approx(4.0, abs=0.5)
    assert told == []


def test_what_is_lost_puts_the_member_outside_until_it_is_taken_in_again(world: World) -> None:
    def loses(consumer: PlayedConsumer) -> None:
        consumer.name = None
        consumer.told("on_lost", 0)

    world.at(1.0, lambda consumer: joins(consumer, 0))
    world.at(20.0, loses)
    world.look(30.0)
    world.at(31.0, lambda consumer: joins(consumer, 0))
    world.look(32.0)
    world.live(until_s=33.0)
    owned, outside_s, _ = world.seen[30.0]
    assert owned == set()
    assert outside_s == pytest.approx(10.0, abs=0.5)
    assert world.seen[32.0] == ({0}, 0.0, [])


def test_who_closes_a_client_that_has_failed_is_outside_until_another_has_joined(
    world: World,
) -> None:
    """Its close gives all up in order, as if another instance were to have it."""
    fatal = SimpleNamespace(str=lambda: "over", code=lambda: KafkaError._FATAL, fatal=lambda: True)

    def fails(consumer: PlayedConsumer) -> None:
        consumer.failure = SimpleNamespace(error=lambda: fatal)

    world.at(1.0, lambda consumer: joins(consumer, 0))
    world.at(2.0, fails)
    world.at(4.0, lambda consumer: joins(consumer, 0))
    world.look(5.0)
    world.live(until_s=6.0)
    assert [consumer.is_closed for consumer in world.consumers] == [True, True]
    assert world.seen[5.0] == ({0}, 0.0, [])
    assert world.lost_count == 1, "and not again by the stop"


def test_a_client_that_was_left_to_itself_moves_nothing_any_more(world: World) -> None:
    def late(_: PlayedConsumer) -> None:
        first = world.consumers[0]
        first.told("on_assign", 5)
        first.told("on_revoke", 0)
        first.told("on_lost", 0)

    world.at(33.0, lambda consumer: joins(consumer, 0))
    world.at(34.0, late)
    world.look(35.0)
    world.live(until_s=36.0)
    assert world.seen[35.0] == ({0}, 0.0, [])


def test_a_member_that_cannot_read_what_it_owns_leaves_and_does_not_come_back(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """It used to keep its partitions, from which no instance of the newer release could help."""
    why = TopologyError("op record 7 was written by a newer release: upgrade this instance")

    def leaves(_: PlayedConsumer) -> None:
        world.membership.leave(why)
        world.membership.leave(why)

    world.at(1.0, lambda consumer: joins(consumer, 0, 1))
    world.at(2.0, leaves)
    world.live(until_s=100.0)
    (consumer,) = world.consumers
    assert consumer.is_closed
    assert world.now_s < 3.0, "nothing is polled any more"
    assert world.owned == set()
    assert world.lost_count == 0, "nothing will be given to it"
    assert world.membership.is_alive, "that is no reason to restart by itself"
    state = world.membership.state()
    assert state is not None
    assert not state.is_joined
    (told,) = world.membership.troubles()
    assert told == f"this instance owns no half partition until it is restarted: {why.message}"
    assert [record.levelname for record in caplog.records].count("ERROR") == 1


def test_before_its_start_a_membership_has_no_state() -> None:
    anything: Any = None
    membership = GroupMembership(anything, half_topic="h", listener=anything, session_s=SESSION_S)
    assert membership.state() is None
    assert membership.troubles() == []
