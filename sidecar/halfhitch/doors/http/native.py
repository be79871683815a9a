"""The native carrier as the data door sees it: what it is asked, and what it answers with.

The package halfhitch-native has classes of its own with the same fields.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

#: A half that waits for a word about its name: connection, half partition, group, name, digest.
Asked = tuple[int, int, str, str, int]


@dataclass(frozen=True, slots=True)
class TakenBack:
    """A socket is the loop's again."""

    unsent: bytes  # still to be written
    held: bytes  # what came and is not carried out
    begun_count: int  # requests that no event has told of
    is_busy: bool  # the answer to a request is still to come


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the requests of a connection have come."""

    connection: int
    begun_count: int
    done_count: int
    answers: bytes  # for the loop to write: its socket was taken back meanwhile


@dataclass(frozen=True, slots=True)
class Failed:
    """A request that could not be carried out. Its connection waits for the answer."""

    connection: int
    route: str
    error_number: int  # librdkafka's
    partition: int
    group: str
    transaction_id: str
    is_named: bool  # its caller knows the id


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
    #: Of prepares as JSON, which are not among the others.
    json_prepared_s: Sequence[float] = ()
    #: Of the last prepares that brought a `traceparent`: seconds, and what it said.
    traced: Sequence[tuple[float, bytes]] = ()
    #: Transactions that were prepared, and that were ended.
    prepared_ids: Sequence[str] = ()
    ended_ids: Sequence[str] = ()
    lines: Sequence[Line] = ()
    due: Sequence[int] = ()  # connections whose sockets should be taken back


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision of the last moments: see service.transactions.asked.Elsewhere."""

    number: int
    is_commit: bool
    is_stored: bool | None
    op_offset: int | None


class Native(Protocol):
    """The carrier. Its methods do not block. Connections have numbers, a new one for each loan."""

    def open(self, partition_count: int, preferred: int, key: bytes, person: bytes) -> None:
        """So many half partitions; where a transaction goes that may go anywhere; what
        wire.handle.HandleCodec signs with. An empty key: take nothing."""
        ...

    def allow(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Halves of these groups for these topics are taken, and of no others."""
        ...

    def connect(self, connection: int, host: bytes) -> None:
        """Requests over this connection name this host."""
        ...

    def disconnect(self, connection: int) -> None:
        """Nothing of it is under way any more."""
        ...

    def lend(self, connection: int, socket: int, room: int) -> bool:
        """Read and write this file descriptor from now on, with at most so many requests of all
        connections in flight; False: it cannot be."""
        ...

    def take_back(self, connection: int) -> TakenBack:
        """No more of that. Among what comes back is a half that waits for a word about its name."""
        ...

    def under_way(self) -> int:
        """Requests in flight here."""
        ...

    def admit(self, count: int, count_max: int) -> bool:
        """The loop has so many in flight and is about to begin one more; False: with those here
        they are `count_max` already."""
        ...

    def tell(self, count: int) -> None:
        """The loop has so many in flight."""
        ...

    def lingering(self) -> Sequence[int]:
        """Connections with a request that has been unfinished for a while."""
        ...

    def asked(self) -> tuple[Sequence[Asked], bool]:
        """The wake-up was heard: the halves whose names must be looked at, and whether there is
        something for `events`."""
        ...

    def store(self, connections: Sequence[int]) -> None:
        """The halves that were asked for over these connections: nothing is known of their names,
        which stand for them now."""
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

    def opened(
        self,
        group: str,
        transaction_id: str,
        half_offset: int,
        age_s: float,
        immunity_s: int | None,
    ) -> None:
        """The loop has stored the only message of this transaction, whose name is new. It came
        `age_s` ago."""
        ...

    def heard(self, identities: Sequence[tuple[str, str]]) -> None:
        """From any thread: an owner here reads decisions about them. Their ends are the loop's."""
        ...

    def close_all(self) -> None:
        """From any thread: the ends of all that was prepared until now are the loop's."""
        ...

    def prepared(self) -> Sequence[str]:
        """Transactions that were prepared here and that nothing has told of yet."""
        ...

    def stop(self, drain_s: float) -> None:
        """Blocks: wait for what is in flight, then end."""
        ...
