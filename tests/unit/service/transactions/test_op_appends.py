"""Decisions on their way into the op log, on a Kafka in memory."""

from __future__ import annotations

import asyncio

import pytest

from halfhitch.adapters.memory import AppendFault, MemoryClock, MemoryKafka, MemoryRecordLog
from halfhitch.core.model import DecisionRead, ProducerGroup, Resolution, ResolutionSource
from halfhitch.errors import KafkaUnavailable, OutcomeUnknown
from halfhitch.service.transactions import op_appends as decisions_module
from halfhitch.service.transactions.op_appends import Decision, DecisionLog
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage
from harness.twin import identity

C, R = Resolution.COMMIT, Resolution.ROLLBACK


def decision(
    transaction_id: str,
    resolution: Resolution = C,
    half_offsets: tuple[int, ...] = (0,),
    reason: str | None = None,
) -> Decision:
    return Decision(
        identity(transaction_id),
        resolution,
        len(half_offsets),
        half_offsets,
        ResolutionSource.PRODUCER,
        reason,
    )


class Log:
    """A DecisionLog with what it has written."""

    def __init__(self, partition_count: int = 1) -> None:
        self.kafka = MemoryKafka(MemoryClock(), partition_count=partition_count)
        self.decisions = DecisionLog(MemoryRecordLog(self.kafka))

    def pass_time(self, seconds: float) -> None:
        """For what is remembered."""
        for lane in self.decisions._lanes.values():
            lane.renewed_s -= seconds

    def records(self) -> list[list[tuple[str, Resolution]]]:
        """Id and resolution of each decision, record by record."""
        result = []
        for record in self.kafka.committed(self.kafka.op_topic):
            events = op_wire.read(record.offset(), 0, record.value(), record.headers())
            assert not isinstance(events, Garbage), events
            assert all(isinstance(event, DecisionRead) for event in events)
            result.append([(e.identity[1], e.resolution) for e in events])  # type: ignore[union-attr]
        return result


async def test_a_decision_leaves_at_once_when_none_is_in_flight() -> None:
    log = Log()
    future = log.decisions.append(0, decision("T1"))
    assert log.records() == [[("T1", C)]]
    assert await future == 0


async def test_decisions_gather_while_one_is_in_flight_and_share_the_next_record() -> None:
    log = Log()
    futures = [log.decisions.append(0, decision(f"T{n}")) for n in range(5)]
    assert log.records() == [[("T0", C)]], "the others wait for the first one's answer"
    assert await asyncio.gather(*futures) == [0, 1, 1, 1, 1]
    assert log.records()[1:] == [[(f"T{n}", C) for n in range(1, 5)]]


async def test_roll_backs_among_commits_of_other_transactions_cut_no_record_into_many() -> None:
    log = Log()
    asked = [("a", C), ("b", C), ("c", R), ("d", C), ("e", C), ("f", R), ("g", R)]
    futures = [log.decisions.append(0, decision(name, which)) for name, which in asked]
    assert await asyncio.gather(*futures) == [0, 1, 2, 1, 1, 2, 2]
    assert log.records()[1:] == [[("b", C), ("d", C), ("e", C)], [("c", R), ("f", R), ("g", R)]]


async def test_the_log_keeps_the_order_of_asking_where_a_transaction_is_ended_twice() -> None:
    log = Log()
    asked = [("a", C), ("b", R), ("c", C), ("b", C), ("d", C), ("c", R), ("e", R)]
    futures = [log.decisions.append(0, decision(name, which)) for name, which in asked]
    await asyncio.gather(*futures)
    assert [entry for record in log.records() for entry in record] == asked


async def test_partitions_do_not_wait_for_each_other() -> None:
    log = Log(partition_count=2)
    futures = [log.decisions.append(partition, decision("T1")) for partition in (0, 1)]
    assert len(log.records()) == 2
    assert await asyncio.gather(*futures) == [0, 0]


async def test_a_thousand_and_one_decisions_need_a_second_record() -> None:
    log = Log()
    first = log.decisions.append(0, decision("first"))
    futures = [log.decisions.append(0, decision(f"T{n}")) for n in range(op_wire.MARKS_MAX + 1)]
    await asyncio.gather(first, *futures)
    assert [len(record) for record in log.records()] == [1, op_wire.MARKS_MAX, 1]


