"""What the owner tells dashboards: messages dropped and parked, how long commits took."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from halfhitch.core.model import ProducerGroup, TimestampMs, TransactionId
from halfhitch.core.states import State
from halfhitch.core.transaction import Transaction
from halfhitch.service.owner.numbers import LOOKED_MAX, oldest_by_group
from harness.spans import PARENT, TRACE
from harness.twin import GROUP, Twin, turn_until_idle

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_a_rollback_of_three_messages_was_counted_as_one() -> None:
    twin = Twin()
    for index in range(3):
        twin.half("T1", index=index)
    twin.half("T1", index=1)  # a repeated prepare
    twin.roll_back("T1")
    turn_until_idle(twin.working_owner())
    ((*_, forwarded, dropped),) = twin.observer.of("kafka_transaction")
    assert (forwarded, dropped) == (0, 3)


def test_what_a_commit_does_not_cover_is_counted_as_dropped() -> None:
    twin = Twin()
    twin.half("T1")
    twin.half("T1", index=1)
    twin.commit("T1", covered=1)
    turn_until_idle(twin.working_owner())
    ((*_, forwarded, dropped),) = twin.observer.of("kafka_transaction")
    assert (forwarded, dropped) == (1, 1)


def test_parked_messages_are_counted_beside_their_transactions() -> None:
    twin = Twin()
    for index, topic in enumerate(("orders", "gone")):
        twin.half("T1", index=index, topic=topic)
    twin.half("T2")
    twin.commit("T1", covered=2)
    twin.commit("T2")
    turn_until_idle(twin.working_owner())
    ok = [call for call in twin.observer.of("kafka_transaction") if call[1] == "ok"]
    assert (sum(call[3] for call in ok), sum(call[4] for call in ok)) == (1, 0)
    assert twin.observer.of("parked") == [(1, 2)]


# -- how long commits took -----------------------------------------------------------------------


def test_a_commit_after_a_pause_was_said_to_have_taken_the_pause() -> None:
    """The clock began at whatever op record came first, our own done marks included."""
    twin = Twin()
    owner = twin.working_owner()
    for transaction_id in ("T1", "T2"):
        twin.half(transaction_id)
        twin.commit(transaction_id)
        turn_until_idle(owner)
        twin.clock.advance(600)
        turn_until_idle(owner)
    assert twin.observer.of("forwarded_after") == [(0.0, 1), (0.0, 1)]


def test_each_commit_is_measured_from_its_own_decision() -> None:
    twin = Twin()
    owner = twin.working_owner()
    for transaction_id in ("T1", "T2", "T3"):
        twin.half(transaction_id)
    twin.commit("T1", "T2")
    twin.clock.advance(2)
    twin.commit("T3")
    twin.clock.advance(1)
    turn_until_idle(owner)
    assert sorted(twin.observer.of("forwarded_after")) == [(1.0, 1), (3.0, 2)]


def test_a_rollback_and_what_is_parked_say_nothing_of_how_long_commits_take() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1")
    twin.half("T2", topic="gone")
    twin.roll_back("T1")
    twin.commit("T2")
    turn_until_idle(owner)
    assert twin.observer.of("parked") == [(1, 1)]
    assert twin.observer.of("forwarded_after") == []


def test_a_commit_that_waited_for_a_takeover_took_so_long_and_one_that_is_done_counts_once() -> (
    None
):
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1")
    twin.commit("T1")
    turn_until_idle(owner)
    twin.half("T2")
    twin.commit("T2")
    twin.clock.advance(40)
    twin.observer.calls.clear()
    successor = twin.working_owner()
    twin.commit("T1")  # said once more, long after it was carried out
    turn_until_idle(successor)
    assert twin.observer.of("forwarded_after") == [(40.0, 1)]


def test_messages_are_counted_by_the_topic_they_became_visible_on() -> None:
    twin = Twin()
    for index, topic in enumerate(("orders", "points", "orders")):
        twin.half("T1", index=index, topic=topic)
    twin.half("T2", topic="gone")
    twin.commit("T1", covered=3)
    twin.commit("T2")
    turn_until_idle(twin.working_owner())
    found: Counter[str] = Counter()
    for (counts,) in twin.observer.of("forwarded"):
        found.update(counts)
    assert +found == {"orders": 2, "points": 1}, "what is parked is not visible there"


# -- the oldest of each group --------------------------------------------------------------------


def told(group: str, transaction_id: str, *, is_told: bool = True) -> Transaction:
    identity = ProducerGroup(group), TransactionId(transaction_id)
    found = Transaction(identity, State.PENDING, TimestampMs(0))
    found.is_told = is_told
    return found


def test_the_first_of_each_group_is_its_oldest() -> None:
    pending = [told("a", "T0", is_told=False), told("a", "T1"), told("a", "T2"), told("b", "T3")]
    firsts = oldest_by_group(pending, 2)
    assert {group: first.identity[1] for group, first in firsts.items()} == {"a": "T1", "b": "T3"}


def test_a_hundred_thousand_of_one_group_were_not_walked_for_the_other() -> None:
    looked = 0

    def pending() -> Iterator[Transaction]:
        nonlocal looked
        same = told("a", "T1")
        for _ in range(100_000):
            looked += 1
            yield same
        yield told("b", "T2")

    assert set(oldest_by_group(pending(), 2)) == {"a"}
    assert looked <= LOOKED_MAX + 1
    looked = 0
    assert set(oldest_by_group(pending(), 1)) == {"a"}
    assert looked <= 2, "there is but one group"


def test_the_ages_of_groups_are_told() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1")
    turn_until_idle(owner)
    for _ in range(70):
        twin.clock.advance(1)
        turn_until_idle(owner)
    numbers = owner.checkback.numbers
    assert numbers.oldest_age_by_group == {GROUP: numbers.oldest_age_s}
    assert numbers.oldest_age_s > 60


def test_of_each_step_the_commit_that_waited_longest_is_an_example_if_it_is_traced() -> None:
    twin = Twin()
    owner = twin.working_owner()
    unsampled = PARENT[:-2] + b"00"
    for transaction_id, parent in (("T1", PARENT), ("T2", b""), ("T3", unsampled)):
        twin.half(transaction_id, headers=[("traceparent", parent)] if parent else [])
    for transaction_id in ("T1", "T2"):
        twin.commit(transaction_id)
        twin.clock.advance(1)
    now_ms = twin.clock.wall_ms()
    turn_until_idle(owner)
    assert twin.observer.of("traced") == [("visible", 2.0, TRACE, now_ms)]
    twin.commit("T3")
    turn_until_idle(owner)
    assert len(twin.observer.of("traced")) == 1, "its caller does not record it"
