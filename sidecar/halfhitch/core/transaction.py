"""One transaction of one half partition: everything that it holds and that may happen to it.

A transaction is known by its identity and begins with the first half that is read. (A decision read
before it waits outside, see early.py.) Its states are in states.py.

Nothing outside this file assigns a state, and only pairs in TRANSITIONS are legal: any other pair
raises and changes nothing.
"""

from collections.abc import Iterator
from typing import Final

from halfhitch.core.model import (
    GIVEN_UP,
    PARKED,
    ROLLED_BACK,
    HalfOffset,
    Identity,
    OpOffset,
    Resolution,
    TimestampMs,
)
from halfhitch.core.states import TRANSITIONS, State, Trigger
from halfhitch.errors import InvariantViolation

__all__ = ["TRANSITIONS", "State", "Transaction", "Trigger"]


_NO_OFFSET: Final = HalfOffset(-1)
#: Each of these numbers is in memory once, however many transactions have it.
_SMALL_MAX: Final = 8_192
_SMALL: Final = tuple(range(_SMALL_MAX))


#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_COMMIT: Final = Resolution.COMMIT
_PARK: Final = Resolution.PARK
_ROLLBACK: Final = Resolution.ROLLBACK


class Transaction:
    """Halves by index, the winning decision, the state. Slotted: there may be a million of them.

    `first` is the half offset of index 0 (-1: not read); further indexes and duplicate copies are
    rare and cost a container only where they occur. `stored_at_ms` is the first half's log time,
    `began_at` its half offset: both of the first copy.

    Check-back (checks.py assigns these, and says what they mean): `aged_from_ms`, `due_ms`,
    `wake_ms`, `check_count`, `is_delivered`, `is_waiting`, `is_told`, `answer`.
    """

    __slots__ = (
        "aged_from_ms",
        "answer",
        "began_at",
        "carries_decision",
        "check_count",
        "copies",
        "covered_count",
        "covers_all",
        "decided_ms",
        "decided_op_offset",
        "due_ms",
        "fence",
        "first",
        "further",
        "identity",
        "is_delivered",
        "is_told",
        "is_waiting",
        "missing_count",
        "parked",
        "reason",
        "resolution",
        "resumed_count",
        "size_bytes",
        "state",
        "stored_at_ms",
        "wake_ms",
    )

    def __init__(self, identity: Identity, state: State, stored_at_ms: TimestampMs) -> None:
        self.identity = identity
        self.state = state
        self.stored_at_ms = stored_at_ms
        self.began_at = _NO_OFFSET
        self.first = _NO_OFFSET
        self.further: dict[int, HalfOffset] | None = None
        self.copies: list[HalfOffset] | None = None
        self.resolution: Resolution | None = None
        self.covered_count = 0
        self.covers_all = False  # the commit is about every message there is
        self.carries_decision = False  # its halves say how it is decided; no op record is needed
        self.decided_op_offset = OpOffset(-1)
        self.decided_ms = TimestampMs(0)  # broker time of the decision
        self.reason: str | None = None  # of the decision, for people
        self.size_bytes = 0
        self.parked = False  # by the step under way: it goes to the parked topic instead
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
        self.answer: tuple[str, str] | None = None

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
    ) -> None:
        """Note the winning decision; the state is moved by the caller."""
        self.resolution = resolution
        self.covered_count = covered_count
        self.decided_op_offset = op_offset
        self.decided_ms = stored_at_ms
        self.reason = reason

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

    def take(
        self, index: int, half_offset: HalfOffset, size_bytes: int, *, supersedes: bool = False
    ) -> None:
        """Add a half. A second one of the same index is a copy and collapses to the first.

        Not so one that `supersedes`: it was appended anew, and the older ones are its copies.
        """
        before = self.first if index == 0 else (self.further or {}).get(index, _NO_OFFSET)
        if before >= 0:
            if self.copies is None:
                self.copies = []
            self.copies.append(before if supersedes else half_offset)
            if not supersedes:
                return
        else:
            size_bytes += self.size_bytes
            self.size_bytes = _SMALL[size_bytes] if size_bytes < _SMALL_MAX else size_bytes
        if index == 0:
            self.first = half_offset
        else:
            if self.further is None:
                self.further = {}
            self.further[index] = half_offset

    def drop(self, half_offset: HalfOffset) -> None:
        """This half needs nothing more, while the transaction goes on."""
        if self.first == half_offset:
            self.first = _NO_OFFSET
        elif self.copies is not None and half_offset in self.copies:
            self.copies.remove(half_offset)
        elif self.further is not None:
            self.further = {i: o for i, o in self.further.items() if o != half_offset}

    def lift(self) -> None:
        """All halves were appended anew; the new copies are still to be read."""
        self.missing_count = self.message_count
        self.first, self.further, self.copies = _NO_OFFSET, None, None
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
        if self.parked:
            return PARKED
        return ROLLED_BACK if self.resolution is _ROLLBACK else self.covered_count

    def messages(self) -> list[tuple[int, HalfOffset]]:
        """Index and half offset of every message that was read, by index; no duplicate copies."""
        result = [(0, self.first)] if self.first >= 0 else []
        return result + sorted((self.further or {}).items())

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

    def half_offsets(self) -> list[HalfOffset]:
        """All half offsets, copies included."""
        result = [self.first] if self.first >= 0 else []
        if self.further is not None:
            result.extend(self.further.values())
        if self.copies is not None:
            result.extend(self.copies)
        return result

    def indexed_halves(self) -> Iterator[tuple[int, HalfOffset]]:
        """All half offsets with their index; copies count as index 0, which is always covered."""
        if self.first >= 0:
            yield 0, self.first
        yield from (self.further or {}).items()
        for half_offset in self.copies or ():
            yield 0, half_offset

    @property
    def message_count(self) -> int:
        """Distinct messages read so far."""
        return (self.first >= 0) + len(self.further or ())
