"""A table as lines, where nothing has to be folded: without rich, whose import takes longer than
most answers.

Owns how wide a text is on a terminal, and the look of a table: the same that rich gives to one that
is too wide for its terminal. Invariant: no cell is broken or cut.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from unicodedata import category, east_asian_width

#: Between two columns: piped, and on a terminal, where the whole is one more from the edge.
PIPED_GAP: Final = 2
TERMINAL_GAP: Final = 3
_BOLD, _ITALIC, _PLAIN = "\x1b[1m", "\x1b[3m", "\x1b[0m"
_COLOURS: Final[Mapping[str, str]] = {
    "red": "\x1b[31m", "green": "\x1b[32m", "yellow": "\x1b[33m",
}  # fmt: skip
_WITHOUT_PLACE: Final = frozenset({"Mn", "Me", "Cf"})


@dataclass(frozen=True, slots=True)
class Look:
    """How the lines are written."""

    gap: int = PIPED_GAP
    margin: str = ""
    has_rule: bool = False  # under the head
    has_weight: bool = False  # the head is bold
    has_colours: bool = False


def terminal() -> Look:
    """As the environment wants it: NO_COLOR, and terminals that know no codes."""
    knows = os.environ.get("TERM", "").lower() not in ("dumb", "unknown")
    return Look(TERMINAL_GAP, " ", True, knows, knows and not os.environ.get("NO_COLOR"))


def cell_width(text: str) -> int:
    """How many places it takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_places, text))


def _places(char: str) -> int:
    if category(char) in _WITHOUT_PLACE:
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


@dataclass(frozen=True, slots=True)
class Drawing:
    """What is written, as it is to be seen: nothing in it drives a terminal."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[str]
    #: For each cell of `rows`: the name of a colour, or nothing.
    styles: Sequence[Sequence[str]]
    title: str = ""

    def widths(self) -> list[int]:
        """Of the columns."""
        return [
            max([cell_width(name), *(cell_width(row[place]) for row in self.rows)])
            for place, name in enumerate(self.columns)
        ]

    def lines(self, look: Look) -> list[str]:
        """One for each row, the head and its rule above them."""
        widths = self.widths()
        is_right = [name in self.right for name in self.columns]

        def line(cells: Sequence[str], codes: Sequence[str]) -> str:
            told = []
            for text, width, at_right, code in zip(cells, widths, is_right, codes, strict=True):
                blanks = " " * (width - cell_width(text))
                coloured = f"{code}{text}{_PLAIN}" if code and text else text
                told.append(blanks + coloured if at_right else coloured + blanks)
            return (look.margin + (" " * look.gap).join(told)).rstrip()

        head = [_BOLD if look.has_weight else ""] * len(widths)
        told = [line(self.columns, head)]
        if self.title:
            told.insert(0, f"{_ITALIC}{self.title}{_PLAIN}" if look.has_weight else self.title)
        if look.has_rule:
            told.append(look.margin + "─" * (sum(widths) + look.gap * (len(widths) - 1)))
        for row, styles in zip(self.rows, self.styles, strict=True):
            codes = [_COLOURS.get(style, "") if look.has_colours else "" for style in styles]
            told.append(line(row, codes))
        return told
