"""What an owner tells the audit topic, with each step; and that nothing ever waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters.memory import WriteFault
from halfhitch.core.model import Resolution
from halfhitch.service.checking.api import CheckOutcome, CheckReport
from halfhitch.service.owner import stories as under_test
from halfhitch.service.owner.turn import OutcomeLostError, StepFailedError
from halfhitch.wire import op as op_wire
from halfhitch.wire import story
from halfhitch.wire.story import Ended, Event, Target
from harness.audit import AUDIT, indexes, judge_indexes, stories_of, told
from harness.refusals import turns
from harness.twin import GROUP, INSTANCE, PARKED, Twin, identity, turn_until_idle

if TYPE_CHECKING:
    from collections.abc import Callable

    from halfhitch.service.owner.stories import Stories
    from halfhitch.service.owner.turn import PartitionOwner


def twin_with_audit(**options: Any) -> Twin:
    twin = Twin(**options)
    twin.kafka.create_topic(AUDIT, 2)
    return twin


def telling(twin: Twin, **options: Any) -> Stories:
    return stories_of(twin.kafka, 0, observer=twin.observer, clock=twin.clock, **options)


def owner_of(twin: Twin, **options: Any) -> PartitionOwner:
    return twin.working_owner(stories=telling(twin, **options))


def endings(twin: Twin) -> list[tuple[str, int]]:
    return [(e.transaction_id, e.ending) for e in told(twin.kafka) if isinstance(e, Ended)]


def events(twin: Twin) -> list[Event]:
    return [entry for entry in told(twin.kafka) if isinstance(entry, Event)]


def test_each_ending_is_told_with_where_it_came_from_and_who_decided() -> None:
    twin = twin_with_audit()
    owner = owner_of(twin)
    half = twin.half("T1", key=b"k", digest=7)
    twin.half("T1", index=1, topic="points", target_partition=2)
    at = twin.commit("T1", covered=2, hints=[half])
    twin.half("T2")
    twin.decide(Resolution.ROLLBACK, "T2", source="operator", reason="ann: a test order")
    turn_until_idle(owner)
    first, second = told(twin.kafka)
    assert isinstance(first, Ended)
    assert (first.ending, first.source, first.op_offset, first.half_offset) == (
        2,
        "producer",
        at,
        0,
    )
    hashed = story.key_hash(b"orders", b"k")
    assert first.targets == [Target("orders", None, hashed), Target("points", 2)]
    assert (first.taken_by, first.message_count, first.life) == (INSTANCE, 2, 0)
    assert isinstance(second, Ended)
    assert (second.ending, second.source, second.reason) == (0, "operator", "ann: a test order")
    assert second.targets == [Target("orders")]


def test_a_step_that_is_aborted_has_told_nothing_and_is_told_when_it_is_written() -> None:
    twin = twin_with_audit()
    owner = owner_of(twin)
    twin.half("T1")
    twin.commit("T1")
    twin.kafka.faults.writes.append(WriteFault.ABORTED)
    with pytest.raises(StepFailedError):
        turn_until_idle(owner)
    assert told(twin.kafka) == []
    turn_until_idle(owner)
    assert endings(twin) == [("T1", 1)]


@pytest.mark.parametrize(
    "fault", [WriteFault.COMMITTED_UNSEEN, WriteFault.ABORTED_UNSEEN, WriteFault.LEFT_OPEN]
)
def test_a_step_that_nobody_knows_the_end_of_is_told_once(fault: WriteFault) -> None:
    twin = twin_with_audit()
    owner = owner_of(twin)
    twin.half("T1")
    twin.commit("T1")
    twin.kafka.faults.writes.append(fault)
    with pytest.raises(OutcomeLostError):
        turn_until_idle(owner)
    owner.take_over()
    turn_until_idle(owner)
    assert endings(twin) == [("T1", 1)]


def test_what_is_parked_is_told_with_the_reason() -> None:
    twin = twin_with_audit()
    owner = owner_of(twin)
    twin.half("T1", topic="gone")
    twin.commit("T1")
    twin.half("T2")
    twin.give_up_now("T2")
    turns(twin, owner, 5)
    whys = {e.transaction_id: (e.ending, e.why) for e in told(twin.kafka) if isinstance(e, Ended)}
    assert whys["T1"][0] == -1
    assert str(whys["T1"][1]).startswith("undeliverable: ")
    assert whys["T2"][0] == -2
    assert str(whys["T2"][1]).startswith("too_old: ")
    twin.commit("T2")
    turn_until_idle(owner)
    (late,) = [event for event in events(twin) if event.what == story.LATE_DECISION]
    assert (late.outcome, late.by) == ("c", "producer")


def test_what_loses_against_a_decision_is_told() -> None:
    twin = twin_with_audit()
    owner = owner_of(twin)
    twin.half("T1")
    twin.commit("T1")
    loser = twin.roll_back("T1")
    turn_until_idle(owner)
    (event,) = events(twin)
    assert (event.what, event.outcome, event.number) == (story.CONFLICT, "contrary", loser)
    assert (event.by, event.reason) == ("producer", "wanted rollback")


def test_who_lost_and_why_was_not_told() -> None:
    """The page for that alert sends people to the story."""
    twin = twin_with_audit()
    owner = owner_of(twin)
    twin.half("T1")
    twin.roll_back("T1")
    twin.decide(Resolution.COMMIT, "T1", source="operator", reason="ann: it is paid")
    turn_until_idle(owner)
    (event,) = events(twin)
    assert (event.by, event.reason) == ("operator", "wanted commit: ann: it is paid")


def test_an_answer_goes_with_the_next_step_or_gets_one_of_its_own() -> None:
    twin = twin_with_audit()
    owner = owner_of(twin)
    twin.half("T1")
    turn_until_idle(owner)
    report = CheckReport(identity("T1"), 1, CheckOutcome.UNKNOWN, "pod-3", 0.25, "not yet")
    owner.checkback.report(report)
    turn_until_idle(owner)
    assert told(twin.kafka) == [], "a step for each answer would cost as much as forwarding"
    twin.clock.advance(2.5)
    turn_until_idle(owner)
    (event,) = events(twin)
    assert event.what == story.ANSWERED
    assert (event.number, event.by, event.outcome, event.reason, event.took_ms) == (
        *(1, "pod-3", "unknown", "not yet"),
        250,
    )
    twin.clock.advance(60)
    turn_until_idle(owner)
    assert len(events(twin)) == 1


def test_who_has_put_it_back_and_why_is_told() -> None:
    twin = twin_with_audit()
    owner = owner_of(twin)
    note = op_wire.write_note(identity("T1"), action="resume", operator="ann", reason="repaired")
    at = twin.kafka.append(twin.kafka.op_topic, 0, None, *note)
    twin.kafka.append(twin.kafka.op_topic, 0, None, *op_wire.write(op_wire.TAG_NOTE, [], ()))
    turn_until_idle(owner)
    twin.clock.advance(2.5)
    turn_until_idle(owner)
    (event,) = events(twin)
    assert (event.what, event.by, event.reason) == (story.PUT_BACK, "ann", "repaired")
    assert event.number == at


# -- nothing waits for it ------------------------------------------------------------------------

FAULTS: dict[str, Callable[[Twin], None]] = {
    "forbidden": lambda twin: twin.kafka.faults.forbidden.add(AUDIT),
    "away": lambda twin: twin.kafka.faults.away_topics.add(AUDIT),
    "unexplained": lambda twin: twin.kafka.faults.unexplained.add(AUDIT),
    "gone": lambda twin: twin.kafka.delete_topic(AUDIT),
    "too small": lambda twin: twin.kafka.record_bytes_max.__setitem__(AUDIT, 10),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_topic_that_takes_nothing_stops_no_transaction(fault: str) -> None:
    twin = twin_with_audit()
    owner = owner_of(twin)
    FAULTS[fault](twin)
    names = [f"T{n}" for n in range(30)]
    for name in names:
        twin.half(name, value=name.encode())
        twin.commit(name)
    turns(twin, owner, 10)
    assert twin.values() == [name.encode() for name in names]
    assert twin.values(PARKED) == []
    assert owner.waiting_by_topic == {}


@pytest.mark.parametrize("fault", ["forbidden", "away", "unexplained"])
def test_what_could_not_be_told_is_told_when_the_topic_is_back(fault: str) -> None:
    twin = twin_with_audit()
    owner = owner_of(twin)
    FAULTS[fault](twin)
    twin.half("T1")
    twin.commit("T1")
    turns(twin, owner, 10)
    faults = twin.kafka.faults
    faults.forbidden, faults.away_topics, faults.unexplained = set(), set(), set()
    twin.clock.advance(40)
    turns(twin, owner, 3)
    assert endings(twin) == [("T1", 1)]


def test_a_broker_that_took_a_target_with_it_was_found_out_in_two_steps() -> None:
    """On Kafka each of them takes as long as a message may: prepares were refused meanwhile."""
    twin = twin_with_audit()
    owner = owner_of(twin)
    twin.kafka.faults.away_topics = {AUDIT, "orders"}
    for name, topic in (("T1", "orders"), ("T2", "points")):
        twin.half(name, topic=topic, value=name.encode())
        twin.commit(name)
    turns(twin, owner, 5)
    assert twin.values("points") == [b"T2"]
    assert owner.waiting_by_topic == {"orders": 1}
    outcomes = [outcome for _, outcome, *_ in twin.observer.of("kafka_transaction")]
    assert outcomes[:2] == ["fail", "ok"], "what comes later are probes"


def test_a_topic_without_a_leader_is_not_even_tried_again() -> None:
    twin = twin_with_audit()
    owner = owner_of(twin)
    twin.kafka.faults.away_topics = {AUDIT}
    twin.half("T1")
    twin.commit("T1")
    turns(twin, owner, 3)
    writes = twin.observer.of("kafka_transaction")
    twin.kafka.faults.leaderless = {AUDIT}
    twin.clock.advance(40)
    twin.half("T2")
    twin.commit("T2")
    turns(twin, owner, 3)
    more = twin.observer.of("kafka_transaction")[len(writes) :]
    assert [outcome for _, outcome, *_ in more] == ["ok"]


@pytest.mark.interpreted("replaces a Final limit, which is built in where it is compiled")
def test_what_waits_too_long_is_lost_and_the_loss_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "_WAITING_MAX", 3)
    twin = twin_with_audit()
    owner = owner_of(twin)
    twin.kafka.faults.forbidden = {AUDIT}
    for n in range(5):
        twin.half(f"T{n}")
        twin.commit(f"T{n}")
        turns(twin, owner, 3)
    twin.kafka.faults.forbidden = set()
    twin.clock.advance(40)
    turns(twin, owner, 3)
    assert [name for name, _ in endings(twin)] == ["T2", "T3", "T4"]
    (lost,) = events(twin)
    assert (lost.what, lost.number) == (story.LOST, 2)


def test_a_topic_that_is_not_there_yet_gets_what_has_waited() -> None:
    twin = Twin()
    owner = owner_of(twin)
    twin.half("T1")
    twin.commit("T1")
    turn_until_idle(owner)
    assert twin.done
    twin.kafka.create_topic(AUDIT, 2)
    twin.clock.advance(5)
    turn_until_idle(owner)
    assert endings(twin) == [("T1", 1)]


@pytest.mark.interpreted("replaces a function, which is called directly where it is compiled")
def test_a_mistake_in_the_telling_does_not_stop_the_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def mistaken(*_: Any) -> None:
        raise ValueError("a mistake")

    twin = twin_with_audit()
    owner = owner_of(twin)
    monkeypatch.setattr(under_test, "of_step", mistaken)
    twin.half("T1")
    twin.commit("T1")
    turn_until_idle(owner)
    assert twin.values() == [b"value"]
    assert told(twin.kafka) == []
    assert (0, 1) in twin.observer.of("stories")


def test_a_strangers_half_is_told_of_as_far_as_it_can_be_read() -> None:
    twin = twin_with_audit()
    owner = owner_of(twin)
    headers: Any = [
        ("HALFHITCH", b"1;0;x;\xff"), ("UNIQ_KEY", b"T1"), ("PGROUP", GROUP.encode()),
        ("REAL_TOPIC", b"\xfforders"), ("REAL_QID", b"-7"),
    ]  # fmt: skip
    twin.kafka.append(twin.kafka.half_topic, 0, None, None, headers)
    twin.commit("T1")
    turns(twin, owner, 3)
    (ended,) = told(twin.kafka)
    assert isinstance(ended, Ended)
    assert (ended.ending, ended.born_ms, ended.targets) == (-1, -1, [Target("\ufffdorders")])


# -- indexes -------------------------------------------------------------------------------------


def run(twin: Twin, owner: PartitionOwner, *names: str) -> None:
    for name in names:
        twin.half(name, key=name.encode())
        twin.commit(name)
        turn_until_idle(owner)


def test_runs_of_records_have_indexes_and_whoever_goes_by_them_finds_everything() -> None:
    twin = twin_with_audit()
    owner = owner_of(twin, index_entries=10)
    run(twin, owner, *(f"T{n}" for n in range(40)))
    assert judge_indexes(twin.kafka) >= 4
    named = [sum(i.may_name([story.mark_of("T7")]) for i in indexes(twin.kafka))]
    assert named == [1]


@pytest.mark.parametrize("when", ["when it was asked for", "in between", "when it is told"])
def test_an_end_that_is_told_late_leaves_nothing_out(when: str) -> None:
    """Kafka may answer with the end of any moment since it was asked."""
    twin = twin_with_audit()
    log = twin.kafka.log(AUDIT, 0)
    asked: list[int] = []

    def ask_end() -> Callable[[], int | None]:
        ends = [log.end]
        asked.append(log.end)

        def answer() -> int | None:
            ends.append(log.end)
            if len(ends) < 7:
                return None
            return {"when it was asked for": ends[0], "in between": ends[3]}.get(when, ends[-1])

        return answer

    owner = owner_of(twin, index_entries=10, ask_end=ask_end)
    run(twin, owner, *(f"T{n}" for n in range(60)))
    assert judge_indexes(twin.kafka) >= 2
    assert len(asked) >= 3


def test_an_end_that_cannot_be_had_costs_an_index_and_nothing_else() -> None:
    twin = twin_with_audit()

    def ask_end() -> Callable[[], int | None]:
        def fails() -> int | None:
            raise RuntimeError("Kafka does not say")

        return fails

    owner = owner_of(twin, index_entries=2, ask_end=ask_end)
    run(twin, owner, *(f"T{n}" for n in range(20)))
    assert indexes(twin.kafka) == []
    assert len(endings(twin)) == 20


def test_an_index_of_an_aborted_step_is_written_with_the_next_one() -> None:
    twin = twin_with_audit()
    owner = owner_of(twin, index_entries=4)
    run(twin, owner, *(f"T{n}" for n in range(4)))
    for n in range(4, 12):
        twin.half(f"T{n}")
        twin.commit(f"T{n}")
        twin.kafka.faults.writes.append(WriteFault.ABORTED)
        with pytest.raises(StepFailedError):
            turn_until_idle(owner)
        turn_until_idle(owner)
    assert judge_indexes(twin.kafka) >= 2


def test_who_has_a_record_passed_over_and_why_is_told_once() -> None:
    twin = twin_with_audit()
    stories = telling(twin)
    orders = {("op", 7): "ann: forged: by nobody we know"}
    skip_reason = stories.telling(lambda log, at: orders.get((log, at)))
    owner = twin.working_owner(stories=stories)
    assert skip_reason("half", 7) is None
    for _ in range(2):  # a takeover may read it again
        assert skip_reason("op", 7) == "ann: forged: by nobody we know"
    twin.clock.advance(2.5)
    turn_until_idle(owner)
    (event,) = events(twin)
    assert (event.what, event.outcome, event.number) == (story.SKIPPED, "op-0", 7)
    assert (event.by, event.reason) == ("ann", "forged: by nobody we know")
