"""The corners of delivery: what happens within something else, twice, too late or out of order."""

from __future__ import annotations

from halfhitch.core.model import Resolution, ResolutionSource
from halfhitch.doors.http.native import Decided
from halfhitch.service.checking import inbox
from halfhitch.service.checking.api import CheckOutcome, CheckReport
from halfhitch.service.checking.breaker import BreakerLimits
from halfhitch.service.transactions.op_appends import Decision
from harness.defaults import desk_limits
from harness.desks import GROUP, FakeLink, OneDesk, World, check, turn

COMMIT, UNKNOWN, SILENT = CheckOutcome.COMMIT, CheckOutcome.UNKNOWN, CheckOutcome.SILENT
LOST, UNDELIVERED, DECIDED = CheckOutcome.LOST, CheckOutcome.UNDELIVERED, CheckOutcome.DECIDED
ONE, TWO, THREE = "instance-1", "instance-2", "instance-3"
IDENTITY = check().identity


def identity(transaction_id: str):
    return check(transaction_id).identity


def lone(**limits) -> OneDesk:
    return World().desk(limits=desk_limits(**limits), has_redis=False)


async def test_answers_from_within_a_report_do_not_report_twice() -> None:
    one = lone()
    one.link()
    await one.ask(check(number=2), check(number=3))
    one.sink.on_report = lambda report: one.desk.settle(report.identity, COMMIT)
    one.desk.forget([IDENTITY])
    await turn()
    assert sorted(report.number for _, report in one.sink.reports) == [2, 3]
    assert one.permits() == (0, 0)


async def test_of_two_questions_each_ends_on_its_own() -> None:
    one = World().desk()
    one.link()
    await one.ask(check(number=2))
    one.index.numbers[IDENTITY] = 3
    await one.ask(check(number=3, is_repeat=True))
    assert one.sink.outcomes() == [SILENT]
    assert one.desk.settle(IDENTITY, UNKNOWN)
    assert one.sink.outcomes() == [SILENT, UNKNOWN]
    await one.ask(check(number=2))
    await one.world.pass_time(5.0)
    await one.ask(check(number=4))
    await one.world.pass_time(5.5)
    assert one.sink.outcomes() == [SILENT, UNKNOWN, SILENT]
    assert one.desk.settle(IDENTITY, COMMIT)
    assert [report.number for _, report in one.sink.reports] == [3, 2, 2, 4]


async def test_a_lost_check_is_retried_once_however_many_links_there_are() -> None:
    one = lone()
    a, b, c = one.link("a"), one.link("b"), one.link("c")
    await one.ask(check())
    one.desk.disconnect(a)
    assert b.ids == ["T1"]
    one.desk.disconnect(b)
    assert c.ids == []
    assert one.sink.outcomes() == [LOST]
    assert one.sink.reports[0][1].by == "b"


async def test_what_was_lost_once_stays_lost_when_its_second_way_says_undelivered() -> None:
    one = lone()
    a, b = one.link("a"), one.link("b")
    await one.ask(check())
    one.desk.disconnect(a)
    assert b.ids == ["T1"]
    one.desk.settle(IDENTITY, UNDELIVERED)
    assert one.sink.outcomes() == [LOST]


async def test_a_link_that_goes_and_then_refuses_has_lost_the_check_once() -> None:
    one = lone()
    a, b = one.link("a"), one.link("b")

    def go_and_refuse(_) -> bool:
        one.desk.disconnect(a)
        return False

    a.within = go_and_refuse
    await one.ask(check())
    assert b.ids == ["T1"]
    one.desk.settle(IDENTITY, COMMIT)
    assert one.sink.outcomes() == [COMMIT]
    assert [ways.out_count for ways in one.desk._delivery.ways.values()] == [0]


async def test_a_link_that_answers_and_then_refuses_has_answered() -> None:
    one = lone()
    link = one.link()
    link.within = lambda asked: not one.desk.settle(asked.identity, COMMIT)
    await one.ask(check())
    assert one.sink.outcomes() == [COMMIT]
    assert [ways.out_count for ways in one.desk._delivery.ways.values()] == [0]


async def test_who_comes_later_does_not_overtake_those_that_wait() -> None:
    one = lone()
    link = one.link(room=1)
    assert one.desk.take(GROUP, 3) == 3
    one.desk.send([check("T1"), check("T2")])
    await turn()
    one.desk.send([check("T3")])
    link.room = 1
    one.desk.settle(identity("T1"), UNKNOWN)
    await turn()
    assert link.ids == ["T1", "T2"]


