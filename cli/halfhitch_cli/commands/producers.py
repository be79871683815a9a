"""halfhitch producers: who is connected, for which group, and how many checks are under way."""

from http import HTTPStatus
from typing import Any

import typer

from halfhitch.config import Purpose
from halfhitch.errors import RequestError
from halfhitch_cli.client import AdminClient, Refusal
from halfhitch_cli.lazy import PlainCommand
from halfhitch_cli.looking import Look, Watch, looked
from halfhitch_cli.options import Given, settings_command
from halfhitch_cli.output import Output, OutputForm, Table
from halfhitch_cli.selection import Group

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_STYLES = {"nobody": "red", "open": "red", "probing": "yellow"}


def producers(
    given: Given,
    output: Output = OutputForm.TABLE,
    group: Group = None,
    watch: Watch = False,
) -> int:
    """List producer groups: who is connected here or elsewhere, and what they are asked.

    A group without anybody cannot be asked: its undecided transactions wait (halfhitch tx list).
    `open` is a breaker: the group answered nothing for so long that it is asked more rarely.
    """
    door = AdminClient.of(given.load(Purpose.CLIENT))
    return looked(lambda: _look(door, group, output), output, watch=watch)


def _look(door: AdminClient, group: str | None, output: OutputForm) -> Look:
    try:
        _, answer = door.get("/v1/producers")
    except Refusal as error:
        # The data door has none either, and says which door has.
        if error.status != HTTPStatus.NOT_FOUND or "data door" in error.reason:
            raise
        raise RequestError(
            f"The sidecar on {door.address} is of an older release, which has no list of "
            "producers: upgrade it, or see who waits for one with `halfhitch tx list`."
        ) from None
    found = [row for row in answer["groups"] if group in (None, row["producer_group"])]
    hints = []
    if not found and output.is_for_people:
        hints.append(
            "No producer that answers checks is connected, and none was asked lately."
            if group is None
            else f"No producer of group {group} is connected, and it was not asked lately."
        )
    return Look({"groups": found}, [table(found)], hints=hints)


def table(rows: list[dict[str, Any]]) -> Table:
    """Producer groups, as a list shows them."""
    numbers = ("connected", "under way", "waiting", "undecided")
    return Table(
        columns=("Group", *numbers, "breaker", "who", "elsewhere"),
        right=frozenset(numbers),
        styles=_STYLES,
        whole=frozenset(("Group",)),
        rows=[
            [
                row["producer_group"],
                str(row["link_count"]) if row["link_count"] or row["elsewhere"] else "nobody",
                str(row["outstanding_count"]),
                str(row["waiting_count"]),
                str(row["undecided_count"]),
                "" if row["breaker"] == "closed" else row["breaker"],
                ", ".join(row["links"]),
                ", ".join(row["elsewhere"]),
            ]
            for row in rows
        ],
    )


app.command(cls=PlainCommand)(settings_command(producers, only=("admin", "client", "auth")))
