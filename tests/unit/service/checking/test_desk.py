"""The desk of one instance: who is asked, what is waited for, what is reported."""

from __future__ import annotations

import asyncio
import logging

import pytest

from halfhitch.adapters.memory import AppendFault
from halfhitch.core.model import DecisionRead, Resolution, ResolutionSource
from halfhitch.service.checking.api import COUNTED, CheckOutcome
from halfhitch.service.checking.breaker import BreakerLimits
from halfhitch.wire import op as op_wire
from harness.defaults import desk_limits
from harness.desks import GROUP, FakeLink, OneDesk, World, check, turn
from harness.spans import PARENT, TRACE

COMMIT, ROLLBACK, UNKNOWN = CheckOutcome.COMMIT, CheckOutcome.ROLLBACK, CheckOutcome.UNKNOWN
SILENT, NO_ANSWER = CheckOutcome.SILENT, CheckOutcome.NO_ANSWER
LOST, UNDELIVERED, DECIDED = CheckOutcome.LOST, CheckOutcome.UNDELIVERED, CheckOutcome.DECIDED


def identity(transaction_id: str = "T1", group: str = GROUP):
    return check(transaction_id, group=group).identity


def lone(**limits) -> OneDesk:
    """An instance without Redis."""
    return World().desk(limits=desk_limits(**limits), has_redis=False)


# -- permits -------------------------------------------------------------------------------------


async def test_nobody_is_granted_a_permit_without_a_live_producer() -> None:
    one = World().desk()
    assert one.desk.take(GROUP, 10) == 0
    link = one.link()
    assert one.desk.take(GROUP, 10) == 10
    one.desk.disconnect(link)
    assert one.desk.take(GROUP, 10) == 0


async def test_a_producer_at_another_instance_is_a_live_producer() -> None:
    world = World()
    one, two = world.desk("instance-1"), world.desk("instance-2")
    two.link()
    assert one.desk.take(GROUP, 3) == 3


async def test_a_group_whose_links_are_full_is_granted_nothing_more() -> None:
    one = lone()
    link = one.link(room=2)
    await one.ask(*(check(f"T{number}") for number in range(3)))
    assert one.desk.take(GROUP, 1) == 0
    link.room = 1
    one.desk.settle(identity("T0"), UNKNOWN)
    await turn()
    assert link.ids == ["T0", "T1", "T2"]
    assert one.desk.take(GROUP, 1) == 1


# -- one check -----------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [COMMIT, ROLLBACK, UNKNOWN, NO_ANSWER, DECIDED])
async def test_an_answer_is_reported_once_with_who_gave_it(outcome: CheckOutcome) -> None:
    one = lone()
    link = one.link("order service 7")
    asked = check(number=4)
    await one.ask(asked)
    assert link.offered == [asked]
    assert one.sink.reports == []
    assert one.desk.settle(identity(), outcome)
    assert not one.desk.settle(identity(), outcome)
    [(partition, report)] = one.sink.reports
    assert (partition, report.identity, report.number) == (0, asked.identity, 4)
    assert (report.outcome, report.by) == (outcome, "order service 7")
    assert one.permits() == (0, 0)


async def test_an_answer_that_nobody_waits_for_is_said_to_be_so() -> None:
    one = lone()
    assert not one.desk.settle(identity(), COMMIT)


async def test_no_answer_in_time_is_silence_and_never_early() -> None:
    one = lone(answer_s=10.0)
    one.link()
    await one.ask(check())
    await one.world.pass_time(9.99)
    assert one.sink.outcomes() == []
    await one.world.pass_time(0.3)
    assert one.sink.outcomes() == [SILENT]
    assert not one.desk.settle(identity(), COMMIT)
    assert one.permits() == (0, 0)