async def test_links_that_answer_at_once_still_take_turns() -> None:
    one = lone()
    a, b = one.link("a"), one.link("b")
    for number in range(10):
        await one.ask(check(f"T{number}"))
        one.desk.settle(identity(f"T{number}"), UNKNOWN)
    assert (len(a.ids), len(b.ids)) == (5, 5)


async def test_no_deadline_is_met_early_wherever_the_ticks_fall() -> None:
    for answer_s in (10.0, 10.05, 10.1, 10.15, 10.2, 10.24):
        one = lone(answer_s=answer_s)
        one.link()
        await one.ask(check())
        await one.world.pass_time(answer_s - 0.01)
        assert one.sink.outcomes() == []
        await one.world.pass_time(0.27)
        assert one.sink.outcomes() == [SILENT]


async def test_what_has_ended_takes_no_memory_until_its_deadline() -> None:
    one = lone()
    one.link()
    for number in range(100):
        await one.ask(check(f"T{number}"))
        one.desk.settle(identity(f"T{number}"), UNKNOWN)
    delivery = one.desk._delivery
    assert delivery.questions.all() == []
    assert delivery._deadlines._slots == {}


async def test_no_look_up_outlives_the_stop() -> None:
    one = World().desk()
    one.link()
    one.index.gate.clear()
    await one.ask(check(is_repeat=True))
    one.desk.stop()
    await turn()
    assert one.desk._delivery._lookups == set()


async def test_after_a_stop_no_permit_is_granted_for_producers_elsewhere_either() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    two.link()
    assert one.desk.take(GROUP, 1) == 1
    one.desk.stop()
    assert one.desk.take(GROUP, 1) == 0


async def test_a_group_in_which_everything_waits_in_vain_is_left_alone() -> None:
    one = lone(breaker=BreakerLimits(failure_count=2))
    a = one.link("a", room=1)
    assert one.desk.take(GROUP, 3) == 3
    for name in ("T1", "T2", "T3"):
        one.desk.send([check(name)])
        await turn()
    await one.world.pass_time(5.0)
    b = FakeLink(name="b", room=1)
    one.desk.connect(b)
    one.desk.disconnect(a)  # T1 has until 15 s now, so that the others go on waiting
    await one.world.pass_time(5.3)
    assert one.sink.outcomes() == [UNDELIVERED] * 2
    assert one.breaker() == "open"


# -- other instances -----------------------------------------------------------------------------


async def test_the_time_of_a_question_from_elsewhere_runs_from_its_arrival() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    two.link("a")
    await one.ask(check())
    world.deliver()
    b = two.link("b")
    await world.pass_time(9.0)
    two.desk.settle(IDENTITY, UNDELIVERED)
    assert b.ids == ["T1"]
    await world.pass_time(1.3)  # the one that asks waits 13 s, and must hear of it in time
    world.deliver()
    assert one.sink.outcomes() == [SILENT]


async def test_for_each_answer_one_of_those_that_wait_is_sent_elsewhere() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    link = two.link(room=1)
    await one.ask(*(check(f"T{number}") for number in range(50)))
    for _ in range(3):
        world.deliver()
        await turn()
    assert link.ids == ["T0"]
    link.room = 1
    two.desk.settle(identity("T0"), UNKNOWN)
    world.deliver()
    await turn()
    assert len([kind for _, kind, _ in world.posts if kind == "question"]) == 1


async def test_a_report_of_another_number_is_passed_over() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    two.link()
    await one.ask(check(number=2))
    world.posts.clear()
    for number, is_right in ((1, False), (3, False), (2, True)):
        report = CheckReport(IDENTITY, number, UNKNOWN, "somebody")
        one.desk.on_inbox("report", inbox.report_body(TWO, report, has_producers=True))
        assert bool(one.sink.reports) is is_right


async def test_a_report_does_not_count_for_what_never_went_out() -> None:
    world = World()
    one = world.desk(ONE)
    one.link(room=1)
    await one.ask(check("OUT"), check("WAITING"))
    report = CheckReport(identity("WAITING"), 1, UNKNOWN, "somebody")
    one.desk.on_inbox("report", inbox.report_body(TWO, report, has_producers=True))
    assert one.sink.reports == []


async def test_only_who_asked_may_end_the_question() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    two.link()
    await one.ask(check())
    world.deliver()
    two.desk.on_inbox("forget", inbox.forget_body(THREE, IDENTITY))
    assert two.desk.settle(IDENTITY, COMMIT)
    world.deliver()
    assert one.sink.outcomes() == [COMMIT]