async def test_a_record_never_outgrows_its_topic() -> None:
    log = Log()
    nasty = '"\\' * 127  # JSON doubles every one of these
    futures = [log.decisions.append(0, decision("first"))]
    for _ in range(999):
        longest = decision(nasty)
        longest.identity = (ProducerGroup(nasty), longest.identity[1])
        futures.append(log.decisions.append(0, longest))
    futures += [
        log.decisions.append(0, decision(f"many-{n}", C, tuple(range(10**15, 10**15 + 999))))
        for n in range(40)
    ]
    futures.append(log.decisions.append(0, decision("why", C, (1,), "\x01" * 50_000)))
    await asyncio.gather(*futures)
    for record in log.kafka.committed(log.kafka.op_topic):
        size = len(record.value() or b"") + sum(len(v or b"") for _, v in record.headers() or [])
        assert size < 1_000_000
    assert sum(len(record) for record in log.records()) == 1_041


@pytest.mark.parametrize(
    ("fault", "error"),
    [(AppendFault.REFUSED, KafkaUnavailable), (AppendFault.LOST, OutcomeUnknown)],
)
async def test_a_failed_record_is_told_to_everyone_in_it_and_to_nobody_else(
    fault: AppendFault, error: type[Exception]
) -> None:
    log = Log()
    log.kafka.faults.appends = [None, fault, None]
    first = log.decisions.append(0, decision("T0"))
    together = [log.decisions.append(0, decision(f"T{n}")) for n in range(1, 4)]
    assert await first == 0
    for future in together:
        with pytest.raises(error):
            await future
    assert await log.decisions.append(0, decision("T4")) == 1
    assert log.records() == [[("T0", C)], [("T4", C)]]


async def test_whoever_goes_away_does_not_take_the_decision_along() -> None:
    log = Log()
    first = log.decisions.append(0, decision("T0"))
    gone = log.decisions.append(0, decision("T1"))
    last = log.decisions.append(0, decision("T2"))
    gone.cancel()
    await asyncio.gather(first, last)
    assert log.records() == [[("T0", C)], [("T1", C), ("T2", C)]]


# -- what is under way ---------------------------------------------------------------------------


async def test_a_decision_is_known_from_its_asking_until_its_owner_must_have_read_it() -> None:
    log = Log()
    assert log.decisions.under_way(0, identity("T1")) is None
    future = log.decisions.append(0, decision("T1", R))
    under_way = log.decisions.under_way(0, identity("T1"))
    assert under_way is not None
    assert (under_way.resolution, under_way.is_stored) == (R, None)
    assert log.decisions.under_way(0, identity("T2")) is None
    assert log.decisions.under_way(1, identity("T1")) is None
    await future
    assert log.decisions.under_way(0, identity("T1")) is under_way
    assert under_way.is_stored is True
    log.pass_time(1.1)
    await log.decisions.append(0, decision("T2", C))
    assert log.decisions.under_way(0, identity("T1")) is under_way, "at most twice as long"
    log.pass_time(1.1)
    assert log.decisions.under_way(0, identity("T1")) is None
    assert log.decisions.under_way(0, identity("T2")) is not None
    log.pass_time(2.1)
    assert log.decisions.under_way(0, identity("T2")) is None


async def test_a_decision_that_came_second_is_never_taken_for_the_first() -> None:
    log = Log()
    await log.decisions.append(0, decision("T1", C))
    log.pass_time(1.1)
    await log.decisions.append(0, decision("T1", R))
    first = log.decisions.under_way(0, identity("T1"))
    assert first is not None
    assert first.resolution is C
    log.pass_time(1.1)
    assert log.decisions.under_way(0, identity("T1")) is None


async def test_giving_up_contradicts_nothing_that_comes_later() -> None:
    log = Log()
    await log.decisions.append(0, decision("T1", Resolution.PARK))
    assert log.decisions.under_way(0, identity("T1")) is None


async def test_the_first_decision_asked_for_is_the_one_under_way() -> None:
    log = Log()
    futures = [log.decisions.append(0, decision("T1", which)) for which in (C, R)]
    under_way = log.decisions.under_way(0, identity("T1"))
    assert under_way is not None
    assert under_way.resolution is C
    await asyncio.gather(*futures)
    assert under_way.is_stored is True
    assert log.decisions.under_way(0, identity("T1")) is under_way


async def test_a_decision_behind_one_from_elsewhere_is_not_taken_for_the_first() -> None:
    """A commit that went the native way, a roll back that lost, and the commit again: 409."""
    log = Log()
    first = decisions_module.UnderWay(C, is_stored=True)
    log.decisions.elsewhere = lambda *_: first
    await log.decisions.append(0, decision("T1", R))
    assert log.decisions.under_way(0, identity("T1")) is first


