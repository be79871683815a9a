"""Contrary decisions wait until they are on record, and a flood of them is cut."""

from halfhitch.core.conflicts import CONFLICTS_MAX, Conflicts
from halfhitch.core.model import ConflictKind, ConflictMark, HalfOffset, OpOffset
from harness.ledger_script import identity_of


def lost(*op_offsets: int, name: str = "T1") -> Conflicts:
    conflicts = Conflicts()
    for op_offset in op_offsets:
        conflicts.add(identity_of(name), OpOffset(op_offset))
    return conflicts


def on_record(
    name: str, losing: int, *halves: int, kind: ConflictKind = ConflictKind.CONTRARY
) -> ConflictMark:
    offsets = [HalfOffset(half_offset) for half_offset in halves]
    return ConflictMark(identity_of(name), kind, OpOffset(losing), offsets)


def recorded_in_step(conflicts: Conflicts) -> list[tuple[str, int]]:
    return [(mark.identity[1], mark.losing_op_offset) for mark in conflicts.for_step()]


def test_a_loser_is_offered_until_it_is_on_record() -> None:
    conflicts = lost(4)
    assert conflicts
    mark = ConflictMark(identity_of("T1"), ConflictKind.CONTRARY, OpOffset(4), [])
    assert conflicts.for_step() == conflicts.for_step() == [mark]
    conflicts.recorded(mark)
    assert not conflicts
    assert conflicts.for_step() == []


def test_one_found_twice_is_one() -> None:
    assert recorded_in_step(lost(4, 4)) == [("T1", 4)]


def test_what_is_recorded_of_one_leaves_the_others() -> None:
    conflicts = lost(4, 5)
    conflicts.add(identity_of("T2"), OpOffset(6))
    conflicts.recorded(on_record("T1", 4))
    assert recorded_in_step(conflicts) == [("T1", 5), ("T2", 6)]


def test_a_record_about_something_unknown_changes_nothing() -> None:
    conflicts = lost(4)
    conflicts.recorded(on_record("T2", 4))
    conflicts.recorded(on_record("T1", 9))
    conflicts.recorded(on_record("T1", 4, kind=ConflictKind.UNCOVERED))
    assert recorded_in_step(conflicts) == [("T1", 4)]


def test_those_that_lost_against_a_false_winner_did_not_lose() -> None:
    conflicts = lost(4, 5)
    conflicts.add(identity_of("T2"), OpOffset(6))
    conflicts.withdraw(identity_of("T1"))
    conflicts.withdraw(identity_of("T3"))
    assert recorded_in_step(conflicts) == [("T2", 6)]


def test_a_flood_is_cut_and_what_is_left_over_must_be_read_again_by_a_replay() -> None:
    conflicts = lost(*range(CONFLICTS_MAX))
    assert len(conflicts.for_step()) == CONFLICTS_MAX
    assert conflicts.left_from() is None
    conflicts.add(identity_of("T2"), OpOffset(20_007))
    conflicts.add(identity_of("T2"), OpOffset(20_005))
    assert len(conflicts.for_step()) == CONFLICTS_MAX
    assert conflicts.left_from() == 20_005
    for mark in conflicts.for_step():
        conflicts.recorded(mark)
    assert recorded_in_step(conflicts) == [("T2", 20_007), ("T2", 20_005)]
    assert conflicts.left_from() is None
