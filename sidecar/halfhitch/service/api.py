"""What every door calls: the transaction service as plain values and one protocol.

No door knows how a transaction is stored; no part of the service knows how a request looked. Doors
are given these protocols and not the classes behind them, so that they are tested, and tried by
strangers, on a service that answers whatever a test wants.
All failures are `halfhitch.errors`; anything else that escapes is a bug.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from halfhitch.core.model import Identity, Resolution, ResolutionSource
from halfhitch.errors import HalfHitchError
from halfhitch.ports import KafkaHeaders
from halfhitch.wire.handle import Handle
from halfhitch.wire.seal import Seals

#: User headers in their order, duplicates included; a Kafka header value may be null.
UserHeaders = list[tuple[str, bytes | None]]


class TransactionState(StrEnum):
    """What a caller can be told about a transaction."""

    PENDING = "pending"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    PARKED = "parked"  # undeliverable, or given up: an operator must look


#: The state a durable decision puts a transaction in.
STATE_AFTER = {
    Resolution.COMMIT: TransactionState.COMMITTED,
    Resolution.ROLLBACK: TransactionState.ROLLED_BACK,
    Resolution.PARK: TransactionState.PARKED,
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
    #: Not pending where these very messages had been prepared before, and were decided upon.
    state: TransactionState = TransactionState.PENDING
    #: Where the halves lie, for doors whose protocol names a transaction by that.
    partition: int = 0
    half_offsets: tuple[int, ...] = ()


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
    check_count: int = 0
    next_check_s: float | None = None  # from now; None: unknown here, or nobody to ask
    last_answer: str | None = None  # to the last check


class Transactions(Protocol):
    """The service as doors see it. Every method may raise BackendError; the rest is named."""

    async def prepare(
        self,
        *,
        producer_group: str,
        messages: Sequence[OutgoingMessage],
        transaction_id: str | None = None,
        immunity_s: int | None = None,
        partition_by: bytes | None = None,
        is_partition_chosen: bool = True,
    ) -> Prepared:
        """Store the messages, invisible.

        The same ones may be prepared again under the same id, by any instance: they are stored
        once. `partition_by` decides on the half partition instead of first key and id; it must be a
        function of the id alone. `is_partition_chosen`: a message's partition is its producer's
        choice, and so the same in a repetition; else a repetition may name another.
        Raises InvalidRequest (and kin), MessageTooLarge; ContraryDecision when the id is
        rolled back, TransactionReused when it stands for other messages.
        """
        ...

    async def add(self, handle: str, messages: Sequence[OutgoingMessage]) -> Prepared:
        """Add messages to a pending transaction; the answer's handle replaces the old one.

        Adds to one transaction must follow one another, each with the handle of the last.
        Raises InvalidRequest (and kin), ContraryDecision, TransactionGone, MessageTooLarge;
        TransactionReused when other messages were added with this handle, or to this id.
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
        reason: str | None = None,
        trace_id: str | None = None,
    ) -> Ended:
        """Make the decision durable; with `wait_visible` also wait until it has been carried out.

        `producer_group`, when given, must be the group that prepared. `reason` is kept with the
        decision, for people: in one line, and cut if it is long. `trace_id`: the caller's trace.
        Raises InvalidHandle, WrongGroup, ContraryDecision, TransactionGone, VisibilityUnknown;
        TransactionReused where it is known that the handle's messages are not those of its id: by
        the owner, and with `wait_visible` by all, unless the first ones became visible just then.
        """
        ...

    async def end_named(
        self,
        known: Handle,
        resolution: Resolution,
        *,
        source: ResolutionSource = ResolutionSource.PRODUCER,
        is_awaited: bool = True,
        reason: str | None = None,
    ) -> None:
        """`end` for doors whose protocol names a transaction by where its one message lies.

        Whether `known` speaks the truth is the door's to know (`seals`). `is_awaited`: the answer
        goes to somebody who wants the truth, so the logs are asked where no owner here can tell.
        Raises what `end` does, and InvalidRequest for what no prepare here has given.
        """
        ...

    def identify(self, handle: str) -> Identity:
        """Which transaction a handle names. Raises InvalidHandle."""
        ...

    def read_handle(self, handle: str) -> Handle:
        """All that a handle says. Raises InvalidHandle."""
        ...

    def seals(self) -> Seals:
        """Numbers that prove what handles prove, where there is no room for these.

        Raises KafkaUnavailable as long as it is not known whose they would be.
        """
        ...

    async def view(self, handle: str) -> TransactionView:
        """Look a transaction up. Raises InvalidHandle, TransactionNotFound, TransactionGone, and
        TransactionReused as `end` does.
        """
        ...


