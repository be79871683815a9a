"""What comes late: copies of halves, and further decisions, of transactions that are finished.

There is nothing to forward any more, but each of them needs a done mark:
- a copy, else a later replay that begins above the older mark takes it for a new transaction. Until
  its own mark is written the older one must be found again, so it holds the op watermark;
- a decision, equal or contrary, so that whoever waits on another instance sees a mark after his own
  decision and learns how it ended, and nobody has to remember who waits. One mark answers all who
  ask before it is read.

Such a mark travels through steps as a transaction without a resolution.
"""

from collections.abc import Sequence

from halfhitch.core.model import HalfOffset, Identity, OpOffset, TimestampMs
from halfhitch.core.ready import Ready
from halfhitch.core.transaction import State, Transaction, Trigger
from halfhitch.core.watermarks import Watermarks


class LateMarks:
    """Makes them, and puts them into the ledger's queue of what is ready."""

    def __init__(self, ready: Ready, watermarks: Watermarks) -> None:
        self._ready = ready
        self._watermarks = watermarks
        # Bounded by the memory of the finished: only what is remembered can be repeated.
        self._repeats: dict[Identity, Transaction] = {}

    def copy(
        self,
        identity: Identity,
        ending: int,
        index: int,
        half_offset: HalfOffset,
        memory_op_offset: OpOffset | None,
        digests: Sequence[int] = (),
    ) -> Transaction:
        """A half that is only to be marked. `memory_op_offset`: where the memory begins.

        `digests`: of the finished one, by index.
        """
        # The winner's op offset is not known any more; it is named only if the half is uncovered.
        mark = self._mark(identity, ending, OpOffset(self._watermarks.op_position), digests)
        mark.take(index, half_offset, 0)
        self._watermarks.late(mark, memory_op_offset)
        return mark

    def repeat(
        self, identity: Identity, ending: int, op_offset: OpOffset, digests: Sequence[int] = ()
    ) -> None:
        """A further decision lies here: the mark is written once more."""
        if identity not in self._repeats:
            mark = self._mark(identity, ending, op_offset, digests)
            self._watermarks.decided(mark)
            self._repeats[identity] = mark

    def done_read(self, identity: Identity) -> None:
        """A mark of this transaction was read: it answers a repeated decision too."""
        mark = self._repeats.pop(identity, None)
        if mark is not None:
            mark.move(Trigger.DONE_READ)

    def _mark(
        self, identity: Identity, ending: int, op_offset: OpOffset, digests: Sequence[int]
    ) -> Transaction:
        mark = Transaction(identity, State.READY, TimestampMs(0))
        for index, digest in enumerate(digests):
            mark.learn(index, digest)
        mark.covered_count = ending
        mark.decided_op_offset = op_offset
        self._ready.append(mark)
        return mark
