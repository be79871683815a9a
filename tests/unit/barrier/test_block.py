"""How a block ends, for everything that can go wrong in it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.barrier import (
    LocalOutcomeUnknown,
    TransactionFenced,
    TransactionRecordedTwice,
    block,
    block_aio,
)
from halfhitch.barrier.ends import Failure, before_commit
from halfhitch.client import (
    LocalTransactionState,
    TransactionDoomed,
    TransactionEnded,
    TransactionProducer,
)
from harness.barriers import RecordingTransaction

if TYPE_CHECKING:
    from collections.abc import Callable

COMMIT = LocalTransactionState.COMMIT
ROLLBACK = LocalTransactionState.ROLLBACK
UNKNOWN = LocalTransactionState.UNKNOWN


class Local:
    """The database's side, failing where it is told to."""

    def __init__(self, says: LocalTransactionState | None = None, **errors: Any) -> None:
        self.says = says
        self.errors = errors
        #: Of the program's, before the database's commit.
        self.hooks: list[Callable[[], None]] = []
        self.calls: list[str] = []
        self.is_inherited = False

    def _do(self, name: str) -> None:
        self.calls.append(name)
        if name in self.errors:
            raise self.errors[name]

    def record(self) -> None:
        self._do("record")

    def commit(self, before: Callable[[], None]) -> None:
        self.calls.append("commit")
        for hook in self.hooks:
            hook()
        before()
        if "commit" in self.errors:
            raise self.errors["commit"]

    def drop(self) -> None:
        self._do("drop")

    def ask(self) -> LocalTransactionState:
        self._do("ask")
        assert self.says is not None
        return self.says


class Block:
    """The end of a block, with threads or with tasks."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def fail(self, local: Local, *args: Any) -> Any:
        return self._at_once(self.module.fail, local, *args)

    def end(
        self,
        local: Local,
        *,
        is_new: bool = True,
        doomed: Exception | None = None,
        messages: RecordingTransaction | None = None,
    ) -> tuple[list[str], BaseException | None]:
        messages = messages or RecordingTransaction("a", doomed=doomed)
        try:
            self._at_once(self.module.finish, local, messages, is_new=is_new)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - it is looked at
            return messages.ends, error
        return messages.ends, None

    def _at_once(self, function: Any, local: Local, *args: Any, **options: Any) -> Any:
        if self.module is block:
            return function(local, *args, **options)
        with pytest.raises(StopIteration) as ended:  # what is raised in it is no StopIteration
            function(Awaited(local), *args, **options).send(None)
        return ended.value.value


class Awaited:
    """A `Local` whose calls are to be awaited."""

    def __init__(self, local: Local) -> None:
        self._local = local
        self.is_inherited = local.is_inherited

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any) -> Any:
            return getattr(self._local, name)(*args)

        return call


@pytest.fixture(params=[block, block_aio], ids=["blocking", "asyncio"])
def a_block(request: pytest.FixtureRequest) -> Block:
    return Block(request.param)


def test_rows_are_committed_before_messages(a_block: Block) -> None:
    local = Local()
    assert a_block.end(local) == (["commit"], None)
    assert local.calls == ["record", "commit"]


def test_a_new_id_whose_commit_was_not_tried_needs_no_asking(a_block: Block) -> None:
    error = KeyError()
    local = Local(record=error)
    assert a_block.end(local) == (["rollback"], error)
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
    a_block: Block, says: LocalTransactionState, ends: list[str], error: Exception, is_new: bool
) -> None:
    local = Local(says, record=error)
    assert a_block.end(local, is_new=is_new) == (ends, error)
    assert local.calls == ["record", "drop", "ask"]


@pytest.mark.parametrize("is_new", [True, False])
def test_an_earlier_attempt_that_committed_is_not_committed_by_a_part_of_it(
    a_block: Block, is_new: bool
) -> None:
    # This attempt has sent one message of two; its handle would leave the other one out.
    error = TransactionRecordedTwice("a", committed_before=True)
    assert a_block.end(Local(COMMIT, record=error), is_new=is_new) == ([], error)
    (note,) = error.__notes__
    assert "an earlier local transaction a has committed" in note
    assert "the check-back commits all messages that were sent under this id" in note


def test_rows_are_not_committed_when_a_message_could_not_be_sent(a_block: Block) -> None:
    doomed = TransactionDoomed("a message of this transaction could not be sent")
    local = Local()
    assert a_block.end(local, doomed=doomed) == (["rollback"], doomed)
    assert local.calls == ["drop"]
    # Under an id of the program's own, an earlier attempt may have committed all the same.
    local = Local(COMMIT)
    assert a_block.end(local, is_new=False, doomed=doomed) == ([], doomed)
    assert local.calls == ["drop", "ask"]


def test_a_message_that_failed_while_the_record_was_flushed_was_lost(a_block: Block) -> None:
    doomed = TransactionDoomed("a message of this transaction could not be sent")
    messages, local = RecordingTransaction("a"), Local()

    def record() -> None:
        messages.doomed = doomed

    local.record = record  # type: ignore[method-assign]
    assert a_block.end(local, messages=messages) == (["rollback"], doomed)
    assert local.calls == ["drop"]


def test_a_message_that_failed_in_a_hook_of_the_commit_was_lost(a_block: Block) -> None:
    doomed = TransactionDoomed("a message of this transaction could not be sent")
    messages, local = RecordingTransaction("a"), Local(ROLLBACK)
    local.hooks.append(lambda: setattr(messages, "doomed", doomed))
    assert a_block.end(local, messages=messages) == (["rollback"], doomed)
    assert local.calls == ["record", "commit", "drop", "ask"]


def test_a_message_that_was_sent_behind_the_local_commit_was_lost(a_block: Block) -> None:
    """In an after_commit hook; its refusal is the program's to see, though the rows stand."""
    refused = TransactionEnded("the local commit has begun")
    messages, local = RecordingTransaction("a"), Local(COMMIT, commit=refused)
    local.hooks.append(lambda: messages.prepare([]))  # before the commit it is not too late
    assert a_block.end(local, messages=messages) == (["commit"], refused)
    assert messages.is_sealed
    (note,) = refused.__notes__
    assert "messages were committed too" in note


