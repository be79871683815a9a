"""Messages that were added, and acknowledged, after their transaction was given up: all are parked.

Whoever took them does not own the half partition: there nobody knows that it was given up.
"""

from __future__ import annotations

import pytest

from halfhitch.core import late as late_module
from halfhitch.core.model import (
    COPIED,
    GIVEN_UP,
    PARKED,
    ConflictKind,
    DoneMark,
    DoneRead,
    HalfOffset,
    OpOffset,
    Resolution,
    TimestampMs,
)
from halfhitch.core.standing import Standing
from halfhitch.core.transaction import State
from harness.ledger_script import LedgerScript, identity_of

D0, D1, D2 = 10, 11, 12  # digests of three messages


def given_up() -> LedgerScript:
    """T1 with two messages, parked."""
    script = LedgerScript()
    script.half("T1", digest=D0)
    script.half("T1", 1, digest=D1)
    script.give_up("T1")
    assert script.carried_out().forwards == [[0, 1]]
    return script


def counted(script: LedgerScript) -> tuple[int, int, int]:
    """Pending, decided, written."""
    return (*script.ledger.counts[:2], script.ledger._written_count)


def test_what_is_added_after_the_giving_up_is_parked_once() -> None:
    script = given_up()
    late = script.half("T1", 2, digest=D2)
    script.half("T1", 2, digest=D2)  # its client has tried again
    step = script.written()
    assert step.forwards == [[late]]
    assert [mark.half_offsets for mark in step.done] == [[late], [late + 1]]
    assert step.done[0] == DoneMark(identity_of("T1"), GIVEN_UP, [late], (D0, D1, D2))
    script.half("T1", 2, digest=D2)  # and again, before the mark is read
    assert script.written().forwards == []
    script.read_back(step)
    script.half("T1", 2, digest=D2)
    assert script.carried_out().forwards == []
    assert script.plan() is None
    assert script.standing("T1") is Standing.GIVEN_UP
    assert counted(script) == (0, 0, 0)


def test_it_is_parked_also_while_the_mark_of_the_others_is_unread() -> None:
    script = LedgerScript()
    script.half("T1", digest=D0)
    script.half("T1", 1, digest=D1)
    script.give_up("T1")
    first = script.written()
    script.half("T1", 1, digest=D1)
    late = script.half("T1", 2, digest=D2)
    assert counted(script) == (0, 0, 1)
    second = script.written()
    assert second.forwards == [[late]]
    for step in (first, second):
        script.read_back(step)
    assert counted(script) == (0, 0, 0)
    assert script.plan() is None


def test_a_late_copy_of_what_was_parked_is_only_marked() -> None:
    script = given_up()
    script.half("T1", digest=D0)
    script.half("T1", 1, digest=D1)
    assert script.carried_out().forwards == []


def test_an_aborted_step_parks_it_with_the_next() -> None:
    script = given_up()
    late = script.half("T1", 2, digest=D2)
    for _ in range(3):
        step = script.planned()
        assert step.forwards == [[late]]
        script.ledger.abort(step)
    assert script.carried_out().forwards == [[late]]


def test_another_message_under_its_index_is_on_record_as_reused() -> None:
    script = given_up()
    late = script.half("T1", 2, digest=D2)
    other = script.half("T1", 2, digest=99)
    step = script.carried_out()
    assert step.forwards == [[late]]
    assert [(c.kind, c.half_offsets) for c in step.conflicts] == [(ConflictKind.REUSED, [other])]


@pytest.mark.parametrize("half_watermark", [0, 2])
def test_a_replay_parks_it_if_nobody_has(half_watermark: int) -> None:
    """It may begin before the others, or see nothing of them but their mark."""
    script = given_up()
    late = script.half("T1", 2, digest=D2)
    script.half("T1", 1, digest=D1)
    heir = script.heir((half_watermark, 0))
    heir.tick()
    assert heir.planned().forwards == [[late]]
    assert counted(heir) == (0, 0, 0)


@pytest.mark.parametrize("half_watermark", [0, 2])
def test_a_replay_parks_it_not_again(half_watermark: int) -> None:
    script = given_up()
    script.half("T1", 2, digest=D2)
    script.carried_out()
    heir = script.heir((half_watermark, 0))
    heir.tick()
    assert heir.plan() is None


def test_while_it_waits_for_the_parked_topic_it_holds_both_watermarks() -> None:
    script = given_up()
    late = script.half("T1", 2, digest=D2)
    ready = script.ledger.ready
    ready.put_aside(ready.look(10, 1_000))
    script.half("T2", digest=D0)
    script.commit("T2")
    step = script.carried_out()
    assert step.half_watermark == late
    heir = script.successor(step, ops_first=False)
    heir.tick()
    assert heir.planned().forwards == [[late]]


def test_what_an_older_release_took_and_marked_counts_as_parked() -> None:
    """It has no digests, so nobody can tell what was parked."""
    script = LedgerScript()
    script.half("T1")
    script.half("T1", 1)
    script.give_up("T1")
    script.carried_out()
    script.half("T1", 1)
    assert script.carried_out().forwards == []


