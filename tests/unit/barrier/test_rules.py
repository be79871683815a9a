"""What may be answered when; the order of the steps is the promise."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from halfhitch.barrier import TransactionFenced, TransactionRecordedTwice
from halfhitch.barrier.rules import KEEP_S, Question, Rules, Undecidable
from halfhitch.client import LocalTransactionState, Message, why
from halfhitch.errors import BackendError, ConfigurationError, InvalidRequest

COMMIT = LocalTransactionState.COMMIT
ROLLBACK = LocalTransactionState.ROLLBACK
UNKNOWN = LocalTransactionState.UNKNOWN
RULES = Rules("shop")


class ScriptedNotes:
    """Reads and fences as told, and remembers the order."""

    def __init__(self, *reads: str | None) -> None:
        self.reads = list(reads)
        self.calls: list[str] = []

    def read(self, transaction_id: str) -> str | None:
        self.calls.append("read")
        return self.reads.pop(0)

    def fence(self, transaction_id: str, born_ms: int | None) -> None:
        self.calls.append("fence")


def answered(rules: Rules, notes: ScriptedNotes, question: Question) -> LocalTransactionState:
    """As a check is."""
    why.take()
    try:
        return rules.decide(notes, question)
    except Undecidable as error:
        return rules.failed(question, error)


@pytest.mark.parametrize(
    ("notes", "answer", "calls"),
    [
        (ScriptedNotes("committed"), COMMIT, ["read"]),
        (ScriptedNotes("fenced"), ROLLBACK, ["read"]),
        (ScriptedNotes(None, "fenced"), ROLLBACK, ["read", "fence", "read"]),
        (ScriptedNotes(None, "committed"), COMMIT, ["read", "fence", "read"]),
        # Too old by the database's clock, or something else is in the way (a trigger): no decision.
        (ScriptedNotes(None, None), UNKNOWN, ["read", "fence", "read"]),
        (ScriptedNotes("perhaps"), UNKNOWN, ["read"]),
        (ScriptedNotes(""), UNKNOWN, ["read"]),
    ],
)
def test_a_missing_row_is_fenced_before_anything_is_said(
    notes: ScriptedNotes, answer: LocalTransactionState, calls: list[str]
) -> None:
    assert answered(RULES, notes, Question("a", 10.0)) is answer
    assert notes.calls == calls


@pytest.mark.parametrize(
    ("age_s", "is_own", "fences"),
    [
        (29.9, False, False),
        (30.0, False, True),
        (None, False, True),  # a listener's message does not tell its age
        (0.0, True, True),
        (KEEP_S - 3_601, False, True),
        (KEEP_S - 3_600, False, False),
        (10 * KEEP_S, False, False),
    ],
)
def test_it_is_fenced_neither_too_early_nor_too_late(
    age_s: float | None, is_own: bool, fences: bool
) -> None:
    notes = ScriptedNotes(None, "fenced")
    rules = Rules("shop", fence_after_s=30.0)
    answer = answered(rules, notes, Question("a", age_s, is_own=is_own))
    assert answer is (ROLLBACK if fences else UNKNOWN)
    assert ("fence" in notes.calls) == fences


@pytest.mark.parametrize(
    ("question", "reads", "said"),
    [
        (Question("a", 10 * KEEP_S), (None,), "so old, 6048000 s, that it may have been purged"),
        (Question("a", 40.0, born_ms=1), (None, None), "so old, 40 s, that it may have been"),
        (Question("a", 29.0), (None,), "29 s old: fenced after 30 s (fence_after_s)"),
        (Question("a", 40.0), (None, None), "look for a trigger"),
        (Question("a", 40.0), ("perhaps",), "neither committed nor fenced"),
    ],
)
def test_an_unknown_that_was_no_error_had_no_reason(
    question: Question, reads: tuple[str | None, ...], said: str
) -> None:
    """`halfhitch tx explain` shows it, in the 200 characters that the sidecar keeps."""
    rules = Rules("shop", fence_after_s=30.0)
    assert answered(rules, ScriptedNotes(*reads), question) is UNKNOWN
    error = why.take()
    assert error is not None
    assert said in str(error)
    assert len(f"Undecidable: {error}") <= 200


def test_the_log_had_a_statement_and_half_a_link_behind_the_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """SQLAlchemy appends them; the statement and its parameters are nobody's business there."""
    appended = (
        "[SQL: SELECT secret]\n[parameters: ('x',)]\n(Background on this error at: https://x)"
    )
    error = OSError(f"server closed the connection\n{appended}")
    assert RULES.failed(Question("a", 1.0), error) is UNKNOWN
    assert caplog.messages[-1].endswith("(OSError: server closed the connection)")


