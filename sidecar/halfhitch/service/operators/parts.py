"""What operations are made of, and what they ask of the owners and of the logs."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from halfhitch.core.model import Identity
from halfhitch.core.standing import Standing
from halfhitch.errors import HalfHitchError
from halfhitch.ports import Clock, DoubtIndex, Observer, ParkedStore, Presence
from halfhitch.service.api import Filter, Undecided
from halfhitch.service.transactions.first import FirstDecisions, Inquiry
from halfhitch.service.transactions.op_appends import Decision


class PendingOwners(Protocol):
    """The half partitions that this instance owns."""

    def owned(self) -> set[int]:
        """Which those are."""
        ...

    async def undecided(self, wanted: Filter) -> tuple[list[Undecided], int]:
        """Pending transactions there, oldest first, and how many match."""
        ...

    async def names(self, wanted: Filter) -> tuple[list[tuple[int, Identity]], int]:
        """When stored, and which: all pending ones there that match; and how many."""
        ...

    async def halves_of(
        self, identities: Sequence[Identity]
    ) -> dict[Identity, tuple[int, tuple[int, ...], int]]:
        """Partition, half offsets and covered count, of those that are pending there."""
        ...

    async def check_now(self, partition: int, identity: Identity) -> bool:
        """Make it due; False when it is not pending there."""
        ...

    def standing(self, partition: int, identity: Identity, half_offset: int) -> Standing | None:
        """What is known of it there."""
        ...


class DecisionSink(Protocol):
    """The op log's side of service.transactions.op_appends.DecisionLog."""

    def append(self, partition: int, decision: Decision) -> "asyncio.Future[int]":
        """Make it durable; its op offset."""
        ...


@dataclass(slots=True)
class FoundHalves:
    """A transaction as it lies in the half log."""

    partition: int
    half_offsets: tuple[int, ...]  # latest copies, by index
    covered_count: int


@dataclass(slots=True)
class Searched:
    """`trouble`: why not all logs were read to their ends; those that are missing may be there."""

    found: dict[Identity, FoundHalves]
    trouble: HalfHitchError | None = None


class HalfSearch(Protocol):
    """Finds transactions' messages in half partitions that others own."""

    async def find(
        self,
        partitions: Collection[int],
        identities: Collection[Identity],
        hints: Mapping[int, int],
    ) -> Searched:
        """`hints`: by partition, a half offset they are not below, if that is true."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationsParts:
    """What operations are made of. Without Redis `index` and `presence` are None."""

    owners: PendingOwners
    decisions: DecisionSink
    halves: HalfSearch
    inquiry: Inquiry
    firsts: FirstDecisions
    parked: ParkedStore
    index: DoubtIndex | None
    presence: Presence | None
    observer: Observer
    clock: Clock
    partition_count: Callable[[], int]
    check_count_max: int
