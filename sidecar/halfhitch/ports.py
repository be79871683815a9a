"""What the service needs from the world, as protocols; adapters implement them.

Futures belong to the event loop of the service. A future fails only with `halfhitch.errors`:
KafkaUnavailable when the record is surely not stored, OutcomeUnknown when nobody can say.
"""

from asyncio import Future
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from halfhitch.core.model import Identity
from halfhitch.observer import Observer as Observer  # noqa: PLC0414 - one of them
from halfhitch.wire.op import StepRecord
from halfhitch.wire.parked_fold import Parking

#: Header list as Kafka has it: order and duplicates matter, a value may be null.
KafkaHeaders = list[tuple[str, bytes | None]]


class RecordLog(Protocol):
    """Idempotent appends with acks=all to the half and op topics, by any instance."""

    def append_half(
        self, partition: int, key: bytes | None, value: bytes | None, headers: KafkaHeaders
    ) -> "Future[int]":
        """Append a half record; the result is its half offset once all in-sync replicas have it."""

    def append_op(self, partition: int, value: bytes, headers: KafkaHeaders) -> "Future[int]":
        """Append an op record; the result is its op offset once all in-sync replicas have it."""

    def append_message(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: KafkaHeaders,
    ) -> "Future[tuple[int, int]]":
        """Append to a topic of the users, visible at once; gives partition and offset.

        Without a partition: where a Java producer would send the key; keyless anywhere. It fails
        with UnknownTopic or ForbiddenTopic too, and OutcomeUnknown does not mean that it may be
        repeated: there is no id by which Kafka would know the message again.
        """


class TopicCatalog(Protocol):
    """Which topics exist, cached: a prepare must not wait for metadata."""

    def partition_count(self, topic: str) -> int | None:
        """From the cache; None when not known there (ask `refresh`)."""

    async def refresh(self, topic: str) -> int | None:
        """Ask Kafka; None when the topic surely does not exist. Raises KafkaUnavailable."""

    async def all(self) -> dict[str, int]:
        """Every topic there is, with its number of partitions. Raises KafkaUnavailable."""

    async def create(self, topic: str, partition_count: int) -> None:
        """Make a topic of the users, unless it is there.

        Raises KafkaUnavailable; ConfigurationError when Kafka refuses to.
        """

    async def end_offset(self, topic: str, partition: int) -> int:
        """The offset that the next record of a partition that exists gets.

        Raises KafkaUnavailable.
        """


class Clock(Protocol):
    """The only sources of time."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch; may jump."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never run backwards."""
        ...


class StoredRecord(Protocol):
    """A record as it lies in a log; the methods are those of a Kafka client's message."""

    def topic(self) -> str:
        """Topic name."""
        ...

    def offset(self) -> int:
        """Position in its log."""
        ...

    def timestamp(self) -> tuple[int, int]:
        """(type, milliseconds); on the half and op topics this is the broker's append time."""
        ...

    def key(self) -> bytes | None:
        """The user's key."""
        ...

    def value(self) -> bytes | None:
        """The user's value."""
        ...

    def headers(self) -> KafkaHeaders | None:
        """Headers in order, or None when there are none."""
        ...


class Payload(Protocol):
    """What is kept of a half record. It may lie outside of Python, and then is seen when asked for.

    The methods tell of a half of the form that nearly all have; None: what the headers say is to be
    read from them.
    """

    @property
    def key(self) -> bytes | None:
        """The user's key."""

    @property
    def value(self) -> bytes | None:
        """The user's value."""

    @property
    def headers(self) -> KafkaHeaders:
        """System headers, then the user's."""

    @property
    def size_bytes(self) -> int:
        """Of all three."""

    def facts(self) -> tuple[str, str, int, int] | None:
        """Group, transaction id, index and digest, as wire/half.py `read_identity` has them."""

    def aim(self) -> tuple[str, int | None] | None:
        """Target topic and partition. With one of these it can be forwarded from where it lies."""

    def told(self) -> tuple[str, str, int | None, int] | None:
        """Marker, topic, partition and the hash of the key (0: no key), for the audit."""

    def story(
        self,
        ending: int,
        life: int,
        stored_ms: int,
        decided_ms: int,
        op_offset: int,
        source: str | None,
        check_count: int,
        message_count: int,
        half_offset: int,
        /,
    ) -> tuple[bytes, bytes] | None:
        """How a transaction of this message alone has ended: what wire/story.py writes, and marks.

        Of one that has no reason, and nothing to be explained.
        """


@dataclass(slots=True)
class ReadBatch:
    """What one read gave, in log order within each log."""

    half: Sequence[StoredRecord]
    op: Sequence[StoredRecord]


