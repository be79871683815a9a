"""halfhitch parked: what was given up, its messages, and putting it back."""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from halfhitch.config import Purpose
from halfhitch.errors import HalfHitchError, RequestError
from halfhitch.wire.plain import shown, shown_json
from halfhitch_cli import bulk, explain
from halfhitch_cli import selection as chosen
from halfhitch_cli.app import ERROR, OK, STOPPED
from halfhitch_cli.bulk import Action, DryRun, Operator, Reason, Yes
from halfhitch_cli.client import SLOW_S, AdminClient, path_of
from halfhitch_cli.lazy import branch
from halfhitch_cli.looking import Look, Watch, looked
from halfhitch_cli.options import Given, settings_command
from halfhitch_cli.output import Output, OutputForm, Table, emit, say
from halfhitch_cli.selection import (
    AllMatching,
    Filters,
    Group,
    Ids,
    Limit,
    MinChecks,
    OlderThan,
    OneId,
    Topic,
    WithId,
    age,
)

_SETTINGS = ("admin", "client", "auth")
_KIND = "parked"
_SHOWN_CHARS_MAX = 200
#: So many in a row without an answer, and an export gives up.
_OUTAGES_MAX = 3


@dataclass(slots=True)
class _Written:
    """What an export has come to."""

    count: int = 0
    failed: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    is_stopped: bool = False


def list_(
    given: Given,
    output: Output = OutputForm.TABLE,
    group: Group = None,
    topic: Topic = None,
    older_than: OlderThan = None,
    min_checks: MinChecks = None,
    with_id: WithId = None,
    limit: Limit = 100,
    watch: Watch = False,
) -> int:
    """List what is parked, oldest first.

    --older-than counts from the parking.
    """
    client = AdminClient.of(given.load(Purpose.CLIENT))
    filters = Filters(
        group=group, topic=topic, older_than=older_than, min_checks=min_checks,
        transaction_id=with_id,
    )  # fmt: skip
    return looked(lambda: _look(client, filters, limit, output), output, watch=watch)


def _look(client: AdminClient, filters: Filters, limit: int, output: OutputForm) -> Look:
    answer = client.find(f"/v1/{_KIND}", filters.query(limit))
    shown_count, total_count = len(answer["transactions"]), answer["total_count"]
    hints = []
    if not total_count and output.is_for_people:
        hints.append(f"{filters.none('is parked')} What nobody has decided yet: halfhitch tx list.")
    if total_count > shown_count:
        hints.append(
            f"{shown_count} of {total_count} shown; more with --limit, fewer with filters."
        )
    if answer["left_out_count"]:
        hints.append(
            f"{answer['left_out_count']} more parked messages were not looked at, there are too "
            "many: resume what is shown, or name one with --group and --id."
        )
    return Look(
        answer, [table(answer["transactions"])], heading=f"{total_count} parked", hints=hints
    )


def show(
    given: Given, transaction_id: OneId, output: Output = OutputForm.TABLE, group: Group = None
) -> int:
    """Show one with its messages, and why it is here."""
    client = AdminClient.of(given.load(Purpose.CLIENT))
    row = chosen.one(client, _KIND, transaction_id, group)
    answer = _content(client, row)
    if not output.is_for_people:
        emit(output, answer, [])
        return OK
    lines = [shown(line) for line in explain.parked(answer["transaction"])]
    sys.stdout.write("\n".join(lines) + "\n\n")
    emit(output, answer, [message_table(answer["messages"])])
    return OK


