"""Which targets are away and who has to wait for them: pure, with time as an argument."""

from __future__ import annotations

import pytest

from halfhitch.core.model import HalfOffset, TimestampMs
from halfhitch.core.transaction import State, Transaction
from halfhitch.service.owner.away_targets import PROBE_MESSAGES_MAX, AwayTargets, TopicAndKey
from harness.ledger_world import identity_of


def made(name: str) -> Transaction:
    transaction = Transaction(identity_of(name), State.READY, TimestampMs(0))
    transaction.take(0, HalfOffset(0), 1)
    return transaction


def to(*topics: str, key: bytes | None = None) -> list[TopicAndKey]:
    return [(topic, key) for topic in topics]


def away(*topics: str, now_s: float = 0.0) -> AwayTargets:
    targets = AwayTargets()
    assert targets.failed(topics, now_s, "no answer") == sorted(topics)
    return targets


def pauses(targets: AwayTargets, failure_count: int, **how: bool) -> list[float]:
    """How long each pause is, one failure right after the other pause."""
    found, now_s = [], 0.0
    for _ in range(failure_count):
        targets.failed(["a"], now_s, "no answer", **how)
        before_s = now_s
        while not targets.due(now_s):
            now_s += 0.25
        found.append(now_s - before_s)
    return found


def test_it_is_false_until_a_target_is_away_and_again_when_all_are_back() -> None:
    targets = AwayTargets()
    assert not targets
    targets.failed(["a"], 0.0, "no answer")
    assert targets
    assert targets.answered(["a", "b"], 1.0) == ["a"]
    assert not targets


def test_a_pause_is_doubled_with_each_failure_and_bounded() -> None:
    assert pauses(AwayTargets(), 8) == [1, 2, 4, 8, 16, 30, 30, 30]


def test_a_guess_pauses_for_five_seconds_at_most() -> None:
    assert pauses(AwayTargets(), 5, is_guess=True) == [1, 2, 4, 5, 5]


@pytest.mark.parametrize(("dice", "pause_s"), [(0.0, 0.8), (0.5, 1.0), (1.0, 1.2)])
def test_the_dice_spread_the_pauses(dice: float, pause_s: float) -> None:
    targets = AwayTargets(lambda: dice)
    targets.failed(["a"], 100.0, "no answer")
    assert targets.due(100.0 + pause_s - 0.01) == []
    assert targets.due(100.0 + pause_s + 0.01) == ["a"]


def test_only_those_wait_that_have_a_message_for_it() -> None:
    targets = away("a")
    assert targets.holds(made("T1"), to("a"))
    assert targets.holds(made("T2"), to("b", "a"))
    assert not targets.holds(made("T3"), to("b"))
    assert not targets.holds(made("T4"), [])
    assert targets.waiting_by_topic() == {"a": 2}


def test_messages_of_one_key_keep_their_order_on_a_topic_that_is_there() -> None:
    targets = away("a")
    assert targets.holds(made("T1"), [("a", None), ("b", b"k")])
    assert targets.holds(made("T2"), to("b", key=b"k")), "behind T1"
    assert not targets.holds(made("T3"), to("b", key=b"other"))
    assert not targets.holds(made("T4"), to("b"))
    assert targets.holds(made("T5"), [("b", b"k"), ("c", b"k")]), "behind T1 and T2"
    assert targets.holds(made("T6"), to("c", key=b"k")), "behind T5"


def test_a_probe_is_few_of_those_that_wait_longest() -> None:
    targets = away("a")
    waiting = [made(f"T{n}") for n in range(3 * PROBE_MESSAGES_MAX)]
    for transaction in waiting:
        assert targets.holds(transaction, to("a"))
    assert targets.probe(["a"], 1_000) == waiting[:PROBE_MESSAGES_MAX]
    assert targets.probed == ["a"]
    assert not targets.holds(waiting[0], to("a")), "it is let through"
    assert targets.holds(waiting[-1], to("a"))
    targets.aborted()
    assert targets.probe(["a"], 1) == waiting[:1]


def test_who_waits_for_another_topic_too_is_no_probe() -> None:
    targets = away("a", "b")
    both, behind, one = made("T1"), made("T2"), made("T3")
    assert targets.holds(both, to("a", "b", key=b"k"))
    assert targets.holds(behind, to("a", key=b"k"))
    assert targets.holds(one, to("a", key=b"other"))
    assert targets.probe(["a"], 10) == [one]


