"""halfhitch tx: what is undecided, why, and deciding it by hand."""

import sys
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import typer

from halfhitch.config import Purpose
from halfhitch.errors import RequestError
from halfhitch_cli import bulk, explain
from halfhitch_cli import selection as chosen
from halfhitch_cli.answers import settings_of
from halfhitch_cli.app import OK
from halfhitch_cli.bulk import Action, DryRun, Operator, OptionalReason, Reason, Yes
from halfhitch_cli.client import AdminClient
from halfhitch_cli.commands import trace
from halfhitch_cli.lazy import branch
from halfhitch_cli.looking import Look, Watch, look_on, looked
from halfhitch_cli.options import Given, settings_command
from halfhitch_cli.output import Output, OutputForm, Table, emit, printable, say
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


class State(StrEnum):
    """Which ones `list` shows."""

    UNDECIDED = "undecided"
    ENDED = "ended"


_KIND = "transactions"
_NAMES = frozenset(("Transaction", "group"))
_NUMBERS = frozenset(("messages", "age", "checks", "next check"))


def list_(
    given: Given,
    output: Output = OutputForm.TABLE,
    group: Group = None,
    topic: Topic = None,
    older_than: OlderThan = None,
    min_checks: MinChecks = None,
    with_id: WithId = None,
    limit: Limit = 100,
    state: Annotated[
        State, typer.Option("--state", help="Those that are undecided, or that have ended.")
    ] = State.UNDECIDED,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Of those that have ended: in the last 30m, 2h, 3d. [default: 1h]",
            show_default=False,
        ),
    ] = None,
    watch: Watch = False,
) -> int:
    """List undecided transactions, oldest first; or those that have ended, newest first."""
    client = AdminClient.of(given.load(Purpose.CLIENT))
    filters = Filters(
        group=group, topic=topic, older_than=older_than, min_checks=min_checks,
        transaction_id=with_id,
    )  # fmt: skip
    if state is State.ENDED:
        if older_than is not None or min_checks is not None or with_id is not None:
            raise typer.BadParameter(
                "Of those that have ended, --group, --topic and --since choose; one of them tells "
                "halfhitch tx trace ID."
            )
        if watch:
            raise typer.BadParameter(
                "--watch goes with those that are undecided: halfhitch tail TOPIC shows what ends."
            )
        return trace.ended(client, output, filters, since or "1h", limit)
    if since is not None:
        raise typer.BadParameter("--since goes with --state ended.")
    return looked(lambda: _look(client, filters, limit, output), output, watch=watch)


def _look(client: AdminClient, filters: Filters, limit: int, output: OutputForm) -> Look:
    answer = client.find(f"/v1/{_KIND}", filters.query(limit))
    hints = []
    if not answer["total_count"] and output.is_for_people:
        none = filters.none("is undecided") if not answer["missing_partitions"] else "None is seen."
        hints.append(
            f"{none} What was given up: halfhitch parked list. What has"
            " ended: halfhitch tx list --state ended. Whether anything was lost or doubled:"
            " halfhitch verify."
        )
    return Look(
        answer,
        [table(answer["transactions"])],
        heading=f"{answer['total_count']} undecided",
        hints=hints + _rest(answer),
    )


def watch(
    given: Given,
    output: Output = OutputForm.TABLE,
    group: Group = None,
    topic: Topic = None,
    older_than: OlderThan = None,
    min_checks: MinChecks = None,
    limit: Limit = 20,
    every_s: Annotated[
        float,
        typer.Option(
            "--every-s", min=0.1, max=3_600, metavar="S", help="Seconds between two looks."
        ),
    ] = 2.0,
    count: Annotated[
        int | None,
        typer.Option("--count", min=1, metavar="N", help="Stop after N looks.", show_default=False),
    ] = None,
) -> int:
    """Look again and again, until Ctrl-C."""
    client = AdminClient.of(given.load(Purpose.CLIENT))
    filters = Filters(group=group, topic=topic, older_than=older_than, min_checks=min_checks)
    return look_on(
        lambda: _look(client, filters, limit, output), output, every_s=every_s, count=count
    )


def show(
    given: Given, transaction_id: OneId, output: Output = OutputForm.TABLE, group: Group = None
) -> int:
    """Show one transaction, undecided or parked."""
    client = AdminClient.of(given.load(Purpose.CLIENT))
    where, found = _find(client, transaction_id, group)
    emit(output, {"where": where, "transaction": found}, [_card(where, found)])
    return OK


def explain_(
    given: Given, transaction_id: OneId, output: Output = OutputForm.TABLE, group: Group = None
) -> int:
    """Say why it is where it is, and what happens next."""
    client = AdminClient.of(given.load(Purpose.CLIENT))
    where, found = _find(client, transaction_id, group)
    if where == "parked":
        lines = explain.parked(found)
    else:
        _, config = client.get("/v1/config")
        settings = settings_of(config)
        lines = explain.undecided(found, settings)
    if output.is_for_people:
        sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))
    else:
        emit(output, {"where": where, "transaction": found, "explanation": lines}, [])
    return OK


