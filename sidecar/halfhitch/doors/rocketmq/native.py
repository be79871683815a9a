"""The native carrier as the door sees it: what it is asked, and the values that it answers with.

The package halfhitch-native has classes of its own with the same fields.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Fed:
    """What has become of bytes that the loop has read."""

    rest: bytes  # given back: whole frames, or what cannot be one
    begun_count: int  # requests that are carried out
    held_bytes: int  # of a frame that is not complete


@dataclass(frozen=True, slots=True)
class TakenBack:
    """A socket is the loop's again."""

    unsent: bytes  # still to be written
    begun_count: int  # requests that no event has told of
    held_bytes: int  # of an unfinished frame that `feed` goes on with


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the requests of a connection have come."""

    connection: int
    begun_count: int  # that came over its lent socket
    done_count: int
    answers: bytes  # for the loop to write


@dataclass(frozen=True, slots=True)
class Failed:
    """A request that could not be carried out."""

    connection: int
    request_code: int
    opaque: int
    is_json: bool
    error_number: int  # librdkafka's


@dataclass(frozen=True, slots=True)
class Unread:
    """What came over a lent socket and is the loop's to read."""

    connection: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Line:
    """A line of librdkafka."""

    level: int
    facility: str
    text: str


@dataclass(frozen=True, slots=True)
class Events:
    """All since the last time."""

    progress: Sequence[Progress] = ()
    failures: Sequence[Failed] = ()
    #: Seconds that each prepare took, each commit, each roll back.
    prepared_s: Sequence[float] = ()
    committed_s: Sequence[float] = ()
    rolled_back_s: Sequence[float] = ()
    #: Of the last prepares that brought a `traceparent`: seconds, and what it said.
    traced: Sequence[tuple[float, bytes]] = ()
    lines: Sequence[Line] = ()
    unread: Sequence[Unread] = ()
    due: Sequence[int] = ()  # connections whose sockets should be taken back


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision of the last moments: see service.transactions.asked.Elsewhere."""

    number: int
    is_commit: bool
    is_stored: bool | None
    op_offset: int | None


class Native(Protocol):
    """The carrier. Its methods do not block. Connections have numbers."""

    def open(self, partition_count: int, seal_keys: Sequence[bytes]) -> None:
        """So many half partitions, and the keys of wire.seal.Seals; none: take nothing."""
        ...

    def connect(self, connection: int, id_prefix: str) -> None:
        """Answers over this connection have ids that begin so."""
        ...

    def disconnect(self, connection: int) -> None:
        """Nothing more can be written to it."""
        ...

    def allow(
        self,
        connection: int,
        group: str,
        topic: str,
        group_name: str,
        kafka_topic: str,
        partition_count: int,
    ) -> None:
        """Messages of this group for this topic are taken, until `forget`."""
        ...

    def forget(self) -> None:
        """Nothing is allowed any more."""
        ...

    def feed(
        self,
        connection: int,
        data: bytes,
        room: int,
    ) -> Fed:
        """Carry out what it can, at most `room` requests."""
        ...

    def lend(self, connection: int, socket: int, rooms: tuple[int, int]) -> bool:
        """Read and write this file descriptor from now on, with at most so many requests in flight
        of the connection and of all; False: it cannot be."""
        ...

    def take_back(self, connection: int) -> TakenBack:
        """No more of that."""
        ...

    def write(self, connection: int, content: bytes) -> None:
        """Over a lent socket, behind what is written there already."""
        ...

    def lingering(self) -> Sequence[int]:
        """Connections with a frame that has been unfinished for a while."""
        ...

    def events(self) -> Events:
        """What has happened since the last time."""
        ...

    def decisions(
        self, partition: int, group: str, transaction_id: str
    ) -> Sequence[Decided] | None:
        """All of the last moments that may count. The transaction's ends are the loop's now."""
        ...

    def forgotten(self, partition: int) -> tuple[int, int]:
        """See service.transactions.remembered.Forgotten."""
        ...

    def owners_read(self, read_to: Sequence[int]) -> None:
        """How far owners here have read the op log of each half partition; -1: none works here."""
        ...

    def was_rolled_back(self, partition: int, group: str, transaction_id: str) -> bool:
        """Through here, within the last minute: a half of that name would be dropped."""
        ...

    def claim(self, group: str, transaction_id: str, digest: int) -> bool:
        """The message is about to be stored by the loop; False: another was taken for this id."""
        ...

    def rolled_back(self, identities: Sequence[tuple[str, str]]) -> None:
        """From any thread: owners here have read that. A half of one of these is the loop's."""
        ...

    def stop(self, drain_s: float) -> None:
        """Blocks: wait for what is in flight, then end."""
        ...
