"""One transaction of one half partition: everything that it holds and that may happen to it.

A transaction is known by its identity and begins with the first half that is read. (A decision read
before it waits outside, see early.py.) Its states are in states.py.

Nothing outside this file assigns a state, and only pairs in TRANSITIONS are legal: any other pair
raises and changes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from halfhitch.core.halves import NO_OFFSET, Halves
from halfhitch.core.model import (
    GIVEN_UP,
    PARKED,
    ROLLED_BACK,
    HalfOffset,
    Identity,
    OpOffset,
    Resolution,
    ResolutionSource,
    TimestampMs,
)
from halfhitch.core.states import TRANSITIONS, State, Trigger
from halfhitch.errors import InvariantViolation

__all__ = ["TRANSITIONS", "State", "Transaction", "Trigger"]


#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_COMMIT: Final = Resolution.COMMIT
_PARK: Final = Resolution.PARK
_ROLLBACK: Final = Resolution.ROLLBACK


class Transaction(Halves):
    """Its halves, the winning decision, the state. Slotted: there may be a million of them.

    `stored_at_ms` is the first half's log time, `began_at` its half offset: both of the first copy.

    Check-back (checks.py assigns these, and says what they mean): `aged_from_ms`, `due_ms`,
    `wake_ms`, `check_count`, `is_delivered`, `is_waiting`, `is_told`, `answer`.
    """

    __slots__ = (
        "aged_from_ms",
        "answer",
        "began_at",
        "carries_decision",
        "check_count",
        "covered_count",
        "covers_all",
        "decided_ms",
        "decided_op_offset",
        "due_ms",
        "fence",
        "identity",
        "is_delivered",
        "is_told",
        "is_waiting",
        "missing_count",
        "parked",
        "reason",
        "resolution",
        "resumed_count",
        "source",
        "state",
        "stored_at_ms",
        "wake_ms",
    )

    def __init__(self, identity: Identity, state: State, stored_at_ms: TimestampMs) -> None:
        super().__init__()
        self.identity = identity
        self.state = state
        self.stored_at_ms = stored_at_ms
        self.began_at = NO_OFFSET
        self.resolution: Resolution | None = None
        self.covered_count = 0
        self.covers_all = False  # the commit is about every message there is
        self.carries_decision = False  # its halves say how it is decided; no op record is needed
        self.decided_op_offset = OpOffset(-1)
        self.decided_ms = TimestampMs(0)  # broker time of the decision
        self.reason: str | None = None  # of the decision, for people
        self.source: ResolutionSource | None = None  # who has decided
        # By the step under way it goes to the parked topic instead; or (late.py) it was added when
        # its transaction had been given up, and follows it there.
        self.parked = False
        self.missing_count = 0  # halves that were appended anew and not read back yet
        self.resumed_count = 0
        self.fence = -1
        self.check_count = 0
        self.is_delivered = True
        self.is_waiting = False
        self.is_told = False
        self.aged_from_ms = 0
        self.due_ms = -1
        self.wake_ms = -1
        self.answer: tuple[str, str, str | None] | None = None

    def move(self, trigger: Trigger) -> None:
        """Take the transition; raises InvariantViolation for a pair that cannot happen."""
        state = TRANSITIONS.get((self.state, trigger))
        if state is None:
            raise InvariantViolation(
                f"transaction {self.identity} cannot take {trigger.name} in state {self.state.name}"
            )
        self.state = state

    def decide(
        self,
        resolution: Resolution,
        covered_count: int,
        op_offset: OpOffset,
        stored_at_ms: TimestampMs,
        reason: str | None = None,
        source: ResolutionSource | None = None,
    ) -> None:
        """Note the winning decision; the state is moved by the caller."""
        self.resolution = resolution
        self.covered_count = covered_count
        self.decided_op_offset = op_offset
        self.decided_ms = stored_at_ms
        self.reason = reason
        self.source = source

    def extend(self, covered_count: int, *, covers_all: bool) -> bool:
        """An equal commit covers more, perhaps; gives whether this one covers more now."""
        before = self.covered_count
        self.covered_count = max(before, covered_count)
        self.covers_all |= covers_all
        self.cover_what_follows()
        return self.covered_count > before

    def cover_what_follows(self) -> None:
        """A commit of all covers the messages that are here behind, up to the first gap."""
        if self.covers_all and self.further is not None:
            while self.covered_count in self.further:
                self.covered_count += 1

    def lift(self) -> None:
        """All halves were appended anew; the new copies are still to be read."""
        self.missing_count = self.message_count
        self.first, self.further, self.copies = NO_OFFSET, None, None
        self.size_bytes = 0

    @property
    def is_whole(self) -> bool:
        """Whether the decision can be carried out with the halves that are here."""
        if self.resolution is not _COMMIT:
            return self.missing_count == 0
        if self.covered_count == 1:
            return self.first >= 0
        # Counted before it is looked through: of ten thousand messages each arrival asks.
        return (
            self.message_count >= self.covered_count
            and sum(1 for _ in self.covered()) == self.covered_count
        )

    @property
    def ending(self) -> int:
        """How it ends, in the words of a done mark."""
        if self.resolution is _PARK:
            return GIVEN_UP
        if self.parked and self.resolution is not None:
            return PARKED
        return ROLLED_BACK if self.resolution is _ROLLBACK else self.covered_count

    def covered(self) -> Iterator[HalfOffset]:
        """Half offsets that the decision covers, by index."""
        if self.first >= 0:
            yield self.first
        if self.further is not None:
            for index in sorted(self.further):
                if index < self.covered_count:
                    yield self.further[index]

    def uncovered(self) -> list[HalfOffset]:
        """Half offsets that the winning commit does not cover (it covers index 0 at least)."""
        if self.further is None:
            return []
        return [o for i, o in sorted(self.further.items()) if i >= self.covered_count]


@dataclass(slots=True)
class CopyOrder:
    """Append all halves of a transaction anew. `number` > its check count: a check follows."""

    transaction: Transaction
    number: int

    @property
    def is_check(self) -> bool:
        """Whether it is asked about once this is in the log; else it is only renewed."""
        return self.number > self.transaction.check_count
