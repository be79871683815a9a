"""The values the ledger speaks in: what was read from the logs, and what a transaction can become.

Plain slotted classes: one is made for each record read, so their construction is on the hot path.
They are treated as frozen; nothing assigns to their fields after construction.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, NewType

TransactionId = NewType("TransactionId", str)
ProducerGroup = NewType("ProducerGroup", str)
HalfOffset = NewType("HalfOffset", int)
OpOffset = NewType("OpOffset", int)
TimestampMs = NewType("TimestampMs", int)

#: (producer group, transaction id): what a transaction *is*. Offsets are only hints.
Identity = tuple[ProducerGroup, TransactionId]


class Resolution(Enum):
    """How a transaction ends. The value is the tag of the op record that says so."""

    __hash__ = object.__hash__  # Enum's own is Python code, on the path of every record

    COMMIT = "c"
    ROLLBACK = "r"
    PARK = "p"  # given up undecided: no answer was to be had


class ResolutionSource(StrEnum):
    """Who ended it."""

    PRODUCER = "producer"
    CHECK = "check"
    OPERATOR = "operator"
    POLICY = "policy"


class ConflictKind(StrEnum):
    """Why something lost against the winning decision."""

    CONTRARY = "contrary"  # a later decision says the opposite
    UNCOVERED = "uncovered"  # a half message that the winning commit does not cover
    REUSED = "reused"  # a half of an id and index that stand for another message, or its decision


#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_PRODUCER: Final = ResolutionSource.PRODUCER
_ROLLBACK: Final = Resolution.ROLLBACK


@dataclass(slots=True, init=False)
class HalfRead:
    """A half message was read from the half log (one message of one transaction)."""

    half_offset: HalfOffset
    stored_at_ms: TimestampMs  # broker time (LogAppendTime)
    identity: Identity
    index: int  # position within the transaction, from 0
    size_bytes: int
    immunity_ms: int = -1  # asked for by the producer; -1: the coordinator's default
    check_count: int = 0  # checks that were decided upon before this copy was written
    first_stored_ms: int = -1  # of a later copy: broker time of the first; 0: of its new life
    first_half_offset: int = -1  # of a later copy: where the first one lay
    resumed_count: int = 0  # how often the transaction had been parked and put back
    fence: int = -1  # put back: op records up to here speak of its former lives
    born: "Resolution | None" = None  # put back: decided already, covering so many messages
    born_count: int = 0
    digest: int = 0  # of the message; 0: not known, an older release took it

    def __init__(
        self,
        half_offset: HalfOffset,
        stored_at_ms: TimestampMs,
        identity: Identity,
        index: int,
        size_bytes: int,
        immunity_ms: int = -1,
        check_count: int = 0,
        first_stored_ms: int = -1,
        first_half_offset: int = -1,
        resumed_count: int = 0,
        fence: int = -1,
        born: "Resolution | None" = None,
        born_count: int = 0,
        digest: int = 0,
    ) -> None:
        self.half_offset = half_offset
        self.stored_at_ms = stored_at_ms
        self.identity = identity
        self.index = index
        self.size_bytes = size_bytes
        self.immunity_ms = immunity_ms
        self.check_count = check_count
        self.first_stored_ms = first_stored_ms
        self.first_half_offset = first_half_offset
        self.resumed_count = resumed_count
        self.fence = fence
        self.born = born
        self.born_count = born_count
        self.digest = digest


@dataclass(slots=True, init=False)
class DecisionRead:
    """A decision was read from the op log (tag c or r)."""

    op_offset: OpOffset
    stored_at_ms: TimestampMs
    identity: Identity
    resolution: Resolution
    covered_count: int  # the decision covers indexes 0 .. covered_count - 1, at least
    source: ResolutionSource
    half_hint: int = -1  # highest half offset that the record names for it
    reason: str | None = None  # for people
    half_hints: tuple[int, ...] = ()  # all of them, where there are several

    def __init__(
        self,
        op_offset: OpOffset,
        stored_at_ms: TimestampMs,
        identity: Identity,
        resolution: Resolution,
        covered_count: int,
        source: ResolutionSource,
        half_hint: int = -1,
        reason: str | None = None,
        half_hints: tuple[int, ...] = (),
    ) -> None:
        self.op_offset = op_offset
        self.stored_at_ms = stored_at_ms
        self.identity = identity
        self.resolution = resolution
        self.covered_count = covered_count
        self.source = source
        self.half_hint = half_hint
        self.reason = reason
        self.half_hints = half_hints

    @property
    def is_about_all(self) -> bool:
        """Whether it speaks of every message there is, not of those that it was taken with.

        Who answers a check, or decides for somebody else, was shown what was known at some time
        before; meanwhile the producer may have added messages that were acknowledged.
        """
        return self.source is not _PRODUCER and self.resolution is not _ROLLBACK


@dataclass(slots=True, init=False)
class DoneRead:
    """A done mark was read from the op log (tag d): these half offsets need nothing more."""

    op_offset: OpOffset
    stored_at_ms: TimestampMs
    identity: Identity
    ending: int  # messages committed, ROLLED_BACK or PARKED
    half_offsets: tuple[HalfOffset, ...]
    digests: tuple[int, ...] = ()  # of its messages by index, as far as they are known

    def __init__(
        self,
        op_offset: OpOffset,
        stored_at_ms: TimestampMs,
        identity: Identity,
        ending: int,
        half_offsets: tuple[HalfOffset, ...],
        digests: tuple[int, ...] = (),
    ) -> None:
        self.op_offset = op_offset
        self.stored_at_ms = stored_at_ms
        self.identity = identity
        self.ending = ending
        self.half_offsets = half_offsets
        self.digests = digests


@dataclass(slots=True)
class ConflictRead:
    """A conflict was read from the op log (tag x): it has been recorded and needs nothing more."""

    op_offset: OpOffset
    stored_at_ms: TimestampMs
    identity: Identity
    kind: ConflictKind
    #: Of the decision that lost; of the winner for UNCOVERED; 0 where REUSED names halves.
    losing_op_offset: OpOffset
    half_offsets: tuple[HalfOffset, ...]  # UNCOVERED: the dropped halves; REUSED: the other message


#: Endings that are no count: a committed transaction ends with its covered count, at least 1.
ROLLED_BACK = 0
PARKED = -1  # committed, but it cannot be delivered: kept on the parked topic
GIVEN_UP = -2  # nobody could say what became of it: kept on the parked topic, undecided
#: No ending: these halves were re-appended, and the transaction goes on with the new copies.
COPIED = -3


@dataclass(slots=True, init=False)
class DoneMark:
    """To be written: one transaction needs nothing more for these half offsets."""

    identity: Identity
    ending: int
    half_offsets: list[HalfOffset]
    digests: tuple[int, ...] = ()  # of its messages by index, as far as they are known

    def __init__(
        self,
        identity: Identity,
        ending: int,
        half_offsets: list[HalfOffset],
        digests: tuple[int, ...] = (),
    ) -> None:
        self.identity = identity
        self.ending = ending
        self.half_offsets = half_offsets
        self.digests = digests


@dataclass(slots=True)
class LateNote:
    """To be written beside a parked transaction: a decision that came after it was given up."""

    identity: Identity
    resolution: Resolution
    op_offset: OpOffset
    reason: str | None = None
    source: ResolutionSource | None = None


@dataclass(slots=True)
class ConflictMark:
    """To be written: this lost against the winning decision."""

    identity: Identity
    kind: ConflictKind
    losing_op_offset: OpOffset
    half_offsets: list[HalfOffset]
    lost: DecisionRead | None = None  # what a contrary decision said; for people
