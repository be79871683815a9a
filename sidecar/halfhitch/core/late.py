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
        # The first messages of indexes that the end did not know; bounded in the same way.
        self._firsts: dict[Identity, dict[int, Transaction]] = {}

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

    def first(self, mark: Transaction, index: int, digest: int) -> None:
        """The end did not know this message: its mark says what the index stands for from now on.

        As far as is known. A replay may still read the mark of one that was before it.
        """
        mark.learn(index, digest)
        self._firsts.setdefault(mark.identity, {})[index] = mark

    def firsts(self, identity: Identity) -> dict[int, Transaction]:
        """Those whose own mark was not read yet, by index."""
        return self._firsts.get(identity, {})

    def repeat(
        self, identity: Identity, ending: int, op_offset: OpOffset, digests: Sequence[int] = ()
    ) -> None:
        """A further decision lies here: the mark is written once more."""
        if identity not in self._repeats:
            mark = self._mark(identity, ending, op_offset, digests)
            self._watermarks.decided(mark)
            self._repeats[identity] = mark

    @property
    def is_idle(self) -> bool:
        """Nothing has come late that a mark could answer."""
        return not (self._repeats or self._parked or self._firsts)

    def done_read(self, event: DoneRead) -> list[HalfOffset]:
        """A mark of this transaction was read: it answers a repeated decision too.

        Gives the halves that are no first messages of their index, as this mark tells.
        """
        others: list[HalfOffset] = []
        mark = self._repeats.pop(event.identity, None)
        if mark is not None:
            mark.move(Trigger.DONE_READ)
        late = self._parked.pop(event.identity, None)
        if late is not None:
            left = {i: half for i, half in late.items() if not _is_settled(half, i, event)}
            others += _others({i: half for i, half in late.items() if i not in left}, event)
            if left:
                self._parked[event.identity] = left
        firsts = self._firsts.pop(event.identity, None)
        if firsts is not None:
            others += _others(firsts, event)
            left = {i: half for i, half in firsts.items() if not _is_known(half, i, event)}
            if left:
                self._firsts[event.identity] = left
        return others

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


def _known(event: DoneRead, index: int) -> int:
    return event.digests[index] if index < len(event.digests) else 0


def _is_known(first: Transaction, index: int, event: DoneRead) -> bool:
    return first.state is State.FINISHED or bool(_known(event, index))


def _others(halves: dict[int, Transaction], event: DoneRead) -> list[HalfOffset]:
    """Those that say something else than this mark, which was written before theirs."""
    others: list[HalfOffset] = []
    for index, half in halves.items():
        known = _known(event, index)
        if half.state is not State.FINISHED and known and not half.says(index, known):
            half.learn(index, known)
            others += half.half_offsets()
    return others
