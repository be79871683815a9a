"""halfhitch token: a token for an identity, and its hash for the file of identities."""

import secrets
import sys
from typing import Annotated

import typer

from halfhitch.access.identities import token_hash
from halfhitch_cli.lazy import PlainCommand

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_TOKEN_BYTES = 32
#: Shorter ones may be on somebody's list, and a hash without salt would give them away.
_TOKEN_CHARACTERS_MIN = 32


@app.command(cls=PlainCommand)
def token(
    of: Annotated[
        bool,
        typer.Option("--hash", help="Read a token from standard input and print its hash alone."),
    ] = False,
) -> int:
    """Make a token, and its line for auth.identities_file.

    The application, or the person, gets the token (Half-Token header); the file gets the hash,
    which is no secret. A token that is lost cannot be had from its hash: make another one. Two
    hashes at once let a token be replaced without a pause.
    """
    if of:
        given = sys.stdin.readline().strip()
        if len(given) < _TOKEN_CHARACTERS_MIN or not given.isascii() or not given.isprintable():
            raise typer.BadParameter(
                f"standard input has no token of at least {_TOKEN_CHARACTERS_MIN} printable ASCII "
                "characters: make one with `halfhitch token`"
            )
        typer.echo(token_hash(given))
        return 0
    made = secrets.token_urlsafe(_TOKEN_BYTES)
    typer.echo(f"token   {made}")
    typer.echo(f'tokens = ["{token_hash(made)}"]')
    return 0
