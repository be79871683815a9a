"""halfhitch config: a file of all settings to begin with, and what a sidecar really has.

Invariants: what `init` writes is commented out wholly, so that it changes nothing, and every line
of it is taken when the mark is removed; no secret is ever shown.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from halfhitch.config import SETTINGS, Purpose, Setting
from halfhitch.errors import RequestError
from halfhitch_cli.app import OK
from halfhitch_cli.client import AdminClient
from halfhitch_cli.lazy import branch
from halfhitch_cli.options import Given, settings_command
from halfhitch_cli.output import Output, OutputForm, Table, emit, say

_HEAD = """\
# Settings of Half Hitch. All are commented out: what stands here is the default, or an example.
# halfhitch serve --config FILE, or HALFHITCH_CONFIG. Flags and variables go before this file.
"""
#: Of settings without a default: what one looks like.
_EXAMPLES: dict[str, Any] = {
    "kafka.bootstrap": "kafka-1:9092,kafka-2:9092",
    "redis.url": "redis://redis:6379/0",
    "instance.id": "shop-1",
}


def init(
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE", help="A new file. [default: stdout]"),
    ] = None,
) -> int:
    """Write a TOML file with every setting, its default and what it is for."""
    text = commented()
    if to is None:
        sys.stdout.write(text)
        return OK
    try:
        with to.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise RequestError(
            f"{to} cannot be written ({error.strerror}): name a file that is not there yet."
        ) from error
    say(f"{to} has all {len(SETTINGS)} settings, commented out.")
    return OK


def commented() -> str:
    """The file."""
    lines, group = [_HEAD.rstrip()], ""
    for setting in SETTINGS:
        name, _, key = setting.key.partition(".")
        if name != group:
            group = name
            lines += ["", f"[{group}]"]
        lines += [f"# {setting.description}", f"# {key} = {_toml(setting)}"]
    return "\n".join(lines) + "\n"


def _toml(setting: Setting) -> str:
    default = setting.default
    if callable(default) or default is None or default == "":
        default = _EXAMPLES.get(setting.key, "")
    if setting.is_map:
        return "{}"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, int | float):
        return repr(default)
    if setting.is_list:
        return "[" + ", ".join(f'"{part}"' for part in default) + "]"
    return f'"{default}"'


def show(
    given: Given,
    output: Output = OutputForm.TABLE,
    all_: Annotated[
        bool, typer.Option("--all", help="Also those that are at their default.")
    ] = False,
) -> int:
    """Show the settings that a running sidecar has, and where each came from."""
    door = AdminClient.of(given.load(Purpose.CLIENT))
    _, answer = door.get("/v1/config")
    every = [row for row in answer["settings"] if isinstance(row.get("key"), str)]
    rows = [row for row in every if all_ or row.get("source") != "default"]
    table = Table(
        columns=("Setting", "value", "from"),
        whole=frozenset(("Setting",)),
        rows=[[row["key"], _text(row.get("value")), _text(row.get("source"))] for row in rows],
    )
    emit(output, {"settings": rows}, [table])
    if not all_ and output.is_for_people:
        rest = len(every) - len(rows)
        say(f"{rest} more are at their default; --all shows them.")
    return OK


def _text(value: Any) -> str:
    return "" if value is None else str(value)


app = branch(
    "Settings: a file to begin with, and what a running sidecar has.",
    {
        "init": lambda: init,
        "show": partial(settings_command, show, only=("admin", "client", "auth")),
    },
)
