"""What must not be in a name, and how text of unknown origin is shown, over all of Unicode."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfhitch.service.transactions.admission import is_name
from halfhitch.wire.plain import hides, shown, shown_json

ALL = [chr(number) for number in range(sys.maxunicode + 1)]
HIDING = [char for char in ALL if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs")]
texts = st.text(st.sampled_from(HIDING) | st.characters())


def test_the_categories_are_there_and_all_of_each_is_refused() -> None:
    assert {unicodedata.category(char) for char in HIDING} == {"Cc", "Cf", "Zl", "Zp", "Cs"}
    assert len(HIDING) > 2_200
    assert [char for char in HIDING if not hides(f"pay-{char}-1")] == []
    assert [char for char in HIDING if is_name(f"pay-{char}-1")] == []


@pytest.mark.parametrize("number", [0x9B, 0x9D, 0x85, 0x202E, 0x2066, 0x200B, 0xAD, 0x2028, 0x2029])
def test_the_ones_that_were_taken_once_are_refused_now(number: int) -> None:
    assert hides(f"pay-7{chr(number)}")


def test_nothing_else_is_refused() -> None:
    refused = set(HIDING)
    assert [char for char in ALL if char not in refused and hides(char)] == []


def test_all_of_it_is_escaped_where_it_is_shown() -> None:
    assert all(shown(char).isascii() and shown(char).isprintable() for char in HIDING)
    assert shown("pay-\u202e7\x9b") == "pay-\\u202e7\\x9b"


@given(texts)
def test_what_is_shown_is_one_printable_line(text: str) -> None:
    assert shown(text).isprintable()
    if text.isprintable():
        assert shown(text) == text


@given(st.recursive(texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner)))
def test_json_reads_back_as_the_same_and_drives_no_terminal(content: object) -> None:
    for indent in (None, 2):
        written = shown_json(content, indent=indent)
        assert json.loads(written) == json.loads(json.dumps(content))
        assert written.replace("\n", "").isprintable()
    assert len(shown_json(content).splitlines()) == 1


def test_json_keeps_letters_of_all_alphabets() -> None:
    assert shown_json({"näher": "日本 😀"}) == '{"näher": "日本 😀"}'
