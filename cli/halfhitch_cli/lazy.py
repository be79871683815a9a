"""A typer group that imports a command only when it is used, and plain help by panels.

Owns the two classes that typer is told to use. Invariants: listing the commands imports none of
them; help needs no rich. This is what keeps help and completion quick.
"""

import importlib
from collections.abc import Sequence
from typing import Any

import typer
import typer.core
import typer.main

from halfhitch_cli.table import CommandRow, root_help


class PlainCommand(typer.core.TyperCommand):
    """Options grouped under the headings of `rich_help_panel`, without rich."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write one section for each panel."""
        _write_options(self, ctx, formatter)


class LazyGroup(typer.core.TyperGroup):
    """A group whose commands come from `rows`; subclasses set them."""

    rows: Sequence[CommandRow] = ()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        """Names, in the table's order."""
        return [row.name for row in self.rows]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - typer's signature
        """Import the command now."""
        for row in self.rows:
            if row.name == cmd_name:
                command = typer.main.get_command(importlib.import_module(row.module).app)
                command.name = cmd_name
                return command
        return None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As typer, but suggestions come from the table."""
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else " See `halfhitch --help`."
            ctx.fail(f"There is no command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - typer's signature
        """Write the list of commands."""
        formatter.write(root_help(self.rows))


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            panel = getattr(parameter, "rich_help_panel", None) or "Options"
            panels.setdefault(panel, []).append(record)
    for panel, records in panels.items():
        with formatter.section(panel):
            formatter.write_dl(records)
