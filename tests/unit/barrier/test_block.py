"""How a block ends, for everything that can go wrong in it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from halfhitch.barrier import LocalOutcomeUnknown, TransactionFenced, TransactionRecordedTwice
from halfhitch.barrier.block import Failure, before_commit, fail, finish
from halfhitch.client import (
    LocalTransactionState,
    TransactionDoomed,
    TransactionEnded,
    TransactionProducer,
)
from harness.barriers import RecordingTransaction

COMMIT = LocalTransactionState.COMMIT
ROLLBACK = LocalTransactionState.ROLLBACK
UNKNOWN = LocalTransactionState.UNKNOWN


class Local:
    """The database's side, failing where it is told to."""

    def __init__(self, says: LocalTransactionState | None = None, **errors: Any) -> None:
        self.says = says
        self.errors = errors
        self.calls: list[str] = []
        self.is_inherited = False

    def _do(self, name: str) -> None:
        self.calls.append(name)
        if name in self.errors:
            raise self.errors[name]

    def record(self) -> None:
        self._do("record")

    def commit(self) -> None:
        self._do("commit")

    def drop(self) -> None:
        self._do("drop")

    def ask(self) -> LocalTransactionState:
        self._do("ask")
        assert self.says is not None
        return self.says


def end(
    local: Local, *, is_new: bool = True, doomed: Exception | None = None
) -> tuple[list[str], BaseException | None]:
    messages = RecordingTransaction("a", doomed=doomed)
    try:
        finish(local, messages, is_new=is_new)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - what is raised is looked at
        return messages.ends, error
    return messages.ends, None


def test_rows_are_committed_before_messages() -> None:
    local = Local()
    assert end(local) == (["commit"], None)
    assert local.calls == ["record", "commit"]


def test_a_new_id_whose_commit_was_not_tried_needs_no_asking() -> None:
    error = KeyError()
    local = Local(record=error)
    assert end(local) == (["rollback"], error)
    assert local.calls == ["record", "drop"]


@pytest.mark.parametrize(("says", "ends"), [(COMMIT, []), (ROLLBACK, ["rollback"]), (UNKNOWN, [])])
@pytest.mark.parametrize(
    ("error", "is_new"),
    [
        (KeyError(), False),
        (TransactionFenced("a"), True),
        (TransactionRecordedTwice("a", committed_before=True), True),
    ],
)
def test_an_id_that_may_have_committed_before_is_asked_for(
    says: LocalTransactionState, ends: list[str], error: Exception, is_new: bool
) -> None:
    local = Local(says, record=error)
    assert end(local, is_new=is_new) == (ends, error)
    assert local.calls == ["record", "drop", "ask"]


@pytest.mark.parametrize("is_new", [True, False])
def test_an_earlier_attempt_that_committed_is_not_committed_by_a_part_of_it(is_new: bool) -> None:
    # This attempt has sent one message of two; its handle would leave the other one out.
    error = TransactionRecordedTwice("a", committed_before=True)
    assert end(Local(COMMIT, record=error), is_new=is_new) == ([], error)
    (note,) = error.__notes__
    assert "an earlier local transaction a has committed" in note
    assert "the check-back commits all messages that were sent under this id" in note


def test_rows_are_not_committed_when_a_message_could_not_be_sent() -> None:
    doomed = TransactionDoomed("a message of this transaction could not be sent")
    local = Local()
    assert end(local, doomed=doomed) == (["rollback"], doomed)
    assert local.calls == ["drop"]
    # Under an id of the program's own, an earlier attempt may have committed all the same.
    local = Local(COMMIT)
    assert end(local, is_new=False, doomed=doomed) == ([], doomed)
    assert local.calls == ["drop", "ask"]


def test_a_commit_that_failed_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    error = ConnectionError("gone")
    with caplog.at_level(logging.WARNING, "halfhitch.barrier"):
        assert end(Local(COMMIT, commit=error)) == (["commit"], None)
    assert "has taken place all the same" in caplog.text
    assert end(Local(ROLLBACK, commit=error)) == (["rollback"], error)
    ends, raised = end(Local(UNKNOWN, commit=error))
    assert ends == []
    assert isinstance(raised, LocalOutcomeUnknown)
    assert raised.__cause__ is error


@pytest.mark.parametrize(
    ("says", "ends"), [(COMMIT, ["commit"]), (ROLLBACK, ["rollback"]), (UNKNOWN, [])]
)
def test_an_interrupted_commit_is_settled_and_stays_interrupted(
    says: LocalTransactionState, ends: list[str]
) -> None:
    interrupt = KeyboardInterrupt()
    assert end(Local(says, commit=interrupt)) == (ends, interrupt)


def test_the_first_error_is_raised_and_tells_of_the_others() -> None:
    error = KeyError()
    messages = RecordingTransaction("a")
    local = Local(drop=OSError("no database"))
    assert not fail(local, messages, error, before_commit(error, is_new=True))
    assert not fail(Local(UNKNOWN), messages, error, Failure.BEFORE_COMMIT)
    assert not fail(Local(COMMIT), messages, error, Failure.BEFORE_COMMIT)
    interrupt = KeyboardInterrupt()
    assert not fail(Local(COMMIT), messages, interrupt, Failure.AT_COMMIT)
    assert messages.ends == ["rollback", "commit"]
    undropped, unknown, earlier = error.__notes__
    (committed,) = interrupt.__notes__
    assert "no database" in undropped
    assert "could not be found out" in unknown
    assert "an earlier local transaction a has committed" in earlier
    assert "messages were committed too" in committed


def test_a_real_transaction_takes_it() -> None:
    with TransactionProducer("shop", "http://127.0.0.1:9", deadline_s=0.2) as producer:
        tx = producer.transaction("a")
        error = KeyError()
        assert not fail(Local(), tx, error, Failure.CERTAIN)
        with pytest.raises(TransactionEnded):
            tx.send("orders", "late")


@pytest.mark.parametrize("failure", Failure)
def test_a_forked_child_that_leaves_a_block_says_nothing_to_anybody(failure: Failure) -> None:
    """Its parent's rows were rolled back over the connection that both hold."""
    local = Local(COMMIT)
    local.is_inherited = True
    messages = RecordingTransaction("a")
    assert not fail(local, messages, SystemExit(0), failure)
    assert (local.calls, messages.ends) == ([], [])