class PartitionReader(Protocol):
    """Committed records of one half partition and the op partition of the same number.

    One thread uses it. Raises KafkaUnavailable when Kafka cannot be reached in time, TopologyError
    when the log no longer holds what must be read.
    """

    def committed_positions(self) -> tuple[int | None, int | None]:
        """Stored half and op watermark, stable ones; None: none, or not stored with the half's."""

    @property
    def stamp(self) -> str:
        """Names the write that has stored what `committed_positions` gave last.

        Empty when nothing was stored, or by whom is not known.
        """

    def begin(self, half_position: int | None, op_position: int | None) -> tuple[int, int]:
        """Start reading both logs there (None: at the log's start); gives the real start positions.

        The op log is held until `release_op`. Raises BelowLogError when a position lies below its
        log and none beyond; TopologyError when one lies beyond its log's end.
        """

    def hold_op(self) -> None:
        """Stop delivering op records."""

    def release_op(self) -> None:
        """Deliver op records again."""

    def read(self, wait_s: float) -> ReadBatch:
        """Whatever is there, waiting at most `wait_s` for the first record."""

    def half_end(self) -> int:
        """Ask Kafka how far the half log exists (the high watermark), readable or not."""

    def half_read_to(self) -> int:
        """How far the half log was read; beyond the last record where only markers follow it."""

    def op_end(self) -> int:
        """Ask Kafka how far the op log exists, as `half_end`."""

    def op_read_to(self) -> int:
        """How far the op log was read, as `half_read_to`."""

    def held(self) -> str | None:
        """Ask Kafka what hides records of these logs; None: nothing, or no answer."""

    def fetch_halves(self, half_offsets: Sequence[int]) -> dict[int, StoredRecord]:
        """Read single halves again; one that is gone is missing from the answer."""

    def wake(self) -> None:
        """From any thread: end the wait of `read`, if that can be done; the next one counts too."""

    def close(self) -> None:
        """Let go of everything; never raises."""


class WriteOutcome(Enum):
    """How a Kafka transaction ended. UNKNOWN is a result, never taken for one of the others."""

    OK = "ok"
    FAIL = "fail"  # surely aborted
    UNKNOWN = "unknown"


@dataclass(slots=True, init=False)
class TargetRecord:
    """One record for a target topic.

    `outside`: a payload with an aim, and how many messages its transaction has. Value and headers
    are nowhere else; wire/count.py `forwarded` has them for a writer that cannot do without.
    """

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: KafkaHeaders
    outside: tuple[Payload, int] | None

    def __init__(
        self, topic: str, partition: int | None, key: bytes | None, value: bytes | None,
        headers: KafkaHeaders, outside: tuple[Payload, int] | None = None,
    ) -> None:  # fmt: skip
        self.topic = topic
        self.partition = partition
        self.key = key
        self.value = value
        self.headers = headers
        self.outside = outside


@dataclass(slots=True)
class WriteResult:
    """Outcome; of a FAIL also whose fault it is, as far as Kafka says so."""

    outcome: WriteOutcome
    reason: str = ""
    #: There was a sign of a retry or of slowness: fence before the next write, although it is OK.
    is_suspect: bool = False
    #: Which `targets` (by position) were refused for good, with the reason.
    poisoned: dict[int, str] = field(default_factory=dict)
    #: Targets whose records were not stored in time, for reasons that may pass.
    away_topics: frozenset[str] = frozenset()
    #: Topics that take no record at all (gone, or forbidden to us), with the reason.
    closed: dict[str, str] = field(default_factory=dict)
    #: Topics that refused some record for good, with the reason; which record is not known.
    refusing: dict[str, str] = field(default_factory=dict)
    #: The owner's own trouble: its group, its producer, the half or op topic. Whatever the step
    #: contains, no transaction is to blame for that.
    is_ours: bool = False
    #: It failed, and was written in a way that cannot say why: the next write of the same says it.
    is_unexplained: bool = False
    #: Stored beside the watermarks; no two writes have the same.
    stamp: str = ""


class PartitionWriter(Protocol):
    """The one transactional producer of an owned half partition. One thread uses it."""

    def fence(self) -> None:
        """Fence every producer before us and end what it left open. First step of every takeover.

        Raises KafkaUnavailable.
        """

    def end_resume(self) -> None:
        """End what whoever puts parked messages back has open here. Raises KafkaUnavailable."""

    def write(
        self,
        targets: Sequence[TargetRecord],
        ops: Sequence[StepRecord],
        half_watermark: int,
        op_watermark: int,
    ) -> WriteResult:
        """Everything in ONE Kafka transaction, with both watermarks under the group's generation.

        After anything but a plain OK the writer must be fenced again before it is used.
        """

    def idle(self) -> bool:
        """Nothing is to be written now: hear what Kafka's client has to say. Never raises.

        True: the producer has become suspect; fence before the next write.
        """

    def leaderless(self, topics: Collection[str]) -> frozenset[str]:
        """Those that surely have a partition without a leader now; asked before a probe. Quick.

        Never raises; what cannot be known is not among them.
        """

    def delete_below(self, half_offset: int, op_offset: int) -> None:
        """Let the broker delete records below; failures are only logged."""

    def close(self) -> None:
        """Let go of everything; never raises. An open Kafka transaction is aborted if possible."""