# -- lives ---------------------------------------------------------------------------------------


def test_what_is_added_after_the_resume_joins_what_lives() -> None:
    script = given_up()
    script.resume("T1", indexes=(0, 1))
    late = script.half("T1", 2, digest=D2)
    assert script.transaction("T1").message_count == 3
    heir = script.heir((0, 0))
    heir.tick()
    for owner in (script, heir):
        owner.commit("T1", 3)
        assert owner.carried_out().forwards == [[2, 3, late]]
        assert owner.plan() is None


def test_it_goes_on_with_the_copies_of_what_lives() -> None:
    script = given_up()
    script.resume("T1", indexes=(0, 1))
    script.half("T1", 2, digest=D2)
    script.pass_time(100_000)
    step = script.carried_out(permits=5)
    assert [mark.ending for mark in step.copied] == [COPIED]
    assert script.transaction("T1").missing_count == 0
    assert script.transaction("T1").message_count == 3
    assert script.heir((0, 0)).transaction("T1").message_count == 3


def test_what_was_added_before_the_resume_and_not_parked_yet_is_parked() -> None:
    """Live, and by a replay, which reads all halves before the first mark."""
    script = given_up()
    late = script.half("T1", 2, digest=D2)
    script.half("T1", 1, digest=D1)
    script.resume("T1", indexes=(0, 1))
    heir = script.heir((0, 0))
    heir.tick()
    for owner in (script, heir):
        assert owner.carried_out().forwards == [[late]]
        assert owner.plan() is None
    # Put back by itself it joins what lives.
    script.resume("T1", indexes=(2,))
    assert script.transaction("T1").message_count == 3
    script.commit("T1", 3)
    assert script.carried_out().forwards == [[4, 5, script.next_half - 1]]


def test_one_that_is_put_back_while_copies_are_unread_is_none_of_them() -> None:
    script = given_up()
    script.resume("T1", indexes=(0, 1))
    script.pass_time(100_000)
    step = script.written(permits=5)
    transaction = script.transaction("T1")
    assert transaction.missing_count == 2
    script.resume("T1", indexes=(2,))
    assert transaction.missing_count == 2
    script.read_back(step)
    assert (transaction.missing_count, transaction.message_count) == (0, 3)


def test_added_when_the_next_life_was_given_up_too_it_is_parked_there() -> None:
    script = given_up()
    script.resume("T1", indexes=(0, 1), first_digest=D0)
    script.give_up("T1")
    first = script.written()
    late = script.half("T1", 2, digest=D2)
    second = script.written()
    assert second.forwards == [[late]]
    for step in (first, second):
        script.read_back(step)
    assert script.plan() is None
    heir = script.heir((0, 0))
    heir.tick()
    assert heir.plan() is None


def test_one_that_lived_alone_when_the_others_were_put_back_is_parked_again() -> None:
    """It was put back by itself, after the others had been given up anew."""
    script = given_up()
    script.half("T1", 2, digest=D2)
    script.carried_out()
    script.resume("T1", indexes=(0, 1), first_digest=D0)
    script.give_up("T1")
    script.carried_out()
    alone = script.resume("T1", indexes=(2,), first_digest=D0)
    assert script.transaction("T1").message_count == 1
    script.resume("T1", 2, indexes=(0, 1), first_digest=D0)
    assert script.carried_out().forwards == [[alone]]


def test_of_a_committed_one_that_could_not_be_delivered_nothing_more_is_parked() -> None:
    script = LedgerScript()
    script.half("T1", digest=D0)
    script.commit("T1")
    step = script.planned()
    step.park(0)
    script.ledger.confirm(step)
    script.read_back(step)
    assert step.done[0].ending == PARKED
    script.half("T1", 1, digest=D1)
    assert script.carried_out().forwards == []


def test_a_decision_that_came_late_is_noted_and_the_message_parked() -> None:
    script = given_up()
    late = script.half("T1", 2, digest=D2)
    script.commit("T1", 3, HalfOffset(late))
    step = script.carried_out()
    assert step.forwards == [[late]]
    assert [note.resolution for note in step.notes] == [Resolution.COMMIT]


class _Late:
    """As much of a transaction as is asked here."""

    state, resumed_count, covered_count, parked = State.READY, 0, 0, True

    def half_offsets(self) -> list[HalfOffset]:
        return [HalfOffset(5)]


@pytest.mark.interpreted("gives a stand-in for a transaction, which only an interpreted one takes")
@pytest.mark.parametrize(("first", "is_settled"), [(9, False), (4, True)])
def test_the_mark_of_another_life_leaves_what_was_added_before_it_to_be_parked(
    first: int, is_settled: bool
) -> None:
    """Put back behind it, the others have been committed: it was added to what was given up."""
    mark = DoneRead(OpOffset(1), TimestampMs(1), identity_of("T"), 1, (HalfOffset(first),))
    late = _Late()
    assert late_module._is_settled(late, 2, mark) is is_settled  # type: ignore[arg-type]
    assert late.parked is not is_settled
