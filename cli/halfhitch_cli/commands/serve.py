"""halfhitch serve: the sidecar, in the foreground, until SIGTERM or SIGINT."""

import typer

from halfhitch.config import Purpose
from halfhitch_cli.lazy import PlainCommand
from halfhitch_cli.options import Given, settings_command, warn_of_secrets

app = typer.Typer(add_completion=False, rich_markup_mode=None)


def serve(given: Given) -> int:
    """Run the sidecar until it is told to stop.

    Every flag is also an environment variable (--http-port: HALFHITCH_HTTP_PORT) and a key of the
    TOML file that --config names (http.port). A flag wins over the environment, the environment
    over the file. A secret given as a flag shows in the list of processes: prefer the environment
    or a file.
    """
    settings = given.load(Purpose.SERVE)
    warn_of_secrets(given, settings)
    # Only now: a wrong setting is told at once, not after everything has been imported.
    from halfhitch.composition import run

    return run(settings, create_topics=settings.topics.create)


app.command(cls=PlainCommand)(settings_command(serve))
