"""Typer groups that import, or make, a command only when it is used, and plain help by panels.

Owns the classes that typer is told to use. Invariants: listing the root's commands imports none of
them; running one makes no other; help needs no rich, and values no pydantic (values.py). This is
what keeps commands, help and completion quick.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import typer
import typer.core
import typer.main

from halfhitch_cli.table import CommandRow, root_help
from halfhitch_cli.values import convert_plainly


class _Plainly:
    """Values without pydantic, of whatever typer has made. First among the bases."""

    params: list[Any]

    def make_context(self, *args: Any, **given: Any) -> Any:
        """As typer; by now it has added the options for completion."""
        convert_plainly(self.params)
        return super().make_context(*args, **given)  # type: ignore[misc]

    def get_help_option(self, ctx: Any) -> Any:
        """As typer, which makes this one late."""
        found = super().get_help_option(ctx)  # type: ignore[misc]
        convert_plainly(() if found is None else (found,))
        return found


class PlainCommand(_Plainly, typer.core.TyperCommand):
    """Options grouped under the headings of `rich_help_panel`, without rich."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write one section for each panel."""
        _write_options(self, ctx, formatter)


class LazyGroup(_Plainly, typer.core.TyperGroup):
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


class Branch(_Plainly, typer.core.TyperGroup):
    """A group, such as `tx`, that makes the command that is used; see `branch`."""

    makers: ClassVar[Mapping[str, Callable[[], Callable[..., int]]]] = {}

    def __init__(self, *args: Any, **given: Any) -> None:
        """As typer calls it."""
        super().__init__(*args, **given)
        #: typer looks here for names that are nearly right.
        self.commands: Any = dict.fromkeys(self.makers)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        """Names, in the order they were given."""
        return list(self.makers)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - typer's signature
        """Make the command now."""
        maker = self.makers.get(cmd_name)
        if maker is None:
            return None
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(cmd_name, cls=PlainCommand)(maker())
        return typer.main.get_command(single)


def branch(text: str, commands: Mapping[str, Callable[[], Callable[..., int]]]) -> typer.Typer:
    """A group of commands, each made by its function when it is used; `text` is the group's help.

    A command is a dozen flags for its settings, and a program runs one of them.
    """
    app = typer.Typer(
        cls=type("_Branch", (Branch,), {"makers": commands}),
        add_completion=False,
        rich_markup_mode=None,
        no_args_is_help=True,
        help=text,
    )
    # typer takes an app without commands of its own for a group only if it has this.
    app.callback()(lambda: None)
    return app


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