@pytest.mark.parametrize("fault", [AppendFault.REFUSED, AppendFault.ANSWER_LOST])
async def test_whoever_came_behind_one_that_failed_was_not_remembered_as_the_first(
    fault: AppendFault,
) -> None:
    """A contrary end after it got 200, although it had lost."""
    log = Log()
    log.kafka.faults.appends = [fault]
    failed = log.decisions.append(0, decision("T1", C))
    stored = log.decisions.append(0, decision("T1", R))
    with pytest.raises((KafkaUnavailable, OutcomeUnknown)):
        await failed
    await stored
    first = log.decisions.under_way(0, identity("T1"))
    if fault is AppendFault.REFUSED:
        assert first is not None
        assert first.resolution is R
    else:
        assert first is None, "nobody knows which of them is the first"


async def test_whoever_retries_what_surely_failed_meets_what_waited_behind_it() -> None:
    """Both got 200: nothing knew of the roll-back until it had landed."""
    log = Log()
    log.kafka.faults.appends = [AppendFault.REFUSED]
    failed = log.decisions.append(0, decision("T1", C))
    behind = log.decisions.append(0, decision("T1", R))
    met: list[decisions_module.UnderWay | None] = []
    failed.add_done_callback(lambda _: met.append(log.decisions.under_way(0, identity("T1"))))
    with pytest.raises(KafkaUnavailable):
        await failed
    await behind
    [rival] = met
    assert rival is not None
    assert (rival.resolution, rival.is_stored) == (R, True)
    again = log.decisions.under_way(0, identity("T1"))
    assert again is rival


async def test_of_several_behind_one_that_failed_the_next_that_has_not_is_the_first() -> None:
    log = Log()
    log.kafka.faults.appends = [AppendFault.REFUSED, AppendFault.REFUSED]
    appended = [log.decisions.append(0, decision("T1", which)) for which in (C, R, C, R)]
    results = await asyncio.gather(*appended, return_exceptions=True)
    assert [isinstance(result, KafkaUnavailable) for result in results] == [
        True,
        True,
        False,
        False,
    ]
    first = log.decisions.under_way(0, identity("T1"))
    assert first is not None
    assert first.resolution is C


async def test_a_roll_back_is_known_longer_than_its_owner_needs_to_read_it() -> None:
    log = Log()
    known = log.decisions.was_rolled_back
    rolled_back = log.decisions.append(0, decision("T1", R))
    assert known(0, identity("T1")), "on its way"
    await rolled_back
    await log.decisions.append(0, decision("T2", C))
    for _ in range(3):
        log.pass_time(1.1)
        assert known(0, identity("T1"))
        assert not known(0, identity("T2"))
    log.kafka.faults.appends = [AppendFault.REFUSED]
    with pytest.raises(KafkaUnavailable):
        await log.decisions.append(0, decision("T3", R))
    assert not known(0, identity("T3"))
    log.kafka.faults.appends = [AppendFault.ANSWER_LOST]
    with pytest.raises(OutcomeUnknown):
        await log.decisions.append(0, decision("T5", R))
    assert known(0, identity("T5")), "nobody knows, so nothing is taken that may be dropped"
    log.decisions.rolled_back_elsewhere.append(lambda partition, one: one == identity("T4"))
    assert known(0, identity("T4"))


class Elsewhere:
    """Another producer of this process, with one decision."""

    def __init__(self, log: Log, resolution: Resolution = C) -> None:
        self.found: decisions_module.UnderWay | None = decisions_module.UnderWay(resolution)
        self.ids_asked_for: list[str] = []
        log.decisions.elsewhere = self.first_decision

    def first_decision(self, _: int, asked: tuple[str, str]) -> decisions_module.UnderWay | None:
        self.ids_asked_for.append(asked[1])
        if asked[1] != "T1" or self.found is None:
            return None
        return decisions_module.UnderWay(self.found.resolution, self.found.is_stored)

    async def looked_at_again(self) -> None:
        count = len(self.ids_asked_for)
        async with asyncio.timeout(10):
            while len(self.ids_asked_for) == count:
                await asyncio.sleep(0)


async def test_a_contrary_decision_does_not_overtake_the_one_that_goes_another_way() -> None:
    """A roll back came first in the log, and the native commit before it was answered 200."""
    log = Log()
    elsewhere = Elsewhere(log)
    rival = log.decisions.under_way(0, identity("T1"))
    late = log.decisions.append(0, decision("T1", R))
    await log.decisions.append(0, decision("T2", R))  # others do not wait
    await elsewhere.looked_at_again()
    assert log.records() == [[("T2", R)]]
    elsewhere.found = decisions_module.UnderWay(C, is_stored=True)
    await late
    assert log.records() == [[("T2", R)], [("T1", R)]]
    assert rival is not None
    assert rival.is_stored is True
    first = log.decisions.under_way(0, identity("T1"))
    assert first is not None
    assert first.resolution is C


