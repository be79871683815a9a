"""The list of commands and how it is shown. Imports nothing, so that it can be shown at once."""

from collections.abc import Sequence
from typing import NamedTuple


class CommandRow(NamedTuple):
    """One command: where it is and what the list of commands says about it."""

    name: str
    module: str  # has `app`, a typer.Typer
    help: str
    panel: str


_RUN = "Run"
_LOOK = "Look"
_OPERATE = "Operate"
_PREPARE = "Prepare"

COMMANDS = (
    CommandRow("dev", "halfhitch_cli.commands.dev", "Kafka, Redis and a sidecar, here, now.", _RUN),
    CommandRow("demo", "halfhitch_cli.commands.demo", "Watch the main job, disturbed.", _RUN),
    CommandRow(
        "produce", "halfhitch_cli.commands.produce", "One transaction, from the shell.", _RUN
    ),
    CommandRow("serve", "halfhitch_cli.commands.serve", "Run the sidecar.", _RUN),
    CommandRow("status", "halfhitch_cli.commands.status", "Ask a running sidecar.", _LOOK),
    CommandRow("top", "halfhitch_cli.commands.top", "Watch it live, and operate.", _LOOK),
    CommandRow("healthcheck", "halfhitch_cli.commands.healthcheck", "A container's probe.", _LOOK),
    CommandRow(
        "producers", "halfhitch_cli.commands.producers", "Who is connected, and asked.", _LOOK
    ),
    CommandRow("tail", "halfhitch_cli.commands.tail", "Messages, as readers see them.", _LOOK),
    CommandRow(
        "doctor", "halfhitch_cli.commands.doctor", "Check settings, Kafka, topics, Redis.", _LOOK
    ),
    CommandRow("verify", "halfhitch_cli.commands.verify", "Is anything lost or doubled?", _LOOK),
    CommandRow("tx", "halfhitch_cli.commands.tx", "What is undecided, and deciding it.", _OPERATE),
    CommandRow(
        "parked", "halfhitch_cli.commands.parked", "What was given up: show, put back.", _OPERATE
    ),
    CommandRow(
        "topics", "halfhitch_cli.commands.topics", "Create or verify the internal topics.", _PREPARE
    ),
    CommandRow(
        "inject", "halfhitch_cli.commands.inject", "Add the sidecar to manifests.", _PREPARE
    ),
    CommandRow(
        "config", "halfhitch_cli.commands.config", "Settings: begin with, or look at.", _PREPARE
    ),
    CommandRow("keygen", "halfhitch_cli.commands.keygen", "Print a good key or token.", _PREPARE),
    CommandRow(
        "token", "halfhitch_cli.commands.token", "Make an identity's token and its hash.", _PREPARE
    ),
)

#: The root's own options, as they are in root.py.
ROOT_OPTIONS = (
    ("--version", "Show the version."),
    ("--install-completion", "Install completion for the current shell."),
    ("--show-completion", "Show the completion script, to copy or change it."),
    ("-h, --help", "Show this message and exit."),
)


def root_help(rows: Sequence[CommandRow]) -> str:
    """What `halfhitch --help` shows."""
    sections = {
        panel: [(row.name, row.help) for row in rows if row.panel == panel]
        for panel in dict.fromkeys(row.panel for row in rows)
    }
    sections["Options"] = list(ROOT_OPTIONS)
    lines = [
        "Usage: halfhitch COMMAND [OPTIONS]",
        "",
        "  Transactional messages for Kafka: prepare, run your database transaction, commit.",
    ]
    for title, entries in sections.items():
        width = max(len(name) for name, _ in entries)
        lines += ["", f"{title}:", *(f"  {name:<{width}}  {text}" for name, text in entries)]
    return "\n".join([*lines, "", "`halfhitch COMMAND --help` tells more of one.", ""])
