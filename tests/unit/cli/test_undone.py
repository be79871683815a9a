"""What is stored and has not ended, whatever is read first."""

from __future__ import annotations

from halfhitch_cli.undone import Undone
from harness.played_topics import PlayedTopics


def ids(undone: Undone) -> list[str]:
    return [message.transaction_id for message in undone.messages]


def test_a_half_is_undone_until_its_done_mark() -> None:
    topics, undone = PlayedTopics(orders=1), Undone()
    first, second = topics.prepare("one"), topics.prepare("two", partition=1)
    for half in (first, second):
        message = undone.half(half)
        assert message is not None
        assert message.state == "invisible"
    assert undone.op(topics.decide(first)) == []  # decided, and not carried out
    assert ids(undone) == ["one", "two"]
    (ended,) = undone.op(topics.finish(first))
    assert (ended.group, ended.transaction_id, ended.ending) == ("shop", "one", 1)
    assert [message.transaction_id for message in ended.messages] == ["one"]
    assert ids(undone) == ["two"]  # the other partition's half has the same offset


def test_a_done_mark_that_was_read_before_its_half_left_it_undone_for_ever() -> None:
    topics, undone = PlayedTopics(orders=1), Undone()
    half = topics.prepare("one")
    (ended,) = undone.op(topics.finish(half, 0))
    assert ended.messages == ()
    assert undone.half(half) is None
    assert ids(undone) == []


def test_a_copy_for_a_check_is_no_new_message() -> None:
    topics, undone = PlayedTopics(orders=1), Undone()
    first = topics.prepare("one")
    copy = topics.prepare("one", check_count=1, first_half_offset=0, first_stored_ms=1)
    assert undone.half(first) is not None
    assert undone.half(copy) is None
    assert undone.op(topics.finish(first, -3)) == []
    assert ids(undone) == ["one"]  # the copy stands for it
    undone.op(topics.finish(copy, 1))
    assert ids(undone) == []


def test_garbage_is_passed_over() -> None:
    topics, undone = PlayedTopics(orders=1), Undone()
    assert undone.half(topics.append("orders", value=b"x", headers=None)) is None
    assert undone.op(topics.append("orders", value=b"x", headers=[("TAGS", b"d")])) == []


def test_what_is_remembered_of_halves_that_never_come_is_bounded(monkeypatch) -> None:
    monkeypatch.setattr("halfhitch_cli.undone._DONE_MAX", 3)
    topics, undone = PlayedTopics(orders=1), Undone()
    halves = [topics.prepare(f"t{number}") for number in range(5)]
    for half in halves:
        undone.op(topics.finish(half, 0))
    assert [undone.half(half) is None for half in halves] == [False, False, True, True, True]
