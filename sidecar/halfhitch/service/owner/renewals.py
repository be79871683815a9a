"""Decided transactions whose target is away for long: which of them are appended anew, and when.

What waits holds both watermarks, so a target that is gone for days would make every replay longer.
So after an hour, and then every hour, all that wait are appended to the half log anew, with their
decision in the halves; the older ones are done, and both watermarks pass them.

They are renewed in the order in which they became ready, each time from the first one on. A replay
takes those that carry their decision before those that have it in the op log: with any other order
two messages of one key could change places after a crash. For the same reason nobody is probed or
released while copies have not been read back.

Pure: time is an argument. Bounded by what waits.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from halfhitch.core.model import Resolution
from halfhitch.core.transaction import State, Transaction

_ASIDE: Final = State.ASIDE
_ON_THE_WAY: Final = (State.READY, State.AWAITING)
_COMMIT: Final = Resolution.COMMIT


class Renewals:
    """See the module's text. `renew_s` after the first one was put aside, and then again."""

    def __init__(self, renew_s: float) -> None:
        self._renew_s = renew_s
        self._since_s: float | None = None
        self._left: deque[Transaction] = deque()  # of the round under way; bounded by what waits
        self._out: list[Transaction] = []  # in the step under way
        self._unread: list[Transaction] = []  # their copies are in the log

    def clear(self) -> None:
        """A new takeover begins."""
        self._since_s = None
        self._left.clear()
        self._out, self._unread = [], []

    @property
    def are_unread(self) -> bool:
        """Whether copies that were appended have not been read back yet."""
        if self._unread:
            self._unread = [t for t in self._unread if t.missing_count]
        return bool(self._unread)

    def choose(
        self,
        in_order: Callable[[], Sequence[Transaction]],
        waiting_count: int,
        now_s: float,
        *,
        message_count_max: int,
        bytes_max: int,
    ) -> list[Transaction]:
        """Who is to be in the next step. At least one, however large, when a round is under way."""
        if not waiting_count:
            self.clear()
            return []
        if self._since_s is None:
            self._since_s = now_s
        if not self._left and now_s - self._since_s >= self._renew_s:
            self._since_s = now_s
            self._left.extend(in_order())
        if not self._left or self.are_unread:
            return []
        messages = size_bytes = 0
        left, out = self._left, self._out
        while left and (not out or (messages < message_count_max and size_bytes < bytes_max)):
            if left[0].state in _ON_THE_WAY:
                break  # it is probed: its place is before all that follow
            transaction = left.popleft()
            if _can_be_renewed(transaction):
                out.append(transaction)
                messages += transaction.message_count
                size_bytes += transaction.size_bytes
        return list(out)

    def written(self) -> None:
        """The step is committed."""
        self._unread += self._out
        self._out = []

    def put_off(self) -> None:
        """It is not, and perhaps because of these: the rest of the round waits for the next one.

        None of them may be left out: those behind it would be renewed before it.
        """
        self._left.clear()
        self._out = []

    def aborted(self) -> None:
        """It is not: they are first again."""
        self._left.extendleft(reversed(self._out))
        self._out = []


def _can_be_renewed(transaction: Transaction) -> bool:
    """What is to be parked waits for the parked topic, and stays as it is."""
    is_forwarded = transaction.resolution is _COMMIT and not transaction.parked
    return transaction.state is _ASIDE and is_forwarded
