"""The judge of `halfhitch verify`: clean where all is well, and every kind of wrong is found."""

from __future__ import annotations

import random

import pytest

from halfhitch.core.model import (
    ConflictKind,
    ConflictMark,
    HalfOffset,
    OpOffset,
    Resolution,
    ResolutionSource,
)
from halfhitch.verify.report import Kind, Unjudged
from halfhitch.verify.run import verify
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import HalfRecord, system_headers
from halfhitch.wire.parked import LATE
from harness.verified import (
    RULES,
    C,
    P,
    R,
    copy_of,
    ended,
    kinds,
    look,
    lose,
    only_violation,
    remove,
    trim,
)
from harness.verify_logs import WorldLogs
from harness.verify_world import (
    HALF,
    OP,
    PARKED_TOPIC,
    Life,
    Log,
    Stored,
    World,
)

# -- clean ---------------------------------------------------------------------------------------


def test_what_went_well_is_clean_and_was_looked_for(world: World) -> None:
    findings = look(world).findings
    assert findings.is_clean
    assert findings.is_complete
    assert findings.endings == {"committed": 4, "rolled_back": 2, "parked": 1}
    assert findings.committed_judged == 4
    assert findings.forwards_judged == 8
    assert not findings.unjudged


def test_a_copy_and_a_life_after_parking_are_clean(world: World) -> None:
    life = ended(world, P)
    world._steps[life.partition] = world.resume(life)
    world.settle()
    world._steps[life.partition] = world.copy(life)
    world.settle()
    assert look(world).findings.unfinished_counts == {"undecided": 1}
    world.decide(life, C)
    world.settle()
    findings = look(world).findings
    assert findings.is_clean
    assert findings.endings["committed"] == 5


def test_records_of_others_on_a_target_are_nobodys_business(world: World) -> None:
    for headers in ([], [("kind", b"x")], [("HALFHITCH", b"1;0;0;i")], [("UNIQ_KEY", b"x")] * 3):
        world.append(("orders", 0), b"k", b"v", list(headers))
    outcome = look(world)
    assert outcome.findings.is_clean
    assert outcome.findings.transactions == 7


# -- every kind of wrong -------------------------------------------------------------------------


def test_a_committed_transaction_without_records_is_lost(world: World) -> None:
    life = ended(world, C)
    for record in world.records_of(life):
        remove(record)
    violation = only_violation(world, Kind.LOST, life)
    assert violation.indexes == (0, 1)
    assert [where.topic for where in violation.where] == [OP]
    for topic, *_ in life.messages:
        assert topic in violation.detail


def test_it_is_lost_even_if_its_half_is_gone(world: World) -> None:
    life = ended(world, C)
    for record in world.records_of(life):
        remove(record)
    trim(world, HALF)
    assert "any allowed topic" in only_violation(world, Kind.LOST, life).detail


def test_one_missing_message_of_several_tears_the_transaction(world: World) -> None:
    life = ended(world, C, 3)
    remove(world.records_of(life)[0])
    violation = only_violation(world, Kind.TORN, life)
    assert len(violation.indexes) == 1
    assert len(violation.where) == 3


def test_a_gap_is_found_without_the_op_log(world: World) -> None:
    life = ended(world, C, 3)
    found = {str(r.stored_headers[-1][1])[2:5]: r for r in world.records_of(life)}
    remove(found["1;1"])
    trim(world, OP)
    trim(world, HALF)
    assert only_violation(world, Kind.TORN, life).indexes == (1,)


def test_the_last_message_is_missed_without_the_op_log_by_what_the_others_say(
    world: World,
) -> None:
    life = ended(world, C, 3)
    found = {str(r.stored_headers[-1][1])[2:5]: r for r in world.records_of(life)}
    remove(found["1;2"])
    trim(world, OP)
    trim(world, HALF)
    violation = only_violation(world, Kind.TORN, life)
    assert violation.indexes == (2,)
    assert "3 messages at least" in violation.detail


