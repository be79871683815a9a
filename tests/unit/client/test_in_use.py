"""A second producer of the group, in the same process, is as near as the first one."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from halfhitch.client import conversation, in_use, marks
from halfhitch.client.address import parse_address
from halfhitch.client.calls import Calls, Operation
from halfhitch.client.conversation import Conversation
from halfhitch.client.errors import TransactionEnded, TransactionMisused
from halfhitch.client.marks import Mark
from halfhitch.client.recorded import Local, Word, attempt, note
from halfhitch.client.values import LocalTransactionState, Message, Prepared
from harness.strikes import Struck, strikes

if TYPE_CHECKING:
    from collections.abc import Iterator


def talk_of(transaction_id: str, group: str = "shop") -> Conversation:
    return Conversation(Calls(parse_address("http://h:1"), group, None), transaction_id, None)


@contextmanager
def holding(talk: Conversation) -> Iterator[None]:
    mark = Mark()
    with mark.hold():
        in_use.hold(talk, mark)
        yield


def ends(handle: str, group: str = "shop", operation: Operation = Operation.COMMIT) -> None:
    in_use.require_end(operation, group, handle, f"producer.{operation.value}(tx.handle)")


def test_an_id_in_a_block_of_one_producer_was_used_beside_it_by_another_one() -> None:
    held, second = talk_of("a"), talk_of("a")
    with holding(held):
        with pytest.raises(TransactionMisused, match=r"producer\.prepare with the id a"):
            in_use.require_unheld_id("shop", "a", "producer.prepare")
        in_use.require_unheld_id("shop", "a", "tx.send", held)
        in_use.require_unheld_id("shop", "b", "tx.send")
        in_use.require_unheld_id("bank", "a", "tx.send")
        with holding(second):  # another attempt, of another barrier's block
            in_use.require_unheld_id("shop", "a", "tx.send", second)
    in_use.require_unheld_id("shop", "a", "producer.prepare")
    assert not in_use.is_held("shop", "a")


def test_a_handler_that_raised_as_a_block_began_or_ended_left_its_id_held_for_good() -> None:
    kept = []  # a traceback has the variables of its frames
    for strike in strikes(in_use, conversation, marks, is_real=True):
        talk = talk_of("a")
        with strike:
            try:
                with holding(talk):
                    assert in_use.is_held("shop", "a")
            except Struck as struck:
                kept.append(struck)
                raise
        in_use.require_unheld_id("shop", "a", "producer.prepare")
        talk.require_unheld("tx.commit()")
    assert kept
    assert not in_use.is_held("shop", "a")
    assert in_use._HELD == {}


def test_a_handle_of_a_block_of_one_producer_was_ended_by_another_one() -> None:
    held = talk_of("a")
    held.sent(Prepared("a", "in-use-1"))
    with holding(held):
        with pytest.raises(TransactionMisused, match="inside a barrier's block"):
            ends("in-use-1")
        ends("in-use-1", "bank")  # another coordinator's, by chance the same


def test_a_transaction_that_another_producer_ends_by_handle_hears_of_it() -> None:
    talk = talk_of("a")
    talk.sent(Prepared("a", "in-use-2"))
    in_use.note_handle(talk, "in-use-2")
    ends("in-use-2")
    with pytest.raises(TransactionEnded):
        talk.next_send([Message("t", b"v")])


def test_what_was_prepared_was_committed_before_its_local_transaction() -> None:
    in_use.note_prepared("shop", Prepared("a", "in-use-3"))
    state = Local.OPEN
    note("shop", "a", Word(lambda _: state))
    with pytest.raises(TransactionMisused, match="still open"):
        ends("in-use-3")
    ends("in-use-3", operation=Operation.ROLLBACK)
    state = Local.ENDED
    ends("in-use-3")
    in_use.note_ended("shop", "in-use-3")
    note("shop", "a", Word(lambda _: Local.OPEN))
    ends("in-use-3")  # it is somebody else's


def test_a_handle_that_two_coordinators_have_made_is_the_last_one_s() -> None:
    talk = talk_of("a")
    in_use.note_handle(talk, "in-use-6")
    in_use.note_prepared("shop", Prepared("b", "in-use-6"))
    note("shop", "b", Word(lambda _: Local.OPEN))
    with pytest.raises(TransactionMisused, match="of b was recorded"):
        ends("in-use-6")
    in_use.note_handle(talk, "in-use-6")
    ends("in-use-6")


async def test_what_only_the_database_knows_is_awaited_before_an_end_by_handle() -> None:
    asked = []

    async def awaited(_: LocalTransactionState) -> Local:
        asked.append("a")
        return Local.ROLLED_BACK

    talk = talk_of("a")
    talk.sent(Prepared("a", "in-use-4"))
    in_use.note_handle(talk, "in-use-4")
    in_use.note_prepared("shop", Prepared("b", "in-use-5"))
    for transaction_id, handle in (("a", "in-use-4"), ("b", "in-use-5")):
        note("shop", transaction_id, Word(lambda _: Local.ENDED, awaited))
        await in_use.look(Operation.COMMIT, "shop", handle)
        with pytest.raises(TransactionMisused, match="is rolled back"):
            ends(handle)
    await in_use.look(Operation.COMMIT, "shop", "another")
    assert asked == ["a", "a"]


def test_what_is_prepared_here_and_ended_elsewhere_does_not_pile_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_use, "PREPARED_MAX", 2)
    monkeypatch.setattr(in_use, "_PREPARED", type(in_use._PREPARED)())
    for number in range(3):
        in_use.note_prepared("shop", Prepared(f"a{number}", f"in-use-{number}"))
        note("shop", f"a{number}", Word(lambda _: Local.OPEN))
    ends("in-use-0")
    with pytest.raises(TransactionMisused):
        ends("in-use-2")
    attempt("shop", "a0").require_end("a0")  # forgotten with it
