"""Early decisions: those read before any half of their transaction, in the order of the op log.

They are lawful for a moment (two logs, no order between them) and a stranger's garbage after a
while. They are kept as they were read and judged only when the first half comes: then they are
applied in their order, as if they had been read after it. So what a transaction becomes depends on
what the two logs hold, never on which of them was read faster.

For the same reason an early decision does not simply run out: whether it still counts is decided by
the log times of both records (`is_meant_for`), which a replay finds unchanged. It is forgotten only
when no half for which it could count can come any more.
"""

from collections import deque
from collections.abc import Collection
from typing import Final

from halfhitch.core.model import (
    ROLLED_BACK,
    DecisionRead,
    HalfOffset,
    Identity,
    OpOffset,
    Resolution,
    TimestampMs,
)

#: A decision that names no half of a transaction counts for it only if the transaction's first half
#: is stored at most this long after it.
EARLY_MS: Final = 60_000
#: It is kept until the half log has been read this far past it; the surplus is for the clocks of
#: two brokers, which need not agree.
KEPT_MS: Final = 2 * EARLY_MS
#: With this many the owner stops reading the op log until the half log has caught up: whoever
#: floods the op topic slows himself down, and nobody's decision is dropped for it.
EARLY_MAX: Final = 100_000
#: The queue is cleared of those that wait no more when they are this many and the majority.
_STALE_MAX: Final = 1_000


def is_meant_for(decision: DecisionRead, began_at: HalfOffset, began_ms: TimestampMs) -> bool:
    """Whether a transaction that began there and then can be what the decision speaks of.

    Who names a half has seen it acknowledged, whatever the clocks of two brokers say. Only one that
    names none, or older ones (the id was used before), is judged by the time.
    """
    return decision.half_hint >= began_at or began_ms <= decision.stored_at_ms + EARLY_MS


class EarlyDecisions:
    """`count` is exact; the queue may hold some that wait no more."""

    def __init__(self) -> None:
        self._by_identity: dict[Identity, dict[OpOffset, DecisionRead]] = {}
        self._queue: deque[DecisionRead] = deque()  # as read; EARLY_MAX bounds those that wait
        self.count = 0

    def add(self, decision: DecisionRead) -> None:
        """A decision for which there is no half yet."""
        waiting = self._by_identity.setdefault(decision.identity, {})
        if decision.op_offset not in waiting:  # twice in one record: the first one says it all
            waiting[decision.op_offset] = decision
            self._queue.append(decision)
            self.count += 1

    def take(self, identity: Identity) -> Collection[DecisionRead]:
        """All of this transaction, in the order of the op log; they are early no more."""
        taken = self._by_identity.pop(identity, None)
        if taken is None:
            return ()
        self.count -= len(taken)
        if len(self._queue) > 2 * self.count + _STALE_MAX:
            self._queue = deque(decision for decision in self._queue if self._waits(decision))
        return taken.values()

    def losers(self, identity: Identity, ending: int) -> list[OpOffset]:
        """The transaction ended so, without its halves being seen here: which of these have lost?

        Those before the winner were not meant for it; with no winner among them it lies below where
        this replay began. (What is on record already is taken back when that record is read.)
        """
        # That it was to be given up loses against nothing: see ledger.py.
        early = [d for d in self.take(identity) if d.resolution is not Resolution.PARK]
        won = Resolution.ROLLBACK if ending == ROLLED_BACK else Resolution.COMMIT
        agrees = [decision.resolution is won for decision in early]
        first = agrees.index(True) if True in agrees else 0
        judged = list(zip(early, agrees, strict=True))[first:]
        return [decision.op_offset for decision, agreed in judged if not agreed]

    def has(self, identity: Identity) -> bool:
        """Safe to ask from another thread."""
        return identity in self._by_identity

    def lost(self, identity: Identity, losing_op_offset: OpOffset) -> None:
        """It is on record that this one lost: the winner was read, and finished, before us."""
        waiting = self._by_identity.get(identity)
        if waiting is not None and losing_op_offset in waiting:
            self._drop(waiting[losing_op_offset])

    def expire(self, half_read_until_ms: int) -> int:
        """All halves stored before this time were read; gives how many decisions are forgotten."""
        expired = 0
        while (decision := self._first()) is not None:
            if decision.stored_at_ms + KEPT_MS > half_read_until_ms:
                break
            self._drop(decision)
            expired += 1
        return expired

    @property
    def first_op_offset(self) -> OpOffset | None:
        """Of the oldest that waits: a replay must find it."""
        decision = self._first()
        return None if decision is None else decision.op_offset

    @property
    def is_full(self) -> bool:
        """Whether no more should be read for now."""
        return self.count >= EARLY_MAX

    def _first(self) -> DecisionRead | None:
        while self._queue:
            if self._waits(self._queue[0]):
                return self._queue[0]
            self._queue.popleft()
        return None

    def _waits(self, decision: DecisionRead) -> bool:
        waiting = self._by_identity.get(decision.identity)
        return waiting is not None and waiting.get(decision.op_offset) is decision

    def _drop(self, decision: DecisionRead) -> None:
        waiting = self._by_identity[decision.identity]
        del waiting[decision.op_offset]
        if not waiting:
            del self._by_identity[decision.identity]
        self.count -= 1