def test_a_commit_that_failed_is_asked_for(
    a_block: Block, caplog: pytest.LogCaptureFixture
) -> None:
    error = ConnectionError("gone")
    with caplog.at_level(logging.WARNING, "halfhitch.barrier"):
        assert a_block.end(Local(COMMIT, commit=error)) == (["commit"], None)
    assert "has taken place all the same" in caplog.text
    assert a_block.end(Local(ROLLBACK, commit=error)) == (["rollback"], error)
    ends, raised = a_block.end(Local(UNKNOWN, commit=error))
    assert ends == []
    assert isinstance(raised, LocalOutcomeUnknown)
    assert raised.__cause__ is error


def test_what_failed_behind_a_commit_of_the_program_s_own_was_swallowed(a_block: Block) -> None:
    """A hook commits rows and record, does more, and fails: the messages are of what stands."""
    error = KeyError("order")

    def hook() -> None:
        raise error

    local = Local(COMMIT)
    local.hooks.append(hook)
    assert a_block.end(local) == (["commit"], error)
    committed, whose = error.__notes__
    assert "messages were committed too" in committed
    assert "What came after it was rolled back" in whose
    ends, raised = a_block.end(Local(UNKNOWN, commit=ConnectionError()))
    assert (ends, type(raised)) == ([], LocalOutcomeUnknown)


def test_a_retry_took_the_row_of_the_first_attempt_for_its_own(a_block: Block) -> None:
    """The first one was frozen and committed later; the retry's messages are fewer than its."""
    error = ConnectionError("gone")
    assert a_block.end(Local(COMMIT, commit=error), is_new=False) == ([], error)
    (note,) = error.__notes__
    assert "this attempt's, or an earlier one's" in note
    assert "the check-back commits all messages that were sent under this id" in note
    assert a_block.end(Local(ROLLBACK, commit=error), is_new=False) == (["rollback"], error)
    ends, raised = a_block.end(Local(UNKNOWN, commit=error), is_new=False)
    assert (ends, type(raised)) == ([], LocalOutcomeUnknown)


@pytest.mark.parametrize(
    ("says", "ends"), [(COMMIT, ["commit"]), (ROLLBACK, ["rollback"]), (UNKNOWN, [])]
)
def test_an_interrupted_commit_is_settled_and_stays_interrupted(
    a_block: Block, says: LocalTransactionState, ends: list[str]
) -> None:
    interrupt = KeyboardInterrupt()
    assert a_block.end(Local(says, commit=interrupt)) == (ends, interrupt)


def test_the_first_error_is_raised_and_tells_of_the_others(a_block: Block) -> None:
    error = KeyError()
    messages = RecordingTransaction("a")
    local = Local(drop=OSError("no database"))
    assert not a_block.fail(local, messages, error, before_commit(error, is_new=True))
    assert not a_block.fail(Local(UNKNOWN), messages, error, Failure.BEFORE_COMMIT)
    assert not a_block.fail(Local(COMMIT), messages, error, Failure.BEFORE_COMMIT)
    interrupt = KeyboardInterrupt()
    assert not a_block.fail(Local(COMMIT), messages, interrupt, Failure.AT_COMMIT)
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
        assert not block.fail(Local(), tx, error, Failure.CERTAIN)
        with pytest.raises(TransactionEnded):
            tx.send("orders", "late")


@pytest.mark.parametrize("failure", Failure)
def test_a_forked_child_that_leaves_a_block_says_nothing_to_anybody(
    a_block: Block, failure: Failure
) -> None:
    """Its parent's rows were rolled back over the connection that both hold."""
    local = Local(COMMIT)
    local.is_inherited = True
    messages = RecordingTransaction("a")
    assert not a_block.fail(local, messages, SystemExit(0), failure)
    assert (local.calls, messages.ends) == ([], [])
