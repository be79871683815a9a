"""A step: what ONE Kafka transaction of the owner must do, put together from whole transactions."""

from collections.abc import Sequence
from dataclasses import dataclass

from halfhitch.core.model import (
    ConflictKind,
    ConflictMark,
    DoneMark,
    HalfOffset,
    Resolution,
)
from halfhitch.core.transaction import Transaction


@dataclass(slots=True)
class Step:
    """What ONE Kafka transaction must do. `forwards`: in order, the halves of each transaction."""

    forwards: list[list[HalfOffset]]
    done: list[DoneMark]
    conflicts: list[ConflictMark]
    half_watermark: int
    op_watermark: int
    transactions: list[Transaction]

    def park(self, place: int) -> None:
        """The transaction at this place cannot be delivered: its halves go to the parked topic."""
        transaction = self.transactions[place]
        transaction.parked = True
        mark = self.done[place]
        self.done[place] = DoneMark(mark.identity, transaction.ending, mark.half_offsets)


def assemble(
    transactions: list[Transaction],
    contrary: Sequence[ConflictMark],
    watermarks: tuple[int, int],
) -> Step:
    """Each transaction has one done mark, and in the same step goes on record what it drops.

    A transaction without a resolution is nothing but a mark: a late copy, or a repeated answer.
    """
    forwards: list[list[HalfOffset]] = []
    done: list[DoneMark] = []
    conflicts: list[ConflictMark] = []
    for transaction in transactions:
        identity, ending = transaction.identity, transaction.ending
        done.append(DoneMark(identity, ending, transaction.half_offsets()))
        if transaction.resolution is Resolution.COMMIT:
            forwards.append(list(transaction.covered()))
        if ending > 0 and (uncovered := transaction.uncovered()):
            op_offset = transaction.decided_op_offset
            conflicts.append(ConflictMark(identity, ConflictKind.UNCOVERED, op_offset, uncovered))
    conflicts.extend(contrary)
    return Step(forwards, done, conflicts, *watermarks, transactions)