def commit(
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
    """Commit: the messages are forwarded. The first decision stands, whoever makes it."""
    action = Action(
        kind=_KIND, name="commit", verb="Commit", done="committed", reason=reason,
        operator=operator,
    )  # fmt: skip
    filters = Filters(group=group, topic=topic, older_than=older_than, min_checks=min_checks)
    return _do(given, ids, filters, action, all_matching, output, dry_run=dry_run, yes=yes)


def rollback(
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
    """Roll back: the messages are dropped. The first decision stands, whoever makes it."""
    action = Action(
        kind=_KIND, name="rollback", verb="Roll back", done="rolled back", reason=reason,
        operator=operator,
    )  # fmt: skip
    filters = Filters(group=group, topic=topic, older_than=older_than, min_checks=min_checks)
    return _do(given, ids, filters, action, all_matching, output, dry_run=dry_run, yes=yes)


def check(
    given: Given,
    ids: Ids = None,
    output: Output = OutputForm.TABLE,
    all_matching: AllMatching = False,
    group: Group = None,
    topic: Topic = None,
    older_than: OlderThan = None,
    min_checks: MinChecks = None,
    reason: OptionalReason = "",
    operator: Operator = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> int:
    """Ask the producers now instead of when the next check is due."""
    action = Action(
        kind=_KIND, name="check", verb="Check", done="to be checked", reason=reason,
        operator=operator, asks=all_matching, needs_reason=False,
    )  # fmt: skip
    filters = Filters(group=group, topic=topic, older_than=older_than, min_checks=min_checks)
    return _do(
        given,
        ids,
        filters,
        action,
        all_matching,
        output,
        dry_run=dry_run,
        yes=yes,
        told=_tell_unasked,
    )


def _tell_unasked(rows: Sequence[dict[str, Any]]) -> None:
    """Of whom nobody can be asked now."""
    found = [row for row in rows if row.get("next_check_s", 0) is None]
    for group in sorted({row["producer_group"] for row in found}):
        of_group = [row for row in found if row["producer_group"] == group]
        count = (
            "1 transaction waits" if len(of_group) == 1 else f"{len(of_group)} transactions wait"
        )
        say(
            f"No producer of group {printable(group)} is connected to any instance, so {count}:"
            " nobody can be asked, and no check is counted. Start a process of the group that has a"
            " check (or a listener), or decide by hand: halfhitch tx explain"
            f" {explain.name_of(of_group[0])}"
        )


def _do(
    given: Given,
    ids: list[str] | None,
    filters: Filters,
    action: Action,
    all_matching: bool,  # noqa: FBT001 - as the flags are given
    output: OutputForm,
    *,
    dry_run: bool,
    yes: bool,
    told: Callable[[Sequence[dict[str, Any]]], None] | None = None,
) -> int:
    client = AdminClient.of(given.load(Purpose.CLIENT))
    selected = chosen.select(
        client, _KIND, ids, filters, all_matching=all_matching,
        wants_filter=action.name in ("commit", "rollback"),
    )  # fmt: skip
    code = bulk.carry_out(client, selected, action, dry_run=dry_run, yes=yes, output=output)
    if told is not None:
        query = filters.query(chosen.LIMIT_MAX)
        told(client.find(f"/v1/{_KIND}", query)["transactions"] if all_matching else selected.rows)
    return code


def _find(
    client: AdminClient, transaction_id: str, group: str | None
) -> tuple[str, dict[str, Any]]:
    """Among the undecided, then among the parked."""
    found, missing_partitions = chosen.lookup(client, _KIND, transaction_id, group)
    if found is not None:
        return "undecided", found
    found, _ = chosen.lookup(client, "parked", transaction_id, group)
    if found is not None:
        return "parked", found
    raise RequestError(chosen.not_found(client, _KIND, transaction_id, group, missing_partitions))


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """The undecided, as a list shows them."""
    return Table(
        columns=(
            *("Transaction", "group", "topics", "messages", "age", "checks", "next check"),
            *("last answer", "asked"),
        ),
        right=_NUMBERS,
        whole=_NAMES,
        drop=("messages", "topics", "asked", "last answer", "checks"),
        styles={"no producer": "red"},
        rows=[
            [
                row["transaction_id"],
                row["producer_group"],
                ",".join(row["topics"]),
                str(row["message_count"]),
                age(row["age_s"]),
                f"{row['check_count']}/{row['check_max']}",
                _next_check(row),
                row["last_answer"] or "",
                row["asked"] or "",
            ]
            for row in rows
        ],
    )


def _next_check(row: dict[str, Any]) -> str:
    if row["next_check_s"] is None:
        return "no producer"
    return age(row["next_check_s"]) if row["next_check_s"] >= 1 else "now"


def _rest(answer: dict[str, Any]) -> list[str]:
    """What is not shown, in sentences."""
    shown = len(answer["transactions"])
    said = []
    if answer["total_count"] > shown:
        said.append(
            f"{shown} of {answer['total_count']} shown; more with --limit, fewer with filters."
        )
    if answer["missing_partitions"]:
        said.append(f"Not everything is shown: {chosen.unseen(answer['missing_partitions'])}")
    return said


def _card(where: str, found: dict[str, Any]) -> Table:
    shown = dict(found)
    if not found["check_count"]:
        shown.pop("delivered", None)
    rows = [["state", where]]
    rows += [[_label(name), _cell(name, value)] for name, value in shown.items()]
    return Table(columns=("Transaction", ""), rows=rows)


def _label(name: str) -> str:
    return name.removesuffix("_ms").removesuffix("_s").replace("_", " ")


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "no producer is connected" if name == "next_check_s" else ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if name.endswith("_ms"):
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value / 1000)) if value else ""
    return age(value) if name.endswith("_s") else str(value)


app = branch(
    "Transactions that nobody has decided yet.",
    {
        name: partial(settings_command, function, only=_SETTINGS)
        for name, function in (
            ("list", list_),
            ("show", show),
            ("trace", trace.trace),
            ("explain", explain_),
            ("commit", commit),
            ("rollback", rollback),
            ("check", check),
            ("watch", watch),
        )
    },
)
