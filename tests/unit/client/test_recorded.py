"""A barrier's `record` by hand and the producer's block meet by group and transaction id."""

from __future__ import annotations

import asyncio
import gc
from enum import StrEnum
from threading import Thread
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary, ref

import pytest

from halfhitch.client import LocalTransactionState, TransactionMisused, recorded
from halfhitch.client.recorded import _ENDS, Local, Recorded, Word, attempt, note

if TYPE_CHECKING:
    from collections.abc import Callable

COMMIT, ROLLBACK = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK
UNKNOWN = LocalTransactionState.UNKNOWN
EITHER = "by an earlier attempt or by this one"


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A traceback may keep the attempts of another test alive."""
    monkeypatch.setattr(recorded, "_EXPECTED", WeakValueDictionary())


def says(state: Local, **options: Any) -> Word:
    return Word(lambda _: state, **options)


def settles(state: Local, settled: LocalTransactionState) -> Word:
    return Word(lambda _: state, settle=lambda: settled)


def in_a_thread(do: Callable[[], None]) -> None:
    thread = Thread(target=do)
    thread.start()
    thread.join()


def refuses(found: Recorded, match: str) -> None:
    with pytest.raises(TransactionMisused, match=match):
        found.require_end("a")


def test_messages_were_committed_while_their_local_transaction_was_open() -> None:
    found = attempt("shop", "a")
    found.require_end("a")  # nothing was recorded
    state = Local.OPEN
    note("shop", "a", Word(lambda _: state))
    refuses(found, "of a was recorded and is still open")
    state = Local.ROLLED_BACK
    refuses(found, r"is rolled back.*tx\.rollback")
    state = Local.UNKNOWN
    with pytest.raises(TransactionMisused, match="is not known") as refused:
        found.require_end("a")
    assert "tx.rollback" not in str(refused.value)
    state = Local.ENDED
    found.require_end("a")


async def test_a_state_is_asked_for_with_what_is_to_be_sent() -> None:
    found, asked = attempt("shop", "a"), []

    def state(wanted: LocalTransactionState) -> Local:
        asked.append(wanted)
        return Local.OPEN

    async def awaited(wanted: LocalTransactionState) -> Local:
        return state(wanted)

    note("shop", "a", Word(state))
    refuses(found, "open")
    found.require_uncommitted("a")
    assert found.may_roll_back()
    note("shop", "a", Word(state, awaited))
    await found.look()
    await found.look(is_rollback=True)
    assert asked == [COMMIT, ROLLBACK, ROLLBACK, COMMIT, ROLLBACK]


def test_every_state_has_its_two_answers() -> None:
    assert set(_ENDS) == set(Local) - {Local.STANDS}  # that one is told apart by the id


def test_the_end_of_a_block_asked_the_database_twice_for_one_commit() -> None:
    found, asked = attempt("shop", "a"), []

    def state(_: LocalTransactionState) -> Local:
        asked.append("a")
        return Local.ENDED

    note("shop", "a", Word(state))
    found.require_end("a")
    found.require_end("a")
    assert asked == ["a"]
    note("shop", "a", Word(state))  # another record is asked for
    found.require_end("a")
    assert asked == ["a", "a"]


def test_messages_were_committed_though_their_record_had_raised() -> None:
    found = attempt("shop", "a")
    note("shop", "a", says(Local.REFUSED), is_refused=True)
    refuses(found, "`record` of transaction a has raised")
    note("shop", "a", says(Local.COMMITTED_BEFORE), is_refused=True)  # by then
    refuses(found, EITHER)
    note("shop", 7, says(Local.REFUSED))  # type: ignore[arg-type] # what has raised is the id


def test_why_it_is_not_known_was_not_told() -> None:
    found = attempt("shop", "a")
    for state in (Local.UNKNOWN, Local.REFUSED):
        note("shop", "a", says(state, reason=lambda: "Checks take DELETE"))
        refuses(found, r"\(Checks take DELETE\)")
        with pytest.raises(TransactionMisused, match=r"not known \(Checks take DELETE\)"):
            found.require_uncommitted("a")


# -- rollbacks -----------------------------------------------------------------------------------


def test_an_unknown_local_transaction_was_rolled_back_for_one_that_surely_was_not_committed() -> (
    None
):
    found = attempt("shop", "a")
    assert found.may_roll_back()  # nothing was recorded
    note("shop", "a", settles(Local.OPEN, UNKNOWN))
    assert found.may_roll_back()
    states = (Local.UNKNOWN, Local.ENDED, Local.REFUSED, Local.UNASKED, Local.ROLLED_BACK)
    for state in states:
        for settled in LocalTransactionState:
            note("shop", "a", settles(state, settled))
            assert found.may_roll_back() is (settled is ROLLBACK)
        note("shop", "a", settles(state, UNKNOWN))
        with pytest.raises(TransactionMisused, match=r"not known.*check-back settles it"):
            found.require_uncommitted("a")
        note("shop", "a", settles(state, COMMIT))
        with pytest.raises(TransactionMisused, match="whose record is committed"):
            found.require_uncommitted("a")
        note("shop", "a", settles(state, ROLLBACK))
        found.require_uncommitted("a")
    for state in (Local.COMMITTED, Local.COMMITTED_BEFORE, Local.STANDS):
        note("shop", "a", settles(state, ROLLBACK))
        assert not found.may_roll_back()
        with pytest.raises(TransactionMisused, match="whose record is committed"):
            found.require_uncommitted("a")


# -- asyncio -------------------------------------------------------------------------------------


async def test_what_is_awaited_counts_once_and_of_the_last_record_only() -> None:
    found, asked = attempt("shop", "a"), []
    await found.look()  # nothing was recorded
    state = Local.ROLLED_BACK

    async def awaited(_: LocalTransactionState) -> Local:
        asked.append("a")
        return state

    note("shop", "a", Word(lambda _: Local.UNKNOWN, awaited))
    await found.look()
    refuses(found, "is rolled back")
    refuses(found, "is not known")  # of who does not await
    state = Local.ENDED
    for _ in range(2):  # a block asks twice
        await found.look()
        found.require_end("a")
    assert asked == ["a", "a", "a"]

    async def overtaken(_: LocalTransactionState) -> Local:
        note("shop", "a", says(Local.OPEN))
        return Local.ENDED

    note("shop", "a", Word(lambda _: Local.UNKNOWN, overtaken))
    await found.look()
    refuses(found, "is still open")


async def test_before_a_rollback_the_fence_is_awaited_where_it_is_not_known() -> None:
    fences: list[str] = []
    state = Local.UNKNOWN

    async def awaited(_: LocalTransactionState) -> Local:
        return state

    async def settle() -> LocalTransactionState:
        fences.append("fence")
        return ROLLBACK

    found = attempt("shop", "a")
    note("shop", "a", Word(lambda _: Local.UNASKED, awaited, settle_awaited=settle))
    await found.look()
    assert fences == []  # a commit fences nothing
    await found.look(is_rollback=True)
    found.require_uncommitted("a")
    assert not found.may_roll_back()  # of who does not await
    state = Local.OPEN
    await found.look(is_rollback=True)
    assert found.may_roll_back()
    assert fences == ["fence"]


async def test_a_commit_that_was_heard_is_not_awaited() -> None:
    async def awaited(_: LocalTransactionState) -> Local:
        raise AssertionError

    found = attempt("shop", "a")
    note("shop", "a", Word(lambda _: Local.UNASKED, awaited, is_proven=lambda: True))
    await found.look()
    found.require_end("a")


# -- whose ---------------------------------------------------------------------------------------


def test_a_member_of_an_enum_is_the_id_that_it_is_equal_to() -> None:
    class Id(StrEnum):
        ORDER = "a"

    found = attempt("shop", "a")
    note("shop", Id.ORDER, says(Local.OPEN))
    refuses(found, "open")


def test_ids_are_told_apart_by_group_and_the_last_record_counts() -> None:
    ours, others = attempt("shop", "a"), attempt("bank", "a")
    note("bank", "a", says(Local.OPEN))
    ours.require_end("a")
    note("shop", "a", says(Local.OPEN))
    note("shop", "a", says(Local.ENDED))
    ours.require_end("a")
    refuses(others, "open")


def test_a_record_that_stands_is_taken_for_one_s_own_by_an_id_that_was_made_here_only() -> None:
    made, given = attempt("shop", "made", is_given=False), attempt("shop", "a")
    for transaction_id in ("made", "a"):
        note("shop", transaction_id, says(Local.STANDS))
    made.require_end("made")
    refuses(given, EITHER)
    note("shop", "a", says(Local.COMMITTED))
    given.require_end("a")


def test_a_part_was_committed_behind_a_refused_record_whose_row_was_another_attempt_s() -> None:
    """Only one that is known to be this attempt's speaks for its messages."""
    found = attempt("shop", "a")
    is_proven = False
    note("shop", "a", says(Local.OPEN, is_proven=lambda: is_proven))
    note("shop", "a", says(Local.COMMITTED_BEFORE), is_refused=True)  # of another thread
    refuses(found, EITHER)
    is_proven = True
    found.require_end("a")

    again = attempt("shop", "a")  # of which the first has sent more
    refuses(again, EITHER)
    note("shop", "a", says(Local.COMMITTED_BEFORE), is_refused=True)
    refuses(again, EITHER)
    found.require_end("a")


