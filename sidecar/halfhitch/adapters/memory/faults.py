"""What a test lets go wrong in a MemoryKafka.

A fault is used up by the one call it strikes, first in, first out; `None` lets a call pass. That
Kafka is away lasts until it is back.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum, auto


class AppendFault(Enum):
    """How an append of a half or op record goes wrong."""

    REFUSED = auto()  # surely not stored: KafkaUnavailable
    TOO_LARGE = auto()  # surely not stored, and the next try is refused too: MessageTooLarge
    LOST = auto()  # not stored, but nobody can say: OutcomeUnknown
    ANSWER_LOST = auto()  # stored, but nobody can say: OutcomeUnknown


class WriteFault(Enum):
    """How the owner's Kafka transaction goes wrong."""

    ABORTED = auto()  # surely aborted: FAIL
    ABORTED_UNSEEN = auto()  # aborted, but nobody can say: UNKNOWN
    COMMITTED_UNSEEN = auto()  # committed, but nobody can say: UNKNOWN
    SUSPECT = auto()  # committed, but with a sign of a silent retry: OK, to be fenced again
    LEFT_OPEN = auto()  # the commit never arrived; open until the next fence: UNKNOWN
    COMMITTED_LATE = auto()  # taken for aborted (FAIL), and a request that was late commits it


@dataclass(slots=True)
class Faults:
    """Set by the test, read by the adapters."""

    appends: list[AppendFault | None] = field(default_factory=list)
    writes: list[WriteFault | None] = field(default_factory=list)
    is_away: bool = False
    #: Targets that store nothing in time until they are taken out here.
    away_topics: set[str] = field(default_factory=set)
    #: Targets whose partitions have no leader, as anybody can see: they store nothing either.
    leaderless: set[str] = field(default_factory=set)
    #: Topics that may be described and not be written to.
    forbidden: set[str] = field(default_factory=set)
    #: Kafka transactions fail at once, and nothing says why, while a target of them is among these.
    unexplained: set[str] = field(default_factory=set)

    def away(self, topics: Collection[str]) -> frozenset[str]:
        """Which of these store nothing."""
        return frozenset(topics) & (self.away_topics | self.leaderless)

    def next_append(self) -> AppendFault | None:
        """The fault of this append."""
        return self.appends.pop(0) if self.appends else None

    def next_write(self) -> WriteFault | None:
        """The fault of this write."""
        return self.writes.pop(0) if self.writes else None
