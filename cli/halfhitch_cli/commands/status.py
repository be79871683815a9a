"""halfhitch status: what a running sidecar says of itself."""

from typing import Any

import typer

from halfhitch.config import Purpose
from halfhitch_cli.app import OK, UNHEALTHY
from halfhitch_cli.client import AdminClient
from halfhitch_cli.lazy import PlainCommand
from halfhitch_cli.looking import Look, Watch, looked
from halfhitch_cli.options import Given, settings_command
from halfhitch_cli.output import Output, OutputForm, Table
from halfhitch_cli.selection import age

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_STYLES = {
    "ready": "green",
    "not ready": "red",
    "working": "green",
    "taking_over": "yellow",
    "failed": "red",
    "degraded": "yellow",
}


def status(given: Given, output: Output = OutputForm.TABLE, watch: Watch = False) -> int:
    """Ask a running sidecar: is it ready, and how are its half partitions?

    Exit code 3 when it is not ready.
    """
    door = AdminClient.of(given.load(Purpose.CLIENT))

    def look() -> Look:
        _, answer = door.get("/v1/status")
        return Look(answer, _tables(answer), code=OK if answer["ready"] else UNHEALTHY)

    return looked(look, output, watch=watch)


def _tables(answer: dict[str, Any]) -> list[Table]:
    rows = [["state", "ready" if answer["ready"] else "not ready"]]
    rows += [["reason", str(reason)] for reason in answer["reasons"]]
    rows += [["degraded", str(reason)] for reason in answer.get("degraded", [])]
    facts = answer["info"].items()
    rows += [[name, _cell(value)] for name, value in facts if value not in (None, "")]
    tables = [Table(columns=("Sidecar", ""), rows=rows, styles=_STYLES)]
    partitions = answer["partitions"]
    if partitions:
        tables.append(partition_table(partitions))
    return tables


def partition_table(partitions: list[dict[str, Any]]) -> Table:
    """The half partitions of an instance."""
    numbers = (
        *("pending", "oldest", "due", "checking", "decided", "waiting", "early", "behind"),
        *("half to replay", "op to replay"),
    )
    return Table(
        columns=("Half partition", "phase", *numbers, "trouble"),
        right=frozenset(("Half partition", *numbers)),
        styles=_STYLES,
        rows=[
            [
                str(p["partition"]),
                p["phase"],
                str(p["pending_count"]),
                age(p.get("oldest_age_s", 0.0)) if p["pending_count"] else "",
                str(p.get("due_count", 0)),
                str(p.get("checking_count", 0)),
                str(p["decided_count"]),
                str(p.get("waiting_count", 0) or ""),
                str(p["early_count"]),
                age(p["lag_s"]) if p.get("lag_s", 0.0) >= 1 else "",
                str(p["half_position"] - p["half_watermark"]),
                str(p["op_position"] - p["op_watermark"]),
                p["trouble"] or "",
            ]
            for p in partitions
        ],
    )


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}"
    return "" if value is None else str(value)


app.command(cls=PlainCommand)(settings_command(status, only=("admin", "client", "auth")))