def test_a_later_attempt_s_record_was_taken_for_that_of_the_one_around_it() -> None:
    """The first one's was rolled back, which was swallowed; the second one has sent more."""
    first = attempt("shop", "a")
    note("shop", "a", says(Local.ROLLED_BACK))
    second = attempt("shop", "a")
    note("shop", "a", says(Local.COMMITTED, is_proven=lambda: True))
    refuses(first, EITHER)
    assert not first.may_roll_back()
    second.require_end("a")


def test_messages_of_an_attempt_that_was_about_to_commit_were_rolled_back_for_another_one() -> None:
    """An id is ended once: what the open one commits a moment later would have no messages."""
    first, second = attempt("shop", "a"), attempt("shop", "a")
    note("shop", "a", settles(Local.OPEN, UNKNOWN))
    assert second.may_roll_back()
    assert not first.may_roll_back()
    refuses(first, "is not known")


def test_a_thread_s_record_was_taken_for_that_of_the_attempt_that_began_last() -> None:
    first = attempt("shop", "a")
    made: list[Recorded] = []
    in_a_thread(lambda: made.append(attempt("shop", "a")))
    note("shop", "a", says(Local.COMMITTED))
    refuses(made[0], EITHER)
    first.require_end("a")


async def test_a_task_s_record_was_taken_for_that_of_the_attempt_that_began_last() -> None:
    async def begin() -> Recorded:
        return attempt("shop", "a")

    first = attempt("shop", "a")
    second = await asyncio.create_task(begin())
    note("shop", "a", says(Local.COMMITTED))
    refuses(second, EITHER)
    first.require_end("a")


