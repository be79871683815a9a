"""How results are shown: a table for people, JSON or YAML for programs. Nothing else prints.

Owns `OutputForm`, `emit` and `say`. Invariants: results go to stdout, everything about the way
there to stderr; colours only on a terminal and without NO_COLOR; a table that is piped is not cut
to the width of a terminal, and what is to be copied (an id) is never broken: on a narrow terminal
columns that can be missed are left out, and -o wide has them all. rich is imported only when
something has to be folded (drawing.py does the rest).
"""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import typer

from halfhitch.wire.plain import is_plain, shown, shown_json
from halfhitch_cli import drawing

_EDGES = 2  # one place on either side of a table
_FOLDED_MIN = 8  # of a column that may be folded


class OutputForm(StrEnum):
    """What -o takes."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"

    @property
    def is_for_people(self) -> bool:
        """A table, and sentences beside it."""
        return self in (OutputForm.TABLE, OutputForm.WIDE)


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
    #: Columns whose cells are never broken into lines.
    whole: frozenset[str] = frozenset()
    #: Columns to leave out where the terminal is too narrow, the first one first.
    drop: Sequence[str] = ()


def emit(form: OutputForm, data: Any, tables: Sequence[Table]) -> None:
    """Show one result: `data` to programs, `tables` to people."""
    if form is OutputForm.JSON:
        sys.stdout.write(shown_json(data, indent=2) + "\n")
    elif form is OutputForm.YAML:
        sys.stdout.write(to_yaml(data))
    elif form is OutputForm.NAME:
        sys.stdout.write("".join(f"{shown(name)}\n" for name in names_in(data)))
    else:
        _draw(tables, is_wide=form is OutputForm.WIDE)
    sys.stdout.flush()


def emit_line(form: OutputForm, data: Any, tables: Sequence[Table]) -> None:
    """One of many results in a row: JSON is a line for each."""
    if form is OutputForm.JSON:
        sys.stdout.write(shown_json(data) + "\n")
        sys.stdout.flush()
        return
    if form is OutputForm.YAML:
        sys.stdout.write("---\n")
    emit(form, data, tables)


#: Where a result has its things, and what their names are.
_LISTS = ("transactions", "stories", "done", "selected", "groups", "settings")
_NAMES = ("transaction_id", "producer_group", "key")


def names_in(data: Any) -> list[str]:
    """What -o name shows: a line for each. Raises BadParameter where nothing has a name."""
    if isinstance(data, Mapping):
        for name in _LISTS:
            if isinstance(data.get(name), list):
                return [_name_of(row) for row in data[name]]
        found = data.get("transaction", data)
        if isinstance(found, Mapping) and "transaction_id" in found:
            return [_name_of(found)]
    raise typer.BadParameter("-o name is for lists of transactions, groups and settings.")


def _name_of(row: Mapping[str, Any]) -> str:
    return str(next(row[name] for name in _NAMES if name in row))


def say(text: str) -> None:
    """A line about what is going on, to stderr."""
    typer.echo(printable(text), err=True)


def printable(text: str) -> str:
    """Text of unknown origin: codes for the terminal are shown, not sent. Our line breaks stay."""
    return "\n".join(shown(line) for line in text.split("\n"))


def fitting(table: Table, room: int) -> tuple[list[int], int]:
    """The places of the columns that are shown in so much room, and the width that they need."""
    gap = drawing.TERMINAL_GAP
    widths = _drawing(table, list(range(len(table.columns)))).widths()
    places = list(range(len(widths)))
    for name in table.drop:
        if sum(widths[place] + gap for place in places) <= room:
            break
        places.remove(list(table.columns).index(name))
    needed = sum(
        (widths[place] if table.columns[place] in table.whole else _FOLDED_MIN) + gap
        for place in places
    )
    return places, needed


def _draw(tables: Sequence[Table], *, is_wide: bool = False) -> None:
    is_terminal = sys.stdout.isatty()
    room = shutil.get_terminal_size().columns
    drawn = []
    for table in tables:
        places = list(range(len(table.columns)))
        needed = 0
        if is_terminal and not is_wide and (table.whole or table.drop):
            places, needed = fitting(table, room)
        picture = _drawing(table, places)
        width = sum(picture.widths()) + drawing.TERMINAL_GAP * (len(places) - 1) + _EDGES
        if not is_terminal:
            lines = picture.lines(drawing.Look())
        elif is_wide or width <= room:
            # A line that the terminal wraps can be copied; one that we fold cannot.
            lines = picture.lines(drawing.terminal())
        else:
            lines = _folded(table, picture, max(room, needed))
        drawn.append("\n".join(lines).strip("\n") + "\n")
    sys.stdout.write("\n".join(drawn))


def _drawing(table: Table, places: Sequence[int]) -> drawing.Drawing:
    return drawing.Drawing(
        columns=[table.columns[place] for place in places],
        rows=[[shown(row[place]) for place in places] for row in table.rows],
        right=table.right,
        styles=[[table.styles.get(row[place], "") for place in places] for row in table.rows],
        title=table.title,
    )


def _folded(table: Table, picture: drawing.Drawing, width: int) -> list[str]:
    """Lines of so many places, with cells of several lines where it must be."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(width=width, highlight=False)
    drawn = RichTable(
        title=table.title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for column in picture.columns:
        drawn.add_column(
            column,
            justify="right" if column in table.right else "left",
            overflow="fold",
            no_wrap=column in table.whole,
        )
    for row, styles in zip(picture.rows, picture.styles, strict=True):
        # Text, not markup: square brackets in a value are only square brackets.
        drawn.add_row(*(Text(cell, style=style) for cell, style in zip(row, styles, strict=True)))
    with console.capture() as capture:
        console.print(drawn)
    return [line.rstrip() for line in capture.get().splitlines()]


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
