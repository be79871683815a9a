"""Where the command line begins, and what an error looks like.

Owns `main`. Invariants: nothing is imported here that the list of commands can do
without, typer included (`halfhitch --help` must answer at once); an error a person can act on is
one line on stderr that begins with "halfhitch:" and no traceback; exit codes are 0 ok, 1 error,
2 usage, 3 unhealthy; 4 is `verify`'s: nothing wrong was found, and too little was looked at.
"""

import sys
from collections.abc import Sequence
from typing import Any

from halfhitch_cli.table import COMMANDS, root_help

OK, ERROR, USAGE, UNHEALTHY, NOT_JUDGED = 0, 1, 2, 3, 4
#: By Ctrl-C, or by a question that was answered with no.
STOPPED = 130


#: These need more than the sidecar: an install that names it alone would not be the last one.
_WANTED = {"dev": "embedded", "demo": "demo", "top": "top"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--help"], ["-h"]):
        # Importing typer takes longer than everything else that this needs.
        sys.stdout.write(root_help(COMMANDS))
        return OK
    if given == ["--version"]:
        from halfhitch_cli.speed import version_text

        sys.stdout.write(version_text() + "\n")
        return OK
    if given[:1] == ["healthcheck"]:
        from halfhitch_cli.probing import quick

        answered = quick(given[1:])
        if answered is not None:
            return answered
    try:
        from halfhitch_cli import root

        result: Any = root.app(args=given, prog_name="halfhitch", standalone_mode=False)
    except Exception as error:
        code = _explain(error, given)
        if code is None:
            raise
        return code
    return result if isinstance(result, int) else OK


def _explain(error: Exception, given: Sequence[str]) -> int | None:
    """Print an expected error; None for a bug, whose traceback is wanted."""
    if isinstance(error, ImportError):  # typer itself may be what is missing
        return _explain_missing(error, given)
    import typer

    if isinstance(error, typer.Abort):
        return _complain(str(error) or "stopped.", STOPPED)
    # typer offers no public name for the base of its usage errors; this is what they have.
    if callable(getattr(error, "format_message", None)):
        text = error.format_message() + _behind_dashes(error)  # type: ignore[attr-defined]
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


def _behind_dashes(error: Any) -> str:
    """What to do with an id or a topic that was taken for an option; "" if there can be none."""
    context: Any = getattr(error, "ctx", None)
    option = str(getattr(error, "option_name", ""))
    if context is None or not option or option.startswith("--"):
        return ""
    if not any(one.param_type_name == "argument" for one in context.command.params):
        return ""
    way = f"`{context.command_path} -- {option}...`"
    return f". If {option} begins a name, write -- before it: {way}."


def _explain_missing(error: ImportError, given: Sequence[str]) -> int | None:
    from halfhitch.extras import MissingExtra, missing

    if not isinstance(error, MissingExtra):
        names = [row.name for row in COMMANDS]
        name = given[0] if given and given[0] in names else ""
        told = missing(f"`{f'halfhitch {name}'.strip()}`", error, wanted=_WANTED.get(name))
        return None if told is None else _complain(told.message, USAGE)
    return _complain(error.message, USAGE)


def _complain(text: str, code: int, usage_error: Any = None) -> int:
    if text.startswith("Usage:"):  # a group without a command: typer's message is the whole help
        sys.stderr.write(text.rstrip() + "\n")
        return code
    command = getattr(getattr(usage_error, "ctx", None), "command_path", None)
    hint = f" See `{command} --help`." if command and "--help" not in text else ""
    from halfhitch.wire.plain import shown

    line = shown(" ".join(text.split()))
    if hint and not line.endswith((".", "?")):
        line += "."
    sys.stderr.write(f"halfhitch: {line}{hint}\n")
    return code
