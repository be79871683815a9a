"""Which transactions a command speaks of: filters as flags, and ids.

Owns the flags that `tx` and `parked` share, how a length of time is written, and the way from ids
to (group, id). Invariants: what is selected is asked of the sidecar, never guessed; an id that two
groups use must be told apart with --group.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Any

import typer

from halfhitch.errors import HalfHitchError, RequestError
from halfhitch_cli import completing
from halfhitch_cli.client import AdminClient, Refusal

#: The largest page the sidecar gives.
LIMIT_MAX = 10_000
#: Of names alone, and of what is parked.
NAMES_MAX, PARKED_MAX = 200_000, 100_000

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)([smhd]))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")

Ids = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ID", show_default=False, help="Transaction ids.", autocompletion=completing.ids
    ),
]
OneId = Annotated[
    str,
    typer.Argument(
        metavar="ID", show_default=False, help="Transaction id.", autocompletion=completing.ids
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="TEXT",
        help="Only those of this producer group.",
        show_default=False,
        autocompletion=completing.groups,
    ),
]
Topic = Annotated[
    str | None,
    typer.Option(
        "--topic",
        metavar="TEXT",
        help="Only those with a message for this topic.",
        show_default=False,
        autocompletion=completing.topics,
    ),
]
OlderThan = Annotated[
    str | None,
    typer.Option(
        "--older-than",
        metavar="TIME",
        help="Only those older than this (30s, 10m, 2h, 3d).",
        show_default=False,
    ),
]
MinChecks = Annotated[
    int | None,
    typer.Option(
        "--min-checks",
        min=0,
        max=10_000,
        metavar="N",
        help="Only those that were checked at least this often.",
        show_default=False,
    ),
]
WithId = Annotated[
    str | None, typer.Option("--id", metavar="TEXT", help="With this id.", show_default=False)
]
Limit = Annotated[
    int,
    typer.Option(
        "--limit", min=1, max=LIMIT_MAX, metavar="N", help="Show at most this many, oldest first."
    ),
]
AllMatching = Annotated[
    bool, typer.Option("--all-matching", help="Take all that the filters select, instead of ids.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters of one command, as they were given."""

    group: str | None = None
    topic: str | None = None
    older_than: str | None = None
    min_checks: int | None = None
    transaction_id: str | None = None

    def query(self, limit: int) -> dict[str, object]:
        """As the sidecar takes them."""
        return {
            "group": self.group,
            "topic": self.topic,
            "id": self.transaction_id,
            "older_than_s": None if self.older_than is None else seconds(self.older_than),
            "min_checks": self.min_checks,
            "limit": limit,
        }

    def none(self, what: str) -> str:
        """A sentence for an empty answer: that nothing `is undecided`, say."""
        is_filtered = self.is_any
        if what == "is undecided" and is_filtered:
            return "No undecided transaction matches the filters."
        return f"Nothing {what}{' and matches the filters' if is_filtered else ''}."

    @property
    def is_any(self) -> bool:
        """Whether one was given."""
        given = (self.group, self.topic, self.older_than, self.min_checks, self.transaction_id)
        return any(value is not None for value in given)


def seconds(text: str, flag: str = "--older-than") -> float:
    """90s, 10m, 1h30m, 2d. Raises BadParameter."""
    if _DURATION.fullmatch(text) is None:
        raise typer.BadParameter(
            f"{flag} takes a number and s, m, h or d, for instance 10m or 1h30m; not {text!r}"
        )
    return sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(text))


def age(age_s: float) -> str:
    """A length of time for people: two units at most."""
    if age_s < 60:
        return f"{int(age_s)}s"
    minutes, rest_s = divmod(int(age_s), 60)
    if minutes < 60:
        return f"{minutes}m{rest_s:02}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes:02}m"
    return f"{hours // 24}d{hours % 24:02}h"


@dataclass(frozen=True, slots=True)
class Selection:
    """Whom a command speaks of, and what is known to be missing."""

    rows: list[dict[str, Any]]
    #: With those that were not given.
    matching_count: int
    missing_partitions: list[int] = field(default_factory=list)
    left_out_count: int = 0
    #: Who matches now; None for ids.
    again: "Callable[[], Selection] | None" = None

    @property
    def is_partial(self) -> bool:
        """There may be more than was counted."""
        return bool(self.missing_partitions or self.left_out_count)


def select(
    client: AdminClient,
    kind: str,
    ids: list[str] | None,
    filters: Filters,
    *,
    all_matching: bool,
    wants_filter: bool = False,
) -> Selection:
    """What ids or filters name; `kind` is "transactions" or "parked".

    Raises RequestError for an id that is not there, BadParameter for a wrong combination.
    """
    if bool(ids) == all_matching:
        raise typer.BadParameter(
            "Name transactions by their ids, or say --all-matching (with filters), but not both."
        )
    if all_matching:
        if wants_filter and not filters.is_any:
            raise typer.BadParameter(
                "--all-matching without a filter would take all groups: name one with --group, or "
                "all of them with --older-than 0s."
            )
        return _matching(client, kind, filters)
    if any((filters.topic, filters.older_than, filters.min_checks)):
        raise typer.BadParameter("Filters besides --group go with --all-matching, not with ids.")
    try:
        rows = [one(client, kind, given, filters.group) for given in dict.fromkeys(ids or [])]
    except RequestError as error:
        if ids is None or len(ids) == 1:
            raise
        raise RequestError(f"{error.message} Nothing was done to the others either.") from error
    return Selection(rows, len(rows))