@pytest.mark.parametrize("place", [("orders", 0), ("points", 1)])
def test_a_second_copy_is_doubled_wherever_it_lies(world: World, place: tuple[str, int]) -> None:
    life = ended(world, C)
    trim(world, HALF)
    record = world.records_of(life)[1]
    copy = copy_of(world, record, place=place)
    violation = only_violation(world, Kind.DOUBLED, life)
    assert {(w.topic, w.partition, w.log_offset) for w in violation.where} == {
        (*record.place, record.at),
        (*place, copy.at),
    }
    assert "the same record" in violation.detail
    trim(world, OP)  # doubles are found without any internal topic
    assert look(world).findings.violation_counts == {Kind.DOUBLED: 1}


def test_a_second_copy_that_differs_is_doubled_and_says_so(world: World) -> None:
    life = ended(world, C)
    trim(world, HALF)
    copy_of(world, world.records_of(life)[0], value=b"other")
    assert "differ" in only_violation(world, Kind.DOUBLED, life).detail


def test_forwarded_and_parked_is_doubled(world: World) -> None:
    life = ended(world, C)
    world.park(life, 0, 0).state = "visible"
    assert "parked as well" in only_violation(world, Kind.DOUBLED, life).detail


def test_a_message_that_came_late_may_stay_parked_when_the_others_were_put_back(
    world: World,
) -> None:
    life = ended(world, C)
    world.park(life, 0, 0, reason=LATE).state = "visible"
    assert look(world).findings.violation_counts == {}


@pytest.mark.parametrize(
    ("resolution", "words"),
    [(R, "rolled back"), (P, "parked"), (None, "undecided")],
)
def test_what_was_not_committed_and_can_be_read_is_a_phantom(
    world: World, resolution: Resolution | None, words: str
) -> None:
    life = world.prepare(1) if resolution is None else ended(world, resolution, 1)
    world.forward(life, 0)
    findings = look(world).findings
    assert Kind.PHANTOM in kinds(findings)
    violation = next(v for v in findings.violations if v.kind is Kind.PHANTOM)
    assert violation.transaction_id == life.identity[1]
    assert words in violation.detail


def test_a_forged_record_is_a_phantom(world: World) -> None:
    ended(world, C)
    record = world.records_of(world.lives[0])[0]
    headers = [("UNIQ_KEY", b"forged"), ("PGROUP", b"shop"), ("HALFHITCH", b"1;0;0;i")]
    copy_of(world, record, headers=headers)
    findings = look(world).findings
    (violation,) = findings.violations
    assert (violation.kind, violation.transaction_id) == (Kind.PHANTOM, "forged")


def test_a_record_beyond_the_commit_is_a_phantom(world: World) -> None:
    life = ended(world, C, 1)
    life.messages *= 2
    world.forward(life, 1)
    assert "covers 1" in only_violation(world, Kind.PHANTOM, life).detail


def test_decided_without_a_done_mark_is_no_licence(world: World) -> None:
    life = world.prepare(1)
    world.decide(life, C)
    world.forward(life, 0)
    findings = look(world).findings
    assert [v.detail for v in findings.violations] == [
        "it is decided, but no done mark was written with it"
    ]
    assert findings.unfinished_counts == {"committing": 1}


def test_of_one_that_is_decided_and_not_carried_out_the_reason_is_told(world: World) -> None:
    world.decide(world.prepare(1), R, "the payment was declined")
    world.prepare(1)
    told = {one.state: one.reason for one in look(world).findings.unfinished}
    assert told == {"rolling_back": "the payment was declined", "undecided": None}


def left_out(world: World, life: Life, kind: ConflictKind) -> Stored:
    """The op log says so: of the last half, or of a decision that came too late."""
    halves = [] if kind is ConflictKind.CONTRARY else [HalfOffset(life.halves[-1])]
    lost = ConflictMark(life.identity, kind, OpOffset(0), halves)
    ((value, headers, _),) = op_wire.write_step([], [lost])
    return world.append((OP, life.partition), None, value, headers)


