"""halfhitch top: a sidecar in a terminal, as it goes on."""

import sys
from enum import StrEnum
from typing import Annotated

import typer

from halfhitch import extras
from halfhitch.config import Purpose
from halfhitch_cli.app import OK
from halfhitch_cli.client import AdminClient
from halfhitch_cli.lazy import PlainCommand
from halfhitch_cli.options import Given, settings_command

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class Colours(StrEnum):
    """What --colours takes."""

    TERMINAL = "terminal"
    DARK = "dark"
    LIGHT = "light"


def top(
    given: Given,
    interval_s: Annotated[
        float,
        typer.Option(
            "--interval", min=0.5, max=3_600, metavar="S", help="Seconds between two looks."
        ),
    ] = 2.0,
    colours: Annotated[
        Colours,
        typer.Option("--colours", help="The terminal's own, or given ones.", case_sensitive=False),
    ] = Colours.TERMINAL,
) -> int:
    """Watch a sidecar live: what is undecided, parked, connected, and how fast it goes.

    `?` shows the keys. Messages' keys and values are shown only on a key of their own. It never
    spends more than a tenth of the time on the sidecar, whatever --interval says.
    """
    extras.require("`halfhitch top`", extras.TOP)
    client = AdminClient.of(given.load(Purpose.CLIENT))
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise typer.BadParameter(
            "halfhitch top needs a terminal. Programs ask halfhitch status -o json, or halfhitch "
            "tx list -o json."
        )
    from halfhitch_cli.top.app import TopApp

    TopApp(client, interval_s, colours.value).run()
    return OK


app.command(cls=PlainCommand)(settings_command(top, only=("admin", "client", "auth")))
