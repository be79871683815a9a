"""What every door calls: the transaction service as plain values and one protocol.

No door knows how a transaction is stored; no part of the service knows how a request looked.
All failures are `halfhitch.errors`; anything else that escapes is a bug.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from halfhitch.core.model import Resolution, ResolutionSource

#: User headers in their order, duplicates included; a Kafka header value may be null.
UserHeaders = list[tuple[str, bytes | None]]


class TransactionState(StrEnum):
    """What a caller can be told about a transaction."""

    PENDING = "pending"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    PARKED = "parked"  # committed, but a target will never take the messages


#: The state a durable decision puts a transaction in.
STATE_AFTER = {
    Resolution.COMMIT: TransactionState.COMMITTED,
    Resolution.ROLLBACK: TransactionState.ROLLED_BACK,
}


@dataclass(slots=True)
class OutgoingMessage:
    """One message of a transaction, as the caller wants it to appear on its topic."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: UserHeaders
    partition: int | None = None  # fixed by the caller; else chosen by key as a Java producer would


@dataclass(slots=True)
class Prepared:
    """All halves are stored on all in-sync replicas."""

    transaction_id: str
    handle: str


@dataclass(slots=True)
class Ended:
    """The decision is durable. `visible` is true when the forward was waited for and seen."""

    transaction_id: str
    state: TransactionState
    visible: bool


@dataclass(slots=True)
class TransactionView:
    """What is known of one transaction now."""

    transaction_id: str
    producer_group: str
    state: TransactionState
    message_count: int
    visible: bool  # committed and forwarded, or rolled back and dropped: nothing is left to do


class Transactions(Protocol):
    """The service as doors see it. Every method may raise BackendError; the rest is named."""

    async def prepare(
        self,
        *,
        producer_group: str,
        messages: Sequence[OutgoingMessage],
        transaction_id: str | None = None,
        immunity_s: int | None = None,
    ) -> Prepared:
        """Store the messages, invisible. Raises InvalidRequest (and kin), MessageTooLarge."""
        ...

    async def add(self, handle: str, messages: Sequence[OutgoingMessage]) -> Prepared:
        """Add messages to a pending transaction; the answer's handle replaces the old one.

        Adds to one transaction must follow one another, each with the handle of the last.
        Raises InvalidRequest (and kin), ContraryDecision, TransactionGone, MessageTooLarge.
        """
        ...

    async def end(
        self,
        handle: str,
        resolution: Resolution,
        *,
        producer_group: str | None = None,
        source: ResolutionSource = ResolutionSource.PRODUCER,
        wait_visible: bool = False,
    ) -> Ended:
        """Make the decision durable; with `wait_visible` also wait until it has been carried out.

        `producer_group`, when given, must be the group that prepared.
        Raises InvalidHandle, WrongGroup, ContraryDecision, TransactionGone, VisibilityUnknown.
        """
        ...

    async def view(self, handle: str) -> TransactionView:
        """Look a transaction up. Raises InvalidHandle, TransactionNotFound, TransactionGone."""
        ...


class PartitionPhase(StrEnum):
    """Where the owner of a half partition is; see service/ownership for how it moves."""

    TAKING_OVER = "taking_over"  # fencing the predecessor, then reading both logs
    WORKING = "working"
    STOPPED = "stopped"
    FAILED = "failed"  # will be tried again; `trouble` says why


@dataclass(slots=True)
class PartitionState:
    """One owned half partition, for people and dashboards. Positions: next to be read."""

    partition: int
    phase: PartitionPhase
    pending_count: int  # transactions without a decision
    decided_count: int  # decided, not yet carried out
    early_count: int  # decisions whose half has not been seen
    finished_count: int  # ids remembered so that late duplicates are recognised
    half_watermark: int
    half_position: int
    op_watermark: int
    op_position: int
    trouble: str | None


class System(Protocol):
    """The running instance as the admin door sees it."""

    def unready_reasons(self) -> list[str]:
        """Why new prepares would fail now; empty when ready."""
        ...

    def partitions(self) -> list[PartitionState]:
        """The partitions this instance owns."""
        ...

    def info(self) -> dict[str, str | int | float | bool | None]:
        """Version, instance, Kafka cluster id, uptime and the like: flat, safe to show."""
        ...