async def test_nobody_there_any_more_is_undelivered() -> None:
    one = lone()
    link = one.link()
    assert one.desk.take(GROUP, 1) == 1
    one.desk.disconnect(link)
    one.desk.send([check()])
    await turn()
    assert one.sink.outcomes() == [UNDELIVERED]
    assert one.permits() == (0, 0)


async def test_a_check_that_cannot_leave_with_nothing_under_way_is_undelivered_at_once() -> None:
    one = lone()
    link = one.link(room=0)
    await one.ask(check())
    assert link.refused_count == 1
    assert one.sink.outcomes() == [UNDELIVERED]


async def test_checks_go_round_the_links_and_round_full_ones() -> None:
    one = lone()
    a, b, c = one.link("a"), one.link("b", room=1), one.link("c")
    await one.ask(*(check(f"T{number}") for number in range(9)))
    assert [len(a.ids), len(b.ids), len(c.ids)] == [4, 1, 4]
    assert b.refused_count == 1  # not asked again and again
    assert sorted(a.ids + b.ids + c.ids) == [f"T{number}" for number in range(9)]


async def test_a_link_that_hangs_does_not_end_up_with_all_permits_of_its_group() -> None:
    one = lone(in_flight_max=100)
    hung, well = one.link("hung"), one.link("well")
    for number in range(2_000):
        await one.ask(check(f"T{number}"))
        if number % 2:
            for asked in well.offered[-2:]:
                one.desk.settle(asked.identity, UNKNOWN)
    assert len(hung.offered) < 5
    assert len(well.offered) > 1_990


async def test_the_same_link_twice_is_one_link_and_a_stranger_leaves_without_a_trace() -> None:
    one = lone()
    link = one.link()
    one.desk.connect(link)
    one.desk.disconnect(FakeLink())
    assert list(one.desk.live_groups()) == [GROUP]
    one.desk.disconnect(link)
    one.desk.disconnect(link)
    assert list(one.desk.live_groups()) == []


# -- ways that break -----------------------------------------------------------------------------


async def test_a_check_lost_with_its_link_goes_out_once_more_by_another() -> None:
    one = lone()
    a, b = one.link("a"), one.link("b")
    await one.ask(check())
    assert (a.ids, b.ids) == (["T1"], [])
    one.desk.disconnect(a)
    assert b.offered == a.offered  # the same number
    assert one.sink.outcomes() == []
    one.desk.disconnect(b)
    assert one.sink.outcomes() == [LOST]
    assert one.permits() == (0, 0)


async def test_a_lost_check_that_is_refused_elsewhere_is_lost_not_undelivered() -> None:
    one = lone()
    a = one.link("a")
    await one.ask(check())
    one.link("b", room=0)
    one.desk.disconnect(a)
    assert one.sink.outcomes() == [LOST]


async def test_a_lost_check_has_the_whole_time_again() -> None:
    one = lone(answer_s=10.0)
    a = one.link("a")
    await one.ask(check())
    one.link("b")
    await one.world.pass_time(9.0)
    one.desk.disconnect(a)
    await one.world.pass_time(9.0)
    assert one.sink.outcomes() == []
    await one.world.pass_time(1.5)
    assert one.sink.outcomes() == [SILENT]


async def test_a_link_that_says_undelivered_is_not_tried_again_for_this_check() -> None:
    one = lone()
    a, b = one.link("a"), one.link("b")
    await one.ask(check())
    assert one.desk.settle(identity(), UNDELIVERED)
    assert (a.ids, b.ids) == (["T1"], ["T1"])
    assert one.desk.settle(identity(), UNDELIVERED)
    assert one.sink.outcomes() == [UNDELIVERED]
    assert (a.ids, b.ids) == (["T1"], ["T1"])


async def test_a_link_that_says_lost_is_retried_elsewhere_only() -> None:
    one = lone()
    a, b = one.link("a"), one.link("b")
    await one.ask(check())
    assert one.desk.settle(identity(), LOST)
    assert (a.ids, b.ids) == (["T1"], ["T1"])
    assert one.desk.settle(identity(), LOST)
    assert one.sink.outcomes() == [LOST]


