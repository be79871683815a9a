"""Desks of several instances: who is asked where, and what inboxes may do to it."""

from __future__ import annotations

import pytest

from halfhitch.core.model import ProducerGroup, TransactionId
from halfhitch.service.checking import inbox
from halfhitch.service.checking.api import CheckOutcome
from halfhitch.service.checking.breaker import BreakerLimits
from harness.defaults import desk_limits
from harness.desks import GROUP, World, check, turn

COMMIT, UNKNOWN, SILENT = CheckOutcome.COMMIT, CheckOutcome.UNKNOWN, CheckOutcome.SILENT
LOST, UNDELIVERED, DECIDED = CheckOutcome.LOST, CheckOutcome.UNDELIVERED, CheckOutcome.DECIDED
ONE, TWO, THREE = "instance-1", "instance-2", "instance-3"
IDENTITY = check().identity


async def test_a_check_goes_to_a_producer_elsewhere_and_its_answer_comes_back() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    link = two.link("order service")
    await one.ask(check(number=2))
    world.deliver()
    assert [asked.number for asked in link.offered] == [2]
    assert two.desk.settle(IDENTITY, COMMIT)
    world.deliver()
    [(partition, report)] = one.sink.reports
    assert (partition, report.number, report.outcome) == (0, 2, COMMIT)
    assert report.by == "order service at instance-2"
    assert (one.permits(), two.permits()) == ((0, 0), (0, 0))
    assert two.sink.reports == []
    # It counts where it was asked for, and only there.
    assert len(one.observer.of("check_sent")) == len(one.observer.of("check_settled")) == 1
    assert two.observer.calls == []


async def test_why_it_cannot_be_said_comes_back_from_elsewhere() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    two.link()
    await one.ask(check(number=2))
    world.deliver()
    assert two.desk.settle(IDENTITY, UNKNOWN, "RuntimeError: db down")
    world.deliver()
    [(_, report)] = one.sink.reports
    assert (report.outcome, report.reason) == (UNKNOWN, "RuntimeError: db down")


async def test_the_instance_that_took_the_prepare_is_asked_first() -> None:
    world = World()
    desks = {name: world.desk(name) for name in (ONE, TWO, THREE)}
    links = {name: one.link(name) for name, one in desks.items()}
    for prepared_at in (ONE, TWO, THREE):
        await desks[ONE].ask(check(f"OF-{prepared_at}", instance=prepared_at))
    await desks[ONE].ask(check("OF-NOBODY", instance="gone"))
    world.deliver()
    assert {name: link.ids for name, link in links.items()} == {
        ONE: ["OF-instance-1", "OF-NOBODY"],
        TWO: ["OF-instance-2"],
        THREE: ["OF-instance-3"],
    }


async def test_without_producers_here_the_others_are_asked_in_turn() -> None:
    world = World()
    one = world.desk(ONE)
    others = [world.desk(f"other-{number}").link() for number in range(4)]
    await one.ask(*(check(f"T{number}") for number in range(40)))
    world.deliver()
    assert [len(link.offered) for link in others] == [10, 10, 10, 10]


async def test_a_producer_that_hangs_is_not_asked_all_checks_of_a_transaction() -> None:
    world = World()
    desks = [world.desk(name) for name in (ONE, TWO, THREE)]
    links = [one.link() for one in desks]
    for number in range(1, 7):
        await desks[0].ask(check(number=number, instance=TWO))
        world.deliver()
        for one in desks:
            one.desk.settle(IDENTITY, UNKNOWN)
        world.deliver()
    assert [len(link.offered) for link in links] == [2, 2, 2]
    assert links[1].offered[0].number == 1


async def test_an_instance_whose_producers_have_left_is_passed_over() -> None:
    world = World()
    one, two, three = (world.desk(name) for name in (ONE, TWO, THREE))
    two.link()
    world.live[TWO] = {GROUP}
    stale = two.desk.live_groups()
    assert list(stale) == [GROUP]
    link = three.link()
    await one.ask(check(instance=TWO))
    for gone in list(two.desk._delivery._links.values()):
        two.desk.disconnect(gone.producer_link)
    world.deliver()
    assert link.ids == ["T1"]
    three.desk.settle(IDENTITY, COMMIT)
    world.deliver()
    assert one.sink.outcomes() == [COMMIT]