async def test_what_moved_up_elsewhere_was_taken_for_the_one_that_had_failed() -> None:
    """The failed one was told to be stored: a decision that stood got 409, "committed"."""
    log = Log()
    elsewhere = Elsewhere(log)
    rival = log.decisions.under_way(0, identity("T1"))
    equal = log.decisions.append(0, decision("T1", R))
    elsewhere.found = decisions_module.UnderWay(R)  # the commit has failed, this was behind it
    await equal
    assert rival is not None
    assert rival.is_stored is False
    assert not isinstance(rival.error, OutcomeUnknown)
    contrary = log.decisions.append(0, decision("T1", C))
    await elsewhere.looked_at_again()
    assert log.records() == [[("T1", R)]]
    elsewhere.found = decisions_module.UnderWay(R, is_stored=True)
    await contrary
    assert log.records() == [[("T1", R)], [("T1", C)]]


async def test_an_equal_decision_does_not_wait_for_the_one_that_goes_another_way() -> None:
    log = Log()
    Elsewhere(log)
    await log.decisions.append(0, decision("T1", C))
    assert log.records() == [[("T1", C)]]


async def test_a_contrary_decision_goes_out_when_the_one_elsewhere_is_known_no_more() -> None:
    log = Log()
    elsewhere = Elsewhere(log)
    rival = log.decisions.under_way(0, identity("T1"))
    late = log.decisions.append(0, decision("T1", R))
    elsewhere.found = None
    await late
    assert log.records() == [[("T1", R)]]
    assert rival is not None
    assert rival.is_stored is None  # perhaps it was stored and forgotten
    first = log.decisions.under_way(0, identity("T1"))
    assert first is not None
    assert first.resolution is R


async def test_whoever_was_asked_later_learns_how_the_one_before_ended() -> None:
    log = Log()
    log.kafka.faults.appends = [AppendFault.ANSWER_LOST, None]
    first = log.decisions.append(0, decision("T1", C))
    under_way = log.decisions.under_way(0, identity("T1"))
    second = log.decisions.append(0, decision("T1", R))
    assert await second == 1
    assert under_way is not None
    assert under_way.is_stored is False
    assert isinstance(under_way.error, OutcomeUnknown)
    with pytest.raises(OutcomeUnknown):
        await first


# -- decisions that nobody awaits ----------------------------------------------------------------


async def test_decisions_that_nobody_awaits_share_a_record_without_one_in_flight() -> None:
    log = Log()
    futures = [log.decisions.append(0, decision(f"T{n}"), is_awaited=False) for n in range(5)]
    assert log.records() == []
    assert log.decisions.under_way(0, identity("T3")) is not None
    assert await asyncio.gather(*futures) == [0] * 5
    assert log.records() == [[(f"T{n}", C) for n in range(5)]]


async def test_one_that_is_awaited_takes_those_along_that_are_not() -> None:
    log = Log()
    unhurried = log.decisions.append(0, decision("T0"), is_awaited=False)
    awaited = log.decisions.append(0, decision("T1"))
    assert log.records() == [[("T0", C), ("T1", C)]]
    assert await asyncio.gather(unhurried, awaited) == [0, 0]
    later = log.decisions.append(0, decision("T2"), is_awaited=False)
    assert len(log.records()) == 1, "hurry is over with the one that was in a hurry"
    assert await later == 1


async def test_behind_a_record_in_flight_only_an_awaited_one_hurries() -> None:
    log = Log()
    first = log.decisions.append(0, decision("T0"))
    unhurried = log.decisions.append(0, decision("T1"), is_awaited=False)
    await first
    assert len(log.records()) == 1
    awaited = log.decisions.append(0, decision("T2"), is_awaited=True)
    assert await asyncio.gather(unhurried, awaited) == [1, 1]


async def test_a_full_record_waits_for_nobody() -> None:
    log = Log()
    for n in range(decisions_module._GATHERED_MAX):
        assert log.records() == []
        log.decisions.append(0, decision(f"T{n}"), is_awaited=False)
    assert [len(record) for record in log.records()] == [decisions_module._GATHERED_MAX]


async def test_what_was_asked_for_here_is_known_until_its_owner_has_read_it() -> None:
    log = Log()
    assert not log.decisions.is_known(0, identity("T1"))
    stored = log.decisions.append(0, decision("T1"))
    assert log.decisions.is_known(0, identity("T1"))
    await stored
    assert log.decisions.is_known(0, identity("T1"))
    for _ in range(2):
        log.pass_time(1.1)
        assert log.decisions.under_way(0, identity("T2")) is None
    assert not log.decisions.is_known(0, identity("T1"))


def test_what_owners_read_is_told_to_all_who_want_to_hear_it() -> None:
    log, told = Log(), []
    log.decisions.read([])
    log.decisions.on_read += [told.append, told.append]
    log.decisions.read(None)
    assert told == [None, None]
