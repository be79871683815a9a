"""What the table tells of a record by hand, to the end of the producer's block.

A row that was seen and could not be made sure of (`durable`) is neither a record nor none, and not
the same as a table that could not be read: it may stand for ever, whatever it says.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from halfhitch.barrier.deadline import Watch
from halfhitch.barrier.table import COMMITTED, FENCED
from halfhitch.client.recorded import Local


class Told(Enum):
    """How the record is, by the table."""

    #: Committed, by the very database transaction that was asked about.
    OWN = "own"
    #: Committed, in whichever attempt.
    COMMITTED = "committed"
    FENCED = "fenced"
    NOTHING = "nothing"
    #: A row was seen, and may be lost yet.
    UNSURE = "unsure"
    UNREAD = "unread"


_OUTCOMES: Final[Mapping[str | None, Told]] = {
    COMMITTED: Told.COMMITTED,
    FENCED: Told.FENCED,
    None: Told.NOTHING,
}


class Look:
    """At the table, for one record; it may be given up, and what it had seen by then counts."""

    def __init__(self, number: str | None = None) -> None:
        """`number`: of the transaction that has recorded, by a database that tells."""
        self.number = number
        self._why = ""
        self._watch: Watch | None = None

    def begin(self, watch: Watch) -> None:
        """Again."""
        self._why, self._watch = "", watch

    def told(self, outcome: str | None, is_own: Callable[[str], bool]) -> Told:
        """By what was read, and is sure."""
        told = _OUTCOMES.get(outcome, Told.UNSURE)
        if told is Told.COMMITTED and self.number is not None and is_own(self.number):
            return Told.OWN
        return told

    def failed(self, error: Exception) -> Told:
        """It has come to nothing."""
        has_seen = self._watch is not None and self._watch.has_seen
        self._why = " ".join(str(error).split())[:300]
        return Told.UNSURE if has_seen else Told.UNREAD

    def reason(self) -> str:
        """What went wrong, the last time."""
        return self._why


def refused(told: Told, *, is_known: bool) -> Local:
    """Of a `record` that has raised; `is_known`: because a record of its id is committed."""
    if is_known or told in (Told.OWN, Told.COMMITTED):
        return Local.COMMITTED_BEFORE
    return Local.REFUSED
