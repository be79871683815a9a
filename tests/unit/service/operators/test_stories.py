"""Stories: put together of what was told, what is pending and what is parked."""

from __future__ import annotations

from typing import Any

from halfhitch.service.operators.stories import StoriesPage, StoryQuery
from halfhitch.wire.story import CONFLICT, SKIPPED, Event, Target
from harness.fake_operations import FakeOperations, parked, undecided
from harness.told import BEGAN_MS, ToldLog, answered, asked, ended, stories_service


async def told(log: ToldLog, operations: FakeOperations | None = None, **query: Any) -> StoriesPage:
    service = stories_service(log, operations or FakeOperations())
    return await service.stories(StoryQuery(**query))


async def test_an_ended_transaction_is_told_from_its_prepare_to_its_forward() -> None:
    page = await told(ToldLog([asked(), answered(), ended(source="check")]), transaction_id="E1")
    (found,) = page.stories
    assert (found.state, found.decided_by, found.partition) == ("committed", "check", 1)
    assert [(event.what, event.by) for event in found.events] == [
        ("prepared", "pod-7"),
        ("asked", None),
        ("answered", "pod-8"),
        ("decided", "check"),
        ("forwarded", "pod-9"),
    ]
    assert found.events[2].took_ms == 480
    assert [target.topic for target in found.events[-1].targets] == ["orders"]
    assert page.kept_since_ms == BEGAN_MS


async def test_lines_of_one_millisecond_stood_in_the_order_of_their_records() -> None:
    at_ms = BEGAN_MS
    checks = [
        Event("shop", "E1", what, at_ms, number, took_ms=0)
        for what, number in (("answered", 2), ("asked", 2), ("answered", 1), ("asked", 1))
    ]
    (found,) = (
        await told(
            ToldLog([ended(decided_ms=at_ms), *checks]),
            transaction_id="E1",
        )
    ).stories
    assert [(e.what, e.number) for e in found.events if e.at_ms == at_ms][:6] == [
        ("prepared", None),
        *(("asked", 1), ("answered", 1), ("asked", 2), ("answered", 2)),
        ("decided", found.events[5].number),
    ]


async def test_an_answer_that_decided_stood_behind_its_decision() -> None:
    """The owner heard of it when the decision was in the log."""
    lives = [BEGAN_MS + 500, BEGAN_MS + 1_200_000]  # the id was used again
    endings = [ended(decided_ms=at_ms, source="check") for at_ms in lives]
    checks = [
        Event("shop", "E1", what, at_ms + after_ms, number, outcome=outcome, took_ms=took_ms)
        for at_ms in lives
        for what, after_ms, number, outcome, took_ms in (
            ("asked", -100, 1, None, None),
            ("answered", 3, 1, "commit", 103),
            ("asked", 2, 2, None, None),
            ("answered", 5, 2, "rollback", 1_000),
            ("answered", 6, 3, "commit", 2),
        )
    ]
    (found,) = (await told(ToldLog([*endings, *checks]), transaction_id="E1")).stories
    about = [e for e in found.events if e.what in ("asked", "answered", "decided")]
    assert [(e.what, e.number if e.what != "decided" else None) for e in about] == 2 * [
        ("asked", 1),
        ("answered", 1),
        ("decided", None),
        ("asked", 2),
        ("answered", 2),
        ("answered", 3),
    ]


async def test_each_ending_has_its_word() -> None:
    for ending, state, decided, last in (
        (0, "rolled_back", "rollback", "dropped"),
        (-1, "parked", "commit", "parked"),
        (-2, "parked", "given_up", "parked"),
        (3, "committed", "commit", "forwarded"),
    ):
        page = await told(ToldLog([ended(ending=ending)]), transaction_id="E1")
        (found,) = page.stories
        outcomes = [event.outcome for event in found.events if event.what == "decided"]
        assert (found.state, outcomes, found.events[-1].what) == (state, [decided], last)


