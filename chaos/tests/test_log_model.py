"""The independent model reads what the product writes, and decides by the documented rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.kit.invented import HALF, Invented
from chaos.kit.log_model import EARLY_MS, LogModel, identity_and_index, read_parked
from chaos.kit.readers import Seen
from harness.checkers import Fate


def test_the_first_decision_wins() -> None:
    run = Invented()
    identity = run.prepare("T")
    run.decide(identity, "r")
    run.decide(identity, "c")
    account = run.model().accounts[identity]
    assert account.state == "rolled_back"
    assert account.last.expected == {}


def test_a_committed_one_names_what_must_be_there() -> None:
    run = Invented()
    identity = run.transaction("T", Fate.COMMITTED)
    life = run.model().accounts[identity].last
    assert {index: message.topic for index, message in life.expected.items()} == {
        0: "orders",
        1: "points",
    }
    assert life.expected[0].headers == (("h", b"1"), ("h", None))
    assert life.is_carried_out
    assert life.marked == {0, 1}


def test_a_commit_that_covers_more_than_there_is_is_incomplete() -> None:
    run = Invented()
    identity = run.prepare("T")
    run.decide(identity, "c", count=3)
    assert run.model().accounts[identity].state == "incomplete"


@pytest.mark.parametrize(("late_ms", "state"), [(0, "rolled_back"), (1, "pending")])
def test_an_early_decision_counts_for_a_minute(late_ms: int, state: str) -> None:
    run = Invented()
    identity = ("orders", "T")
    decision = run.decide(identity, "r")
    run.now_ms = decision.stored_ms + EARLY_MS + late_ms - 10
    run.append_half(identity, 0, b"v", None)
    assert run.model().accounts[identity].state == state


def test_a_decision_for_a_half_that_was_never_stored_does_not_end_the_judging() -> None:
    run = Invented()
    run.decide(("orders", "refused"), "r")
    identity = run.prepare("T")
    run.decide(identity, "c")
    assert run.model().accounts[identity].state == "committed"


def test_a_decision_that_names_a_half_counts_whatever_the_clocks_say() -> None:
    run = Invented()
    identity = run.prepare("T")
    run.decide(identity, "c")
    run.half = [replace(seen, stored_ms=seen.stored_ms + 10 * EARLY_MS) for seen in run.half]
    assert run.model().accounts[identity].state == "committed"


def test_the_first_copy_of_a_message_counts() -> None:
    run = Invented()
    identity = run.prepare("T")
    run.append_half(identity, 0, b"again", b"k")
    run.copy(identity, 1)
    model = run.model()
    half = model.accounts[identity].last.firsts[0]
    assert (half.half_offset, half.check_count) == (0, 0)
    assert model.copied_count == 2


def test_partitions_and_options_are_read() -> None:
    run = Invented()
    seen = run.append_half(("orders", "T"), 0, b"v", None, target_partition=2, immunity_s=5)
    (half,) = LogModel([seen], []).halves()
    assert half.message.partition == 2
    assert half.message.headers == (("h", b"1"), ("h", None))


def test_decisions_that_share_a_record_are_told_apart() -> None:
    run = Invented()
    one, other = run.prepare("one"), run.prepare("other")
    headers = (
        ("TAGS", b"c"),
        (
            "HALFHITCH",
            b'1[["orders","one",2,2,"producer",null],["orders","other",2,2,"check",null]]',
        ),
    )
    run.op.append(Seen("op", 0, 0, None, b"0,1,2,3,", headers, 5))
    accounts = run.model().accounts
    first, second = accounts[one].winner, accounts[other].winner
    assert first is not None
    assert second is not None
    assert (first.entry, first.half_hint, first.source) == (0, 1, "producer")
    assert (second.entry, second.half_hint, second.source) == (1, 3, "check")


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (b"", ()),
        (b"", (("TAGS", b"c"), ("HALFHITCH", b"2[]"))),
        (b"", (("TAGS", b"?"), ("HALFHITCH", b'1[["g","T",1,0,"producer",null]]'))),
        (b"1,", (("TAGS", b"c"), ("HALFHITCH", b'1[["g","T",1,0,"producer",null]]'))),
        (b"a,", (("TAGS", b"c"), ("HALFHITCH", b"1[]"))),
        (b"", (("TAGS", b"c"), ("HALFHITCH", b"1{"))),
    ],
)
def test_what_is_no_op_record_is_garbage_and_stops_nothing(value: bytes, headers: tuple) -> None:
    run = Invented()
    identity = run.prepare("T")
    run.op.append(Seen("op", 0, 0, None, value, headers))
    run.op.append(replace(run.decide(identity, "r"), log_offset=7))
    model = run.model()
    assert len(model.garbage) == 1
    assert model.accounts[identity].state == "rolled_back"


def test_what_is_no_half_record_is_garbage_and_stops_nothing() -> None:
    run = Invented()
    run.half.append(Seen(HALF, 0, 99, None, b"?", (("a", b"b"),)))
    identity = run.prepare("T")
    model = run.model()
    assert len(model.garbage) == 1
    assert list(model.accounts) == [identity]


def test_the_parked_topic_is_folded() -> None:
    run = Invented()
    identity = run.prepare("T")
    run.park(identity, "too_old")
    run.resume(identity, 3)
    parked = read_parked(run.parked)
    assert [(half.index, reason) for half, reason in parked.messages[identity]] == [
        (0, "too_old"),
        (1, "too_old"),
    ]
    assert parked.resumed == {identity: 1}
    assert parked.garbage == []


def test_only_forwarded_records_say_whose_they_are() -> None:
    run = Invented()
    identity = run.transaction("T", Fate.COMMITTED)
    assert [identity_and_index(seen.headers) for seen in run.final] == [
        (identity, 0),
        (identity, 1),
    ]
    assert identity_and_index(run.half[0].headers) is None
    assert identity_and_index(()) is None
