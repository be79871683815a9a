"""The root of the command line as typer has it.

Owns `app`: completion, --version, and the way from a command's name to its module. Imported only
when a command is to be run; see app.py.
"""

from typing import Annotated

import typer

from halfhitch_cli.lazy import LazyGroup
from halfhitch_cli.table import COMMANDS


class _Root(LazyGroup):
    rows = COMMANDS


app = typer.Typer(
    name="halfhitch",
    cls=_Root,
    add_completion=True,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it with the flag's value
    if wanted:
        from halfhitch_cli.speed import version_text

        typer.echo(version_text())
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """See table.py for what the help shows."""
