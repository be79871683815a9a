import logging

import pytest

from halfhitch import errors
from halfhitch.client.address import parse_address
from halfhitch.client.calls import Calls, Operation
from halfhitch.client.conversation import (
    Conversation,
    Leaving,
    Phase,
    failed_result,
    note_failed_rollback,
    result_of,
)
from halfhitch.client.errors import TransactionDoomed, TransactionEnded
from halfhitch.client.values import LocalTransactionState, Message, Prepared

MESSAGES = [Message("t", b"v")]


@pytest.fixture
def talk():
    return Conversation(Calls(parse_address("http://h:1"), "g", None), "t1", 30)


def test_the_first_messages_are_prepared_and_the_next_added_to_the_newest_handle(talk):
    first = talk.next_send(MESSAGES)
    assert (first.operation, first.transaction_id) == (Operation.PREPARE, "t1")
    assert b"Half-Immunity-Seconds: 30" in first.request
    talk.sent(Prepared("t1", "h1"))
    second = talk.next_send(MESSAGES)
    assert (second.operation, second.handle, second.transaction_id) == (Operation.ADD, "h1", "t1")
    talk.sent(Prepared("t1", "h2"))
    commit = talk.next_commit(wait_visible=False)
    assert (commit.operation, commit.handle) == (Operation.COMMIT, "h2")


def test_a_failed_send_leaves_only_the_rollback(talk):
    talk.sent(Prepared("t1", "h1"))
    talk.send_failed(errors.UnknownTopic("no topic 'nowhere'"))
    with pytest.raises(
        TransactionDoomed, match=r"UnknownTopic: no topic 'nowhere'.*roll the local"
    ):
        talk.next_send(MESSAGES)
    with pytest.raises(TransactionDoomed):
        talk.next_commit(wait_visible=False)
    assert talk.wants_end()
    assert talk.next_rollback().handle == "h1"


def test_a_message_behind_the_local_commit_was_taken_and_lost(talk):
    talk.sent(Prepared("t1", "h1"))
    talk.seal()
    with pytest.raises(TransactionEnded, match=r"t1 has begun.*not sent.*own"):
        talk.next_send(MESSAGES)
    assert talk.phase is Phase.OPEN
    assert talk.next_commit(wait_visible=False).handle == "h1"


def test_what_cannot_be_committed_is_not_sealed(talk):
    talk.send_failed(errors.UnknownTopic("no topic 'nowhere'"))
    with pytest.raises(TransactionDoomed):
        talk.seal()


def test_after_a_commit_began_no_rollback_is_made(talk):
    talk.sent(Prepared("t1", "h1"))
    talk.next_commit(wait_visible=True)
    with pytest.raises(TransactionEnded, match="Commit again"):
        talk.next_rollback()
    with pytest.raises(TransactionEnded, match="commit of this transaction"):
        talk.next_send(MESSAGES)
    assert not talk.wants_end()
    assert talk.next_commit(wait_visible=False).operation is Operation.COMMIT


def test_after_a_rollback_began_no_commit_is_made(talk):
    talk.sent(Prepared("t1", "h1"))
    talk.next_rollback()
    with pytest.raises(TransactionEnded, match="rollback"):
        talk.next_commit(wait_visible=False)
    with pytest.raises(TransactionEnded, match="rollback of this transaction"):
        talk.next_send(MESSAGES)
    assert talk.next_rollback().operation is Operation.ROLLBACK


def test_the_rest_was_committed_without_a_message_of_a_wrong_type(talk):
    talk.sent(Prepared("t1", "h1"))
    with pytest.raises(TypeError):
        talk.next_send([Message("t", 7)])
    with pytest.raises(TransactionDoomed, match="TypeError"):
        talk.assert_can_commit()
    with pytest.raises(TransactionDoomed):
        talk.next_commit(wait_visible=False)
    assert talk.next_rollback().handle == "h1"


def test_the_rest_was_committed_without_a_message_that_was_in_line_at_the_block_s_end(talk):
    """Of a task that was not joined: it was refused where nobody looked."""
    talk.sent(Prepared("t1", "h1"))
    assert talk.leave(None) is Leaving.COMMIT
    with pytest.raises(TransactionEnded, match="was left"):
        talk.next_send(MESSAGES)
    with pytest.raises(TransactionDoomed, match="was left"):
        talk.next_commit(wait_visible=False)


def test_no_message_at_all_dooms_nothing(talk):
    with pytest.raises(errors.InvalidRequest):
        talk.next_send([])
    assert talk.phase is Phase.OPEN
    assert talk.next_send(MESSAGES) is not None


def test_without_messages_there_is_nothing_to_end(talk):
    assert talk.next_commit(wait_visible=True) is None
    assert talk.nothing_to_end(Operation.COMMIT) == ("t1", "committed", True)
    assert talk.nothing_to_end(Operation.ROLLBACK) == ("t1", "rolled_back", True)


def test_a_block_is_entered_once(talk):
    talk.enter()
    talk.next_rollback()
    with pytest.raises(TransactionEnded, match="begin a new one"):
        talk.enter()


@pytest.mark.parametrize("operation", [Operation.COMMIT, Operation.ROLLBACK])
def test_a_block_that_was_ended_by_handle_said_that_nothing_was_sent(talk, operation):
    talk.enter()
    talk.sent(Prepared("t1", "h1"))
    talk.ends_by_handle(operation)
    talk.send_failed(errors.UnknownTopic("of a thread that was late"))
    error = ValueError("out of stock")
    assert talk.leave(error) is Leaving.NOTHING
    assert not hasattr(error, "__notes__")
    with pytest.raises(TransactionEnded, match=f"a {operation.value} of transaction t1 was"):
        talk.assert_can_commit()


def test_a_failed_rollback_is_a_note_on_the_exception_that_left_the_block():
    original = ValueError("out of stock")
    note_failed_rollback(original, errors.KafkaUnavailable("no Kafka"))
    assert "no Kafka" in original.__notes__[0]
    assert "check-back" in original.__notes__[0]


def test_a_rollback_behind_a_commit_was_told_that_its_messages_stay_invisible():
    original = ValueError("out of stock")
    contrary = errors.ContraryDecision("was committed", decided="commit", requested="rollback")
    note_failed_rollback(original, contrary)
    (note,) = original.__notes__
    assert "was committed" in note
    assert "visible to consumers" in note
    assert "invisible" not in note
    assert "check-back" not in note


PREPARED = Prepared("t1", "h1")


@pytest.mark.parametrize("state", LocalTransactionState)
def test_a_listener_is_taken_at_its_word(state):
    assert result_of(PREPARED, state) == ("t1", "h1", state, None)


@pytest.mark.parametrize("told", [None, True, "COMMIT", 1])
def test_what_is_no_state_means_unknown_and_is_logged(told, caplog):
    result = result_of(PREPARED, told)
    assert result.state is LocalTransactionState.UNKNOWN
    assert isinstance(result.error, TypeError)
    assert "t1" in caplog.text


def test_an_exception_means_unknown_and_is_logged_with_its_traceback(caplog):
    error = ValueError("out of stock")
    result = failed_result(PREPARED, error)
    assert result == ("t1", "h1", LocalTransactionState.UNKNOWN, error)
    (record,) = caplog.records
    assert (record.levelno, record.action) == (logging.ERROR, "local_transaction_unknown")
    assert record.exc_info[1] is error
