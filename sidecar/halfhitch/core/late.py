"""What comes late: halves, and further decisions, of transactions that are finished.

There is nothing to forward any more, but each of them needs a done mark:
- a half, else a later replay that begins above the older mark takes it for a new transaction. Until
  its own mark is written the older one must be found again, so it holds the op watermark;
- a decision, equal or contrary, so that whoever waits on another instance sees a mark after his own
  decision and learns how it ended, and nobody has to remember who waits. One mark answers all who
  ask before it is read.

Such a mark travels through steps as a transaction without a resolution. One kind does more: a
message that was added, and acknowledged, after its transaction was given up. An instance that does
not own the half partition cannot know that it was. It is parked beside the others, once; its mark
lies in the same Kafka transaction.
"""

from collections.abc import Sequence
from typing import Final

from halfhitch.core.model import DoneRead, HalfOffset, Identity, OpOffset, TimestampMs
from halfhitch.core.ready import Ready
from halfhitch.core.transaction import State, Transaction, Trigger
from halfhitch.core.watermarks import Watermarks

_EVER: Final = 1 << 62


class LateMarks:
    """Makes them, and puts them into the ledger's queue of what is ready."""

    def __init__(self, ready: Ready, watermarks: Watermarks) -> None:
        self._ready = ready
        self._watermarks = watermarks
        # Bounded by the memory of the finished: only what is remembered can be repeated.
        self._repeats: dict[Identity, Transaction] = {}
        # Those that are to be parked, by index; bounded by what is unfinished.
        self._parked: dict[Identity, dict[int, Transaction]] = {}

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

    def park(self, mark: Transaction, index: int, digest: int, resumed_count: int) -> bool:
        """It is no copy: park it as well. False: another message has come late under its index.

        `resumed_count`: how often its transaction had been put back.
        """
        late = self._parked.setdefault(mark.identity, {})
        before = late.get(index)
        if before is not None and before.state is not State.FINISHED:
            return before.says(index, digest)
        mark.parked, mark.resumed_count = True, resumed_count
        mark.learn(index, digest)
        late[index] = mark
        return True

    def repeat(
        self, identity: Identity, ending: int, op_offset: OpOffset, digests: Sequence[int] = ()
    ) -> None:
        """A further decision lies here: the mark is written once more."""
        if identity not in self._repeats:
            mark = self._mark(identity, ending, op_offset, digests)
            self._watermarks.decided(mark)
            self._repeats[identity] = mark

    def done_read(self, event: DoneRead) -> None:
        """A mark of this transaction was read: it answers a repeated decision too."""
        mark = self._repeats.pop(event.identity, None)
        if mark is not None:
            mark.move(Trigger.DONE_READ)
        late = self._parked.pop(event.identity, None)
        if late is not None:
            left = {i: half for i, half in late.items() if not _is_settled(half, i, event)}
            if left:
                self._parked[event.identity] = left

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


def _is_settled(late: Transaction, index: int, event: DoneRead) -> bool:
    """Whether nothing is to be parked for it: a replay reads the marks after the halves."""
    if late.state is State.FINISHED:
        return True
    if event.ending >= 0:
        # Put back, the others have ended. Did it come before that, or to what lived then?
        if min(event.half_offsets, default=_EVER) > min(late.half_offsets()):
            return False
        late.covered_count = event.ending
    elif late.resumed_count or index >= len(event.digests) or not event.digests[index]:
        return False
    late.parked = False  # a copy after all, or dropped with the others: it needs but a mark
    return True