async def test_presence_that_is_out_of_date_is_no_failure_of_the_group() -> None:
    world = World()
    one = world.desk(ONE, limits=desk_limits(breaker=BreakerLimits(failure_count=3)))
    world.desk(TWO)
    for number in range(10):
        world.live[TWO] = {GROUP}
        await one.ask(check(f"T{number}", instance=TWO))
        world.deliver()
    assert one.sink.outcomes() == [UNDELIVERED] * 10
    assert one.breaker() == "closed"


async def test_a_full_producer_elsewhere_makes_checks_wait_here() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    link = two.link(room=1)
    await one.ask(check("T1"), check("T2"))
    world.deliver()
    await turn()
    assert link.ids == ["T1"]
    assert one.desk.take(GROUP, 1) == 0
    link.room = 1
    two.desk.settle(check("T1").identity, UNKNOWN)
    world.deliver()
    await turn()
    world.deliver()
    assert link.ids == ["T1", "T2"]


async def test_no_report_in_time_is_lost_and_tried_once_elsewhere() -> None:
    world = World()
    one = world.desk(ONE, limits=desk_limits(answer_s=10.0, inbox_grace_s=3.0))
    world.live["dead"] = {GROUP}
    link = world.desk(THREE).link()
    await one.ask(check(instance="dead"))
    world.deliver()
    await world.pass_time(12.9)
    assert world.deliver() == 0
    await world.pass_time(0.5)
    world.deliver()
    assert link.ids == ["T1"]
    world.posts.clear()
    await world.pass_time(10.5)
    world.posts.clear()  # the report gets lost
    await world.pass_time(3.5)
    assert one.sink.outcomes() == [LOST]
    assert one.permits() == (0, 0)


async def test_a_link_that_breaks_elsewhere_is_reported_as_lost() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    link = two.link()
    await one.ask(check())
    world.deliver()
    two.desk.disconnect(link)
    await world.pass_time(0.3)
    world.deliver()
    assert one.sink.outcomes() == [LOST]


async def test_an_answer_that_comes_in_here_ends_the_question_there() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    two.link()
    await one.ask(check("ANSWERED"), check("DECIDED"))
    world.deliver()
    assert not one.desk.settle(check("ANSWERED").identity, CheckOutcome.NO_ANSWER)
    assert one.desk.settle(check("ANSWERED").identity, COMMIT)
    one.desk.forget([check("DECIDED").identity])
    await turn()
    assert world.deliver() == 2  # and nothing comes back
    assert not two.desk.settle(check("ANSWERED").identity, COMMIT)
    assert sorted(one.sink.outcomes()) == [COMMIT, DECIDED]
    await world.pass_time(20.0)
    assert len(one.sink.reports) == 2
    assert world.posts == []


async def test_a_late_answer_by_the_first_way_counts_also_after_the_second_was_tried() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    two.link("late")
    await one.ask(check(instance=TWO))
    held = world.posts[:]
    world.posts.clear()
    local = one.link("local")
    await world.pass_time(13.5)
    assert local.ids == ["T1"]
    world.posts = held
    world.deliver()
    two.desk.settle(IDENTITY, UNKNOWN)
    world.deliver()
    assert one.sink.outcomes() == [UNKNOWN]


async def test_silence_elsewhere_does_not_end_what_was_sent_another_way() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    local = one.link("local")
    await one.ask(check())
    assert local.ids == ["T1"]
    for outcome in (SILENT, LOST, UNDELIVERED, CheckOutcome.NO_ANSWER):
        report = inbox.CheckReport(IDENTITY, 1, outcome, "somebody")
        one.desk.on_inbox("report", inbox.report_body(TWO, report, has_producers=True))
    assert one.sink.outcomes() == []
    assert two.sink.outcomes() == []


