"""Early decisions: those whose half has not been read yet, in the order of the op log.

They are lawful for a moment (two logs, no order between them) and a stranger's garbage after a
while. A transaction that gets its half, or ends, simply stops being early: its place in the queue
is passed over when it comes to the front.
"""

from collections import deque
from typing import Final

from halfhitch.core.model import TimestampMs
from halfhitch.core.transaction import State, Transaction

#: An early decision is kept until the half log has been read this far past it.
EARLY_MS: Final = 60_000
#: With this many the owner stops reading the op log until the half log has caught up: whoever
#: floods the op topic slows himself down, and nobody's decision is dropped for it.
EARLY_MAX: Final = 100_000


class EarlyDecisions:
    """`count` is exact; the queue may hold some that are early no more."""

    def __init__(self) -> None:
        self._queue: deque[tuple[TimestampMs, Transaction]] = deque()
        self.count = 0

    def add(self, stored_at_ms: TimestampMs, transaction: Transaction) -> None:
        """A decision for which there is no half yet."""
        self._queue.append((stored_at_ms, transaction))
        self.count += 1

    def expired(self, half_read_until_ms: int) -> Transaction | None:
        """The next one that is past its time; the caller ends it."""
        while self._queue:
            stored_at_ms, transaction = self._queue[0]
            is_early = transaction.state is State.AWAITING and not transaction.has_half
            if is_early and stored_at_ms + EARLY_MS > half_read_until_ms:
                return None
            self._queue.popleft()
            if is_early:
                return transaction
        return None

    @property
    def is_full(self) -> bool:
        """Whether no more should be read for now."""
        return self.count >= EARLY_MAX
