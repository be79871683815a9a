"""One transaction of one half partition: its states, and everything that may happen to it.

Theory of operation. A transaction is known by its identity, from the first half or the first
decision that is read, whichever comes first (two logs, no order between them):

- PENDING    halves, no decision.
- AWAITING   decided, but a half that the decision covers has not been read yet. With no half at all
  it is an *early* decision, which expires when the half log has been read well past it.
- READY      decided and whole: its outcome can be written. A roll back is whole as soon as there is
  one half (dropping what is there is all it asks), a commit when every covered half is there.
- WRITING    part of the Kafka transaction now under way.
- FINISHED   a done mark for it is in the op log. Only its memory stays (see finished.py).
- FORGOTTEN  an early decision whose half never came.

Nothing outside this file assigns a state, and only pairs in TRANSITIONS are legal: any other pair
raises and changes nothing.
"""

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

from halfhitch.core.model import HalfOffset, Identity, OpOffset, Resolution
from halfhitch.errors import InvariantViolation


class State(Enum):
    """Where a transaction is; the module's text says how one gets in and out."""

    PENDING = auto()
    AWAITING = auto()
    READY = auto()
    WRITING = auto()
    FINISHED = auto()
    FORGOTTEN = auto()


class Trigger(Enum):
    """What happens to a transaction."""

    DECIDED = auto()  # a decision was read; covered halves are missing
    DECIDED_WHOLE = auto()  # a decision was read and nothing is missing
    COMPLETED = auto()  # the last missing half was read
    PLANNED = auto()  # taken into a step
    CONFIRMED = auto()  # the step's Kafka transaction is committed
    ABORTED = auto()  # the step's Kafka transaction is surely not committed
    DONE_READ = auto()  # a done mark was read: somebody finished it before us
    EXPIRED = auto()  # the half log was read well past an early decision


TRANSITIONS: Final[dict[tuple[State, Trigger], State]] = {
    (State.PENDING, Trigger.DECIDED): State.AWAITING,
    (State.PENDING, Trigger.DECIDED_WHOLE): State.READY,
    (State.PENDING, Trigger.DONE_READ): State.FINISHED,
    (State.AWAITING, Trigger.COMPLETED): State.READY,
    (State.AWAITING, Trigger.DONE_READ): State.FINISHED,
    (State.AWAITING, Trigger.EXPIRED): State.FORGOTTEN,
    (State.READY, Trigger.PLANNED): State.WRITING,
    (State.READY, Trigger.DONE_READ): State.FINISHED,
    (State.WRITING, Trigger.CONFIRMED): State.FINISHED,
    (State.WRITING, Trigger.ABORTED): State.READY,
}

_NO_OFFSET: Final = HalfOffset(-1)


class Transaction:
    """Halves by index, the winning decision, the state. Slotted: there may be a million of them.

    `first` is the half offset of index 0 (-1: not read); further indexes and duplicate copies are
    rare and cost a container only where they occur.
    """

    __slots__ = (
        "copies",
        "covered_count",
        "decided_op_offset",
        "first",
        "further",
        "identity",
        "resolution",
        "size_bytes",
        "state",
    )

    def __init__(self, identity: Identity, state: State) -> None:
        self.identity = identity
        self.state = state
        self.first = _NO_OFFSET
        self.further: dict[int, HalfOffset] | None = None
        self.copies: list[HalfOffset] | None = None
        self.resolution: Resolution | None = None
        self.covered_count = 0
        self.decided_op_offset = OpOffset(-1)
        self.size_bytes = 0

    def move(self, trigger: Trigger) -> None:
        """Take the transition; raises InvariantViolation for a pair that cannot happen."""
        state = TRANSITIONS.get((self.state, trigger))
        if state is None:
            raise InvariantViolation(
                f"transaction {self.identity} cannot take {trigger.name} in state {self.state.name}"
            )
        self.state = state

    def decide(self, resolution: Resolution, covered_count: int, op_offset: OpOffset) -> None:
        """Note the winning decision; the state is moved by the caller."""
        self.resolution = resolution
        self.covered_count = covered_count
        self.decided_op_offset = op_offset

    def take(self, index: int, half_offset: HalfOffset, size_bytes: int) -> None:
        """Add a half; a second one of the same index is a copy and collapses to the first."""
        if index == 0 and self.first < 0:
            self.first = half_offset
            self.size_bytes += size_bytes
        elif index == 0 or (self.further is not None and index in self.further):
            if self.copies is None:
                self.copies = []
            self.copies.append(half_offset)
        else:
            if self.further is None:
                self.further = {}
            self.further[index] = half_offset
            self.size_bytes += size_bytes

    @property
    def has_half(self) -> bool:
        """Whether any half has been read."""
        return self.first >= 0 or self.further is not None

    @property
    def is_whole(self) -> bool:
        """Whether the decision can be carried out with the halves that are here."""
        if self.resolution is Resolution.ROLLBACK:
            return self.has_half
        if self.covered_count == 1:
            return self.first >= 0
        return self.has_half and sum(1 for _ in self.covered()) == self.covered_count

    def covered(self) -> Iterator[HalfOffset]:
        """Half offsets that the decision covers, by index."""
        if self.first >= 0 and self.covered_count > 0:
            yield self.first
        if self.further is not None:
            for index in sorted(self.further):
                if index < self.covered_count:
                    yield self.further[index]

    def uncovered(self) -> list[HalfOffset]:
        """Half offsets that the winning decision does not cover."""
        result = [self.first] if self.first >= 0 and self.covered_count == 0 else []
        if self.further is not None:
            result += [o for i, o in sorted(self.further.items()) if i >= self.covered_count]
        return result

    def half_offsets(self) -> list[HalfOffset]:
        """All half offsets, copies included."""
        result = [self.first] if self.first >= 0 else []
        if self.further is not None:
            result.extend(self.further.values())
        if self.copies is not None:
            result.extend(self.copies)
        return result

    @property
    def message_count(self) -> int:
        """Distinct messages read so far."""
        return (self.first >= 0) + len(self.further or ())
