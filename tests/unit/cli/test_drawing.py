"""Tables without rich: aligned as terminals show them, never folded, coloured where wanted."""

import pytest
from rich.cells import cell_len

from halfhitch_cli import drawing
from halfhitch_cli.drawing import Drawing, Look

PICTURE = Drawing(
    columns=("Name", "n", ""),
    rows=(("abc", "12", "x y"), ("日本", "3", ""), ("", "", "z")),
    right=frozenset(("n",)),
    styles=(("red", "", "green"), ("", "", ""), ("", "", "mauve")),
)


def test_a_piped_table_is_aligned_by_what_a_terminal_shows() -> None:
    assert PICTURE.lines(Look()) == [
        "Name   n",
        "abc   12  x y",
        "日本   3",
        "          z",
    ]


def test_a_terminal_gets_a_rule_a_margin_and_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    head, rule, first, second, third = PICTURE.lines(drawing.terminal())
    assert head == " \x1b[1mName\x1b[0m    \x1b[1mn\x1b[0m"
    assert rule == " " + "─" * 15
    assert first == " \x1b[31mabc\x1b[0m    12   \x1b[32mx y\x1b[0m"
    assert second == " 日本    3"
    assert third == " " * 13 + "z"


def test_no_color_leaves_colours_out_and_a_dumb_terminal_gets_no_codes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not any("\x1b[3" in line for line in PICTURE.lines(drawing.terminal()))
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not any("\x1b" in line for line in PICTURE.lines(drawing.terminal()))


def test_a_title_is_over_the_head() -> None:
    picture = Drawing(("A",), (), frozenset(), (), title="Of a thing")
    assert picture.lines(Look()) == ["Of a thing", "A"]
    assert picture.lines(Look(has_weight=True))[0] == "\x1b[3mOf a thing\x1b[0m"


@pytest.mark.parametrize("text", ["", "abc", "日本語", "é", "e\u0301", "한국", "ｱ", "🙂", "…", "─"])
def test_a_text_is_as_wide_as_rich_finds_it(text: str) -> None:
    assert drawing.cell_width(text) == cell_len(text)
