"""What must not be in a name, and how text of unknown origin is shown, over all of Unicode."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfhitch.service.transactions.admission import is_name
from halfhitch.wire.plain import hides, is_plain, shown, shown_json

ALL = [chr(number) for number in range(sys.maxunicode + 1)]
CATEGORIES = ("Cc", "Cf", "Zl", "Zp", "Cs")
#: How Unicode's database names what is Default_Ignorable_Code_Point and no format character.
UNSEEN_NAMES = re.compile(
    r"COMBINING GRAPHEME JOINER|HANGUL (CHOSEONG |JUNGSEONG |HALFWIDTH |)FILLER|"
    r"HALFWIDTH HANGUL FILLER|KHMER VOWEL INHERENT A[AQ]|"
    r"(MONGOLIAN FREE )?VARIATION SELECTOR( |-)[A-Z0-9]+"
)
#: What it keeps unassigned for more of them: its rules for Other_Default_Ignorable_Code_Point.
KEPT = frozenset({0x2065, *range(0xFFF0, 0xFFF9), *range(0xE0000, 0xE1000)})


def is_unseen(char: str) -> bool:
    kind = unicodedata.category(char)
    if kind in ("Lo", "Mn"):
        return UNSEEN_NAMES.fullmatch(unicodedata.name(char, "")) is not None
    return kind == "Cn" and ord(char) in KEPT


UNSEEN = frozenset(char for char in ALL if is_unseen(char))
HIDING = [char for char in ALL if unicodedata.category(char) in CATEGORIES or char in UNSEEN]
texts = st.text(st.sampled_from(HIDING) | st.characters())


def test_the_categories_are_there_and_all_of_each_is_refused() -> None:
    found = {unicodedata.category(char) for char in HIDING if char not in UNSEEN}
    assert found == set(CATEGORIES)
    assert len(HIDING) > 6_000
    assert [char for char in HIDING if not hides(f"pay-{char}-1")] == []
    assert [char for char in HIDING if is_name(f"pay-{char}-1")] == []


@pytest.mark.parametrize("number", [0x9B, 0x9D, 0x85, 0x202E, 0x2066, 0x200B, 0xAD, 0x2028, 0x2029])
def test_the_ones_that_were_taken_once_are_refused_now(number: int) -> None:
    assert hides(f"pay-7{chr(number)}")


@pytest.mark.parametrize("name", ["pay\ufe0f-7", "pay\u3164", "\u034fpay", "pay\U000e0101-7"])
def test_letters_and_marks_that_nobody_sees_make_no_second_name(name: str) -> None:
    assert hides(name)
    assert not is_name(name)
    assert shown(name).isascii()
    assert shown_json(name).isascii()


@pytest.mark.skipif(shutil.which("perl") is None, reason="perl knows the property, Python does not")
def test_what_nobody_sees_is_what_unicode_says_is_ignorable() -> None:
    program = (
        "use Unicode::UCD; print Unicode::UCD::UnicodeVersion(), qq{\\n};"
        "for $n (0 .. 0x10FFFF) { next if $n >= 0xD800 && $n <= 0xDFFF;"
        " print qq{$n\\n} if chr($n) =~ /\\p{DI}/ }"
    )
    said = subprocess.run(["perl", "-e", program], capture_output=True, check=True, text=True)
    version, *numbers = said.stdout.split()
    if version != unicodedata.unidata_version:
        pytest.skip(f"perl has Unicode {version}, Python {unicodedata.unidata_version}")
    ignorable = {chr(int(number)) for number in numbers}
    assert len(ignorable) > 4_000
    assert ignorable - set(HIDING) == set()
    assert UNSEEN - ignorable == set()


def test_nothing_else_is_refused() -> None:
    refused = set(HIDING)
    assert [char for char in ALL if char not in refused and hides(char)] == []


def test_all_of_it_is_escaped_where_it_is_shown() -> None:
    assert all(shown(char).isascii() and shown(char).isprintable() for char in HIDING)
    assert shown("pay-\u202e7\x9b") == "pay-\\u202e7\\x9b"


@given(texts)
def test_what_is_shown_is_one_printable_line(text: str) -> None:
    assert shown(text).isprintable()
    assert not hides(shown(text))
    if is_plain(text):
        assert shown(text) == text
    if text.isprintable() and not set(text) & UNSEEN:
        assert is_plain(text)


@given(st.recursive(texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner)))
def test_json_reads_back_as_the_same_and_drives_no_terminal(content: object) -> None:
    for indent in (None, 2):
        written = shown_json(content, indent=indent)
        assert json.loads(written) == json.loads(json.dumps(content))
        assert is_plain(written.replace("\n", ""))
    assert len(shown_json(content).splitlines()) == 1


def test_json_keeps_letters_of_all_alphabets() -> None:
    assert shown_json({"näher": "日本 😀"}) == '{"näher": "日本 😀"}'