@dataclass(slots=True)
class Doubt:
    """One transaction that is still undecided after about a second, as the index shows it.

    Times are wall clock milliseconds, for people; the owner's own times are not taken from here.
    """

    identity: Identity
    topics: tuple[str, ...]
    message_count: int
    half_offsets: tuple[int, ...]
    born_ms: int
    immune_until_ms: int
    due_ms: int
    check_count: int
    #: The highest number known to be delivered; equal to check_count or one less.
    delivered: int = 0
    last_check_ms: int | None = None
    last_answer: str | None = None
    last_instance: str | None = None
    last_reason: str | None = None


class DoubtIndex(Protocol):
    """Redis, as the coordinator uses it: written behind, never waited for, never believed.

    The first group of methods may be called from any thread, never blocks and never raises; what
    cannot be written is dropped, and `wants_all` asks for it again later.
    """

    def doubtful(self, partition: int, doubts: Sequence[Doubt]) -> None:
        """These are undecided, or something about them has changed."""
        ...

    def settled(self, partition: int, identities: Sequence[Identity]) -> None:
        """These are undecided no more."""
        ...

    def owns(self, partition: int, *, is_owned: bool, by: object = None) -> None:
        """This instance owns the half partition, or gives it up.

        `by`: whose word it is. A later owner has all to say anew, and an earlier one, who was left
        behind in a call that hung, can give nothing up any more.
        """
        ...

    def wants_all(self, partition: int) -> bool:
        """Whether everything must be written anew: begin `doubtful` from the start, once."""
        ...

    def has_room(self, count: int) -> bool:
        """Whether so many can be taken now; else tell them later."""
        ...

    def told_all(self, partition: int) -> None:
        """What `wants_all` has asked for is told: once it is written, the list is whole."""
        ...

    async def whole(self, partition: int) -> str | None:
        """A mark while the list has all that its owner knows; None while it is written anew.

        Each new list has another mark. Who finds the same one before and after a look has seen one
        whole list. Also None when no owner has said so for some seconds. Raises RedisUnavailable.
        """
        ...

    async def delivered(
        self, partition: int, identity: Identity, half_offsets: tuple[int, ...]
    ) -> int:
        """Highest check number known to be delivered for these very copies of the halves.

        0 when Redis does not say, speaks of other copies, or does not answer in time.
        """
        ...

    async def list(self, partition: int, *, count_max: int) -> Sequence[Doubt]:
        """By due time, soonest first, for people. Raises RedisUnavailable."""
        ...

    async def find(self, partition: int, identities: Sequence[Identity]) -> Sequence[Doubt]:
        """What is known of these, for people. Raises RedisUnavailable."""
        ...

    async def owner(self, partition: int) -> str | None:
        """The instance that owns it, as far as Redis says. Raises RedisUnavailable."""
        ...


#: Told of what another instance has posted: kind, body, and for how many seconds it has lain there.
OnPost = Callable[[str, bytes, float], None]


class Presence(Protocol):
    """Which instances have live producers of which group; and a way to hand checks to them."""

    def announce(self, producer_groups: Collection[str]) -> None:
        """These have live producers here, from now until the next call. Repeated in Redis."""
        ...

    def instances(self, producer_group: str) -> Sequence[str]:
        """Other instances with live producers of the group, as last heard (a second old at most).

        From any thread. Asking makes it worth knowing: the first answer may be empty.
        """
        ...

    def post(self, instance: str, kind: str, body: bytes) -> bool:
        """Put something into that instance's inbox, without waiting; False: Redis is away."""
        ...


@dataclass(slots=True)
class ParkedContent:
    """One parked message as its producer gave it."""

    topic: str
    partition: int | None  # fixed by the producer
    key: bytes | None
    value: bytes | None
    headers: KafkaHeaders


class ParkedStore(Protocol):
    """The parked topic, for operators. Slow, and never on the way of a transaction.

    Raises KafkaUnavailable when the topic cannot be read to its end in time.
    """

    async def parkings(self, identity: Identity | None = None) -> tuple[Sequence[Parking], int]:
        """All that is parked, or one transaction's; and how many messages were left out.

        Oldest first. Messages are left out when there are more than can be kept.
        """
        ...

    async def content(self, identity: Identity) -> tuple[Parking, Sequence[ParkedContent]]:
        """The oldest parking of a transaction with its messages.

        Raises TransactionNotFound, MessageTooLarge.
        """
        ...

    async def resume(self, identity: Identity, *, reason: str, operator: str) -> Parking:
        """Put the oldest parking of a transaction back, once, whoever else tries the same.

        Raises TransactionNotFound when there is none (any more), OutcomeUnknown.
        """
        ...


class Markers(Protocol):
    """Knows when what was committed can be read."""

    async def settled(self, topics: Iterable[str]) -> None:
        """Return once read_committed readers of these topics see all that they hold now.

        Raises VisibilityUnknown.
        """
        ...
