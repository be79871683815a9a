"""The two low watermarks of a half partition, and what holds each of them.

half  = the lowest half offset that still needs something.
op    = the lowest op offset that replay must read again:
        - the decision of every unfinished transaction,
        - the done mark of every half at or above the half watermark: without it a replay would take
          that half for a new transaction and forward it a second time,
        - everything within the memory of the finished.

All are kept in the order in which the logs were read, so the lowest is at the left end, and what no
longer holds is dropped from there: the cost is constant for each record.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from halfhitch.core.model import HalfOffset, OpOffset
from halfhitch.core.transaction import State, Transaction

#: States that will need nothing more once the step under way is committed.
_SETTLED: Final = frozenset({State.WRITING, State.FINISHED, State.FORGOTTEN})
_ENDED: Final = frozenset({State.FINISHED, State.FORGOTTEN})


class Watermarks:
    """Positions are those of the next record to be read."""

    def __init__(self, half_position: int, op_position: int) -> None:
        self.half_position = half_position
        self.op_position = op_position
        self._confirmed_half = half_position
        self._open: dict[HalfOffset, Transaction] = {}
        self._half_order: deque[HalfOffset] = deque()
        self._decided: deque[Transaction] = deque()
        self._done: deque[tuple[OpOffset, int]] = deque()  # (op offset, highest half offset named)

    def half_read(self, half_offset: HalfOffset, transaction: Transaction) -> None:
        """A half record was read; `transaction` needs it."""
        self.half_position = half_offset + 1
        self._half_order.append(half_offset)
        self._open[half_offset] = transaction

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
        """Its decision (or the repeated one) must be read again until it is finished."""
        self._decided.append(transaction)

    def done_read(self, op_offset: OpOffset, half_offsets: Sequence[HalfOffset]) -> None:
        """A done mark was read."""
        self.op_position = op_offset + 1
        highest = max(half_offsets, default=-1)
        if self._done and self._done[-1][0] == op_offset:
            highest = max(highest, self._done.pop()[1])
        self._done.append((op_offset, highest))

    def confirmed(self, half_watermark: int) -> None:
        """A step with this half watermark is committed."""
        self._confirmed_half = half_watermark

    def after_step(self, memory_op_offset: OpOffset | None) -> tuple[int, int]:
        """Both watermarks as they hold once all that is WRITING is committed."""
        half = self._half_watermark()
        return half, self._op_watermark(half, memory_op_offset)

    def _half_watermark(self) -> int:
        order, needed = self._half_order, self._open
        while order and order[0] not in needed:
            order.popleft()
        for half_offset in order:
            transaction = needed.get(half_offset)
            if transaction is not None and transaction.state not in _SETTLED:
                return half_offset
        return self.half_position

    def _op_watermark(self, half: int, memory_op_offset: OpOffset | None) -> int:
        memory = self.op_position if memory_op_offset is None else memory_op_offset
        lowest = min(self.op_position, memory)
        while self._decided and self._decided[0].state in _ENDED:
            self._decided.popleft()
        for transaction in self._decided:
            if transaction.state not in _SETTLED:
                lowest = min(lowest, transaction.decided_op_offset)
                break
        # Dropped only by the confirmed watermark: a step that is aborted may be followed by a
        # smaller one, whose half watermark is lower than the one asked for now.
        while self._done and self._done[0][1] < self._confirmed_half and self._done[0][0] < memory:
            self._done.popleft()
        for op_offset, highest in self._done:
            if highest >= half or op_offset >= lowest:
                lowest = min(lowest, op_offset)
                break
        return lowest
