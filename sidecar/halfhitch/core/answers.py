"""What other threads may ask a ledger: single look-ups, a moment old at worst.

The ledger's own thread changes what is asked here; it does so in an order in which whoever asks in
between finds the state before or the state after.
"""

from collections.abc import Sequence
from typing import Final

from halfhitch.core.conflicts import Conflicts
from halfhitch.core.early import EarlyDecisions
from halfhitch.core.finished import Finished
from halfhitch.core.model import (
    GIVEN_UP,
    PARKED,
    ROLLED_BACK,
    Identity,
    Resolution,
    Standing,
)
from halfhitch.core.transaction import State, Transaction

_ENDED_AS: Final = {
    ROLLED_BACK: Standing.ROLLED_BACK,
    PARKED: Standing.PARKED,
    GIVEN_UP: Standing.GIVEN_UP,
}
_UNDER_WAY: Final = {
    Resolution.COMMIT: Standing.COMMITTING,
    Resolution.ROLLBACK: Standing.ROLLING_BACK,
    Resolution.PARK: Standing.GIVING_UP,
}


class Answers:
    """The collections that are asked."""

    def __init__(self, finished: Finished) -> None:
        self._by_identity: dict[Identity, Transaction] = {}
        self._early = EarlyDecisions()
        self._finished = finished
        self._conflicts = Conflicts()

    def standing(self, identity: Identity) -> Standing:
        """May be asked from another thread: single dictionary look-ups, a moment old at worst."""
        transaction = self._by_identity.get(identity)
        if transaction is None:
            ending = self._finished.ending(identity)
            if ending is not None:
                return _ENDED_AS.get(ending, Standing.COMMITTED)
            return Standing.EARLY if self._early.has(identity) else Standing.UNKNOWN
        if transaction.resolution is None:
            return Standing.PENDING
        if transaction.state in (State.WRITTEN, State.FINISHED):
            return _ENDED_AS.get(transaction.ending, Standing.COMMITTED)
        return _UNDER_WAY[transaction.resolution]

    def covered_count(self, identity: Identity) -> int:
        """How many messages its commit covers; 0 when it is not known to be committed.

        May be asked from another thread, as `standing`.
        """
        transaction = self._by_identity.get(identity)
        if transaction is None:
            return max(0, self._finished.ending(identity) or 0)
        return transaction.covered_count if transaction.resolution is Resolution.COMMIT else 0

    def is_reused(self, half_offsets: Sequence[int]) -> bool:
        """Whether one of these halves says another thing than the first one of its id and index.

        As far as it is remembered; may be asked from another thread.
        """
        return self._conflicts.is_reused(half_offsets)

    def differs(self, identity: Identity, first_index: int, digests: Sequence[int]) -> bool:
        """Whether messages with these digests are others than those that the id stands for.

        May be asked from another thread. What is not known differs from nothing.
        """
        for index, digest in enumerate(digests, first_index):
            known = self._digest(identity, index)
            if known and digest and known != digest:
                return True
        # What a decision that is carried out does not cover cannot come to it any more.
        ending = self._finished.ending(identity)
        return ending is not None and 0 < ending < first_index + len(digests)

    def _digest(self, identity: Identity, index: int) -> int:
        transaction = self._by_identity.get(identity)
        if transaction is None:
            return self._finished.digest(identity, index)
        return transaction.digest_of(index)

    def _digests(self, identity: Identity) -> tuple[int, ...]:
        transaction = self._by_identity.get(identity)
        return self._finished.digests(identity) if transaction is None else transaction.digests
