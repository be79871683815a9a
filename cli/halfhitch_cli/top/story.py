"""One transaction as a text: why it is where it is, what happened, and, if asked for, its messages.

Invariant: without `values` nothing is asked for that holds a key, a value or a header.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from halfhitch.errors import RequestError
from halfhitch.wire.plain import shown
from halfhitch_cli import explain
from halfhitch_cli.answers import settings_of
from halfhitch_cli.client import Refusal, path_of
from halfhitch_cli.commands import parked, trace
from halfhitch_cli.output import Table
from halfhitch_cli.top.looking import WAIT_S, Door
from halfhitch_cli.top.pages import BAD, DIM


def told(door: Door, group: str, transaction_id: str, *, values: bool) -> Text:
    """Raises HalfHitchError when the door does not answer."""
    lines = _why(door, group, transaction_id)
    lines += _story(door, group, transaction_id, values=values)
    if values:
        lines += _parked_messages(door, group, transaction_id)
    return Text("\n").join(lines)


def _plain(text: str, style: str = "") -> Text:
    return Text(shown(text), style)


def _why(door: Door, group: str, transaction_id: str) -> list[Text]:
    """Of one that is undecided or parked, as `tx explain` says it."""
    wanted = {"group": group, "id": transaction_id, "limit": 1}
    pending = door.client.find("/v1/transactions", wanted, wait_s=WAIT_S)["transactions"]
    if pending:
        try:
            settings = settings_of(door.client.get("/v1/config", wait_s=WAIT_S)[1])
        except Refusal:  # settings are for admins
            settings = {}
        return [_plain(line) for line in explain.undecided(pending[0], settings)] + [Text()]
    given_up = door.client.find("/v1/parked", wanted, wait_s=WAIT_S)["transactions"]
    if given_up:
        return [_plain(line) for line in explain.parked(given_up[0])] + [Text()]
    return []


def _story(door: Door, group: str, transaction_id: str, *, values: bool) -> list[Text]:
    query = {"id": transaction_id, "group": group, "look": "values" if values else None}
    try:
        answer = door.client.find("/v1/stories", query, wait_s=WAIT_S)
    except Refusal as error:
        return [_plain(error.reason, BAD)]
    if not answer["stories"]:
        return [_plain(f"Nothing more is known of {transaction_id}. {trace.how_far(answer)}", DIM)]
    lines: list[Text] = []
    for one in answer["stories"]:
        lines += [_plain(line) for line in trace.lines_of(one)]
        lines += [Text(), *_rows(trace.timeline(one))]
        if values:
            lines += [Text(), *_landed(one)]
    return lines


def _landed(one: Mapping[str, Any]) -> list[Text]:
    lines = []
    for event in one["events"]:
        landed = event["landed"] or ()
        lines += [_plain(trace.landing(message, values=True)) for message in landed]
        if event["landed_trouble"] is not None:
            lines.append(_plain(f"Not all of them: {event['landed_trouble']}.", BAD))
    return lines


def _parked_messages(door: Door, group: str, transaction_id: str) -> list[Text]:
    try:
        answer = door.client.get(path_of("parked", group, transaction_id), wait_s=WAIT_S)[1]
    except RequestError:
        return []
    return [Text(), *_rows(parked.message_table(answer["messages"]))]


def _rows(table: Table) -> list[Text]:
    """A table's lines, its columns as wide as they need to be."""
    cells = [
        [str(name) for name in table.columns],
        *([shown(c) for c in row] for row in table.rows),
    ]
    widths = [max(len(row[place]) for row in cells) for place in range(len(table.columns))]
    return [_columns(row, widths, "" if number else DIM) for number, row in enumerate(cells)]


def _columns(row: Sequence[str], widths: Sequence[int], style: str) -> Text:
    parts = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
    return Text("  ".join(parts).rstrip(), style)