def resume(
    given: Given,
    reason: Reason,
    ids: Ids = None,
    output: Output = OutputForm.TABLE,
    all_matching: AllMatching = False,
    group: Group = None,
    topic: Topic = None,
    older_than: OlderThan = None,
    min_checks: MinChecks = None,
    operator: Operator = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> int:
    """Put back into the half log, once.

    A decision that is on record is carried out then; else the producers are asked anew.
    """
    client = AdminClient.of(given.load(Purpose.CLIENT))
    filters = Filters(group=group, topic=topic, older_than=older_than, min_checks=min_checks)
    selected = chosen.select(client, _KIND, ids, filters, all_matching=all_matching)
    action = Action(
        kind=_KIND, name="resume", verb="Resume", done="resumed", reason=reason,
        operator=operator, parallel=32,
    )  # fmt: skip
    return bulk.carry_out(client, selected, action, dry_run=dry_run, yes=yes, output=output)


def export(
    given: Given,
    ids: Ids = None,
    all_matching: AllMatching = False,
    group: Group = None,
    topic: Topic = None,
    older_than: OlderThan = None,
    min_checks: MinChecks = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FILE",
            help="A new file that only you can read. [default: stdout]",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Write them with their messages as JSON lines.

    Nothing is changed.
    """
    client = AdminClient.of(given.load(Purpose.CLIENT))
    filters = Filters(group=group, topic=topic, older_than=older_than, min_checks=min_checks)
    selected = chosen.select(client, _KIND, ids, filters, all_matching=all_matching)
    if to is None:
        written = _write(client, selected.rows, sys.stdout)
    else:
        with _new_file(to) as file:
            written = _write(client, selected.rows, file)
            _keep(file, to)
    return _account(written, selected, to)


def _account(written: _Written, selected: chosen.Selection, to: Path | None) -> int:
    """What is in the file, and whether that is all."""
    say(f"{written.count} of {selected.matching_count} transactions written.")
    for row, why in written.failed:
        say(f"  {row['producer_group']}  {row['transaction_id']}: {why}")
    if selected.left_out_count:
        say(
            f"{selected.left_out_count} more parked messages were not looked at, there are too "
            "many: resume what is exported and export again, or name one with --group and --id."
        )
    is_whole = written.count == selected.matching_count and not selected.is_partial
    if not is_whole:
        where = "stdout" if to is None else str(to)
        say(f"The export in {where} is not complete. Delete nothing that it should hold.")
    if written.is_stopped:
        return STOPPED
    return OK if is_whole else ERROR


def _keep(file: TextIO, path: Path) -> None:
    """On the disk, or it is said that it is not."""
    try:
        file.flush()
        os.fsync(file.fileno())
    except OSError as error:
        raise _unwritten(path, error) from error


def _new_file(path: Path) -> TextIO:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise RequestError(
            f"{path} cannot be written ({error.strerror}): choose a file that is not there yet."
        ) from error
    return os.fdopen(descriptor, "w", encoding="utf-8")


def _write(client: AdminClient, rows: Sequence[dict[str, Any]], file: TextIO) -> _Written:
    written = _Written()
    outages = 0
    try:
        for row in rows:
            try:
                answer = _content(client, row)
            except HalfHitchError as error:
                written.failed.append((row, error.message))
                outages = outages + 1 if bulk.is_outage(error) else 0
                if outages > _OUTAGES_MAX:
                    break
                continue
            file.write(shown_json(answer) + "\n")
            written.count += 1
    except KeyboardInterrupt:
        written.is_stopped = True
    except BrokenPipeError:
        raise  # whoever read has gone, and knows
    except OSError as error:
        raise _unwritten(Path(file.name), error) from error
    return written


def _unwritten(path: Path, error: OSError) -> RequestError:
    return RequestError(
        f"{path} could not be written ({error.strerror or error}), and what is in it is not "
        "complete: delete it, and export to where there is room."
    )


def _content(client: AdminClient, row: dict[str, Any]) -> Any:
    path = path_of(_KIND, row["producer_group"], row["transaction_id"])
    return client.get(path, wait_s=SLOW_S)[1]


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """What is parked, as a list shows it."""
    now_ms = time.time_ns() // 1_000_000
    return Table(
        columns=(
            *("Transaction", "group", "topics", "messages", "parked", "reason", "checks"),
            *("decision", "resumed before"),
        ),
        right=frozenset(("messages", "parked", "checks", "resumed before")),
        whole=frozenset(("Transaction", "group", "reason")),
        drop=("resumed before", "messages", "checks", "topics", "decision"),
        rows=[
            [
                row["transaction_id"],
                row["producer_group"],
                ",".join(row["topics"]),
                str(row["message_count"]),
                f"{age(max(0.0, (now_ms - row['parked_ms']) / 1000))} ago",
                row["reason"] or "-",
                str(row["check_count"]),
                _decision(row),
                str(row["resumed_count"] or ""),
            ]
            for row in rows
        ],
    )


def _decision(row: dict[str, Any]) -> str:
    """With who has taken it, which the record says and no reason can."""
    source = row.get("decision_source")
    decision: str = row["decision"] or ""
    return f"{decision} ({source})" if decision and source else decision


def message_table(messages: Sequence[dict[str, Any]]) -> Table:
    """Messages with what they say, cut where they are long."""
    return Table(
        columns=("Topic", "key", "value", "headers"),
        rows=[
            [
                message["topic"],
                _text(message, "key"),
                _text(message, "value"),
                ", ".join(f"{name}={_header(value)}" for name, value in message["headers"]),
            ]
            for message in messages
        ],
    )


def _text(message: dict[str, Any], name: str) -> str:
    encoded = message.get(f"{name}_base64")
    text = f"base64:{encoded}" if encoded is not None else message.get(name)
    return _short("null" if text is None else str(text))


def _header(value: Any) -> str:
    if isinstance(value, dict):
        return _short(f"base64:{value['base64']}")
    return "null" if value is None else _short(str(value))


def _short(text: str) -> str:
    told = shown(text[:_SHOWN_CHARS_MAX])
    return told if len(text) <= _SHOWN_CHARS_MAX else f"{told}… ({len(text)} characters)"


app = branch(
    "Transactions that were given up; their messages are kept.",
    {
        name: partial(settings_command, function, only=_SETTINGS)
        for name, function in (
            ("list", list_),
            ("show", show),
            ("resume", resume),
            ("export", export),
        )
    },
)