def test_a_failed_probe_keeps_its_place() -> None:
    targets = away("a")
    first, second = made("T1"), made("T2")
    for transaction in (first, second):
        targets.holds(transaction, to("a"))
    assert targets.probe(["a"], 1) == [first]
    assert targets.failed(["a"], 1.0, "still no answer") == [], "that is no news"
    assert targets.holds(first, to("a"))
    targets.answered(["a"], 3.0)
    assert targets.released() == [first, second]
    assert targets, "they are not written yet"
    targets.ended([first, second])
    assert not targets


def test_who_waits_for_two_topics_waits_for_the_second_one_to_come_back() -> None:
    targets = away("a", "b")
    both, behind, one = made("T1"), made("T2"), made("T3")
    targets.holds(both, to("a", "b", key=b"k"))
    targets.holds(behind, to("a", key=b"k"))
    targets.holds(one, to("a"))
    targets.answered(["a"], 1.0)
    assert targets.released() == [one]
    assert targets.waiting_by_topic() == {"b": 1}
    assert targets.holds(made("T4"), to("a", key=b"k")), "still behind T1"
    targets.answered(["b"], 2.0)
    free = targets.released()
    assert [t.identity[1] for t in free] == ["T1", "T2", "T4"]
    targets.ended([one, *free])
    assert not targets


def test_who_is_to_be_parked_meanwhile_waits_no_more() -> None:
    targets = away("a")
    transaction = made("T1")
    targets.holds(transaction, to("a"))
    targets.probe(["a"], 1)
    targets.aborted()
    assert not targets.holds(transaction, to("parked"))
    assert targets.waiting_count == 0


def test_when_one_guess_turns_out_wrong_all_guesses_are_tried_at_once() -> None:
    targets = AwayTargets()
    targets.failed(["a", "b"], 0.0, "?", is_guess=True)
    targets.failed(["c"], 0.0, "no answer")
    for _ in range(4):
        targets.failed(["b"], 0.0, "?", is_guess=True)
    targets.failed(["c"], 0.0, "?", is_guess=True)
    assert targets.due(1.0) == ["a"]
    targets.answered(["a"], 1.0)
    assert targets.due(1.0) == ["b"], "of the third one it was known"


def test_a_topic_for_which_nobody_waits_is_open_for_whoever_comes_and_forgotten_later() -> None:
    targets = away("a")
    assert targets.probe(targets.due(1.0), 10) == []
    assert not targets.has_closed("a")
    passed = made("T1")
    assert not targets.holds(passed, to("a"))
    targets.ended([passed])
    targets.failed(["a"], 2.0, "no answer")
    assert targets.has_closed("a")
    assert targets.due(3.5) == [], "the pause was doubled"
    assert targets.probe(targets.due(4.0), 10) == []
    assert targets.due(100.0) == []
    assert not targets


def test_a_look_that_finds_it_still_away_costs_no_doubling() -> None:
    targets = away("a")
    targets.postpone(["a"], 1.0)
    assert targets.due(1.9) == []
    assert targets.due(2.0) == ["a"]
    targets.failed(["a"], 2.0, "no answer")
    assert targets.due(4.0) == ["a"]


def test_who_has_ended_is_counted_no_more() -> None:
    targets = away("a")
    one, two = made("T1"), made("T2")
    for transaction in (one, two):
        targets.holds(transaction, to("a", key=b"k"))
    targets.ended([one, made("T3")])
    assert targets.waiting_by_topic() == {"a": 1}
    targets.ended([two])
    assert targets.waiting_by_topic() == {"a": 0}
    assert not targets.holds(made("T4"), to("b", key=b"k"))


def test_nobody_is_probed_or_released_past_one_that_was_let_through_and_is_not_written() -> None:
    targets = away("a")
    waits, passes = made("T1"), made("T2")
    targets.holds(waits, to("a"))
    assert not targets.is_owing
    assert not targets.holds(passes, to("b"))
    assert targets.is_owing
    targets.ended([passes])
    assert not targets.is_owing


def test_who_was_let_through_and_has_to_wait_after_all_waits_in_his_own_place() -> None:
    targets = away("a")
    first, second = made("T1"), made("T2")
    assert not targets.holds(first, to("b", key=b"k"))
    assert targets.holds(second, [("a", None), ("b", b"k")])
    assert not targets.holds(first, to("b", key=b"k")), "nobody waits for one behind him"
    targets.failed(["b"], 1.0, "no answer")
    assert targets.holds(first, to("b", key=b"k"))
    targets.answered(["a", "b"], 2.0)
    assert targets.released() == [first, second]
