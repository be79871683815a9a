"""How transactions are decided: the first decision wins, and what later ones change."""

from typing import Final

from halfhitch.core.accounts import Accounts
from halfhitch.core.early import is_meant_for
from halfhitch.core.model import (
    DecisionRead,
    HalfRead,
    OpOffset,
    Resolution,
    ResolutionSource,
    TimestampMs,
)
from halfhitch.core.states import State, Trigger
from halfhitch.core.transaction import Transaction

#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_AWAITING: Final = State.AWAITING
_COMMIT: Final = Resolution.COMMIT
_DECIDED: Final = Trigger.DECIDED
_DECIDED_WHOLE: Final = Trigger.DECIDED_WHOLE
_EXTENDED: Final = Trigger.EXTENDED
_PARK: Final = Resolution.PARK
#: Decided, and not carried out yet.
_EXTENSIBLE: Final = (State.AWAITING, State.READY, State.ASIDE)


class Decisions(Accounts):
    """Part of the ledger: decisions meet transactions."""

    def _born_decided(
        self, transaction: Transaction, event: HalfRead, resolution: Resolution
    ) -> None:
        """The half says so: it was put back so, or appended anew while a target was away."""
        self.checks.decided(transaction)
        transaction.carries_decision = True
        how = OpOffset(self._marks.op_position), event.stored_at_ms, None
        self._decide(transaction, resolution, event.born_count, how)

    def _apply(self, transaction: Transaction, event: DecisionRead) -> None:
        if event.resolution is _PARK and event.op_offset <= transaction.fence:
            return  # said of a life before this one
        if transaction.resolution is not None:
            if event.resolution is _PARK:
                return  # a policy gave it up when it was decided already; nobody lost
            if transaction.resolution is _PARK:
                self._notes.add(event)
            elif transaction.resolution is not event.resolution:
                self._conflicts.add(event.identity, event.op_offset)
            elif event.resolution is _COMMIT and transaction.state in _EXTENSIBLE:
                self._extend(transaction, event)
            return
        if not is_meant_for(event, transaction.began_at, transaction.stored_at_ms):
            self.unknown_decision_count += 1
            return
        answer = event.resolution if event.source is ResolutionSource.CHECK else None
        self.checks.decided(transaction, answer)
        covered_count = event.covered_count
        if event.is_about_all and event.resolution is _COMMIT:
            covered_count = max(covered_count, *(i + 1 for i, _ in transaction.messages()), 0)
            transaction.covers_all = True
        how = event.op_offset, event.stored_at_ms, event.reason
        self._decide(transaction, event.resolution, covered_count, how)

    def _extend(self, transaction: Transaction, event: DecisionRead) -> None:
        """Among equal commits the one that covers most counts, until the done mark fixes it."""
        extended = transaction.extend(event.covered_count, covers_all=event.is_about_all)
        if extended and transaction.state is not _AWAITING and not transaction.is_whole:
            transaction.move(_EXTENDED)
            self.checks.awaits(transaction)

    def _decide(
        self,
        transaction: Transaction,
        resolution: Resolution,
        covered_count: int,
        how: tuple[OpOffset, TimestampMs, str | None],
    ) -> None:
        transaction.decide(resolution, covered_count, *how)
        self._decided_count += 1
        self._marks.decided(transaction)
        if transaction.is_whole:
            transaction.move(_DECIDED_WHOLE)
            self._ready.append(transaction)
        else:
            transaction.move(_DECIDED)
            self.checks.awaits(transaction)
