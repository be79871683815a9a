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
from halfhitch.client import TransactionEnded
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


def begun() -> ends.LocalCommit:
    commit = ends.LocalCommit(lambda: None)
    commit()
    return commit


def raised(
    error: Exception, cause: BaseException | None, context: BaseException | None
) -> Exception:
    error.__cause__, error.__context__ = cause, context
    return error


def test_a_refusal_inside_of_a_framework_s_exception_was_taken_for_the_database_s() -> None:
    """A message in an after_commit hook was lost, and the block ended well."""
    late = TransactionEnded("the local commit has begun")
    around = (
        late,
        raised(KeyError(), late, None),
        raised(KeyError(), OSError(), raised(ValueError(), None, late)),
        ExceptionGroup("receivers", [OSError(), raised(KeyError(), late, None)]),
    )
    for error in around:
        assert begun().failure(error, is_new=True) is Failure.REFUSED
    assert not ends.is_done(COMMIT, "T1", around[1], Failure.REFUSED)
    assert "messages were committed too" in notes_of(around[1])
    assert begun().failure(around[1], is_new=False) is Failure.AT_COMMIT_AGAIN
    with pytest.raises(LocalOutcomeUnknown):
        ends.is_done(UNKNOWN, "T1", around[1], Failure.REFUSED)


def test_what_was_handled_when_the_block_ended_is_no_refusal_of_its_commit() -> None:
    """A retry in an `except TransactionFenced`: what is raised there has that as its context."""
    lost = OSError("broken pipe")
    lost.__cause__ = lost  # a circle
    try:
        raise TransactionFenced("T0")
    except TransactionFenced as earlier:
        commit = begun()
        lost.__context__ = earlier
        assert commit.failure(lost, is_new=True) is Failure.AT_COMMIT


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
