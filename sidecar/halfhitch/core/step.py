"""A step: what ONE Kafka transaction of the owner must do, put together from whole transactions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from halfhitch.core.model import (
    COPIED,
    ConflictKind,
    ConflictMark,
    DoneMark,
    HalfOffset,
    LateNote,
    Resolution,
)
from halfhitch.core.transaction import CopyOrder, Transaction

#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_COMMIT: Final = Resolution.COMMIT
_PARK: Final = Resolution.PARK


@dataclass(slots=True)
class Step:
    """What ONE Kafka transaction must do. `forwards`: in order, the halves of each transaction.

    Those of a transaction that is given up go to the parked topic. `copied` are the done marks of
    `copies`, `notes` go beside what is parked already.
    """

    forwards: list[list[HalfOffset]]
    done: list[DoneMark]
    conflicts: list[ConflictMark]
    half_watermark: int
    op_watermark: int
    transactions: list[Transaction]
    copies: list[CopyOrder] = field(default_factory=list)
    copied: list[DoneMark] = field(default_factory=list)
    notes: list[LateNote] = field(default_factory=list)

    @property
    def all_done(self) -> list[DoneMark]:
        """Every done mark that this step writes."""
        return self.done + self.copied

    def park(self, index: int) -> None:
        """The transaction at this index cannot be delivered: its halves go to the parked topic."""
        transaction = self.transactions[index]
        transaction.parked = True
        mark = self.done[index]
        ending = transaction.ending
        self.done[index] = DoneMark(mark.identity, ending, mark.half_offsets, mark.digests)


def assemble(
    transactions: list[Transaction],
    copies: list[CopyOrder],
    contrary: Sequence[ConflictMark],
    notes: list[LateNote],
    watermarks: tuple[int, int],
) -> Step:
    """Each transaction has one done mark, and in the same step goes on record what it drops.

    A transaction without a resolution is nothing but a mark (a late copy, or a repeated answer), or
    a late message of one that was given up: that is parked.
    """
    forwards: list[list[HalfOffset]] = []
    done: list[DoneMark] = []
    conflicts: list[ConflictMark] = []
    for transaction in transactions:
        identity, ending = transaction.identity, transaction.ending
        half_offsets = transaction.half_offsets()
        done.append(DoneMark(identity, ending, half_offsets, transaction.digests))
        resolution = transaction.resolution
        if resolution is _PARK or transaction.parked:
            forwards.append([half_offset for _, half_offset in transaction.messages()])
        elif resolution is _COMMIT:
            first = transaction.first
            is_single = transaction.further is None and first >= 0
            forwards.append([first] if is_single else list(transaction.covered()))
        if ending > 0 and transaction.further and (uncovered := transaction.uncovered()):
            op_offset = transaction.decided_op_offset
            conflicts.append(ConflictMark(identity, ConflictKind.UNCOVERED, op_offset, uncovered))
    conflicts.extend(contrary)
    copied = [
        DoneMark(o.transaction.identity, COPIED, o.transaction.half_offsets()) for o in copies
    ]
    return Step(forwards, done, conflicts, *watermarks, transactions, copies, copied, notes)
