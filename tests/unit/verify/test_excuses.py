"""What verify excuses, and what it does not: by partition, by key, by what the log can tell."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.core.model import (
    PARKED,
)
from halfhitch.verify.bounds import CLOCK_MS
from halfhitch.verify.keys import key_hash
from halfhitch.verify.report import SENTENCES, Kind, Unjudged, Verdict
from halfhitch.verify.run import verify
from harness.excusing import LONG_MS, RULES, C, P, cut, ended, look, lost, to
from harness.partitioning import java_partition
from harness.verify_logs import WorldLogs
from harness.verify_world import (
    BY_BROKER,
    HALF,
    PARKED_TOPIC,
    TARGETS,
    Life,
    Log,
    Stored,
    World,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.fixture
def world(rng: random.Random) -> World:
    """Nothing has happened; time is the broker's."""
    return World(rng, target_time=BY_BROKER)


def strange(world: World, place: tuple[str, int], **changes: Any) -> Stored:
    """Somebody else's record."""
    record = world.append(place, changes.pop("key", None), b"theirs", [])
    for name, value in changes.items():
        setattr(record, name, value)
    return record


# -- trimmed: by partition -----------------------------------------------------------------------


@pytest.mark.parametrize("fixed", [0, None])
def test_a_trimmed_partition_excused_what_was_lost_on_another_one(
    world: World, fixed: int | None
) -> None:
    """Half of the topic was trimmed, and no message of ours is left there."""
    key = next(k for k in (b"a", b"b", b"c", b"d") if java_partition(k, 2) == 0)
    ended(world, messages=to("orders", 1))
    cut(world, ("orders", 1))
    ended(world, messages=to("orders", 0))
    life = lost(world, to("orders", fixed, key if fixed is None else None))
    findings = look(world)
    if fixed is None:
        # Its topic may have had one partition: then that is where it was, and it is untouched.
        assert java_partition(key, 1) == 0
    assert [v.transaction_id for v in findings.violations] == [life.identity[1]]


def test_without_a_key_a_message_may_have_been_on_the_trimmed_partition(world: World) -> None:
    ended(world, messages=to("orders", 1))
    cut(world, ("orders", 1))
    lost(world, to("orders"))
    findings = look(world)
    assert findings.is_clean
    assert findings.unjudged == {Unjudged.TARGET_TRIMMED: 2}


def test_a_key_excuses_with_every_partition_that_it_may_have_led_to(world: World) -> None:
    """With one partition it led to the first one, which was trimmed, unless there is a witness."""
    key = next(k for k in (b"a", b"b", b"c", b"d") if java_partition(k, 2) == 1)
    cut(world, ("orders", 0), at=0)
    strange(world, ("orders", 0))
    cut(world, ("orders", 0))
    life = lost(world, to("orders", None, key))
    assert look(world).unjudged == {Unjudged.TARGET_TRIMMED: 1}
    ended(world, messages=to("orders", None, key))
    world.now_ms += RULES.grown_ms + LONG_MS
    late = lost(world, to("orders", None, key))
    findings = look(world)
    assert [v.transaction_id for v in findings.violations] == [late.identity[1]]
    assert life.identity in findings.examples[Unjudged.TARGET_TRIMMED]


def test_fifty_losses_were_clean_because_one_partition_had_nothing_of_ours(world: World) -> None:
    """A shared topic: one partition is trimmed, and holds records of others only."""
    strange(world, ("orders", 1))
    cut(world, ("orders", 1))
    strange(world, ("orders", 1))
    world.now_ms += LONG_MS
    lives = [lost(world, to("orders", 0)) for _ in range(50)]
    cut(world, (HALF, 0), (HALF, 1))
    findings = look(world)
    assert findings.violation_counts == {Kind.LOST: 50}
    assert {v.transaction_id for v in findings.violations} == {t.identity[1] for t in lives}
    assert not findings.unjudged
    assert findings.judged == findings.ended == 50


def test_before_its_first_record_of_anybody_a_trimmed_partition_excuses(world: World) -> None:
    early = lost(world, to("orders", 1))
    cut(world, ("orders", 1))
    world.now_ms += LONG_MS
    strange(world, ("orders", 1))
    findings = look(world)
    assert findings.examples == {Unjudged.TARGET_TRIMMED: [early.identity]}
    world.now_ms += LONG_MS
    late = lost(world, to("orders", 1))
    assert [v.transaction_id for v in look(world).violations] == [late.identity[1]]


def test_a_strangers_clock_that_went_back_tells_nothing(rng: random.Random) -> None:
    world = World(rng)  # times are those of whoever writes
    lost(world, to("orders", 1))
    cut(world, ("orders", 1))
    strange(world, ("orders", 1), time_ms=world.now_ms - 100 * CLOCK_MS)
    assert look(world).violation_counts == {Kind.LOST: 1}, "nothing speaks against that time"
    strange(world, ("orders", 1))
    strange(world, ("orders", 1), time_ms=world.now_ms - 100 * CLOCK_MS)
    assert look(world).unjudged == {Unjudged.TARGET_TRIMMED: 1}