def test_a_message_that_its_commit_left_out_tears_the_transaction(world: World) -> None:
    """Its done mark counts one message, which is there: it cannot tell of the other."""
    life = world.prepare(2)
    world.decide(life, C)
    decided = world.logs[OP, life.partition].records[-1]
    world.forward(life, 0)
    world.done(life, 1, state="visible")
    life.state = "ended"
    said = left_out(world, life, ConflictKind.UNCOVERED)
    violation = only_violation(world, Kind.TORN, life)
    assert violation.indexes == (1,)
    assert [(w.topic, w.log_offset) for w in violation.where] == [
        (OP, said.at),
        (OP, decided.at),
        (HALF, life.halves[1]),
    ]
    assert "committed with 1 messages, 1 left out" in violation.detail
    assert "its producer's commit counts 2" in violation.detail
    trim(world, HALF)
    assert only_violation(world, Kind.TORN, life).indexes == (1,)
    remove(said)  # whoever leaves out need not say so
    assert only_violation(world, Kind.TORN, life).indexes == (1,)


def test_a_decision_that_came_too_late_is_counted_and_nothing_wrong(world: World) -> None:
    left_out(world, ended(world, C), ConflictKind.CONTRARY)
    outcome = look(world)
    assert outcome.findings.is_clean
    assert outcome.account.contrary_count == 1


def test_another_message_under_an_id_is_counted_and_nothing_wrong(world: World) -> None:
    left_out(world, ended(world, C), ConflictKind.REUSED)
    outcome = look(world)
    assert outcome.findings.is_clean
    assert (outcome.account.reused_count, outcome.account.contrary_count) == (1, 0)


def test_what_is_called_parked_and_is_not_there_is_lost(world: World) -> None:
    life = ended(world, P, 1)
    for record in world.records_of(life, PARKED_TOPIC):
        remove(record)
    assert "parked" in only_violation(world, Kind.LOST, life).detail
    trim(world, PARKED_TOPIC)
    findings = look(world).findings
    assert findings.is_clean
    assert findings.unjudged[Unjudged.PARKED_TRIMMED] == 2


def test_a_half_below_the_watermark_without_an_end_is_lost(world: World) -> None:
    life = world.prepare(2)
    assert look(world).findings.unfinished_counts == {"undecided": 1}
    world.watermarks[life.partition] = life.halves[1]
    violation = only_violation(world, Kind.LOST, life)
    assert violation.indexes == (0,)
    assert [where.log_offset for where in violation.where] == [life.halves[0]]


def test_a_commit_whose_half_was_deleted_before_its_end_is_lost(world: World) -> None:
    life = world.prepare(1)
    first = world.append((OP, life.partition), None, None, [], state="aborted")
    world.decide(life, C)
    trim(world, HALF)
    assert "deleted" in only_violation(world, Kind.LOST, life).detail
    # Where the op log does not reach back, it may have ended long ago.
    world.logs[OP, life.partition].start = first.at + 1
    findings = look(world).findings
    assert findings.is_clean
    assert findings.unjudged[Unjudged.NO_MARK] == 1


def test_a_strangers_decision_is_not_a_loss(world: World) -> None:
    ended(world, C)
    trim(world, HALF)
    for hints in ([], [0], [10**18]):
        entry = op_wire.DecisionEntry("shop", "stranger", 1, len(hints), ResolutionSource.PRODUCER)
        world.append((OP, world.lives[0].partition), None, *op_wire.write(b"c", [entry], hints))
    assert look(world).findings.is_clean


# -- what cannot be judged -----------------------------------------------------------------------


def test_an_open_kafka_transaction_hides_and_is_told(world: World) -> None:
    life = lose(world)
    topic = life.messages[0][0]
    for partition in (0, 1):
        world.append((topic, partition), None, None, [], state="open")
    findings = look(world).findings
    assert findings.is_clean
    assert not findings.is_complete
    assert findings.unjudged == {Unjudged.TARGET_OPEN: 1}


def test_an_open_kafka_transaction_in_the_op_log_excuses_what_has_no_mark(world: World) -> None:
    life = ended(world, R, 1)
    world.forward(life, 0)
    world.append((OP, 0), None, None, [], state="open")
    assert look(world).findings.is_clean