async def test_an_instance_that_asks_and_owns_gets_both_its_reports() -> None:
    """The partition has moved here while a check of its former owner is under way here."""
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    link = two.link()
    await one.ask(check(number=2))
    world.deliver()
    await two.ask(check(number=2))
    assert len(link.offered) == 2
    assert two.desk.settle(IDENTITY, COMMIT)
    world.deliver()
    assert one.sink.outcomes() == two.sink.outcomes() == [COMMIT]
    assert one.permits() == two.permits() == (0, 0)


async def test_a_producer_has_no_more_checks_at_once_than_it_wants() -> None:
    """What lies in the buffers in front of a busy producer would run out of time unasked."""
    one = lone()
    link = one.link()
    link.at_once = 2
    await one.ask(*(check(f"T{number}") for number in range(5)))
    assert link.ids == ["T0", "T1"]
    for number in range(5):
        assert one.desk.settle(identity(f"T{number}"), COMMIT)
        await turn()
        assert len(link.ids) == min(5, number + 3)
    assert one.sink.outcomes() == [COMMIT] * 5
    assert one.permits() == (0, 0)


async def test_a_check_that_lay_in_the_inbox_of_a_stopped_instance_goes_another_way() -> None:
    """Found by a fault run: asked six seconds after the commit, by an instance that woke up."""
    world = World()
    one, two, three = world.desk(ONE), world.desk(TWO), world.desk(THREE)
    stopped, live = two.link(), three.link()
    await one.ask(check())
    instance, kind, body = world.posts.pop(0)
    woken = world.desks[instance].desk
    woken.on_inbox(kind, body, 7.0)
    assert (stopped.ids, live.ids) == ([], [])
    world.deliver()
    world.deliver()
    await turn()
    assert sorted([*stopped.ids, *live.ids]) == ["T1"]
    assert world.desks[instance].sink.reports == []


async def test_a_check_that_lay_in_an_inbox_and_is_decided_by_now_reaches_nobody() -> None:
    world = World()
    one, two = world.desk(ONE), world.desk(TWO)
    link = two.link()
    await one.ask(check())
    _, kind, body = world.posts.pop(0)
    one.desk.forget([IDENTITY])
    await turn()
    two.desk.on_inbox(kind, body, 7.0)
    world.deliver()
    world.deliver()
    assert link.ids == []
    assert one.sink.outcomes() == [DECIDED]


def commit() -> Decision:
    return Decision(IDENTITY, Resolution.COMMIT, 1, (17,), ResolutionSource.PRODUCER)


async def test_nobody_is_asked_about_what_has_been_ended_here_and_is_not_in_the_log_yet() -> None:
    """The op log, read to its end, says nothing of an end that is still on its way into it."""
    one = World().desk()
    link = one.link()
    one.decisions.append(0, commit(), is_awaited=False)
    await one.ask(check())
    assert link.ids == []
    assert one.sink.outcomes() == [UNDELIVERED]  # its number is not used up
    assert one.permits() == (0, 0)


async def test_nobody_is_asked_about_what_another_carrier_of_ends_has_taken() -> None:
    one = World().desk()
    link = one.link()
    told = Decided(1, is_commit=True, is_stored=None, op_offset=None)
    one.decisions.elsewhere.append(lambda *_: [told])
    await one.ask(check())
    assert (link.ids, one.sink.outcomes()) == ([], [UNDELIVERED])


async def test_a_check_that_waits_for_room_is_not_sent_when_its_end_has_come_meanwhile() -> None:
    one = lone()
    link = one.link(room=1)
    await one.ask(check("T0"))
    await one.ask(check())
    one.decisions.append(0, commit(), is_awaited=False)
    link.room = 1
    one.desk.settle(identity("T0"), COMMIT)
    await turn()
    assert link.ids == ["T0"]
    assert one.sink.outcomes() == [COMMIT, UNDELIVERED]
    assert one.permits() == (0, 0)


async def test_a_check_whose_way_broke_is_not_repeated_when_its_end_has_come_meanwhile() -> None:
    one = lone()
    a, b = one.link("a"), one.link("b")
    await one.ask(check())
    one.decisions.append(0, commit(), is_awaited=False)
    one.desk.disconnect(a)
    assert b.ids == []
    assert one.sink.outcomes() == [LOST]


async def test_an_instance_that_has_taken_the_end_tells_the_one_that_asks() -> None:
    """Undelivered would send the question on to the next instance, whose producer is asked."""
    world = World()
    one, two, three = world.desk(ONE), world.desk(TWO), world.desk(THREE)
    links = two.link(), three.link()
    two.decisions.append(0, commit(), is_awaited=False)
    await one.ask(check(instance=TWO))
    world.deliver()
    world.deliver()
    assert [link.ids for link in links] == [[], []]
    assert one.sink.outcomes() == [DECIDED]
    assert one.permits() == (0, 0)
