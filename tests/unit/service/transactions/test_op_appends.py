"""Decisions on their way into the op log, on a Kafka in memory."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import product

import pytest

from halfhitch.adapters.memory import AppendFault, MemoryClock, MemoryKafka, MemoryRecordLog
from halfhitch.core.model import DecisionRead, ProducerGroup, Resolution, ResolutionSource
from halfhitch.errors import ContraryDecision, KafkaUnavailable, OutcomeUnknown
from halfhitch.service.transactions import op_appends
from halfhitch.service.transactions.asked import UnderWay, may_count
from halfhitch.service.transactions.end import Begun
from halfhitch.service.transactions.op_appends import Decision, DecisionLog
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage
from harness.end_answers import answer_of
from harness.twin import identity

C, R = Resolution.COMMIT, Resolution.ROLLBACK


def check(rival: UnderWay, requested: Resolution) -> None:
    """What whoever asked for it behind that one is told, once it is stored."""
    stored = asyncio.get_running_loop().create_future()
    Begun(identity("T1"), requested, stored, None, rival).check()


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
        self.decisions.owner_read_to = lambda _: self.read_to
        self.read_to: int | None = None  # no owner works here

    def pass_time(self, seconds: float) -> None:
        """For what is remembered."""
        for lane in self.decisions._lanes.values():
            lane.remembered._renewed_s -= seconds
            lane.remembered._put_s -= seconds

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


async def test_a_decision_is_known_from_its_asking_until_its_owner_has_read_it() -> None:
    """It was forgotten after a second or two: when Kafka stopped, a contrary one was told 200."""
    log = Log()
    log.read_to = 0
    assert log.decisions.under_way(0, identity("T1")) is None
    future = log.decisions.append(0, decision("T1", R))
    under_way = log.decisions.under_way(0, identity("T1"))
    assert under_way is not None
    assert (under_way.resolution, under_way.is_stored) == (R, None)
    assert log.decisions.under_way(0, identity("T2")) is None
    assert log.decisions.under_way(1, identity("T1")) is None
    await future
    for _ in range(3):
        log.pass_time(120)
        await log.decisions.append(0, decision("T2", C))
        assert log.decisions.under_way(0, identity("T1")) is under_way
    assert (under_way.is_stored, under_way.op_offset) == (True, 0)
    log.read_to = 1
    assert log.decisions.under_way(0, identity("T1")) is None
    assert log.decisions.under_way(0, identity("T2")) is not None


async def test_when_an_owner_has_to_take_over_again_what_it_had_read_is_still_known() -> None:
    """As long as Kafka stores nothing, or for some seconds of what it stores."""
    log = Log()
    log.read_to = 0
    await log.decisions.append(0, decision("T1", C))
    log.read_to = 1
    assert log.decisions.under_way(0, identity("T1")) is None
    log.read_to = None
    for passed_s in (60, 500):
        log.pass_time(passed_s)
        assert log.decisions.under_way(0, identity("T1")) is not None
    log.pass_time(601)
    assert log.decisions.under_way(0, identity("T1")) is None


async def test_what_lost_against_one_that_its_owner_had_read_was_taken_for_the_first() -> None:
    """Once the owner was away: whoever repeated it was told 200."""
    log = Log()
    await log.decisions.append(0, decision("T1", C))
    log.read_to = 1
    await log.decisions.append(0, decision("T1", R))
    await log.decisions.append(0, decision("T2", R), has_lost=True)  # to what its owner alone knows
    log.read_to = None
    first = log.decisions.under_way(0, identity("T1"))
    assert first is not None
    assert first.resolution is C
    assert log.decisions.under_way(0, identity("T2")) is None


async def test_a_decision_that_came_second_is_never_taken_for_the_first() -> None:
    log = Log()
    await log.decisions.append(0, decision("T1", C))
    log.pass_time(1.1)
    await log.decisions.append(0, decision("T1", R))
    first = log.decisions.under_way(0, identity("T1"))
    assert first is not None
    assert first.resolution is C
    assert first.order == [first]


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
    Elsewhere(log, Told(C, is_stored=True))
    await log.decisions.append(0, decision("T1", R))
    first = log.decisions.under_way(0, identity("T1"))
    assert first is not None
    assert first.resolution is C


async def test_whoever_came_behind_one_that_failed_was_not_remembered_as_the_first() -> None:
    """A contrary end after it got 200, although it had lost."""
    log = Log()
    log.kafka.faults.appends = [AppendFault.REFUSED]
    failed = log.decisions.append(0, decision("T1", C))
    stored = log.decisions.append(0, decision("T1", R))
    with pytest.raises(KafkaUnavailable):
        await failed
    await stored
    first = log.decisions.under_way(0, identity("T1"))
    assert first is not None
    assert first.resolution is R


async def test_whoever_retries_what_surely_failed_meets_what_waited_behind_it() -> None:
    """Both got 200: nothing knew of the roll-back until it had landed."""
    log = Log()
    log.kafka.faults.appends = [AppendFault.REFUSED]
    failed = log.decisions.append(0, decision("T1", C))
    behind = log.decisions.append(0, decision("T1", R))
    met: list[UnderWay | None] = []
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


@dataclass
class Told:
    resolution: Resolution
    is_stored: bool | None = None
    number: int = 1
    op_offset: int | None = None

    @property
    def is_commit(self) -> bool:
        return self.resolution is C


class Elsewhere:
    """Another producer of this process, and what it tells of T1; None: nothing any more."""

    def __init__(self, log: Log, *told: Told) -> None:
        self.told: list[Told] | None = list(told) or [Told(C)]
        self.ids_asked_for: list[str] = []
        log.decisions.elsewhere.append(self.decisions)

    def decisions(self, _: int, asked: tuple[str, str]) -> list[Told] | None:
        self.ids_asked_for.append(asked[1])
        return self.told if asked[1] == "T1" else None

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
    elsewhere.told = [Told(C, is_stored=True)]
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
    elsewhere = Elsewhere(log, Told(C), Told(R, number=2))
    rival = log.decisions.under_way(0, identity("T1"))
    equal = log.decisions.append(0, decision("T1", R))
    contrary = log.decisions.append(0, decision("T1", C))
    elsewhere.told = [Told(R, number=2)]  # the commit has failed, this was behind it
    await elsewhere.looked_at_again()
    await elsewhere.looked_at_again()
    assert log.records() == [], "neither overtakes the one that may be the first"
    assert rival is not None
    assert rival.has_surely_failed
    elsewhere.told = [Told(R, is_stored=True, number=2)]
    await asyncio.gather(equal, contrary)
    assert log.records() == [[("T1", R)], [("T1", C)]]
    check(rival, R)
    with pytest.raises(ContraryDecision):
        check(rival, C)


async def test_one_that_surely_failed_elsewhere_was_told_as_one_of_unknown_fate() -> None:
    """The contrary one that had waited for it was told that nobody knows, for two seconds."""
    log = Log()
    elsewhere = Elsewhere(log)
    rival = log.decisions.under_way(0, identity("T1"))
    late = log.decisions.append(0, decision("T1", R))
    elsewhere.told = []
    await late
    assert rival is not None
    assert rival.has_surely_failed
    check(rival, R)


async def test_what_lay_behind_one_of_unknown_fate_elsewhere_was_not_told() -> None:
    """A commit nobody knows of, a roll-back that is stored, and the commit by the loop: 200."""
    asker = Asker()
    maybe = Told(C, is_stored=False)
    Elsewhere(asker.log, maybe, Told(R, is_stored=True, number=2, op_offset=7))
    await asker.ask(C, is_awaited=True)
    await asker.ask(R, is_awaited=True)
    assert [answer for _, answer in asker.told] == ["unknown", "unknown"]
    assert asker.log.decisions.was_rolled_back(0, identity("T1"))
    asker.log.read_to = 8
    assert asker.log.decisions.under_way(0, identity("T1")) is None, "now its owner knows"


async def test_two_others_are_told_apart_though_both_count_from_one() -> None:
    log = Log()
    one, other = Elsewhere(log), Elsewhere(log, Told(R))
    rival = log.decisions.under_way(0, identity("T1"))
    one.told, other.told = [], [Told(R, is_stored=True)]
    await log.decisions.append(0, decision("T1", C))
    assert rival is not None
    assert [it.resolution for it in may_count(rival.order)] == [R]


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
    elsewhere.told = None
    await late
    assert log.records() == [[("T1", R)]]
    assert rival is not None
    assert isinstance(rival.error, OutcomeUnknown)  # perhaps it was stored and forgotten
    with pytest.raises(OutcomeUnknown):
        check(rival, R)
    first = log.decisions.under_way(0, identity("T1"))
    assert first is rival
    assert log.decisions.was_rolled_back(0, identity("T1")), "it may count, too"


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


class Asker:
    """Asks for decisions of one transaction, each with a fault, and keeps what each was told."""

    def __init__(self) -> None:
        self.log = Log()
        self.told: list[tuple[Resolution, str]] = []
        self._asked: list[asyncio.Task[None]] = []

    async def ask(self, resolution: Resolution, *, is_awaited: bool) -> None:
        place = len(self._asked)
        self.told.append((resolution, "nothing"))
        rival = self.log.decisions.under_way(0, identity("T1"))
        stored = self.log.decisions.append(0, decision("T1", resolution))
        self._asked.append(asyncio.create_task(self._answer(place, stored, rival)))
        if is_awaited:
            await self._asked[-1]

    async def _answer(
        self, place: int, stored: asyncio.Future[int], rival: UnderWay | None
    ) -> None:
        resolution, _ = self.told[place]

        async def end() -> None:
            await stored
            if rival is not None:
                check(rival, resolution)

        self.told[place] = resolution, await answer_of(end())

    async def first(self) -> Resolution | None:
        """The one that counts, by the log; None: nothing is in it."""
        await asyncio.gather(*self._asked)
        return next((which for record in self.log.records() for _, which in record), None)


FAULTS = (None, AppendFault.REFUSED, AppendFault.LOST, AppendFault.ANSWER_LOST)


@pytest.mark.parametrize("faults", list(product(FAULTS, repeat=3)))
async def test_whatever_happens_to_others_nobody_is_told_what_the_log_does_not_say(
    faults: tuple[AppendFault | None, ...],
) -> None:
    """Four decisions of one transaction: each way to ask for them, one behind the other or not.

    What was told wrongly before: 200 for a contrary one after one of unknown fate, 200 for a retry
    of that when a contrary one lay between them, and 200 for both of two contrary ones behind one
    that was refused.
    """
    is_certain = not {AppendFault.LOST, AppendFault.ANSWER_LOST} & set(faults)
    for asked, awaited in product(product((C, R), repeat=4), product((True, False), repeat=4)):
        asker = Asker()
        asker.log.kafka.faults.appends = [*faults, None]
        for resolution, is_awaited in zip(asked, awaited, strict=True):
            await asker.ask(resolution, is_awaited=is_awaited)
        first, story = await asker.first(), f"{asked} {awaited}: {asker.told}"
        for resolution, answer in asker.told:
            assert answer != "nothing", story
            assert answer != "yes" or resolution is first, story
            assert answer != "no" or resolution is not first, story
            assert answer != "unknown" or not is_certain, story
        if first is R:
            assert asker.log.decisions.was_rolled_back(0, identity("T1")), story
        if is_certain and first is C:
            assert not asker.log.decisions.was_rolled_back(0, identity("T1")), story
            asker.log.pass_time(2.2)
            assert not asker.log.decisions.was_rolled_back(0, identity("T1")), story


async def test_a_retry_of_one_of_unknown_fate_counts_where_no_contrary_one_may() -> None:
    """The contrary one before it was refused, and the one after it has lost."""
    asker = Asker()
    asker.log.kafka.faults.appends = [AppendFault.LOST, AppendFault.REFUSED]
    for resolution in (C, R, C, R):
        await asker.ask(resolution, is_awaited=True)
    assert [answer for _, answer in asker.told] == ["unknown", "failed", "yes", "no"]


async def test_a_doubt_is_remembered_as_long_as_the_last_one_that_may_count() -> None:
    """It went with the first one: a retry was told 200, though the roll-back counted."""
    asker = Asker()
    asker.log.kafka.faults.appends = [AppendFault.LOST]
    await asker.ask(C, is_awaited=True)
    asker.log.pass_time(1.1)
    await asker.ask(R, is_awaited=True)
    asker.log.pass_time(0.95)
    await asker.ask(C, is_awaited=True)
    assert [answer for _, answer in asker.told] == ["unknown", "unknown", "unknown"]
    first = asker.log.decisions.under_way(0, identity("T1"))
    assert first is not None
    last = may_count(first.order)[-1].op_offset
    assert last is not None
    for read_to, is_known in ((last, True), (last + 1, False)):
        asker.log.read_to = read_to
        assert asker.log.decisions.is_known(0, identity("T1")) is is_known


async def test_what_is_on_its_way_is_known_however_long_it_takes() -> None:
    log = Log()
    log.kafka.faults.appends = [AppendFault.LOST]
    first, behind = [log.decisions.append(0, decision("T1", which)) for which in (C, R)]
    with pytest.raises(OutcomeUnknown):
        await first
    assert not behind.done()
    log.pass_time(1.1)
    assert log.decisions.under_way(0, identity("T1")) is not None
    log.pass_time(1.1)
    assert log.decisions.under_way(0, identity("T1")) is not None
    await behind


@pytest.mark.parametrize("took_s", [0.5, 1.9, 2.5, 10])
@pytest.mark.parametrize("fault", [None, AppendFault.ANSWER_LOST])
async def test_what_took_long_was_forgotten_the_moment_it_landed(
    took_s: float, fault: AppendFault | None
) -> None:
    """Where nothing else was asked of its partition meanwhile: a contrary one was told 200."""
    asker = Asker()
    asker.log.kafka.faults.appends = [fault]
    await asker.ask(C, is_awaited=False)
    asker.log.pass_time(took_s)
    await asker.first()
    asker.log.pass_time(0.9)
    await asker.ask(R, is_awaited=True)
    assert asker.told[-1] == (R, "unknown" if fault else "no")


async def test_behind_one_of_unknown_fate_elsewhere_nobody_was_told_that_it_is_not_known() -> None:
    """Native threads forgot such a one at once: a roll back after it was told 200."""
    asker = Asker()
    elsewhere = Elsewhere(asker.log, Told(C, is_stored=False))
    await asker.ask(R, is_awaited=True)
    elsewhere.told = None
    await asker.ask(C, is_awaited=True)
    assert [answer for _, answer in asker.told] == ["unknown", "unknown"]
    assert asker.log.decisions.was_rolled_back(0, identity("T1"))


async def test_what_is_asked_again_and_again_while_nobody_knows_fills_no_memory() -> None:
    asker = Asker()
    asker.log.kafka.faults.appends = [AppendFault.LOST] * 400
    for resolution in [C] * 399 + [R]:
        await asker.ask(resolution, is_awaited=True)
    first = asker.log.decisions.under_way(0, identity("T1"))
    assert first is not None
    assert [one.resolution for one in first.order] == [C, R]


@pytest.mark.parametrize("fault", [None, AppendFault.ANSWER_LOST])
async def test_behind_very_many_of_unknown_fate_one_on_its_way_was_not_remembered(
    fault: AppendFault | None,
) -> None:
    """The memory had a bound, and aged without the one that came behind it."""
    asker = Asker()
    asker.log.kafka.faults.appends = [*[AppendFault.LOST] * 100, fault]
    for _ in range(100):
        await asker.ask(C, is_awaited=True)
    asker.log.pass_time(1.9)
    await asker.ask(C, is_awaited=True)
    asker.log.pass_time(0.9)
    await asker.ask(R, is_awaited=True)
    assert asker.told[-1] == (R, "unknown" if fault else "no")


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
    for n in range(op_appends._GATHERED_MAX):
        assert log.records() == []
        log.decisions.append(0, decision(f"T{n}"), is_awaited=False)
    assert [len(record) for record in log.records()] == [op_appends._GATHERED_MAX]


async def test_what_was_asked_for_here_is_known_until_its_owner_has_read_it() -> None:
    log = Log()
    assert not log.decisions.is_known(0, identity("T1"))
    stored = log.decisions.append(0, decision("T1"))
    assert log.decisions.is_known(0, identity("T1"))
    log.read_to = await stored
    assert log.decisions.is_known(0, identity("T1"))
    log.read_to += 1
    assert not log.decisions.is_known(0, identity("T1"))


def test_what_owners_read_is_told_to_all_who_want_to_hear_it() -> None:
    log, told = Log(), []
    log.decisions.read([])
    log.decisions.on_read += [told.append, told.append]
    log.decisions.read(None)
    assert told == [None, None]
