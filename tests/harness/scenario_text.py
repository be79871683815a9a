"""The words of scenario files: blocks of commands, times, options. See scenario.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from halfhitch.core.model import COPIED, GIVEN_UP, PARKED, ROLLED_BACK, Resolution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halfhitch.core.model import HalfOffset, Identity

RULE = "----"
RESOLUTIONS = {
    "commit": Resolution.COMMIT,
    "rollback": Resolution.ROLLBACK,
    "park": Resolution.PARK,
}
WORDS = {resolution: word for word, resolution in RESOLUTIONS.items()}
ENDINGS = {ROLLED_BACK: "rolled back", PARKED: "parked", GIVEN_UP: "given up", COPIED: "copied"}
UNITS_MS = {"ms": 1, "s": 1_000, "h": 3_600_000}


class ScenarioError(Exception):
    """A command that cannot be carried out; the text says which line and why."""


@dataclass
class Block:
    """Comments and commands, and what is expected of them."""

    line: int
    commands: list[str]
    expected: list[str]


def parse(text: str) -> list[Block]:
    """Blocks of a scenario file."""
    blocks: list[Block] = []
    line = 1
    for part in text.split("\n\n"):
        lines = part.strip("\n").split("\n")
        if lines != [""]:
            if RULE not in lines:
                raise ScenarioError(f"line {line}: a block without {RULE}; put it behind commands")
            rule = lines.index(RULE)
            first_line = line + len(part) - len(part.lstrip("\n"))
            blocks.append(Block(first_line, lines[:rule], lines[rule + 1 :]))
        line += part.count("\n") + 2
    return blocks


def names_of(identities: Sequence[Identity]) -> str:
    return " ".join(dict.fromkeys(transaction_id for _, transaction_id in identities))


def halves_of(half_offsets: Sequence[HalfOffset]) -> str:
    return " ".join(["half", *map(str, half_offsets)]) if half_offsets else "no half"


def options_of(words: Sequence[str], **defaults: str) -> dict[str, str]:
    result = dict(defaults)
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in defaults:
            raise ScenarioError(f"{word!r} is not one of {', '.join(f'{n}=' for n in defaults)}")
        result[name] = value
    return result


def duration_ms(text: str) -> int:
    number = text.rstrip("msh")
    unit_ms = UNITS_MS.get(text[len(number) :])
    if unit_ms is None or not number.isdecimal():
        raise ScenarioError(f"{text!r} is not a time: write 61s, 500ms or 72h")
    return int(number) * unit_ms


def seconds(passed_ms: int) -> str:
    return f"{passed_ms / 1000:g}s"
