"""The lines that `halfhitch dev` shows."""

from __future__ import annotations

import logging
import re

import pytest

from halfhitch.core.model import Resolution, ResolutionSource
from halfhitch_cli import events
from halfhitch_cli.events import Story
from harness.played_topics import AT_MS, PlayedTopics


class Stage:
    """A story, its topics and its clock."""

    def __init__(self, *, is_coloured: bool = False) -> None:
        self.now_s = 100.0
        self.topics = PlayedTopics(orders=3)
        self.story = Story(
            lambda: self.now_s,
            lambda: AT_MS + int(self.now_s * 1000),
            horizon_s=900,
            is_coloured=is_coloured,
        )

    def lines(self, *, is_over: bool = False) -> list[str]:
        """Without the time of day, which is the machine's."""
        return [re.sub(r"^\d\d:\d\d:\d\d  ", "", line) for line in self.story.due(is_over=is_over)]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def asked(text: str, at_ms: int, took_s: float = 0.0) -> logging.LogRecord:
    line = logging.LogRecord("told", logging.INFO, "", 0, text, (), None)
    line.created = at_ms / 1000
    line.__dict__.update(producer_group="shop", transaction_id="one", took_s=took_s)
    return line


def test_a_life_is_told_in_its_order_however_it_was_read(stage: Stage) -> None:
    half = stage.topics.prepare("one", key=b"42")
    stage.story.target(stage.topics.forward(half, 2))
    stage.story.op(stage.topics.decide(half, source=ResolutionSource.CHECK, after_ms=150))
    stage.story.heard(asked("asked vm-1 about one (check 1 of 15): COMMIT", AT_MS + 200, 0.1))
    stage.story.half(half)
    assert stage.lines() == []  # a moment later
    stage.now_s += 0.5
    assert stage.lines() == [
        "shop  one  stored, invisible: orders, key 42",
        "shop  one  asked vm-1 (check 1 of 15): COMMIT",
        "shop  one  committed by the answer to a check",
        "shop  one  visible on orders/2@0",
    ]
    assert stage.lines() == []


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (0, "its messages are dropped"),
        (-1, "parked: a topic does not take it (halfhitch parked list)"),
        (-2, "parked, undecided (halfhitch parked list)"),
    ],
)
def test_what_never_becomes_visible_is_told_too(stage: Stage, ending: int, said: str) -> None:
    stage.story.op(stage.topics.finish(stage.topics.prepare("one"), ending))
    assert stage.lines(is_over=True) == [f"shop  one  {said}"]


def test_of_messages_that_become_visible_the_done_mark_says_nothing(stage: Stage) -> None:
    half = stage.topics.prepare("one")
    stage.story.op(stage.topics.finish(half, 1))
    stage.story.op(stage.topics.finish(half, -3))
    assert stage.lines(is_over=True) == []


@pytest.mark.parametrize(
    ("resolution", "source", "said"),
    [
        (Resolution.COMMIT, ResolutionSource.PRODUCER, "committed by its producer"),
        (Resolution.ROLLBACK, ResolutionSource.OPERATOR, "rolled back by an operator: lost"),
        (Resolution.PARK, ResolutionSource.POLICY, "given up by the give-up policy: lost"),
    ],
)
def test_a_decision_says_whose_it_is(
    stage: Stage, resolution: Resolution, source: ResolutionSource, said: str
) -> None:
    half = stage.topics.prepare("one")
    stage.story.half(half)
    stage.story.op(stage.topics.decide(half, resolution, source, "lost"))
    assert stage.lines(is_over=True)[1:] == [f"shop  one  {said}"]


def test_an_end_was_told_as_one_that_counts_although_the_story_began_after_the_first(
    stage: Stage,
) -> None:
    """After a restart a refused roll-back was told as "rolled back", the commit not at all."""
    half = stage.topics.prepare("one")
    stage.story.op(stage.topics.decide(half, Resolution.ROLLBACK))
    stage.story.op(stage.topics.decide(half, Resolution.ROLLBACK, after_ms=1))
    assert stage.lines(is_over=True) == [
        "shop  one  rolled back by its producer, unless it was decided before (halfhitch tx trace)",
        "shop  one  rolled back by its producer, again",
    ]


def test_a_rollback_that_came_too_late_was_told_as_if_it_counted(stage: Stage) -> None:
    half = stage.topics.prepare("one")
    stage.story.half(half)
    stage.story.op(stage.topics.decide(half))
    stage.story.op(stage.topics.decide(half, Resolution.ROLLBACK, after_ms=1))
    stage.story.op(stage.topics.decide(half, after_ms=2))
    assert stage.lines(is_over=True)[1:] == [
        "shop  one  committed by its producer",
        "shop  one  rolled back by its producer: refused, it was committed before",
        "shop  one  committed by its producer, again",
    ]


def test_a_repeat_was_told_as_another_message(stage: Stage) -> None:
    for index in (0, 1, 0):
        stage.story.half(stage.topics.prepare("one", index=index))
    assert stage.lines(is_over=True) == [
        "shop  one  stored, invisible: orders, key k",
        "shop  one  stored, invisible: orders, key k",
        "shop  one  sent again, counts once: orders, key k",
    ]


def told_later(stage: Stage) -> list[str]:
    """What has come so far is told before the next comes."""
    stage.now_s += 1
    return [line.removeprefix("shop  one  ") for line in stage.lines()]


