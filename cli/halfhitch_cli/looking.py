"""One look, or one after the other: what --watch does.

A terminal is cleared before each look, a program gets a line of JSON for each. Ctrl-C ends it well.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import sleep
from typing import Annotated, Any, Final

import typer

from halfhitch.errors import BackendError
from halfhitch_cli.app import OK
from halfhitch_cli.output import OutputForm, Table, emit, emit_line, say

EVERY_S: Final = 2.0
_CLEARED: Final = "\x1b[H\x1b[2J"

#: The type of a command's `watch` parameter.
Watch = Annotated[
    bool,
    typer.Option("-w", "--watch", help=f"Look again every {EVERY_S:.0f} seconds, until Ctrl-C."),
]


@dataclass(slots=True)
class Look:
    """What was seen: `data` for programs; `tables`, `heading` and `hints` for people."""

    data: Any
    tables: Sequence[Table]
    heading: str = ""  # over a look that is one of many
    hints: Sequence[str] = ()  # after a look that is the only one
    code: int = OK  # the exit code, if it is the last one


def looked(look: Callable[[], Look], output: OutputForm, *, watch: bool) -> int:
    """Show it once, or again and again. The exit code."""
    if watch:
        return look_on(look, output)
    seen = look()
    emit(output, seen.data, seen.tables)
    for hint in seen.hints:
        say(hint)
    return seen.code


def look_on(
    look: Callable[[], Look],
    output: OutputForm,
    *,
    every_s: float = EVERY_S,
    count: int | None = None,
) -> int:
    """Show it again and again: `count` times, or until Ctrl-C. The exit code.

    A sidecar that goes away ends nothing once it was seen: whoever watches a restart sees its end.
    """
    looks = 0
    told = None
    try:
        while True:
            try:
                seen = look()
            except BackendError as error:
                if not looks:
                    raise
                if error.message != told:
                    say(f"{time.strftime('%H:%M:%S')}  {error.message} Looking again ...")
                told = error.message
                sleep(every_s)
                continue
            told = None
            if output.is_for_people:
                if sys.stdout.isatty():
                    sys.stdout.write(_CLEARED)
                parts = (seen.heading, time.strftime("%H:%M:%S"))
                sys.stdout.write("  ".join(part for part in parts if part) + "\n\n")
            emit_line(output, seen.data, seen.tables)
            looks += 1
            if looks == count:
                return seen.code
            sleep(every_s)
    except KeyboardInterrupt:
        return OK