def test_with_some_targets_only_a_gone_half_leaves_the_rest_open(world: World) -> None:
    ended(world, C, messages=[("orders", None, b"a", None), ("points", None, b"b", None)])
    trim(world, HALF)
    findings = look(world, only=["orders"]).findings
    assert findings.is_clean
    assert findings.unjudged[Unjudged.TARGET_UNKNOWN] >= 1


def test_with_some_targets_only_what_is_lost_there_is_found(world: World) -> None:
    life = ended(world, C, messages=[("orders", None, b"a", None)])
    for record in world.records_of(life):
        remove(record)
    only_violation(world, Kind.LOST, life, only=["orders"])
    assert look(world, only=["points"]).findings.is_clean


@pytest.mark.parametrize("why", [Unjudged.TARGET_OUTSIDE, Unjudged.TARGET_UNREADABLE])
def test_what_lies_on_a_topic_that_was_not_read_was_called_lost(
    world: World, why: Unjudged
) -> None:
    """Of an old one nothing says where it went: a young half shows that not all was read."""
    old = ended(world, C, messages=[("points", None, b"old", None)])
    trim(world, HALF)
    young = ended(world, C, messages=[("points", None, b"young", None)])
    findings = look(world, narrowed={"points": why}).findings
    assert findings.is_clean, findings.violations
    assert young.identity in findings.examples[why]
    for_old = Unjudged.TARGET_UNKNOWN if why is Unjudged.TARGET_OUTSIDE else why
    assert old.identity in findings.examples[for_old]
    assert findings.is_complete is (why is Unjudged.TARGET_OUTSIDE)


def test_what_is_missing_where_old_records_may_be_compacted_away_is_not_called_lost(
    world: World,
) -> None:
    life = ended(world, C, messages=[("orders", None, b"a", None)])
    for record in world.records_of(life):
        remove(record)
    findings = look(world, unclear=["orders"]).findings
    assert findings.is_clean
    assert findings.unjudged == {Unjudged.TARGET_UNREADABLE: 1}
    assert not findings.is_complete
    trim(world, HALF)
    assert look(world, unclear=["points"]).findings.is_clean, "it may have been there"


def test_a_topic_that_is_not_there_hides_no_loss_on_another_one(world: World) -> None:
    world.logs["deleted", 0] = Log()
    gone = ended(world, C, messages=[("deleted", None, b"a", 0)])
    life = ended(world, C, messages=[("orders", None, b"a", None)])
    for record in world.records_of(life):
        remove(record)
    only_violation(world, Kind.LOST, life)
    assert look(world).findings.examples == {Unjudged.TARGET_GONE: [gone.identity]}


def test_a_group_can_be_looked_at_alone(world: World) -> None:
    life = lose(world)
    other = "bill" if life.identity[0] == "shop" else "shop"
    assert look(world, group=other).findings.is_clean
    assert not look(world, group=life.identity[0]).findings.is_clean


def test_what_comes_to_light_at_the_second_look_is_not_a_loss(world: World) -> None:
    life = ended(world, C, 1)
    (record,) = world.records_of(life)
    record.state = "aborted"

    class Late(WorldLogs):
        def pause(self) -> None:
            copy_of(world, record)

    outcome = verify(Late(world), rules=RULES)
    assert outcome.findings.is_clean


# -- bounds --------------------------------------------------------------------------------------


def test_many_violations_are_counted_and_some_are_shown(world: World) -> None:
    for _ in range(9):
        lose(world)
    findings = look(world, limit=4).findings
    assert findings.violation_counts == {Kind.LOST: 9}
    assert len(findings.violations) == 4


def test_the_oldest_unfinished_are_shown_first(rng: random.Random) -> None:
    world = World(rng)
    lives = [world.prepare(1) for _ in range(30)]
    findings = look(world, limit=3).findings
    assert findings.unfinished_counts == {"undecided": 30}
    stored = sorted(
        world.logs[HALF, life.partition].records[life.halves[0]].time_ms for life in lives
    )
    assert [one.stored_ms for one in findings.unfinished] == stored[:3]


def test_a_half_record_names_where_it_goes() -> None:
    headers = system_headers(HalfRecord("t", "g", 0, 1, "i", "orders", target_partition=3))
    assert ("REAL_QID", b"3") in headers