async def test_a_second_life_begins_when_it_was_put_back() -> None:
    again = ended(life=1, stored_ms=BEGAN_MS + 7_500, decided_ms=BEGAN_MS + 7_800)
    log = ToldLog([ended(ending=-2, why="too_old: nobody"), again])
    (found,) = (await told(log, transaction_id="E1")).stories
    assert found.state == "committed"
    assert [event.what for event in found.events] == [
        *("prepared", "decided", "parked"),
        *("lives_again", "decided", "forwarded"),
    ]


async def test_what_lost_is_told_with_the_rest() -> None:
    lost = Event("shop", "E1", CONFLICT, BEGAN_MS + 9_000, 80, outcome="contrary")
    page = await told(ToldLog([ended(), lost]), transaction_id="E1")
    assert [(e.what, e.outcome) for e in page.stories[0].events][-1] == ("conflict", "contrary")


async def test_a_pending_one_is_told_by_its_owner_where_nothing_was_told() -> None:
    operations = FakeOperations([undecided("T1"), undecided("T1", "bank", last_answer=None)])
    page = await told(ToldLog([asked("T1", 3)]), operations, transaction_id="T1")
    first, second = page.stories
    assert (first.state, first.check_count, first.topics) == ("pending", 3, ("orders", "points"))
    assert [event.what for event in first.events] == ["prepared", "asked", "last_answer"]
    assert first.events[0].at_ms == BEGAN_MS + 100_000 - 95_500
    assert first.events[0].targets == [Target("orders"), Target("points")]
    assert [event.what for event in second.events] == ["prepared"]
    known = await told(ToldLog([answered("T1", 3), ended("T1")]), operations, transaction_id="T1")
    assert [event.what for event in known.stories[0].events].count("answered") == 1
    assert "last_answer" not in [event.what for event in known.stories[0].events]


async def test_a_parked_one_is_told_by_the_parked_topic_where_nothing_was_told() -> None:
    operations = FakeOperations([], [parked("P1")])
    page = await told(ToldLog(), operations, transaction_id="P1")
    (found,) = page.stories
    assert (found.state, found.partition) == ("parked", 1)
    assert found.events[0].reason == "checks_exhausted: nobody answered"
    twice = await told(ToldLog([ended("P1", ending=-2)]), operations, transaction_id="P1")
    assert [event.what for event in twice.stories[0].events].count("parked") == 1


async def test_a_committed_one_is_not_looked_for_among_the_parked() -> None:
    operations = FakeOperations()
    await told(ToldLog([ended()]), operations, transaction_id="E1")
    assert [name for name, *_ in operations.calls] == ["undecided"]


async def test_a_key_leads_to_the_whole_stories_of_its_newest_transactions() -> None:
    log = ToldLog([asked("E1"), ended("E1"), ended("E2"), ended("E3", key=b"other"), asked("E3")])
    page = await told(log, topic="orders", key=b"k")
    assert [each.transaction_id for each in page.stories] == ["E1", "E2"]
    assert [event.what for event in page.stories[0].events][1] == "asked"
    page = await told(log, topic="orders", key=b"k", count_max=1)
    assert [each.transaction_id for each in page.stories] == ["E2"]
    assert page.is_cut
    assert (await told(log, topic="points", key=b"k")).stories == []


async def test_what_has_ended_is_listed_newest_first_by_group_and_topic() -> None:
    log = ToldLog([ended("E1"), asked("E2"), ended("E2", "bank"), ended("E3")])
    page = await told(log, since_s=60.0)
    assert [each.transaction_id for each in page.stories] == ["E3", "E2", "E1"]
    assert log.searches[0].since_ms == BEGAN_MS + 40_000
    page = await told(log, since_s=60.0, count_max=1)
    assert ([each.transaction_id for each in page.stories], page.is_cut) == (["E3"], True)
    page = await told(log, since_s=60.0, producer_group="bank", topic="orders")
    assert [each.transaction_id for each in page.stories] == ["E2"]
    assert (await told(log, since_s=60.0, topic="points")).stories == []