@pytest.mark.parametrize(
    ("outcome", "refusal"), [("committed", TransactionRecordedTwice), ("fenced", TransactionFenced)]
)
def test_an_attempt_behind_an_earlier_one_that_ended_was_begun(
    outcome: str, refusal: type[Exception]
) -> None:
    notes = ScriptedNotes(outcome, None)
    with pytest.raises(refusal):
        RULES.require_first(notes, "a")
    RULES.require_first(notes, "a")
    assert notes.calls == ["read", "read"]  # it fences nothing


def test_a_row_that_is_not_sure_was_told_to_the_program_by_a_private_exception() -> None:
    def begin() -> None:
        with RULES.first_or_unread("a"):
            raise Undecidable("b has a row, and whether it is safe is not known")

    with pytest.raises(BackendError, match=r"safe is not known.* attempt a .* was not begun"):
        begin()


def test_an_unknown_to_another_group_s_check_had_no_reason() -> None:
    why.take()
    check = SimpleNamespace(transaction_id="a", producer_group="other")
    assert RULES.question(check) is None
    assert "belongs to group shop, the transaction to other" in str(why.take())


def test_anything_with_an_id_is_a_question() -> None:
    assert RULES.question(Message("t", b"v", transaction_id="a")) == Question("a", None)
    check = SimpleNamespace(transaction_id="a", producer_group="shop", age_s=3)
    assert RULES.question(check) == Question("a", 3)
    for born_ms, known_ms in ((7, 7), (0, None), (-1, None), (True, None), ("7", None)):
        check = SimpleNamespace(transaction_id="a", born_ms=born_ms)
        assert RULES.question(check) == Question("a", None, known_ms)
    for age_s in (float("nan"), float("inf"), "old", None):
        check = SimpleNamespace(transaction_id="a", age_s=age_s)
        assert RULES.question(check) == Question("a", None)


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (object(), "without a transaction id"),
        (None, "without a transaction id"),
        (Message("t", b"v"), "without a transaction id"),
        (SimpleNamespace(transaction_id=b"a"), "without a transaction id"),
        (SimpleNamespace(transaction_id="a", producer_group="other"), "belongs to group shop"),
    ],
)
def test_what_is_no_question_of_ours_is_logged(
    check: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert RULES.question(check) is None
    assert said in caplog.text


def test_an_error_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "halfhitch.barrier"):
        assert RULES.failed(Question("a"), OSError("lost\nit" + "x" * 900)) is UNKNOWN
    (record,) = caplog.records
    assert "\n" not in record.getMessage()
    assert len(record.getMessage()) < 500
    assert "create it" not in record.getMessage()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"group": ""}, "give the barrier the producer group"),
        ({"group": None}, "give the barrier the producer group"),
        ({"table": "a b"}, "not a plain name"),
        ({"fence_after_s": -1}, "fence_after_s is -1"),
        ({"fence_after_s": float("nan")}, "fence_after_s is nan"),
        ({"fence_after_s": KEEP_S}, "rows are kept for"),
        ({"keep_s": 60}, "keep_s is 60"),
        ({"wait_s": 0}, "wait_s is 0"),
        ({"wait_s": 61}, "must not take a minute"),
        ({"wait_s": float("inf")}, "wait_s is inf"),
    ],
)
def test_settings_that_cannot_be_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Rules(**{"group": "shop", **options})


@pytest.mark.parametrize("transaction_id", ["", None, 7, b"a"])
def test_an_id_is_text(transaction_id: Any) -> None:
    with pytest.raises(InvalidRequest, match="takes the id as text"):
        RULES.key(transaction_id)


def test_rows_that_may_be_asked_for_are_not_purged() -> None:
    assert RULES.purge_age_s(None, 10, force=False) == KEEP_S
    assert RULES.purge_age_s(KEEP_S + 0.5, 10, force=False) == KEEP_S + 1
    with pytest.raises(ConfigurationError, match="roll its messages back"):
        RULES.purge_age_s(KEEP_S - 1, 10, force=False)
    assert RULES.purge_age_s(0, 10, force=True) == 0
    for age_s in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigurationError, match="age in seconds"):
            RULES.purge_age_s(age_s, 10, force=True)
    with pytest.raises(ConfigurationError, match="batch_count is 0"):
        RULES.purge_age_s(None, 0, force=False)


@pytest.mark.parametrize(
    ("state", "grounds"),
    [
        (COMMIT, "the barrier has the row"),
        (ROLLBACK, "the barrier has no row, and has fenced it"),
        (UNKNOWN, ""),
    ],
)
def test_a_producers_log_says_on_what_grounds_the_barrier_answered(
    state: LocalTransactionState, grounds: str
) -> None:
    why.take_grounds()
    assert RULES.told(state) is state
    assert why.take_grounds() == grounds
