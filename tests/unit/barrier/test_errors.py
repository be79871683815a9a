"""What can go wrong in a local transaction that is guarded by a barrier."""

import pytest

from halfhitch.barrier.errors import (
    LocalOutcomeUnknown,
    TransactionFenced,
    TransactionRecordedTwice,
    refusal,
)


@pytest.mark.parametrize(
    ("outcome", "kind", "says"),
    [
        ("fenced", TransactionFenced, "answered ROLLBACK, while this local transaction"),
        (None, TransactionFenced, "or it was recorded before"),
        ("", TransactionRecordedTwice, "call record once in a local transaction"),
        ("committed", TransactionRecordedTwice, "leave them to the check-back"),
    ],
)
def test_the_row_in_its_way_tells_why_a_record_was_refused(
    outcome: str | None, kind: type[Exception], says: str
) -> None:
    error = refusal("T1", outcome)
    assert type(error) is kind
    assert "T1" in str(error)
    assert says in str(error)
    assert getattr(error, "committed_before", False) is (outcome == "committed")


def test_an_unknown_end_warns_of_doing_the_work_again() -> None:
    error = LocalOutcomeUnknown("T1")
    assert "Do not repeat the work under a new id" in str(error)
    assert (error.code, error.transaction_id) == ("local_outcome_unknown", "T1")