def _matching(client: AdminClient, kind: str, filters: Filters) -> Selection:
    """All that match, as many as one answer holds."""
    path, limit = ("/v1/parked", PARKED_MAX) if kind == "parked" else ("/v1/names", NAMES_MAX)
    try:
        answer = client.find(path, filters.query(limit))
    except Refusal as error:
        if error.status not in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND):
            raise
        # An older sidecar: pages of what it gives, and without the short form.
        answer = client.find(f"/v1/{kind}", filters.query(LIMIT_MAX))
    rows = answer.get("transactions")
    if rows is None:
        rows = [
            {"producer_group": group, "transaction_id": transaction_id}
            for group, ids in answer["names"].items()
            for transaction_id in ids
        ]
    # An older sidecar names one twice that two half partitions have, and answers for it once.
    once = list({(row["producer_group"], row["transaction_id"]): row for row in rows}.values())
    return Selection(
        once,
        answer["total_count"] - (len(rows) - len(once)),
        answer.get("missing_partitions", []),
        answer.get("left_out_count", 0),
        lambda: _matching(client, kind, filters),
    )


def one(client: AdminClient, kind: str, transaction_id: str, group: str | None) -> dict[str, Any]:
    """The transaction with this id. Raises RequestError when there is none, or more than one.

    Where the sidecar cannot see everything, id and group are taken as they were given: it looks
    further when something is to be done.
    """
    found, missing_partitions = lookup(client, kind, transaction_id, group)
    if found is not None:
        return found
    if kind == "transactions" and lookup(client, "parked", transaction_id, group)[0] is not None:
        raise RequestError(
            f"Transaction {transaction_id} was given up and is parked: put it back first "
            "(halfhitch parked resume), then it can be decided or checked."
        )
    if missing_partitions and group is not None:
        return {"transaction_id": transaction_id, "producer_group": group}
    raise RequestError(not_found(client, kind, transaction_id, group, missing_partitions))


def lookup(
    client: AdminClient, kind: str, transaction_id: str, group: str | None
) -> tuple[dict[str, Any] | None, list[int]]:
    """The transaction, if it is there, and the half partitions that could not be looked at."""
    filters = Filters(group=group, transaction_id=transaction_id)
    answer = client.find(f"/v1/{kind}", filters.query(100))
    rows: list[dict[str, Any]] = answer["transactions"]
    groups = sorted({row["producer_group"] for row in rows})
    if len(groups) > 1:
        raise RequestError(
            f"Several groups have a transaction {transaction_id}: say which with --group "
            f"({', '.join(groups)})."
        )
    return rows[0] if rows else None, answer.get("missing_partitions", [])


def not_found(
    client: AdminClient,
    kind: str,
    transaction_id: str,
    group: str | None,
    missing_partitions: list[int],
) -> str:
    """The sentence for an id that is not there."""
    whose = f" of group {group}" if group else ""
    if kind == "parked":
        return (
            f"No transaction {transaction_id}{whose} is parked: it never was, or it was put back; "
            "`halfhitch parked list` shows what is."
        )
    if missing_partitions:
        return (
            f"No transaction {transaction_id}{whose} is undecided as far as this sidecar sees; "
            f"{unseen(missing_partitions)} With --group it looks further before it decides."
        )
    if (how := _ending(client, transaction_id, group)) is not None:
        return (
            f"No transaction {transaction_id}{whose} is undecided: it is {how} (`halfhitch tx "
            f"trace {transaction_id}` tells more)."
        )
    return (
        f"No transaction {transaction_id}{whose} is undecided: it ended before what is kept "
        "begins, or the id is misspelled; `halfhitch tx list` shows what is undecided, `halfhitch "
        "parked list` what was given up."
    )


def _ending(client: AdminClient, transaction_id: str, group: str | None) -> str | None:
    """How it has ended, where exactly one of this name has and that is still known."""
    try:
        answer = client.find("/v1/stories", {"id": transaction_id, "group": group})
    except HalfHitchError:
        return None
    states = [str(story["state"]) for story in answer["stories"]]
    return states[0].replace("_", " ") if len(states) == 1 and states[0] != "pending" else None


def unseen(missing_partitions: list[int]) -> str:
    """What a list does not show."""
    numbers = ", ".join(map(str, missing_partitions))
    return (
        f"half partitions {numbers} are other instances', or are just being taken over, and Redis "
        "does not say all of them now: try again in some seconds, or ask their instances."
    )
