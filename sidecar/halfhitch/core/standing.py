"""What the ledger knows of a transaction when somebody asks, and what follows from it.

Every door, the service and the operators ask here how it was decided and whether that is done.
"""

from enum import Enum
from typing import Final

from halfhitch.core.model import GIVEN_UP, PARKED, ROLLED_BACK, Resolution


class Standing(Enum):
    """See the module's text."""

    __hash__ = object.__hash__  # Enum's own is Python code, on the path of every record

    UNKNOWN = "unknown"  # never seen, or ended beyond the horizon
    EARLY = "early"  # a decision, no half yet
    PENDING = "pending"
    COMMITTING = "committing"  # decided, not yet carried out
    ROLLING_BACK = "rolling_back"
    COMMITTED = "committed"  # carried out
    ROLLED_BACK = "rolled_back"
    PARKED = "parked"  # committed, undeliverable
    GIVING_UP = "giving_up"  # decided to be given up, not yet carried out
    GIVEN_UP = "given_up"  # parked undecided

    @property
    def resolution(self) -> Resolution | None:
        """Which decision stands; None while none is known."""
        return _RESOLUTIONS.get(self)

    @property
    def ending(self) -> int | None:
        """What its done mark says; None while it is not carried out.

        Of a commit: 1, however many messages it covers.
        """
        return _ENDINGS.get(self)

    @property
    def is_carried_out(self) -> bool:
        """Whether nothing is left to do for it."""
        return self in _ENDINGS

    @property
    def is_parked(self) -> bool:
        """Whether its messages lie on the parked topic, decided or not."""
        return self is _PARKED or self is _GIVEN_UP

    @staticmethod
    def of_ending(ending: int) -> "Standing":
        """Of a transaction with this done mark."""
        return _OF_ENDING.get(ending, _COMMITTED)

    @staticmethod
    def of_resolution(resolution: Resolution) -> "Standing":
        """Of a transaction with this decision, which is not carried out yet."""
        return _OF_RESOLUTION[resolution]


_COMMITTED: Final = Standing.COMMITTED
_PARKED: Final = Standing.PARKED
_GIVEN_UP: Final = Standing.GIVEN_UP
_OF_RESOLUTION: Final = {
    Resolution.COMMIT: Standing.COMMITTING,
    Resolution.ROLLBACK: Standing.ROLLING_BACK,
    Resolution.PARK: Standing.GIVING_UP,
}
_OF_ENDING: Final = {
    ROLLED_BACK: Standing.ROLLED_BACK,
    PARKED: Standing.PARKED,
    GIVEN_UP: Standing.GIVEN_UP,
}
_ENDINGS: Final = {standing: ending for ending, standing in _OF_ENDING.items()} | {_COMMITTED: 1}
_RESOLUTIONS: Final = {standing: resolution for resolution, standing in _OF_RESOLUTION.items()} | {
    Standing.COMMITTED: Resolution.COMMIT,
    Standing.ROLLED_BACK: Resolution.ROLLBACK,
    Standing.PARKED: Resolution.COMMIT,  # committed, but it cannot be delivered
    Standing.GIVEN_UP: Resolution.PARK,
}
