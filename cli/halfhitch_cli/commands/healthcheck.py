"""halfhitch healthcheck: the probe of a container that has neither a shell nor curl."""

from enum import StrEnum
from typing import Annotated

import typer

from halfhitch.config import Purpose
from halfhitch_cli import probing
from halfhitch_cli.lazy import PlainCommand
from halfhitch_cli.options import Given, settings_command

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class Question(StrEnum):
    """What is asked."""

    LIVEZ = "livez"
    READYZ = "readyz"


def healthcheck(
    given: Given,
    question: Annotated[Question, typer.Argument(help="Alive, or ready?")] = Question.READYZ,
) -> int:
    """Ask the sidecar of this machine whether it lives (livez) or is ready (readyz).

    Exit code 0 if so, 3 if not, 1 if it does not answer. Being alive does not depend on Kafka.
    Where HALFHITCH_... variables are all there is to say, this answers without loading the rest.
    """
    settings = given.load(Purpose.CLIENT)
    admin = settings.admin
    return probing.tell(
        probing.probe(
            question.value,
            admin.host,
            admin.port,
            is_encrypted=admin.tls_cert is not None or settings.client.tls,
        )
    )


app.command(cls=PlainCommand)(settings_command(healthcheck, only=("admin", "client")))
