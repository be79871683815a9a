"""Doing something to many transactions: shown first, confirmed, carried out, and accounted for.

Invariants: nothing is done before somebody has agreed to the number (or said --yes); every
transaction that was selected appears in the result, done or not; one failure stops no other, but
when nobody answers any more the rest is left alone.
"""

import getpass
import socket
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

import typer

from halfhitch.errors import BackendError, HalfHitchError
from halfhitch.wire.plain import is_plain, shown
from halfhitch_cli.app import ERROR, OK
from halfhitch_cli.client import AdminClient, Refusal, path_of
from halfhitch_cli.output import OutputForm, Table, emit, say

_SHOWN_MAX = 10
_REASON_CHARS_MAX = 200
_PROGRESS_S = 5.0

Reason = Annotated[
    str,
    typer.Option(
        "--reason",
        metavar="TEXT",
        help="The reason; it is kept for those who look later.",
        show_default=False,
    ),
]
OptionalReason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why.", show_default=False)
]
Operator = Annotated[
    str | None,
    typer.Option(
        "--operator", metavar="TEXT", help="Who decides. [default: user@host]", show_default=False
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What is to be done to each of them."""

    kind: str  # transactions or parked
    name: str  # the last part of the path
    verb: str  # Commit
    done: str  # committed
    reason: str
    operator: str | None
    parallel: int = 8
    asks: bool = True  # for confirmation
    needs_reason: bool = True


def carry_out(
    client: AdminClient,
    rows: Sequence[dict[str, Any]],
    action: Action,
    *,
    dry_run: bool,
    yes: bool,
    output: OutputForm,
) -> int:
    """Show, ask, do, account. The exit code."""
    check_texts(action.reason, action.operator or "x", needs_reason=action.needs_reason)
    if not rows:
        say("Nothing matches: nothing to do.")
        _account(output, action, [], [], dry_run=dry_run)
        return OK
    if dry_run:
        _account(output, action, list(rows), [], dry_run=True)
        return OK
    if action.asks and not yes:
        _confirm(action, rows)
    order = {"reason": action.reason, "operator": action.operator or operator_here()}

    def do(row: dict[str, Any]) -> None:
        path = path_of(action.kind, row["producer_group"], row["transaction_id"], action.name)
        client.post(path, order)

    done, failed = _each(rows, do, action.parallel)
    _account(output, action, done, failed, dry_run=False)
    return ERROR if failed else OK


def check_texts(reason: str, operator: str, *, needs_reason: bool) -> None:
    """Raises BadParameter unless people can read both in one line."""
    for flag, text in (("--reason", reason), ("--operator", operator)):
        is_good = is_plain(text) and len(text) <= _REASON_CHARS_MAX
        if not is_good or (not text.strip() and (needs_reason or flag == "--operator")):
            raise typer.BadParameter(
                f"{flag} takes 1 to {_REASON_CHARS_MAX} printable characters in one line."
            )


def operator_here() -> str:
    """Who is at this terminal, when it is not said."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in many containers
        user = "somebody"
    return f"{user}@{socket.gethostname()}"[:100]


def _confirm(action: Action, rows: Sequence[dict[str, Any]]) -> None:
    groups = sorted({row["producer_group"] for row in rows})
    count = f"{len(rows)} transaction" + ("s" if len(rows) != 1 else "")
    whose = f"group {groups[0]}" if len(groups) == 1 else f"{len(groups)} groups"
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            f"This would {action.verb.lower()} {count} of {whose}, and nobody can be asked here: "
            "look with --dry-run, then add --yes."
        )
    for row in rows[:_SHOWN_MAX]:
        note = f"  ({row['reason']})" if row.get("reason") else ""
        say(f"  {row['producer_group']}  {row['transaction_id']}{note}")
    if len(rows) > _SHOWN_MAX:
        say(f"  and {len(rows) - _SHOWN_MAX} more")
    confirm(f"{action.verb} {count} of {shown(whose)}?")


def confirm(question: str) -> None:
    """Raises Abort, with what to say, unless the answer is yes."""
    if not typer.confirm(question, err=True):
        raise typer.Abort("Nothing was changed.")


def _each(
    rows: Sequence[dict[str, Any]], do: Callable[[dict[str, Any]], None], parallel: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    done: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    chunk = parallel * 4
    told_s = time.monotonic()
    with ThreadPoolExecutor(parallel) as pool:
        for begin in range(0, len(rows), chunk):
            some = rows[begin : begin + chunk]
            errors = list(pool.map(lambda row: _error_of(do, row), some))
            for row, error in zip(some, errors, strict=True):
                if error is None:
                    done.append(row)
                else:
                    failed.append({**row, "failure": _sentence(error)})
            rest = rows[begin + chunk :]
            if rest and all(is_outage(error) for error in errors):
                failed += [{**row, "failure": "not tried: nobody answers"} for row in rest]
                break
            if rest and time.monotonic() - told_s > _PROGRESS_S:
                say(f"{begin + chunk} of {len(rows)}")
                told_s = time.monotonic()
    return done, failed


def is_outage(error: HalfHitchError | None) -> bool:
    """Whether the next transaction will fare no better."""
    return isinstance(error, BackendError) or (
        isinstance(error, Refusal) and error.status == HTTPStatus.SERVICE_UNAVAILABLE
    )


def _error_of(do: Callable[[dict[str, Any]], None], row: dict[str, Any]) -> HalfHitchError | None:
    try:
        do(row)
    except HalfHitchError as error:
        return error
    return None


def _sentence(error: HalfHitchError) -> str:
    return error.reason if isinstance(error, Refusal) else error.message


def _account(
    output: OutputForm,
    action: Action,
    done: Sequence[dict[str, Any]],
    failed: Sequence[dict[str, Any]],
    *,
    dry_run: bool,
) -> None:
    data = {
        "action": action.name,
        "dry_run": dry_run,
        "done_count": 0 if dry_run else len(done),
        "failed_count": len(failed),
        "selected" if dry_run else "done": [_named(row) for row in done],
        "failed": [{**_named(row), "reason": row["failure"]} for row in failed],
    }
    result = f"would be {action.done}" if dry_run else action.done
    rows = [[row["transaction_id"], row["producer_group"], result] for row in done]
    rows += [[row["transaction_id"], row["producer_group"], row["failure"]] for row in failed]
    emit(output, data, [Table(columns=("Transaction", "group", "result"), rows=rows)])
    if failed:
        say(f"{len(done)} {action.done}, {len(failed)} not.")


def _named(row: dict[str, Any]) -> dict[str, Any]:
    return {"transaction_id": row["transaction_id"], "producer_group": row["producer_group"]}
