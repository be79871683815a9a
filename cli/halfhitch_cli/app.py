"""Where the command line begins: the list of commands, and what an error looks like.

Owns COMMANDS and `main`. Invariants: nothing is imported here that the list of commands can do
without, typer included (`halfhitch --help` must answer at once); an error a person can act on is
one line on stderr that begins with "halfhitch:" and no traceback; exit codes are 0 ok, 1 error,
2 usage, 3 unhealthy; 4 is `verify`'s: nothing wrong was found, and too little was looked at.
"""

import sys
from collections.abc import Sequence
from typing import Any

from halfhitch_cli.table import CommandRow, root_help

OK, ERROR, USAGE, UNHEALTHY, NOT_JUDGED = 0, 1, 2, 3, 4

_RUN = "Run"
_LOOK = "Look"
_OPERATE = "Operate"
_PREPARE = "Prepare"

COMMANDS = (
    CommandRow("dev", "halfhitch_cli.commands.dev", "Kafka, Redis and a sidecar, here, now.", _RUN),
    CommandRow("demo", "halfhitch_cli.commands.demo", "Watch the main job, disturbed.", _RUN),
    CommandRow("serve", "halfhitch_cli.commands.serve", "Run the sidecar.", _RUN),
    CommandRow("status", "halfhitch_cli.commands.status", "Ask a running sidecar.", _LOOK),
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
    CommandRow("keygen", "halfhitch_cli.commands.keygen", "Print a good key or token.", _PREPARE),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--help"], ["-h"]):
        # Importing typer takes longer than everything else that this needs.
        sys.stdout.write(root_help(COMMANDS))
        return OK
    if given == ["--version"]:
        sys.stdout.write(version_line() + "\n")
        return OK
    from halfhitch_cli import root

    try:
        result: Any = root.app(args=given, prog_name="halfhitch", standalone_mode=False)
    except Exception as error:
        code = _explain(error)
        if code is None:
            raise
        return code
    return result if isinstance(result, int) else OK


def version_line() -> str:
    """What --version shows."""
    from halfhitch import __version__, is_compiled, is_native

    extras = ["compiled"] * is_compiled() + ["native"] * is_native()
    return f"halfhitch {__version__}" + (f" ({', '.join(extras)})" if extras else "")


def _explain(error: Exception) -> int | None:
    """Print an expected error; None for a bug, whose traceback is wanted."""
    import typer

    if isinstance(error, typer.Abort):
        return _complain("stopped.", 130)
    # typer offers no public name for the base of its usage errors; this is what they have.
    if callable(getattr(error, "format_message", None)):
        text = error.format_message()  # type: ignore[attr-defined]
        return _complain(text, getattr(error, "exit_code", USAGE), error)
    from halfhitch.errors import ConfigurationError, HalfHitchError, TopologyError

    if isinstance(error, ConfigurationError) and not isinstance(error, TopologyError):
        return _complain(error.message, USAGE)
    if isinstance(error, HalfHitchError):
        return _complain(error.message, ERROR)
    embedded = sys.modules.get("halfhitch.embedded.errors")
    if embedded is not None and isinstance(error, embedded.EmbeddedError):
        return _complain(str(error), ERROR)
    return None


def _complain(text: str, code: int, usage_error: Any = None) -> int:
    if text.startswith("Usage:"):  # a group without a command: typer's message is the whole help
        sys.stderr.write(text.rstrip() + "\n")
        return code
    command = getattr(getattr(usage_error, "ctx", None), "command_path", None)
    hint = f" See `{command} --help`." if command and "--help" not in text else ""
    line = " ".join(text.split())
    if hint and not line.endswith((".", "?")):
        line += "."
    sys.stderr.write(f"halfhitch: {line}{hint}\n")
    return code