async def test_of_groups_that_may_not_be_seen_nothing_is_told() -> None:
    log = ToldLog([ended("E1"), ended("E1", "bank")])
    operations = FakeOperations([undecided("E1", "bank")])
    page = await told(log, operations, transaction_id="E1", may_see=lambda group: group == "shop")
    assert [each.producer_group for each in page.stories] == ["shop"]


async def test_how_far_was_looked_and_what_was_not_seen_is_said() -> None:
    log = ToldLog([], {"kept_since_ms": None, "hidden_count": 3, "unknown_count": 2}, "it is off")
    page = await told(log, transaction_id="E1")
    assert (page.kept_since_ms, page.hidden_count, page.unknown_count) == (None, 3, 2)
    assert page.trouble == "it is off"


async def test_forwarded_messages_are_looked_for_about_the_time_of_their_forwarding() -> None:
    targets = [Target("orders", 3, 9), Target("points")]
    log = ToldLog([ended(targets=targets, ending=2, message_count=2), ended("E2", ending=0)])
    page = await told(log, transaction_id="E1", with_offsets=True)
    (wanted,) = log.targets.asked
    assert (wanted.producer_group, wanted.transaction_id, wanted.message_count) == ("shop", "E1", 2)
    assert wanted.places == {("orders", 3), ("points", None)}
    forwarded = page.stories[0].events[-1]
    assert wanted.forwarded_ms == forwarded.at_ms
    assert [(m.index, m.log_offset, m.content) for m in forwarded.landed or ()] == [
        (0, 17, None), (1, 18, None),
    ]  # fmt: skip
    assert not wanted.shows_content, "what nobody may read is not kept either"
    assert forwarded.landed_trouble is None
    page = await told(log, transaction_id="E2", with_offsets=True)
    assert [event.landed for event in page.stories[0].events] == [None] * 3


async def test_what_was_not_found_is_said_and_contents_are_for_whoever_may_read_them() -> None:
    log = ToldLog([ended()])
    log.targets.trouble = "0 of 1 found: gone"
    page = await told(log, transaction_id="E1", with_offsets=True, may_read=lambda g: g == "shop")
    forwarded = page.stories[0].events[-1]
    assert forwarded.landed_trouble == "0 of 1 found: gone"
    (message,) = forwarded.landed or ()
    assert message.content is not None
    assert message.content.value == b"{}"


async def test_what_is_no_transactions_is_not_looked_for_among_the_pending() -> None:
    skipped = Event("", "", SKIPPED, BEGAN_MS, 7, "ann", "op-0", "forged")
    operations = FakeOperations([undecided("T1")])
    page = await told(ToldLog([skipped, ended()]), operations, transaction_id="")
    (found,) = page.stories
    assert [(e.what, e.by, e.reason) for e in found.events] == [("skipped", "ann", "forged")]
    assert operations.calls == []


async def test_whose_decision_a_put_back_one_was_forwarded_by_was_not_told() -> None:
    """Its second life has no decision of its own; lists showed neither who nor why."""
    first = ended(ending=-1, source="operator", reason="ann: paid", life=0)
    second = ended(ending=1, source=None, reason=None, life=1)
    queries: list[dict[str, Any]] = [{"transaction_id": "E1"}, {"since_s": 60.0}]
    for query in queries:  # oldest first, and newest first
        (found,) = (await told(ToldLog([first, second]), **query)).stories
        assert (found.state, found.decided_by, found.reason) == (
            "committed", "operator", "ann: paid",
        )  # fmt: skip
    given_up = ended(ending=-2, source="limits", reason="nobody answered")
    (found,) = (await told(ToldLog([given_up, second]), transaction_id="E1")).stories
    assert (found.decided_by, found.reason) == (None, None), "that was no decision for a commit"