def test_a_record_in_a_third_thread_is_nobody_s() -> None:
    first = attempt("shop", "a")
    made: list[Recorded] = []
    in_a_thread(lambda: made.append(attempt("shop", "a")))
    in_a_thread(lambda: note("shop", "a", says(Local.COMMITTED)))
    for one in (first, *made):
        refuses(one, EITHER)
    in_a_thread(lambda: note("shop", "a", says(Local.ENDED)))
    refuses(first, "is not known")
    first.is_over = True  # its block was left: a retry, whose record runs in an executor
    in_a_thread(lambda: note("shop", "a", says(Local.COMMITTED)))
    made[0].require_end("a")


def test_a_thread_that_has_gone_on_is_where_it_was_used_last() -> None:
    made: list[Recorded] = []
    in_a_thread(lambda: made.append(attempt("shop", "a")))
    other = attempt("shop", "a")
    other.is_over = True
    third = attempt("shop", "a")
    made[0].used()
    third.is_over = True
    note("shop", "a", says(Local.COMMITTED))
    made[0].require_end("a")
    refuses(third, EITHER)


def test_an_attempt_that_began_behind_another_one_s_record_knew_nothing_of_it() -> None:
    """What it has sent was committed by itself, and what the other one has sent was lost."""
    first = attempt("shop", "a")
    note("shop", "a", says(Local.COMMITTED))
    again = attempt("shop", "a")
    refuses(again, EITHER)
    assert not again.may_roll_back()
    first.require_end("a")


# -- memory --------------------------------------------------------------------------------------


def test_an_attempt_that_was_refused_is_forgotten_at_once() -> None:
    """What it knows of itself keeps it alive for nobody: the next one would hear of it."""
    found = attempt("shop", "a")
    note("shop", "a", says(Local.COMMITTED_BEFORE), is_refused=True)
    was = ref(found)
    del found
    assert was() is None
    attempt("shop", "a").require_end("a")


def test_attempts_that_are_gone_do_not_pile_up_behind_one_that_stays() -> None:
    stays = attempt("shop", "a")
    for _ in range(5):
        attempt("shop", "a")
    gc.collect()
    assert stays._attempts.alive() == [stays]
    assert len(stays._attempts._all) == 1


def test_what_nobody_commits_any_more_is_forgotten() -> None:
    found = attempt("shop", "a")
    note("shop", "a", says(Local.OPEN))
    del found
    gc.collect()
    note("shop", "a", says(Local.OPEN))  # in another process' block, or in none
    attempt("shop", "a").require_end("a")
