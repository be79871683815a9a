"""What is said of transactions in the log and in notes."""

import logging

import pytest

from halfhitch import errors
from halfhitch.client.errors import ProducerClosed
from halfhitch.client.notes import failed_result, note_failed_rollback, note_rows_stand, result_of
from halfhitch.client.values import LocalTransactionState, Prepared


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


def test_what_failed_behind_the_local_commit_had_the_words_of_what_failed_before_it():
    closed = ProducerClosed("t1")
    note_rows_stand(closed, "t1")
    (note,) = closed.__notes__
    assert "t1 has committed, so do not repeat" in note
    assert "check-back commits its messages" in note
    contrary = errors.ContraryDecision("was undone", decided="rollback", requested="commit")
    note_rows_stand(contrary, "t1")
    (note,) = contrary.__notes__
    assert "messages were rolled back" in note
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
