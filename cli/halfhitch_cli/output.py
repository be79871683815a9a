"""How results are shown: a table for people, JSON or YAML for programs. Nothing else prints.

Owns `OutputForm`, `emit` and `say`. Invariants: results go to stdout, everything about the way
there to stderr; colours only on a terminal and without NO_COLOR; a table that is piped is not cut
to the width of a terminal. rich is imported only when a table is drawn.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import typer

from halfhitch.wire.plain import is_plain, shown, shown_json

_PIPED_WIDTH = 1_000  # columns: wide enough that no line of ours is folded


class OutputForm(StrEnum):
    """What -o takes."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


#: The type of every command's `output` parameter.
Output = Annotated[
    OutputForm, typer.Option("-o", "--output", help="How to show the result.", case_sensitive=False)
]


@dataclass(slots=True)
class Table:
    """Rows for people; `styles` maps a cell's text to a colour."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    right: frozenset[str] = frozenset()
    styles: Mapping[str, str] = field(default_factory=dict)


def emit(form: OutputForm, data: Any, tables: Sequence[Table]) -> None:
    """Show one result: `data` to programs, `tables` to people."""
    if form is OutputForm.JSON:
        sys.stdout.write(shown_json(data, indent=2) + "\n")
    elif form is OutputForm.YAML:
        sys.stdout.write(to_yaml(data))
    else:
        _draw(tables)
    sys.stdout.flush()


def say(text: str) -> None:
    """A line about what is going on, to stderr."""
    typer.echo(printable(text), err=True)


def printable(text: str) -> str:
    """Text of unknown origin: codes for the terminal are shown, not sent. Our line breaks stay."""
    return "\n".join(shown(line) for line in text.split("\n"))


def _draw(tables: Sequence[Table]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    is_terminal = sys.stdout.isatty()
    console = Console(width=None if is_terminal else _PIPED_WIDTH, highlight=False)
    for table in tables:
        drawn = RichTable(
            title=table.title or None,
            title_justify="left",
            box=box.SIMPLE_HEAD if is_terminal else None,
            pad_edge=False,
        )
        for column in table.columns:
            right = column in table.right
            drawn.add_column(column, justify="right" if right else "left", overflow="fold")
        for row in table.rows:
            # Text, not markup: square brackets in a value are only square brackets.
            drawn.add_row(*(Text(shown(cell), style=table.styles.get(cell, "")) for cell in row))
        with console.capture() as capture:
            console.print(drawn)
        lines = [line.rstrip() for line in capture.get().splitlines()]
        sys.stdout.write("\n".join(lines).strip("\n") + "\n" + "\n" * (table is not tables[-1]))


def to_yaml(data: Any) -> str:
    """Block YAML whose scalars are written as JSON, which every YAML 1.2 reader takes."""
    return "\n".join(_yaml_lines(data)) + "\n"


def _yaml_lines(data: Any) -> list[str]:
    if isinstance(data, Mapping) and data:
        lines: list[str] = []
        for key, value in data.items():
            lines += _yaml_item(_yaml_key(str(key)) + ":", value)
        return lines
    if isinstance(data, list | tuple) and data:
        lines = []
        for value in data:
            nested = _yaml_lines(value)
            lines += ["- " + nested[0], *("  " + line for line in nested[1:])]
        return lines
    return [_yaml_scalar(data)]


def _yaml_scalar(value: Any) -> str:
    if isinstance(value, float):
        text = json.dumps(value).replace("Infinity", ".inf").replace("NaN", ".nan")
        # 1e+16 is a text to readers of YAML 1.1; 1.0e+16 is a number to all.
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    if not isinstance(value, str):
        return json.dumps(value)
    # Not as JSON would escape them: its surrogate pairs are two characters in YAML.
    return "".join(
        c if is_plain(c) else f"\\U{ord(c):08x}" for c in json.dumps(value, ensure_ascii=False)
    )


def _yaml_item(head: str, value: Any) -> list[str]:
    nested = _yaml_lines(value)
    if isinstance(value, Mapping | list | tuple) and value:
        return [head, *("  " + line for line in nested)]
    return [f"{head} {nested[0]}"]


def _yaml_key(key: str) -> str:
    plain = key.replace("_", "").replace(".", "").isalnum() and key.isascii() and key[0].isalpha()
    # Quoted where YAML 1.1 readers would see a truth value or nothing.
    return key if plain and key.lower() not in _YAML_WORDS else _yaml_scalar(key)


_YAML_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