@pytest.mark.parametrize("is_broken", [False, True])
async def test_without_redis_the_producers_here_are_asked(is_broken: bool) -> None:
    world = World()
    one = world.desk(ONE)
    world.live[TWO] = {GROUP}
    link = one.link()
    world.is_redis_away, world.is_redis_broken = not is_broken, is_broken
    await one.ask(check(instance=TWO), check("T2", number=2))
    assert sorted(link.ids) == ["T1", "T2"]
    one.desk.disconnect(link)
    await turn()
    assert one.sink.outcomes() == [LOST, LOST]


async def test_a_lost_inbox_message_is_never_taken_for_an_answer() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    two.link()
    await one.ask(*(check(f"T{number}") for number in range(5)))
    world.posts.clear()
    await world.pass_time(20.0)
    assert one.sink.outcomes() == [LOST] * 5


async def test_the_same_message_twice_delivers_twice_and_reports_once() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    link = two.link()
    await one.ask(check())
    world.posts *= 2
    world.deliver()
    assert link.ids == ["T1", "T1"]
    two.desk.settle(IDENTITY, UNKNOWN)
    world.posts *= 2
    world.deliver()
    assert one.sink.outcomes() == [UNKNOWN]
    assert two.desk._delivery._foreign_count == 0


async def test_questions_of_others_are_bounded() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO, limits=desk_limits(in_flight_max=1))
    link = two.link()
    await one.ask(*(check(f"T{number}") for number in range(20)))
    world.deliver()
    assert len(link.offered) == 16
    assert two.desk._delivery._foreign_count == 16


async def test_a_stop_tells_those_that_asked() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    link = two.link()
    await one.ask(check())
    world.deliver()
    two.desk.stop()
    world.deliver()
    assert link.ids == ["T1"]
    assert one.sink.outcomes() == [LOST]
    two.desk.on_inbox("question", inbox.question_body(ONE, check("T2")))
    assert link.ids == ["T1"]


async def test_check_now_reaches_its_callback() -> None:
    one = World().desk()
    identity = (ProducerGroup("g"), TransactionId("t"))
    one.desk.on_inbox("check_now", inbox.check_now_body(3, identity))
    assert one.checked_now == [(3, identity)]


@pytest.mark.parametrize(
    "kind", ["check", "question", "report", "forget", "check_now", "", "of a newer one"]
)
@pytest.mark.parametrize("body", [b"", b"{}", b"\xff", b'{"asker":1}', b"null"])
async def test_garbage_in_an_inbox_is_passed_over(kind: str, body: bytes) -> None:
    one = World().desk()
    link = one.link()
    one.desk.on_inbox(kind, body)
    assert link.offered == []
    assert one.sink.reports == []
    assert one.checked_now == []


async def test_questions_whose_halves_cannot_be_read_elsewhere_are_no_failure_of_the_group() -> (
    None
):
    world = World()
    one = world.desk(ONE, limits=desk_limits(breaker=BreakerLimits(failure_count=3)))
    two = world.desk(TWO)
    link = two.link()
    for number in range(10):
        world.unread.add(f"T{number}")
        await one.ask(check(f"T{number}", number=2))
        world.deliver()
    assert link.offered == []
    assert one.sink.outcomes() == [UNDELIVERED] * 10
    assert one.breaker() == "closed"
    assert (one.permits(), two.permits()) == ((0, 0), (0, 0))


async def test_what_is_forgotten_while_its_halves_are_read_is_not_asked() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    link = two.link()
    world.readings = []
    await one.ask(check(number=2))
    world.deliver()
    one.desk.settle(IDENTITY, COMMIT)
    world.deliver()
    [read] = world.readings
    read()
    assert link.offered == []
    assert one.sink.outcomes() == [COMMIT]


async def test_a_reading_that_never_ends_holds_nobody_up() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    two.link()
    world.readings = []
    await one.ask(check(number=2))
    world.deliver()
    await world.pass_time(desk_limits().answer_s + 1)
    world.deliver()
    assert one.sink.outcomes() == [UNDELIVERED]
    [read] = world.readings
    read()
    assert len(two.desk.describe()) == 1