def test_what_was_trimmed_while_it_was_read_excuses_by_what_is_left_behind(world: World) -> None:
    life = lost(world, to("orders", 1))
    strange(world, ("orders", 1))

    class Overtaken(WorldLogs):
        def follow(self, starts: Mapping[tuple[str, int], int]) -> None:
            super().follow(starts)
            if ("orders", 1) in starts:
                cut(world, ("orders", 1))
                world.now_ms += LONG_MS
                strange(world, ("orders", 1))

    findings = verify(Overtaken(world, patience=40), rules=RULES).findings
    assert findings.is_clean
    assert findings.examples == {Unjudged.TARGET_TRIMMED: [life.identity]}


# -- compacted -----------------------------------------------------------------------------------

DAY_MS = 86_400_000


def test_compaction_excused_what_no_later_record_had_replaced(world: World) -> None:
    life = lost(world, to("orders", 0, b"its own key"))
    ended(world, messages=to("orders", 0, b"another key"))
    findings = look(world, compacted={"orders": DAY_MS})
    assert [v.transaction_id for v in findings.violations] == [life.identity[1]]


@pytest.mark.parametrize("who", ["ours", "theirs"])
def test_compaction_excuses_what_a_later_record_of_its_key_has_replaced(
    world: World, who: str
) -> None:
    life = lost(world, to("orders", 0, b"key"))
    if who == "ours":
        ended(world, messages=to("orders", 0, b"key"))
    else:
        strange(world, ("orders", 0), key=b"key")
    findings = look(world, compacted={"orders": DAY_MS})
    assert findings.is_clean
    assert findings.examples == {Unjudged.TARGET_COMPACTED: [life.identity]}


def test_an_earlier_record_of_its_key_does_not_replace_it(world: World) -> None:
    strange(world, ("orders", 0), key=b"key")
    world.now_ms += LONG_MS
    lost(world, to("orders", 0, b"key"))
    assert look(world, compacted={"orders": DAY_MS}).violation_counts == {Kind.LOST: 1}


def test_whether_compaction_took_it_cannot_be_told_of_old_ones_or_without_a_key_or_half(
    world: World,
) -> None:
    """The note that a key is gone is deleted too, a day later."""
    ended(world, messages=to("orders", 0, b"another"))
    lives = [lost(world, to("orders", 0, b"old"))]
    world.now_ms += DAY_MS + 1
    lives.append(lost(world, to("orders", 0)))
    cut(world, (HALF, lives[1].partition))
    without_half = lost(world, to("orders", 0, b"young"))
    cut(world, (HALF, without_half.partition))
    findings = look(world, compacted={"orders": DAY_MS})
    assert findings.unjudged[Unjudged.TARGET_COMPACTED] == 3
    assert findings.is_clean


@pytest.mark.parametrize("how", ["compacted", "emptied"])
def test_a_topic_without_any_message_of_ours_made_a_loss_clean(world: World, how: str) -> None:
    """A schema registry's; of what was lost nothing was left but its end."""
    for _ in range(99):
        ended(world, messages=to("points", 0, b"key"))
    life = lost(world, to("points", 0, b"key"))
    cut(world, (HALF, life.partition))
    strange(world, ("orders", 0))
    if how == "emptied":
        cut(world, ("orders", 0))
    findings = look(world, compacted={"orders": DAY_MS} if how == "compacted" else {})
    assert findings.examples == {Unjudged.TARGET_UNTOLD: [life.identity]}
    assert findings.verdict(0.5) is Verdict.NOT_JUDGED
    assert look(world, compacted={"points": DAY_MS}).unjudged == {Unjudged.TARGET_COMPACTED: 1}


def test_one_compacted_topic_excused_losses_on_all_others(world: World) -> None:
    life = lost(world, to("points", 0, b"key"))
    ended(world, messages=to("orders", 0, b"key"))
    findings = look(world, compacted={"orders": DAY_MS})
    assert [v.transaction_id for v in findings.violations] == [life.identity[1]]


# -- parked --------------------------------------------------------------------------------------


def parked_records(world: World, life: Life) -> list[Stored]:
    return world.records_of(life, PARKED_TOPIC)


def test_a_transaction_that_was_parked_in_part_was_clean(world: World) -> None:
    life = ended(world, P, count=3)
    parked_records(world, life)[1].state = "aborted"
    (violation,) = look(world).violations
    assert (violation.kind, violation.transaction_id) == (Kind.TORN, life.identity[1])
    assert len(violation.indexes) == 1
    assert PARKED_TOPIC in violation.detail


