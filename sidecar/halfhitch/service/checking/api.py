"""What the parts of the check-back say to one another, as plain values and protocols.

The owner of a half partition (a thread) takes permits from the gate, writes the check number to the
log, then hands the check over. The desk (on the event loop) finds a live producer, waits for the
answer and tells the owner what became of the check. Links are the ways to producers: a stream of
the data door, a callback, a connection of another protocol, another instance's inbox.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from halfhitch.core.model import Identity, ProducerGroup, Resolution
from halfhitch.wire.check import Check

#: Of a producer that does not say how many checks it takes at once.
AT_ONCE_ELSE: Final = 256


class CheckOutcome(StrEnum):
    """What became of one delivery."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNKNOWN = "unknown"  # the producer says that it cannot say yet
    SILENT = "silent"  # delivered, no answer in time, and the way to the producer still stands
    NO_ANSWER = "no_answer"  # delivered; what came back is none: 404, 5xx, garbage, an exception
    DECIDED = "decided"  # a decision of another source made the question needless
    LOST = "lost"  # the way broke before an answer came: perhaps it never arrived
    UNDELIVERED = "undelivered"  # surely not delivered: nobody there, refused, no room


#: Outcomes that prove the delivery: this check number has been used up.
COUNTED = frozenset(
    {
        CheckOutcome.COMMIT,
        CheckOutcome.ROLLBACK,
        CheckOutcome.UNKNOWN,
        CheckOutcome.SILENT,
        CheckOutcome.NO_ANSWER,
        CheckOutcome.DECIDED,
    }
)


#: What a check is settled with when its transaction is decided by an answer; None: by others.
OUTCOME_OF: Final = {
    Resolution.COMMIT: CheckOutcome.COMMIT,
    Resolution.ROLLBACK: CheckOutcome.ROLLBACK,
    Resolution.PARK: CheckOutcome.DECIDED,
    None: CheckOutcome.DECIDED,
}


@dataclass(slots=True)
class CheckReport:
    """To the owner: what became of the check with this number."""

    identity: Identity
    number: int
    outcome: CheckOutcome
    by: str  # the producer that was asked, for people
    since_s: float = 0.0  # it was handed over so long before this report
    reason: str | None = None  # why there is no decision, in the producer's words


class ProducerLink(Protocol):
    """One way to live producers of one group. Used on the event loop only."""

    @property
    def producer_group(self) -> ProducerGroup:
        """Whom it leads to."""
        ...

    @property
    def name(self) -> str:
        """For people: who is at the other end."""
        ...

    @property
    def at_once(self) -> int:
        """How many checks it wants to have at a time.

        What lies in socket buffers in front of a busy producer would run out of time unasked.
        """
        ...

    def offer(self, check: Check) -> bool:
        """Take this check on its way now, without waiting; False: it cannot (full or closing).

        After True the desk hears of it again by `settle`, by an end with source check, or by
        `disconnect` of the link; else it falls silent after the time for an answer.
        """
        ...


class CheckDesk(Protocol):
    """What doors call, on the event loop."""

    def connect(self, link: ProducerLink) -> None:
        """This producer is live from now on."""
        ...

    def disconnect(self, link: ProducerLink) -> None:
        """It is not any more; checks that were on their way through it are LOST."""
        ...

    def settle(self, identity: Identity, outcome: CheckOutcome, reason: str | None = None) -> bool:
        """An answer has come (or surely none will come). False: nobody waits for one.

        `reason`: why it is none, as `kept_reason` gives it; for people.
        COMMIT and ROLLBACK only report: the decision itself goes through Transactions.end.
        """
        ...


class CheckGate(Protocol):
    """What owners call, from their threads."""

    def take(self, producer_group: ProducerGroup, wanted_count: int) -> int:
        """Permits to check so many transactions of the group now; 0 when no producer is live."""
        ...

    def give_back(self, producer_group: ProducerGroup, count: int) -> None:
        """Permits that were not used."""
        ...

    def send(self, checks: Sequence[Check]) -> None:
        """Ask; every check uses up one permit. A report follows for each of them."""
        ...

    def forget(self, identities: Sequence[Identity], outcomes: Sequence[CheckOutcome] = ()) -> None:
        """These are decided: the question, if one is out, is needless.

        `outcomes`: what each of them ended as; none given: DECIDED.
        """
        ...

    def decide(
        self, partition: int, identity: Identity, resolution: Resolution, covered_count: int,
        half_offsets: tuple[int, ...], reason: str,
    ) -> None:  # fmt: skip
        """Write a decision by policy. Without waiting; it may fail, and is then asked for again."""
        ...


class ReportSink(Protocol):
    """Where reports go: the owner of the partition, if it is still here."""

    def report(self, partition: int, report: CheckReport) -> None:
        """From the event loop; never blocks, never raises."""
        ...