async def test_a_link_that_raises_may_have_sent_it(caplog: pytest.LogCaptureFixture) -> None:
    one = lone()
    link = one.link()

    def fail(_) -> None:
        raise RuntimeError("a bug in a door")

    link.within = fail
    await one.ask(check())
    assert one.sink.outcomes() == [LOST]
    assert one.permits() == (0, 0)
    assert "please report this" in caplog.text


async def test_a_link_may_answer_from_within_offer() -> None:
    one = lone()
    link = one.link()
    link.within = lambda asked: one.desk.settle(asked.identity, COMMIT)
    await one.ask(*(check(f"T{number}") for number in range(200)))
    assert one.sink.outcomes() == [COMMIT] * 200
    assert one.permits() == (0, 0)


async def test_a_link_may_go_from_within_offer() -> None:
    one = lone()
    a, b = one.link("a"), one.link("b")
    a.within = lambda _: one.desk.disconnect(a)
    await one.ask(check())
    assert b.ids == ["T1"]
    b.within = lambda _: one.desk.disconnect(b)
    await one.ask(check("T2"))
    assert one.sink.outcomes() == [LOST, LOST]
    assert one.permits() == (0, 0)


async def test_a_link_that_answers_at_once_while_others_wait_does_not_recurse() -> None:
    one = lone(in_flight_max=5_000)
    link = one.link(room=1)
    await one.ask(*(check(f"T{number}") for number in range(5_000)))
    link.room = 10_000
    link.within = lambda asked: one.desk.settle(asked.identity, UNKNOWN)
    one.desk.settle(identity("T0"), UNKNOWN)
    await turn(30)
    assert one.sink.outcomes() == [UNKNOWN] * 5_000


# -- waiting for room ----------------------------------------------------------------------------


async def test_what_waits_for_room_goes_out_in_order() -> None:
    one = lone()
    link = one.link(room=2)
    await one.ask(*(check(f"T{number}") for number in range(6)))
    for number in range(6):
        link.room = 1
        assert one.desk.settle(identity(f"T{number}"), UNKNOWN)
        await turn()
    assert link.ids == [f"T{number}" for number in range(6)]
    assert one.sink.outcomes() == [UNKNOWN] * 6


async def test_room_that_comes_without_an_answer_is_found_by_the_sweep() -> None:
    one = lone()
    link = one.link(room=1)
    await one.ask(check("T1"), check("T2"))
    link.room = 1  # what was written has been read
    await one.world.pass_time(0.3)
    assert link.ids == ["T1", "T2"]


async def test_a_new_producer_takes_what_waits() -> None:
    one = lone()
    one.link("a", room=1)
    await one.ask(check("T1"), check("T2"), check("T3"))
    b = one.link("b")
    await turn()
    assert b.ids == ["T2", "T3"]


async def test_what_waits_too_long_is_undelivered() -> None:
    one = lone(answer_s=10.0)
    a = one.link("a", room=1)
    await one.ask(check("T1"), check("T2"))
    await one.world.pass_time(5.0)
    b = FakeLink(name="b", room=1)
    one.desk.connect(b)
    one.desk.disconnect(a)
    await one.world.pass_time(4.9)
    assert b.ids == ["T1"]  # it has until 15 s
    assert one.sink.outcomes() == []
    await one.world.pass_time(0.4)
    assert one.sink.outcomes("T2") == [UNDELIVERED]
    assert one.sink.outcomes("T1") == []
    assert one.permits() == (0, 1)


async def test_what_waits_for_nothing_is_undelivered_at_once() -> None:
    one = lone()
    one.link(room=1)
    await one.ask(check("T1"), check("T2"), check("T3"))
    one.desk.settle(identity("T1"), UNKNOWN)  # and yet there is no room
    await turn()
    assert one.sink.outcomes("T2") == one.sink.outcomes("T3") == [UNDELIVERED]
    assert one.permits() == (0, 0)


