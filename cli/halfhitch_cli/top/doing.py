"""What an operator does from `halfhitch top`: who is meant, and the doing. Nothing of textual.

What was agreed to is a list of names: who comes later is not among them. It is carried out and
accounted for by the command line's own code (bulk.py); the door decides in any case who may.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from halfhitch.errors import RequestError
from halfhitch_cli import bulk, selection
from halfhitch_cli.bulk import Account, Action
from halfhitch_cli.selection import Filters, Selection
from halfhitch_cli.top.looking import Door

Row = Mapping[str, Any]
#: So many are looked up once more before they are shown; of more, the door says it at the end.
_LOOKED_UP_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing that can be done."""

    name: str  # the last part of the path
    kind: str
    verb: str
    done: str
    about: str
    needs_reason: bool = True


_FIRST: Final = "The first decision stands, whoever makes it."
DEEDS: Final[Mapping[str, Deed]] = {
    "commit": Deed(
        "commit", "transactions", "Commit", "committed", f"The messages become visible. {_FIRST}"
    ),
    "rollback": Deed(
        "rollback", "transactions", "Roll back", "rolled back",
        f"The messages are dropped. {_FIRST}",
    ),
    "check": Deed(
        "check", "transactions", "Check now", "to be checked",
        "The producers are asked now instead of when the next check is due.", needs_reason=False,
    ),
    "resume": Deed(
        "resume", "parked", "Resume", "resumed",
        "Put back into the half log, once: a decision on record is carried out, else the producers "
        "are asked anew.",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Meant:
    """Whom a deed would strike; the dry run."""

    selected: Selection
    #: Of those that were chosen, ended or parked or put back meanwhile.
    gone_count: int = 0
    #: That match and belong to groups that the caller may not operate on.
    forbidden_count: int = 0

    @property
    def rows(self) -> list[dict[str, Any]]:
        """These, and no other."""
        return self.selected.rows

    @property
    def beyond_count(self) -> int:
        """That match and could not be reached at once."""
        selected = self.selected
        beyond = selected.matching_count - len(selected.rows) - self.forbidden_count
        return max(0, beyond) + selected.left_out_count


def meant(door: Door, deed: Deed, chosen: Sequence[Row] | Filters) -> Meant:
    """Of those that were chosen, or of all that match. Raises HalfHitchError."""
    gone_count = 0
    if isinstance(chosen, Filters):
        if deed.name in ("commit", "rollback") and not chosen.is_any:
            raise RequestError(
                "Without a filter this would take all groups: filter first ( / ), for instance "
                "group=shop; older=0s means all of them."
            )
        found = selection.select(door.client, deed.kind, None, chosen, all_matching=True)
    else:
        rows = [dict(row) for row in chosen]
        if len(rows) <= _LOOKED_UP_MAX:
            rows = [row for row in rows if _is_there(door, deed, row)]
        gone_count = len(chosen) - len(rows)
        found = Selection(rows, len(rows))
    groups = door.may_operate([row["producer_group"] for row in found.rows])
    allowed = [row for row in found.rows if row["producer_group"] in groups]
    selected = Selection(
        allowed, found.matching_count, found.missing_partitions, found.left_out_count
    )
    return Meant(selected, gone_count, len(found.rows) - len(allowed))


def _is_there(door: Door, deed: Deed, row: Row) -> bool:
    found, missing_partitions = selection.lookup(
        door.client, deed.kind, row["transaction_id"], row["producer_group"]
    )
    return found is not None or bool(missing_partitions)


def carry_out(
    door: Door, deed: Deed, agreed: Meant, reason: str, operator: str | None, account: Account
) -> None:
    """Do it to those that were agreed to; `account` may be stopped from another thread.

    Raises BadParameter for a reason or a name that is none.
    """
    bulk.check_texts(reason, operator or "x", needs_reason=deed.needs_reason)
    action = Action(
        kind=deed.kind, name=deed.name, verb=deed.verb, done=deed.done, reason=reason,
        operator=operator, parallel=32 if deed.kind == "parked" else 8,
        needs_reason=deed.needs_reason,
    )  # fmt: skip
    # All of them are named: who matches later was not agreed to.
    bulk.do_all(door.client, Selection(agreed.rows, len(agreed.rows)), action, account)
