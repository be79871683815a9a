"""A local transaction and its messages end together: what is decided, and what is told."""

import logging

import pytest

from halfhitch.barrier import ends
from halfhitch.barrier.ends import Failure
from halfhitch.barrier.errors import (
    LocalOutcomeUnknown,
    TransactionFenced,
    TransactionRecordedTwice,
)
from halfhitch.client.values import LocalTransactionState

COMMIT, ROLLBACK = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK
UNKNOWN = LocalTransactionState.UNKNOWN


def notes_of(error: BaseException) -> str:
    return " ".join(getattr(error, "__notes__", []))


def test_a_refused_record_says_that_the_id_was_not_so_new() -> None:
    twice = TransactionRecordedTwice("T1", committed_before=False)
    for error in (TransactionFenced("T1"), twice):
        assert ends.before_commit(error, is_new=True) is Failure.BEFORE_COMMIT
    assert ends.before_commit(ValueError(), is_new=True) is Failure.CERTAIN
    assert ends.before_commit(ValueError(), is_new=False) is Failure.BEFORE_COMMIT


def test_only_a_commit_that_was_tried_here_may_commit_with_this_handle() -> None:
    assert ends.commits(COMMIT, Failure.AT_COMMIT)
    assert not ends.commits(COMMIT, Failure.BEFORE_COMMIT)
    assert not ends.commits(ROLLBACK, Failure.AT_COMMIT)


def test_a_commit_that_failed_and_took_place_all_the_same_is_forgotten_but_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        assert ends.is_done(COMMIT, "T1", OSError("broken pipe"), Failure.AT_COMMIT)
    assert "T1" in caplog.text
    assert "has taken place all the same" in caplog.text


def test_a_commit_of_which_nothing_is_known_is_an_error_of_its_own() -> None:
    cause = OSError("broken pipe")
    with pytest.raises(LocalOutcomeUnknown) as unknown:
        ends.is_done(UNKNOWN, "T1", cause, Failure.AT_COMMIT)
    assert unknown.value.__cause__ is cause


def test_a_cancellation_stays_one_and_carries_the_news() -> None:
    class Cancelled(BaseException):
        pass

    for state, says in ((UNKNOWN, "could not be found out"), (COMMIT, "were committed too")):
        error = Cancelled()
        assert not ends.is_done(state, "T1", error, Failure.AT_COMMIT)
        assert says in notes_of(error)


def test_an_earlier_attempt_that_committed_is_told_and_nothing_is_decided() -> None:
    error = ValueError()
    assert not ends.is_done(COMMIT, "T1", error, Failure.BEFORE_COMMIT)
    assert "an earlier local transaction T1 has committed" in notes_of(error)
    error = ValueError()
    assert not ends.is_done(ROLLBACK, "T1", error, Failure.CERTAIN)
    assert notes_of(error) == ""


def test_a_rollback_that_failed_too_does_not_hide_what_ended_the_block() -> None:
    error = ValueError()
    ends.note_undropped(error, OSError("gone"))
    assert "the local rollback failed too (gone)" in notes_of(error)
