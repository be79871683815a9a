"""A barrier's `record` by hand and the producer's block meet by group and transaction id."""

from __future__ import annotations

import gc
from enum import StrEnum
from weakref import ref

import pytest

from halfhitch.client import TransactionMisused
from halfhitch.client.recorded import Local, expect, expect_of_another, note, note_refused


def test_messages_were_committed_while_their_local_transaction_was_open() -> None:
    found = expect("shop", "a")
    found.require_end("a")  # nothing was recorded
    state = Local.OPEN
    note("shop", "a", lambda: state)
    with pytest.raises(TransactionMisused, match="of a was recorded and is still open"):
        found.require_end("a")
    state = Local.ROLLED_BACK
    with pytest.raises(TransactionMisused, match=r"is rolled back.*tx\.rollback"):
        found.require_end("a")
    state = Local.UNKNOWN
    with pytest.raises(TransactionMisused, match="is not known") as refused:
        found.require_end("a")
    assert "tx.rollback" not in str(refused.value)
    state = Local.ENDED
    found.require_end("a")


def test_the_end_of_a_block_asked_the_database_twice_for_one_commit() -> None:
    found, asked = expect("shop", "a"), []

    def state() -> Local:
        asked.append("a")
        return Local.ENDED

    note("shop", "a", state)
    found.require_end("a")
    found.require_end("a")
    assert asked == ["a"]
    note("shop", "a", state)  # another record is asked for
    found.require_end("a")
    assert asked == ["a", "a"]


def test_messages_were_committed_though_their_record_had_raised() -> None:
    found = expect("shop", "refused")
    for stands in (False, None):
        note_refused("shop", "refused", lambda stands=stands: stands)
        with pytest.raises(TransactionMisused, match="`record` of transaction refused has raised"):
            found.require_end("refused")
    note_refused("shop", "refused", lambda: True)  # by then
    with pytest.raises(TransactionMisused, match="earlier attempt of transaction refused has"):
        found.require_end("refused")
    note_refused("shop", 7, lambda: False)  # type: ignore[arg-type] # what has raised is the id


async def test_the_table_is_awaited_for_a_record_that_had_raised() -> None:
    async def stands() -> bool:
        return True

    found = expect("shop", "refused")
    note_refused("shop", "refused", lambda: None, stands)
    await found.look()
    with pytest.raises(TransactionMisused, match="earlier attempt"):
        found.require_end("refused")


async def test_what_is_awaited_counts_once_and_of_the_last_record_only() -> None:
    found, asked = expect("shop", "awaited"), []
    await found.look()  # nothing was recorded
    state = Local.ROLLED_BACK

    async def awaited() -> Local:
        asked.append("a")
        return state

    note("shop", "awaited", lambda: Local.UNKNOWN, awaited)
    await found.look()
    with pytest.raises(TransactionMisused, match="is rolled back"):
        found.require_end("awaited")
    with pytest.raises(TransactionMisused, match="is not known"):  # of who does not await
        found.require_end("awaited")
    state = Local.ENDED
    for _ in range(2):  # a block asks twice
        await found.look()
        found.require_end("awaited")
    assert asked == ["a", "a"]

    async def overtaken() -> Local:
        note("shop", "awaited", lambda: Local.OPEN)
        return Local.ENDED

    note("shop", "awaited", lambda: Local.UNKNOWN, overtaken)
    await found.look()
    with pytest.raises(TransactionMisused, match="is still open"):
        found.require_end("awaited")


def test_a_member_of_an_enum_is_the_id_that_it_is_equal_to() -> None:
    class Id(StrEnum):
        ORDER = "of-enum"

    found = expect("shop", "of-enum")
    note("shop", Id.ORDER, lambda: Local.OPEN)
    with pytest.raises(TransactionMisused):
        found.require_end("of-enum")


def test_ids_are_told_apart_by_group_and_the_last_record_counts() -> None:
    ours, others, again = expect("shop", "a"), expect("bank", "a"), expect("shop", "a")
    note("bank", "a", lambda: Local.OPEN)
    ours.require_end("a")
    note("shop", "a", lambda: Local.OPEN)
    note("shop", "a", lambda: Local.ENDED)
    again.require_end("a")
    with pytest.raises(TransactionMisused):
        others.require_end("a")


def test_a_part_was_committed_behind_a_refused_record_whose_row_was_another_attempt_s() -> None:
    """Only one that is known to be this attempt's speaks for its messages."""
    found = expect_of_another("shop", "own")
    is_proven = False
    note("shop", "own", lambda: Local.OPEN, is_proven=lambda: is_proven)
    note_refused("shop", "own", lambda: True)  # of another thread
    with pytest.raises(TransactionMisused, match="earlier attempt"):
        found.require_end("own")
    is_proven = True
    found.require_end("own")

    note_refused("shop", "own", lambda: True)
    again = expect_of_another("shop", "own")  # of which the first may have sent more
    for attempt in (found, again):
        with pytest.raises(TransactionMisused, match="earlier attempt"):
            attempt.require_end("own")

    plain = expect_of_another("shop", "plain")
    note("shop", "plain", lambda: Local.COMMITTED)
    plain.require_end("plain")
    note_refused("shop", "plain", lambda: True)
    with pytest.raises(TransactionMisused, match="earlier attempt"):
        plain.require_end("plain")


def test_an_attempt_that_was_refused_is_forgotten_at_once() -> None:
    """What it knows of itself keeps it alive for nobody: the next one would share it."""
    found = expect_of_another("shop", "forgotten")
    note_refused("shop", "forgotten", lambda: True)
    was = ref(found)
    del found
    assert was() is None


def test_what_nobody_commits_any_more_is_forgotten() -> None:
    found = expect("shop", "a")
    note("shop", "a", lambda: Local.OPEN)
    del found
    gc.collect()
    note("shop", "a", lambda: Local.OPEN)  # in another process' block, or in none
    expect("shop", "a").require_end("a")
