"""halfhitch keygen: a key nobody can guess, for handle.key and auth.tokens."""

import secrets

import typer

from halfhitch_cli.lazy import PlainCommand

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_KEY_BYTES = 32


@app.command(cls=PlainCommand)
def keygen() -> int:
    """Print a good value for handle.key, or for a token.

    Every instance needs the same handle key. To change it without refusing old handles, set
    "NEW,OLD" everywhere, and drop the old one when no transaction of its time is pending.
    """
    typer.echo(secrets.token_urlsafe(_KEY_BYTES))
    return 0