class SingleSends(Protocol):
    """Messages in no transaction."""

    async def send(self, message: OutgoingMessage, further: KafkaHeaders) -> tuple[int, int]:
        """Append to the real topic at once: partition and offset. No promise but Kafka's own.

        `further` are headers that a user may not give and the door has to. Raises InvalidRequest
        (and kin), MessageTooLarge, BackendError.
        """
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
    due_count: int = 0  # pending whose next check is due and has not been sent
    checking_count: int = 0  # pending with a check under way
    oldest_age_s: float = 0.0  # of the oldest pending; 0 when there is none
    pending_by_group: dict[str, int] = field(default_factory=dict)
    #: Of those groups that have the oldest transactions.
    oldest_age_by_group: dict[str, float] = field(default_factory=dict)
    #: Target topics that are away, and how many decided transactions wait for each.
    waiting_by_topic: dict[str, int] = field(default_factory=dict)
    waiting_count: int = 0  # of them all, each once
    lag_s: float = 0.0  # how far its owner is behind both logs
    #: What stands still while the rest goes on, and what to do about it.
    troubles: list[str] = field(default_factory=list)
    #: This machine's clock minus that of the broker; negative: behind, 0: alike, or not known.
    clock_ahead_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MembershipState:
    """How an instance stands in the group of owners."""

    is_joined: bool  # the group has given it an assignment, perhaps an empty one
    outside_s: float  # since it was last in the group, or began to join it; 0 while it is in


@dataclass(slots=True)
class ProducersState:
    """One producer group, as an instance knows it."""

    producer_group: str
    links: tuple[str, ...]  # who is connected here: the names of some
    link_count: int
    elsewhere: tuple[str, ...]  # instances that have producers of it
    waiting_count: int  # checks that wait for room
    outstanding_count: int  # checks under way
    breaker: str
    undecided_count: int  # of its transactions, in half partitions that are owned here


class Reach(Protocol):
    """Which producer groups can be asked. On any thread."""

    def links(self) -> dict[str, int]:
        """How many ways there are here, by group; groups without any may be missing."""
        ...

    def is_elsewhere(self, producer_group: str) -> bool:
        """Whether another instance is known to have producers of it."""
        ...


class System(Protocol):
    """The running instance as the admin door sees it."""

    def unready_reasons(self) -> list[str]:
        """Why new prepares would fail now; empty when ready."""
        ...

    def degraded_reasons(self) -> list[str]:
        """What does not work as it should, while prepares and ends do."""
        ...

    def partitions(self) -> list[PartitionState]:
        """The partitions this instance owns."""
        ...

    def producers(self) -> list[ProducersState]:
        """Groups that are connected, were asked lately, or have undecided transactions here."""
        ...

    def info(self) -> dict[str, str | int | float | bool | None]:
        """Version, instance, Kafka cluster id, uptime and the like: flat, safe to show."""
        ...


# -- what operators ask for ----------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Filter:
    """Which transactions: all given conditions hold. Empty: all."""

    producer_group: str | None = None
    topic: str | None = None
    transaction_id: str | None = None
    older_than_s: float | None = None
    check_count_min: int | None = None
    count_max: int = 1_000  # the first of all that match
    skip_count: int = 0  # of these, so many are on earlier pages: who shows them leaves them out
    #: Whether who asks may see those of a producer group; asked on any thread.
    may_see: Callable[[str], bool] | None = None

    def takes_group(self, producer_group: str) -> bool:
        """Whether those of this group are asked for, and may be seen."""
        return self.producer_group in (None, producer_group) and (
            self.may_see is None or self.may_see(producer_group)
        )


