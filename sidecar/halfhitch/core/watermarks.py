"""The two low watermarks of a half partition, and what holds each of them.

half  = the lowest half offset that still needs something.
op    = the lowest op offset that replay must read again:
        - the decision of every transaction whose done mark was not read back: until then a contrary
          decision may lie between the two, and whoever replays must see that it lost,
        - the done mark of every half at or above the half watermark: without it a replay would take
          that half for a new transaction and forward it a second time,
        - where the memory began when a late copy was recognised by it: until the copy has a mark of
          its own, only the older mark says that it is one,
        - early decisions, and everything within the memory of the finished.

All are kept in the order in which the logs were read, so the lowest is at the left end, and what no
longer holds is dropped from there: the cost is constant for each record. Behind one that holds for
long the dropped ones are cleared away when they are the majority.
"""

from bisect import insort
from collections import deque
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

from halfhitch.core.model import HalfOffset, OpOffset
from halfhitch.core.transaction import State, Transaction

#: States in which the halves need nothing more once the step under way is committed.
_SETTLED: Final = frozenset(
    {State.COPYING, State.RENEWING, State.WRITING, State.WRITTEN, State.FINISHED}
)
_WRITING: Final = State.WRITING
#: States in which they need nothing more whatever comes.
_ENDED: Final = frozenset({State.WRITTEN, State.FINISHED})
#: A queue is cleared when it has grown by this many, and to twice what it held after the last time.
_GROWN: Final = 10_000

_decided_op_offset = attrgetter("decided_op_offset")


class Watermarks:
    """Positions are those of the next record to be read."""

    def __init__(self, half_position: int, op_position: int) -> None:
        self.half_position = half_position
        self.op_position = op_position
        self._confirmed_half = half_position
        self._open: dict[HalfOffset, Transaction] = {}
        # Bounded by what is unfinished: see the module's text, `_clear_halves`, `_clear_decided`.
        self._half_order: deque[HalfOffset] = deque()
        self._half_order_max = _GROWN
        self._decided: deque[Transaction] = deque()
        self._decided_max = _GROWN
        # Bounded by the step's size: a late copy is marked in one of the next steps.
        self._late: deque[tuple[OpOffset, Transaction]] = deque()
        # (op offset, highest half offset named), one for each op record with done marks at or above
        # the half watermark or within the memory of the finished.
        self._done: deque[tuple[OpOffset, int]] = deque()

    def half_read(self, half_offset: HalfOffset, transaction: Transaction) -> None:
        """A half record was read; `transaction` needs it."""
        self.half_position = half_offset + 1
        self._half_order.append(half_offset)
        self._open[half_offset] = transaction
        if len(self._half_order) > self._half_order_max:
            self._clear_halves()

    def half_passed(self, half_offset: int) -> None:
        """A half record was read that nobody needs."""
        self.half_position = half_offset + 1

    def holder(self, half_offset: HalfOffset) -> Transaction | None:
        """The transaction that still needs this half."""
        return self._open.get(half_offset)

    def hand_over(self, half_offset: HalfOffset, transaction: Transaction) -> None:
        """A half that is needed by one transaction is from now on needed by another."""
        self._open[half_offset] = transaction

    def half_done(self, half_offset: HalfOffset) -> None:
        """Nothing more is needed for this half."""
        self._open.pop(half_offset, None)

    def op_read(self, op_offset: OpOffset) -> None:
        """An op record was read."""
        self.op_position = op_offset + 1

    def decided(self, transaction: Transaction) -> None:
        """Its decision must be read again until its done mark has been read."""
        decided = self._decided
        if decided and decided[-1].decided_op_offset > transaction.decided_op_offset:
            insort(decided, transaction, key=_decided_op_offset)  # it was an early one
        else:
            decided.append(transaction)
        if len(decided) > self._decided_max:
            self._clear_decided()

    def late(self, transaction: Transaction, memory_op_offset: OpOffset | None) -> None:
        """A copy of something finished; what told us so lies at or above this op offset."""
        held = self.op_position if memory_op_offset is None else memory_op_offset
        self._late.append((OpOffset(held), transaction))

    def done_read(self, op_offset: OpOffset, half_offsets: Sequence[HalfOffset]) -> None:
        """A done mark was read."""
        self.op_position = op_offset + 1
        highest = half_offsets[0] if len(half_offsets) == 1 else max(half_offsets, default=-1)
        if highest >= self.half_position:
            # Only what was read before can be done. A stranger's mark that names an offset of the
            # far future must not hold the op watermark for ever.
            highest = max((o for o in half_offsets if o < self.half_position), default=-1)
        if self._done and self._done[-1][0] == op_offset:
            highest = max(highest, self._done.pop()[1])
        self._done.append((op_offset, highest))

    def confirmed(self, half_watermark: int) -> None:
        """A step with this half watermark is committed."""
        self._confirmed_half = half_watermark

    def after_step(
        self, memory_op_offset: OpOffset | None, others: Iterable[OpOffset | None]
    ) -> tuple[int, int]:
        """Both watermarks as they hold once all that is WRITING is committed.

        `others` are op offsets that are needed for reasons kept elsewhere.
        """
        half = self._half_watermark()
        memory = self.op_position if memory_op_offset is None else memory_op_offset
        lowest = min([self.op_position, memory, *(o for o in others if o is not None)])
        return half, self._op_watermark(half, memory, lowest)

    def _half_watermark(self) -> int:
        order, needed = self._half_order, self._open
        while order and order[0] not in needed:
            order.popleft()
        for half_offset in order:
            transaction = needed.get(half_offset)
            if transaction is not None:
                state = transaction.state
                if state is not _WRITING and state not in _SETTLED:  # nearly all are the former
                    return half_offset
        return self.half_position

    def _op_watermark(self, half: int, memory: int, lowest: int) -> int:
        decided, late, done = self._decided, self._late, self._done
        while decided and not _needs_decision(decided[0]):
            decided.popleft()
        if decided:
            lowest = min(lowest, decided[0].decided_op_offset)
        while late and late[0][1].state in _ENDED:
            late.popleft()
        for op_offset, transaction in late:
            if transaction.state not in _SETTLED:
                lowest = min(lowest, op_offset)
                break
        # Dropped only by the confirmed watermark: a step that is aborted may be followed by a
        # smaller one, whose half watermark is lower than the one asked for now.
        while done and done[0][1] < self._confirmed_half and done[0][0] < memory:
            done.popleft()
        for op_offset, highest in done:
            if highest >= half or op_offset >= lowest:
                lowest = min(lowest, op_offset)
                break
        return lowest

    def _clear_halves(self) -> None:
        needed = self._open
        self._half_order = deque(o for o in self._half_order if o in needed)
        self._half_order_max = 2 * len(self._half_order) + _GROWN

    def _clear_decided(self) -> None:
        self._decided = deque(t for t in self._decided if _needs_decision(t))
        self._decided_max = 2 * len(self._decided) + _GROWN


def _needs_decision(transaction: Transaction) -> bool:
    """Whether a replay must find its decision in the op log."""
    return transaction.state is not State.FINISHED and not transaction.carries_decision