async def test_an_answer_does_not_count_for_a_check_that_was_not_delivered() -> None:
    one = lone()
    one.link(room=1)
    await one.ask(check("T1"), check("T2", number=2))
    for outcome in CheckOutcome:
        assert not one.desk.settle(identity("T2"), outcome)
    assert one.sink.outcomes("T2") == []


# -- decided meanwhile ---------------------------------------------------------------------------


async def test_a_decision_ends_the_question_wherever_it_is() -> None:
    one = World().desk()
    one.link(room=1)
    one.index.gate.clear()
    await one.ask(check("OUT"), check("WAITING"), check("LOOKED-UP", is_repeat=True))
    one.desk.forget([identity(name) for name in ("OUT", "WAITING", "LOOKED-UP", "UNHEARD-OF")])
    await turn()
    assert one.sink.outcomes() == [DECIDED] * 3
    assert one.permits() == (0, 0)
    one.index.gate.set()
    await turn()
    assert len(one.sink.reports) == 3


async def test_a_decision_right_after_the_send_still_comes_after_it() -> None:
    one = lone()
    one.link()
    assert one.desk.take(GROUP, 1) == 1
    one.desk.send([check()])
    one.desk.forget([identity()])
    await turn()
    assert one.sink.outcomes() == [DECIDED]


# -- repeats -------------------------------------------------------------------------------------


async def test_what_a_former_owner_has_delivered_is_not_delivered_again() -> None:
    one = World().desk()
    link = one.link()
    one.index.numbers = {identity("T1"): 3, identity("T2"): 2}
    await one.ask(check("T1", number=3, is_repeat=True), check("T2", number=3, is_repeat=True))
    assert link.ids == ["T2"]
    assert one.sink.outcomes("T1") == [SILENT]
    assert SILENT in COUNTED


async def test_the_first_delivery_of_a_number_does_not_wait_for_the_index() -> None:
    one = World().desk()
    link = one.link()
    one.index.gate.clear()
    await one.ask(check("T1"), check("T2", is_repeat=True))
    assert link.ids == ["T1"]
    one.index.gate.set()
    await turn()
    assert link.ids == ["T1", "T2"]