@dataclass(slots=True, kw_only=True)
class Undecided:
    """One pending transaction, for people."""

    transaction_id: str
    producer_group: str
    partition: int
    topics: tuple[str, ...]
    message_count: int
    half_offsets: tuple[int, ...]
    age_s: float
    check_count: int
    check_max: int
    delivered: bool  # the check of this number has reached a producer
    next_check_s: float | None  # from now; None while no producer is live
    last_answer: str | None
    asked: str | None  # who was asked last
    last_reason: str | None = None  # of that answer, in words of who was asked
    from_index: bool = False  # as Redis says: its owner is another instance
    stored_ms: int  # the calendar's; its age is of the moment in which it was looked at

    @property
    def place(self) -> tuple[int, int, tuple[int, ...]]:
        """Where it stands in a list, the oldest first: the same whenever the list is made."""
        return self.stored_ms, self.partition, self.half_offsets


@dataclass(slots=True)
class UndecidedPage:
    """What was found, oldest first, and what could not be looked at."""

    transactions: list[Undecided]
    total_count: int  # that match, those beyond `count_max` included
    missing_partitions: list[int]  # owned elsewhere, and Redis does not say all of them


@dataclass(slots=True, kw_only=True)
class ParkedTransaction:
    """One transaction on the parked topic, for people."""

    transaction_id: str
    producer_group: str
    half_partition: int
    topics: tuple[str, ...]
    message_count: int
    reason: str
    detail: str
    decision: str | None  # commit or rollback; applied when it is resumed
    decision_reason: str | None  # in words of whoever decided
    decision_source: str | None = None  # who that is: producer, check, operator or policy
    check_count: int
    last_answer: str | None
    asked: str | None
    last_reason: str | None = None
    parked_ms: int  # broker time
    stored_ms: int
    resumed_count: int  # how often it was put back before


@dataclass(slots=True)
class ParkedPage:
    """What is parked and matches, oldest first."""

    transactions: list[ParkedTransaction]
    total_count: int  # that match, those beyond `count_max` included
    left_out_count: int  # messages that were not looked at: there are more than can be kept


@dataclass(slots=True)
class ParkedMessage:
    """One parked message with its content."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: UserHeaders


@dataclass(slots=True)
class NamesPage:
    """Who matches, oldest first, and what could not be looked at."""

    names: list[Identity]
    total_count: int  # that match, those beyond `count_max` included
    missing_partitions: list[int]  # not known here, or not wholly


#: Of one among many: the state that it is in now, or why it is not.
ManyOutcome = str | HalfHitchError


class Operations(Protocol):
    """What an operator can do. Everything that changes something needs a reason."""

    async def undecided(self, wanted: Filter) -> UndecidedPage:
        """Pending transactions. Raises BackendError."""
        ...

    async def decide(
        self, producer_group: str, transaction_id: str, resolution: Resolution, *, reason: str,
        operator: str,
    ) -> Ended:  # fmt: skip
        """An operator's decision. Raises TransactionNotFound, ContraryDecision, BackendError."""
        ...

    async def check(self, producer_group: str, transaction_id: str) -> None:
        """Check it as soon as possible. Raises TransactionNotFound, BackendError."""
        ...

    async def names(self, wanted: Filter) -> NamesPage:
        """Of pending transactions; reads no payload, unless a topic is asked for."""
        ...

    async def decide_many(
        self, identities: Sequence[Identity], resolution: Resolution, *, reason: str, operator: str
    ) -> list[ManyOutcome]:
        """`decide` for each, in their order. Raises InvalidRequest for all of them."""
        ...

    async def check_many(self, identities: Sequence[Identity]) -> list[ManyOutcome]:
        """`check` for each, in their order."""
        ...

    async def parked(self, wanted: Filter) -> ParkedPage:
        """Parked and not resumed. Raises BackendError."""
        ...

    async def parked_messages(
        self, producer_group: str, transaction_id: str
    ) -> tuple[ParkedTransaction, list[ParkedMessage]]:
        """One of them with its content. Raises TransactionNotFound, BackendError."""
        ...

    async def resume(
        self, producer_group: str, transaction_id: str, *, reason: str, operator: str
    ) -> ParkedTransaction:
        """Put it back with count 0, once. Raises TransactionNotFound, BackendError."""
        ...
