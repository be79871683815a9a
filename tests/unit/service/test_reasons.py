"""A producer's remark, made fit to be kept as the reason of its decision."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfhitch.service.reasons import REASON_CHARS_MAX, kept_reason


@pytest.mark.parametrize(
    ("remark", "kept"),
    [
        (None, None),
        ("", None),
        ("  \n\t ", None),
        ("no stock", "no stock"),
        ("boom\n  at Shop.java:17\r\n", "boom at Shop.java:17"),
        ("\x1b[2J\x00 \u202eé", "[2J é"),
        ("\ud800", None),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 197 + "..."),
    ],
)
def test_it_is_one_printable_line_of_at_most_200_characters(
    remark: str | None, kept: str | None
) -> None:
    assert kept_reason(remark) == kept


@given(st.text(st.characters(), max_size=2_000))
def test_whatever_was_thrown_can_be_stored_and_shown(remark: str) -> None:
    kept = kept_reason(remark)
    if kept is not None:
        assert kept.isprintable()
        assert 0 < len(kept) <= REASON_CHARS_MAX
        kept.encode()