@pytest.mark.parametrize("is_seen", [True, False])
def test_what_was_put_back_undecided_is_decided_anew(stage: Stage, *, is_seen: bool) -> None:
    half = stage.topics.prepare("one")
    if is_seen:
        stage.story.half(half)
    stage.story.op(stage.topics.decide(half, Resolution.PARK, ResolutionSource.POLICY, "lost"))
    told_later(stage)
    back = stage.topics.prepare("one", resumed_count=1, fence=3, first_stored_ms=0)
    stage.story.half(back)
    stage.story.op(stage.topics.decide(back))
    assert told_later(stage) == ["put back, invisible: orders", "committed by its producer"]


def test_what_was_put_back_decided_stays_so(stage: Stage) -> None:
    back = stage.topics.prepare(
        "one", resumed_count=1, fence=3, first_stored_ms=0, born=Resolution.COMMIT, born_count=1
    )
    stage.story.half(back)
    stage.story.op(stage.topics.decide(back, Resolution.ROLLBACK))
    assert told_later(stage) == [
        "put back, invisible: orders",
        "rolled back by its producer: refused, it was committed before",
    ]


def test_a_decision_behind_a_give_up_counts_if_it_is_put_back(stage: Stage) -> None:
    half = stage.topics.prepare("one")
    stage.story.half(half)
    stage.story.op(stage.topics.decide(half, Resolution.PARK, ResolutionSource.POLICY, "lost"))
    stage.story.op(stage.topics.decide(half, after_ms=1))
    assert told_later(stage)[1:] == [
        "given up by the give-up policy: lost",
        "committed by its producer: too late, it was given up; counts if it is put back",
    ]


def test_an_id_that_is_used_again_later_was_told_as_a_repeat(stage: Stage) -> None:
    half = stage.topics.prepare("one")
    stage.story.half(half)
    stage.story.op(stage.topics.decide(half))
    told_later(stage)
    later = stage.topics.prepare("one", at_ms=AT_MS + 901_000)
    stage.story.half(later)
    stage.story.op(stage.topics.decide(later, after_ms=901_001))
    elsewhere = stage.topics.prepare("one", partition=1)
    stage.story.half(elsewhere)
    assert told_later(stage) == [
        "stored, invisible: orders, key k",
        "stored, invisible: orders, key k",
        "committed by its producer",
    ]


def test_of_how_many_transactions_it_is_remembered_has_a_bound(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_REMEMBERED_MAX", 2)
    for name in ("one", "two", "three", "one"):
        stage.story.half(stage.topics.prepare(name))
    assert [line.partition("  ")[2] for line in stage.lines(is_over=True)] == [
        f"{name}  stored, invisible: orders, key k" for name in ("one", "two", "three", "one")
    ]


def test_copies_garbage_and_strangers_are_passed_over(stage: Stage) -> None:
    topics = stage.topics
    stage.story.half(topics.prepare("one", check_count=1, first_half_offset=0, first_stored_ms=1))
    stage.story.half(topics.append("orders", value=b"x"))
    stage.story.op(topics.append("orders", value=b"x"))
    stage.story.target(topics.append("orders", value=b"x"))
    assert stage.lines(is_over=True) == []


def test_what_was_parked_and_put_back_is_told_as_that(stage: Stage) -> None:
    back = stage.topics.prepare("one", resumed_count=1, fence=3, first_stored_ms=0)
    stage.story.half(back)
    assert stage.lines(is_over=True) == ["shop  one  put back, invisible: orders"]


def test_on_a_terminal_what_is_invisible_and_what_is_visible_can_be_told_apart() -> None:
    stage = Stage(is_coloured=True)
    half = stage.topics.prepare("one", key=b"42")
    stage.story.half(half)
    stage.story.target(stage.topics.forward(half, 2))
    dropped = stage.topics.prepare("two")
    stage.story.op(stage.topics.finish(dropped, 0))
    assert stage.lines(is_over=True) == [
        "shop  one  \x1b[33mstored, invisible: orders, key 42\x1b[0m",
        "shop  one  \x1b[32mvisible on orders/2@0\x1b[0m",
        "shop  two  \x1b[2mits messages are dropped\x1b[0m",
    ]


def test_names_with_codes_for_the_terminal_are_shown_escaped(stage: Stage) -> None:
    stage.story.half(stage.topics.prepare("o\x1b[2J", group="s\x07", key=b"\n"))
    assert stage.lines(is_over=True) == ["s\\x07  o\\x1b[2J  stored, invisible: orders, key \\n"]


def test_a_flood_is_counted_and_not_printed(stage: Stage) -> None:
    for number in range(100):
        stage.story.half(stage.topics.prepare(f"t{number}"))
    stage.now_s += 0.5
    assert len(stage.lines()) == 40
    stage.story.half(stage.topics.prepare("last"))
    stage.now_s += 1.0
    assert stage.lines() == [
        "          ... and 60 more events",
        "shop  last  stored, invisible: orders, key k",
    ]


def test_what_was_left_out_is_told_when_nothing_follows(stage: Stage) -> None:
    for number in range(41):
        stage.story.half(stage.topics.prepare(f"t{number}"))
    stage.now_s += 0.5
    assert len(stage.lines()) == 40
    stage.now_s += 1.0
    assert stage.lines() == ["          ... and 1 more events"]
