"""What the transaction service is made of, and what it asks of the owners and of the logs."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from halfhitch.core.model import Identity, Resolution, ResolutionSource
from halfhitch.ports import Clock, Markers, Observer, RecordLog
from halfhitch.service.transactions.admission import Admission
from halfhitch.service.transactions.first import FirstDecisions, Inquiry, Readers
from halfhitch.service.transactions.intake import Intake
from halfhitch.service.transactions.op_appends import DecisionLog
from halfhitch.service.transactions.sizes import TransactionSizes
from halfhitch.service.transactions.visibility import Visibility
from halfhitch.wire.handle import HandleCodec


class Owners(Readers, Protocol):
    """The half partitions this instance owns."""

    def preferred_partition(self, partition_count: int, full: Collection[int] = ()) -> int:
        """Where a message goes that may go anywhere; not to those that are `full`, if possible."""
        ...

    def op_read_to(self, partition: int) -> int | None:
        """See service.transactions.op_appends.DecisionLog.owner_read_to."""
        ...

    def covered_count(self, partition: int, identity: Identity) -> int:
        """How many messages its commit covers; 0 when it is not known to be committed."""
        ...

    def differs(
        self, partition: int, identity: Identity, first_index: int, digests: Sequence[int]
    ) -> bool:
        """Whether the owner here knows the id, and that it stands for other messages than these."""
        ...

    def is_reused(self, partition: int, half_offsets: Sequence[int]) -> bool:
        """Whether the owner here knows one of these halves as that of a reused id."""
        ...

    def checked(self, partition: int, identity: Identity) -> tuple[int, float | None, str | None]:
        """Of a pending transaction: check count, seconds until the next, the last answer."""
        ...

    def size_bytes(self, partition: int, identity: Identity) -> int:
        """Of an unfinished transaction, as far as it was read here; 0 when nothing is known."""
        ...

    def works(self, partition: int) -> bool:
        """Whether this instance owns the partition and has taken it over."""
        ...


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What the service is made of."""

    log: RecordLog
    decisions: DecisionLog
    admission: Admission
    owners: Owners
    visibility: Visibility
    inquiry: Inquiry
    firsts: FirstDecisions
    markers: Markers
    handles: HandleCodec
    observer: Observer
    clock: Clock
    new_id: Callable[[], str]
    instance: str
    visible_wait_s: float
    #: Told of every end: a check of this transaction need not wait any longer. None: it was decided
    #: before, whatever this caller says.
    on_decided: Callable[[Identity, Resolution | None, ResolutionSource], None]
    #: Told of every group that prepares.
    on_group: Callable[[str], None]
    #: The bounds of what is new.
    intake: Intake
    sizes: TransactionSizes