async def test_an_index_that_fails_or_is_missing_costs_a_second_delivery_at_most(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = World().desk()
    one.index.fails = True
    for desk in (one, lone()):
        link = desk.link()
        await desk.ask(check(is_repeat=True))
        assert link.ids == ["T1"]


async def test_an_index_that_never_answers_is_not_waited_for_longer_than_a_producer() -> None:
    one = World().desk()
    link = one.link()
    one.index.gate.clear()
    await one.ask(check(is_repeat=True))
    await one.world.pass_time(10.5)
    assert one.sink.outcomes() == [UNDELIVERED]
    one.index.gate.set()
    await turn()
    assert link.ids == []
    assert one.breaker() == "closed"


async def test_two_owners_one_after_the_other_both_get_their_report() -> None:
    one = lone()
    link = one.link()
    await one.ask(check(number=2))
    await one.ask(check(number=2), check(number=3))
    assert len(link.offered) == 3
    assert one.desk.settle(identity(), UNKNOWN)
    assert sorted(report.number for _, report in one.sink.reports) == [2, 2, 3]
    assert one.permits() == (0, 0)


# -- the breaker, as owners meet it --------------------------------------------------------------


async def test_a_group_that_never_answers_is_left_alone_and_probed_after_a_pause() -> None:
    one = lone(breaker=BreakerLimits(failure_count=20, pause_s=5.0))
    link = one.link()
    await one.ask(*(check(f"T{number}") for number in range(20)))
    await one.world.pass_time(10.3)
    assert one.sink.outcomes() == [SILENT] * 20
    assert (one.breaker(), one.desk.take(GROUP, 100)) == ("open", 0)
    await one.world.pass_time(5.0)
    await one.ask(check("PROBE"))
    assert (one.breaker(), one.desk.take(GROUP, 100)) == ("half-open", 0)
    assert link.ids[-1] == "PROBE"
    one.desk.settle(identity("PROBE"), UNKNOWN)
    assert (one.breaker(), one.desk.take(GROUP, 100)) == ("closed", 100)


async def test_a_producer_that_returns_need_not_wait_for_the_pause() -> None:
    one = lone(breaker=BreakerLimits(failure_count=5))
    link = one.link()
    await one.ask(*(check(f"T{number}") for number in range(5)))
    one.desk.disconnect(link)
    assert one.breaker() == "open"
    one.link("it is back")
    assert one.desk.take(GROUP, 100) == 1


async def test_nobody_there_is_no_failure_of_the_group() -> None:
    one = lone(breaker=BreakerLimits(failure_count=5))
    link = one.link()
    assert one.desk.take(GROUP, 50) == 50
    one.desk.disconnect(link)
    one.desk.send([check(f"T{number}") for number in range(50)])
    await turn()
    assert one.sink.outcomes() == [UNDELIVERED] * 50
    assert one.breaker() == "closed"


async def test_refusals_are_failures_of_the_group() -> None:
    one = lone(breaker=BreakerLimits(failure_count=5))
    one.link(room=0)
    await one.ask(*(check(f"T{number}") for number in range(5)))
    assert one.sink.outcomes() == [UNDELIVERED] * 5
    assert one.breaker() == "open"


# -- what others hear ----------------------------------------------------------------------------


async def test_the_observer_hears_of_every_hand_over_with_its_lag_and_of_every_end() -> None:
    one = lone()
    a = one.link("a", room=1)
    await one.ask(check("T1", lag_ms=1_500), check("T2"))
    one.world.clock.advance(2.0)
    a.room = 1
    one.desk.settle(identity("T1"), COMMIT)
    await turn()
    one.world.clock.advance(0.5)
    one.desk.settle(identity("T2"), NO_ANSWER)
    assert one.observer.of("check_sent") == [(GROUP, 1.5, None), (GROUP, 2.0, None)]
    assert one.observer.of("check_settled") == [(GROUP, "commit", 2.0), (GROUP, "no_answer", 0.5)]


async def test_live_groups_are_announced_once_for_each_change() -> None:
    one = World().desk()
    one.desk.sweep(one.world.clock.monotonic_s())
    a, b = FakeLink("one"), FakeLink("one")
    c = FakeLink("two")
    for link in (a, b, c):
        one.desk.connect(link)
    await one.world.pass_time(0.3)
    one.desk.disconnect(a)
    await one.world.pass_time(0.3)
    one.desk.disconnect(b)
    await one.world.pass_time(0.3)
    one.desk.stop()
    assert one.presence.announcements == [set(), {"one", "two"}, {"two"}, set()]


async def test_describe_shows_every_group_to_people() -> None:
    world = World()
    one, two = world.desk("instance-1"), world.desk("instance-2")
    one.link("a", room=1)
    two.link("b", group="elsewhere")
    assert one.desk.take("elsewhere", 2) == 2
    await one.ask(check("T1"), check("T2"))
    elsewhere, here = one.desk.describe()
    assert (elsewhere.elsewhere, elsewhere.link_count) == (("instance-2",), 0)
    assert elsewhere.permits.granted_count == 2
    assert (here.links, here.link_count, here.waiting_count) == (("a",), 1, 1)
    assert here.permits.outstanding_count == 2
    assert one.desk.links() == {"orders": 1}
    assert (one.desk.is_elsewhere("elsewhere"), one.desk.is_elsewhere("orders")) == (True, False)


async def test_thousands_of_groups_that_come_and_go_leave_nothing_behind() -> None:
    one = World().desk()
    for number in range(3_000):
        link = one.link(group=f"group-{number}")
        await one.ask(check(group=f"group-{number}"))
        one.desk.settle(identity(group=f"group-{number}"), UNKNOWN)
        one.desk.disconnect(link)
    for _ in range(30):
        await one.world.pass_time(31.0)
    assert one.desk.describe() == []


# -- decisions by policy -------------------------------------------------------------------------


async def test_a_decision_by_policy_is_written_with_its_reason() -> None:
    one = lone()
    one.desk.decide(0, identity(), Resolution.PARK, 2, (5, 6), "no decision after 15 checks")
    one.desk.decide(0, identity(), Resolution.PARK, 2, (5, 6), "no decision after 15 checks")
    await turn()
    [record] = one.kafka.committed(one.kafka.op_topic)  # asked twice at once, written once
    [event] = op_wire.read(record.offset(), 0, record.value(), record.headers())
    assert isinstance(event, DecisionRead)
    assert (event.identity, event.resolution, event.covered_count) == (
        identity(),
        Resolution.PARK,
        2,
    )
    assert event.source is ResolutionSource.POLICY
    assert any(b"no decision after 15 checks" in (value or b"") for _, value in record.headers())


async def test_a_decision_that_fails_is_logged_and_can_be_asked_for_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    one = lone()
    one.kafka.faults.appends.append(AppendFault.REFUSED)
    for _ in range(2):
        one.desk.decide(0, identity(), Resolution.ROLLBACK, 1, (5,), "too old")
        await turn()
    assert len(one.kafka.committed(one.kafka.op_topic)) == 1
    assert caplog.text.count("will be tried again") == 1


# -- the end -------------------------------------------------------------------------------------


async def test_a_stop_reports_everything_and_takes_nothing_more() -> None:
    one = World().desk()
    link = one.link(room=1)
    one.index.gate.clear()
    await one.ask(check("OUT"), check("WAITING"), check("LOOKED-UP", is_repeat=True))
    assert one.desk.take(GROUP, 1) == 0  # no room
    one.desk.send([check("ARRIVING")])
    one.desk.stop()
    one.desk.stop()
    assert one.sink.outcomes("OUT") == [LOST]
    for name in ("WAITING", "LOOKED-UP", "ARRIVING"):
        assert one.sink.outcomes(name) == [UNDELIVERED]
    assert one.permits() == (0, 0)
    one.desk.connect(FakeLink())
    assert one.desk.take(GROUP, 1) == 0
    one.desk.send([check("AFTER")])
    await turn()
    assert one.sink.outcomes("AFTER") == [UNDELIVERED]
    assert link.ids == ["OUT"]
    assert not one.desk.settle(identity("OUT"), COMMIT)


async def test_the_clock_is_looked_at_until_the_stop() -> None:
    one = lone(sweep_s=0.001)
    one.link()
    one.desk.start()
    await one.ask(check())
    one.world.clock.advance(11.0)
    reported = asyncio.Event()
    one.sink.on_report = lambda _: reported.set()
    await asyncio.wait_for(reported.wait(), 5)
    assert one.sink.outcomes() == [SILENT]
    one.desk.stop()


async def test_a_send_after_the_loop_has_gone_frees_its_permits() -> None:
    one = lone()
    one.link()
    assert one.desk.take(GROUP, 2) == 2
    loop = asyncio.new_event_loop()
    loop.close()
    one.desk._queue._loop = loop
    one.desk.send([check("T1"), check("T2")])
    assert one.permits() == (0, 0)


async def test_a_check_of_a_traced_transaction_is_an_example_of_how_late_checks_are() -> None:
    one = lone()
    one.link()
    traced = check("T1")
    traced.messages[0].headers.append(("traceparent", PARENT))
    for asked in (traced, check("T2")):
        await one.ask(asked)
    assert [told[2] for told in one.observer.of("check_sent")] == [TRACE, None]