def test_what_is_parked_again_must_be_as_much_as_before(world: World) -> None:
    world.digests = False  # the mark of an older release does not tell how many there were
    life = ended(world, P, count=2)
    before = parked_records(world, life)
    world._steps[life.partition] = world.resume(life)
    world.settle()
    world.decide(life, P)
    world.settle()
    assert look(world).is_clean
    again = [record for record in parked_records(world, life) if record not in before]
    again[0].state = "aborted"
    (violation,) = look(world).violations
    assert violation.kind is Kind.TORN


def test_a_parked_message_that_is_another_one_was_clean(world: World) -> None:
    life = ended(world, P, messages=to("orders", 0, b"k"))
    (record,) = parked_records(world, life)
    record.stored_value = b"other"
    (violation,) = look(world).violations
    assert violation.kind is Kind.CORRUPTED
    assert [where.topic for where in violation.where] == [PARKED_TOPIC]


def test_a_committed_transaction_that_is_parked_keeps_all_that_its_commit_counts(
    world: World,
) -> None:
    world.digests = False
    life = world.prepare(count=2)
    world.decide(life, C)
    kept = [world.park(life, index, life.halves[index], together_count=2) for index in (0, 1)]
    for record in kept:
        record.state = "visible"
    world.done(life, PARKED, state="visible")
    life.state = "parked"
    assert look(world).is_clean
    kept[1].state = "aborted"
    assert look(world).violation_counts == {Kind.TORN: 1}


# -- where keys lead -----------------------------------------------------------------------------


def moved(world: World, life: Life) -> Stored:
    """Its record lies on the other partition."""
    (record,) = world.records_of(life)
    record.state = "aborted"
    topic, partition = record.place
    return world.append(
        (topic, 1 - partition), record.stored_key, record.stored_value, record.stored_headers
    )


def test_the_partition_of_a_key_is_judged_where_something_tells_how_many_there_were(
    world: World,
) -> None:
    first = next(k for k in (b"a", b"b", b"c", b"d") if java_partition(k, 2) == 0)
    second = next(k for k in (b"a", b"b", b"c", b"d") if java_partition(k, 2) == 1)
    away = ended(world, messages=to("orders", None, first))
    moved(world, away)
    (violation,) = look(world).violations
    assert violation.kind is Kind.MISROUTED, "with one partition it would not be on the second"
    assert "its key leads to another partition" in violation.detail
    grown = ended(world, messages=to("orders", None, second))
    moved(world, grown)
    findings = look(world)
    assert findings.violation_counts == {Kind.MISROUTED: 1}
    assert findings.examples == {Unjudged.TARGET_GROWN: [grown.identity]}
    ended(world, messages=to("orders", None, second))
    world.now_ms += RULES.grown_ms + LONG_MS
    late = ended(world, messages=to("orders", None, second))
    moved(world, late)
    found = {v.transaction_id for v in look(world).violations}
    assert found == {away.identity[1], late.identity[1]}


def test_the_key_hash_is_javas() -> None:
    rng = random.Random(7)
    for length in range(60):
        key = rng.randbytes(length)
        assert key_hash(key) % 12 == java_partition(key, 12)


# -- where it was not looked ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("why", "words"),
    [
        (Unjudged.TARGET_OUTSIDE, "outside topics.allow"),
        (Unjudged.TARGET_HIDDEN, "the right Describe is missing"),
        (Unjudged.TARGET_NOT_READ, "--topic left it out"),
        (None, "does not exist any more"),
    ],
)
def test_gone_was_said_of_topics_that_are_there(
    world: World, why: Unjudged | None, words: str
) -> None:
    world.logs["elsewhere", 0] = Log()
    life = ended(world, messages=to("elsewhere", 0))
    there = {} if why is None else {"elsewhere": why}
    findings = look(world, elsewhere=there)
    assert findings.examples == {why or Unjudged.TARGET_GONE: [life.identity]}
    assert words in SENTENCES[why or Unjudged.TARGET_GONE]
    assert findings.is_complete is (why is not Unjudged.TARGET_HIDDEN)


def test_a_strangers_half_for_no_possible_topic_hides_no_loss(world: World) -> None:
    world.logs["elsewhere", 0] = Log()
    no_half = lost(world, to("orders", 0))
    cut(world, (HALF, no_half.partition))
    stranger = ended(world, messages=to("elsewhere", 0))
    findings = look(world, elsewhere={"elsewhere": Unjudged.TARGET_IMPOSSIBLE})
    assert [v.transaction_id for v in findings.violations] == [no_half.identity[1]]
    assert findings.examples == {Unjudged.TARGET_IMPOSSIBLE: [stranger.identity]}


def test_every_reason_has_its_sentence() -> None:
    assert set(SENTENCES) == set(Unjudged)
    assert set(TARGETS) == {"orders", "points"}
