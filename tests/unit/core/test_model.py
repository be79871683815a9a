"""The values that other releases and other people rely on: their words are a contract."""

from dataclasses import is_dataclass

import pytest

from halfhitch.core import model
from halfhitch.core.model import (
    COPIED,
    GIVEN_UP,
    PARKED,
    ROLLED_BACK,
    ConflictKind,
    DecisionRead,
    HalfOffset,
    HalfRead,
    OpOffset,
    Resolution,
    ResolutionSource,
    TimestampMs,
)
from harness.ledger_script import identity_of


def test_the_words_that_are_stored_in_kafka_never_change() -> None:
    assert {kind.name: kind.value for kind in Resolution} == {
        "COMMIT": "c",
        "ROLLBACK": "r",
        "PARK": "p",
    }
    assert [source.value for source in ResolutionSource] == [
        "producer",
        "check",
        "operator",
        "policy",
    ]
    assert [kind.value for kind in ConflictKind] == ["contrary", "uncovered", "reused"]
    assert (ROLLED_BACK, PARKED, GIVEN_UP, COPIED) == (0, -1, -2, -3)


def test_no_committed_count_can_be_mistaken_for_another_ending() -> None:
    assert max(ROLLED_BACK, PARKED, GIVEN_UP, COPIED) < 1


def test_a_decision_names_no_half_unless_it_is_told_one() -> None:
    source = ResolutionSource.PRODUCER
    one = DecisionRead(OpOffset(1), TimestampMs(2), identity_of("T1"), Resolution.COMMIT, 1, source)
    assert one.half_hint == -1


def test_a_half_that_says_no_more_is_a_first_copy_with_the_default_immunity() -> None:
    half = HalfRead(HalfOffset(1), TimestampMs(2), identity_of("T1"), 0, 3)
    assert (half.immunity_ms, half.check_count) == (-1, 0)
    assert (half.first_stored_ms, half.resumed_count) == (-1, 0)


@pytest.mark.parametrize(
    "kind", [kind for kind in vars(model).values() if isinstance(kind, type) and is_dataclass(kind)]
)
def test_values_made_for_each_record_carry_no_dictionary(kind: type) -> None:
    assert kind.__dictoffset__ == 0
