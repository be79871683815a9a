"""A page keeps what was written by hand."""

from __future__ import annotations

import pytest

from bench.page import with_part

PAGE = (
    "a\n<!-- figures: made by make x -->\nold\n<!-- end of figures -->\nb\n"
    "<!-- figures: made by make y -->\nother\n<!-- end of figures -->\nc\n"
)


def test_one_part_is_replaced_and_the_others_stay() -> None:
    assert with_part(PAGE, "make x", "new") == PAGE.replace("\nold\n", "\n\nnew\n\n")
    assert with_part(PAGE, "make y", "new") == PAGE.replace("\nother\n", "\n\nnew\n\n")


def test_a_page_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks its marks"):
        with_part(PAGE, "make z", "new")
