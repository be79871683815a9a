"""Which stored watermarks are believed."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_INVALID, TopicPartition

from halfhitch.adapters.kafka.partition_reader import believed, pair_metadata, stamp_of

PAIR = pair_metadata(5, 9, "a.1")
#: As releases without a stamp have written it, and may again while releases are mixed.
OLD_PAIR = "1;5;9"


def stored(half: int, half_says: str, op: int, op_says: str) -> tuple[int | None, int | None]:
    return believed(
        TopicPartition("half", 3, half, half_says), TopicPartition("op", 3, op, op_says)
    )


def stamp(half_says: str, op_says: str) -> str:
    return stamp_of(TopicPartition("half", 3, 5, half_says), TopicPartition("op", 3, 9, op_says))


def test_two_watermarks_that_name_each_other_are_believed() -> None:
    assert stored(5, PAIR, 9, PAIR) == (5, 9)


def test_what_an_earlier_release_has_stored_is_believed_and_has_no_stamp() -> None:
    assert stored(5, OLD_PAIR, 9, OLD_PAIR) == (5, 9)
    assert stamp(OLD_PAIR, OLD_PAIR) == ""


def test_the_stamp_is_that_of_the_write_that_stored_both() -> None:
    assert stamp(PAIR, PAIR) == "a.1"
    assert stamp(PAIR, pair_metadata(5, 9, "a.2")) == ""
    assert stamp("", "") == ""
    assert stamp("1;5;9;a;more", "1;5;9;a;more") == "a;more"


def test_where_nothing_was_stored_nothing_is_believed(caplog: pytest.LogCaptureFixture) -> None:
    assert stored(OFFSET_INVALID, "", OFFSET_INVALID, "") == (None, None)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("half", "half_says", "op", "op_says"),
    [
        (2, "", 9, PAIR),  # set back by a tool, which leaves no metadata
        (2, PAIR, 9, PAIR),
        (5, PAIR, 7, PAIR),
        (5, PAIR, 9, pair_metadata(6, 9, "a.1")),
        (5, PAIR, 9, pair_metadata(5, 9, "a.2")),
        (5, PAIR, 9, OLD_PAIR),
        (5, "1;5;99", 9, "1;5;99"),
        (5, PAIR, 9, ""),
        (5, PAIR, 9, "garbage"),
    ],
)
def test_a_watermark_that_was_changed_alone_makes_the_op_log_be_read_from_its_start(
    half: int, half_says: str, op: int, op_says: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert stored(half, half_says, op, op_says) == (half, None)
    assert [record.action for record in caplog.records] == ["watermarks_changed"]  # type: ignore[attr-defined]


def test_an_op_watermark_beside_a_lost_half_watermark_is_told_as_it_is() -> None:
    """That it is not both that were lost tells a topic created anew from a forgotten group."""
    assert stored(OFFSET_INVALID, "", 9, PAIR) == (None, 9)


def test_watermarks_without_a_word_are_taken_for_a_reset_by_hand_of_both() -> None:
    assert stored(5, "", 9, "") == (5, None)
