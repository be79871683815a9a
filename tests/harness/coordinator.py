"""The transaction service over a Kafka in memory, with owners that turn when a test lets them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from halfhitch.adapters.memory import MemoryMarkers, MemoryRecordLog, MemoryTopicCatalog
from halfhitch.core.model import DecisionRead, Identity, Resolution
from halfhitch.core.standing import Standing
from halfhitch.errors import HalfHitchError
from halfhitch.service.api import OutgoingMessage
from halfhitch.service.transactions.admission import Admission
from halfhitch.service.transactions.dependencies import Dependencies
from halfhitch.service.transactions.first import FirstDecisions, LookedUp, Place
from halfhitch.service.transactions.intake import Intake
from halfhitch.service.transactions.op_appends import DecisionLog
from halfhitch.service.transactions.service import TransactionService
from halfhitch.service.transactions.sizes import TransactionSizes
from halfhitch.service.transactions.visibility import Visibility
from halfhitch.testing.world import one_by_one
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage, HalfRecord, read_record
from halfhitch.wire.handle import HandleCodec
from harness.defaults import intake_limits
from harness.twin import GROUP, Twin, turn_until_idle

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from halfhitch.adapters.memory import MemoryRecord
    from halfhitch.service.owner.turn import PartitionOwner

PARTITION_COUNT = 2
KEYS = (b"k" * 32,)


class Coordinator:
    """service.transactions.dependencies.Owners, first.Inquiry, OpTail, and the service over them.

    Owners turn only when the test lets them (`carry_out`), all in one thread.
    """

    def __init__(
        self,
        twin: Twin | None = None,
        *,
        owns: Sequence[int] = (0, 1),
        visible_wait_s: float = 10.0,
        keys: Sequence[bytes] = KEYS,
        intake: Intake | None = None,
        transaction_bytes_max: int = 100_000,
    ) -> None:
        self.twin = twin or Twin(partition_count=PARTITION_COUNT)
        self.kafka = self.twin.kafka
        self.observer = self.twin.observer
        self.visibility = Visibility(asyncio.get_running_loop(), self)
        self.followed: list[tuple[int, int]] = []
        self.looked_up: list[tuple[int, Identity, int]] = []
        #: Else the op log tells.
        self.look_up_answer: tuple[Resolution | None, bool] | HalfHitchError | None = None
        self.owners: dict[int, PartitionOwner] = {}
        self.told: list[tuple[Any, ...]] = []
        self.handles = HandleCodec(keys)
        self.markers = MemoryMarkers()
        log = MemoryRecordLog(self.kafka)
        self.decisions = DecisionLog(log)
        self.decisions.owner_read_to = self.op_read_to
        self.firsts = FirstDecisions(self, self, wait_s=visible_wait_s)
        self.taken_over: set[int] = set()  # or about to be
        self.service = TransactionService(
            Dependencies(
                log=log,
                decisions=self.decisions,
                admission=Admission(
                    policy=self.twin.policy,
                    catalog=MemoryTopicCatalog(self.kafka),
                    message_bytes_max=10_000,
                ),
                owners=self,
                visibility=self.visibility,
                inquiry=self,
                firsts=self.firsts,
                markers=self.markers,
                handles=self.handles,
                observer=self.observer,
                clock=self.twin.clock,
                new_id=self._new_id,
                instance="instance-9",
                visible_wait_s=visible_wait_s,
                on_decided=lambda *told: self.told.append(told),
                on_group=lambda _: None,
                intake=intake or Intake(intake_limits()),
                sizes=TransactionSizes(transaction_bytes_max),
            )
        )
        self.service.open(PARTITION_COUNT)
        self._ids = 0
        for partition in owns:
            self.own(partition)

    def _new_id(self) -> str:
        self._ids += 1
        return f"made-{self._ids}"

    def own(self, partition: int) -> None:
        owner = self.twin.owner(partition=partition)
        owner._on_done = self.visibility.done
        owner.take_over()
        self.owners[partition] = owner

    def op_read_to(self, partition: int) -> int | None:
        owner = self.owners.get(partition)
        return None if owner is None else owner.op_read_to

    def has_read(self, place: Place) -> bool | None:
        owner = self.owners.get(place.partition)
        if owner is None:
            return False if place.partition in self.taken_over else None
        return owner.op_read_to is not None and place.op_offset < owner.op_read_to

    def carry_out(self) -> None:
        for owner in self.owners.values():
            turn_until_idle(owner)
        self.firsts.look_soon()

    def tail_reads(self) -> None:
        """All that lies in the op log, as an instance reads it that owns nothing."""
        for record in self.kafka.committed(self.kafka.op_topic):
            events = op_wire.read(record.offset(), 0, record.value(), record.headers())
            assert not isinstance(events, Garbage), events
            self.visibility.read(record.partition, events)

    # Owners

    def preferred_partition(self, partition_count: int, full: Collection[int] = ()) -> int:
        preferred = min(self.owners, default=0) % partition_count
        return next((p for p in (preferred, *range(partition_count)) if p not in full), preferred)

    def size_bytes(self, partition: int, identity: Identity) -> int:
        owner = self.owners.get(partition)
        return 0 if owner is None else owner.size_bytes(identity)

    def standing(self, partition: int, identity: Identity, half_offset: int) -> Standing | None:
        owner = self.owners.get(partition)
        return Standing.UNKNOWN if owner is None else owner.standing(identity, half_offset)

    def covered_count(self, partition: int, identity: Identity) -> int:
        owner = self.owners.get(partition)
        return 0 if owner is None else owner.covered_count(identity)

    def differs(
        self, partition: int, identity: Identity, first_index: int, digests: Sequence[int]
    ) -> bool:
        owner = self.owners.get(partition)
        return owner is not None and owner.differs(identity, first_index, digests)

    def is_reused(self, partition: int, half_offsets: Sequence[int]) -> bool:
        owner = self.owners.get(partition)
        return owner is not None and owner.is_reused(half_offsets)

    def checked(self, partition: int, identity: Identity) -> tuple[int, float | None, str | None]:
        owner = self.owners.get(partition)
        return (0, None, None) if owner is None else owner.checked(identity)

    def works(self, partition: int) -> bool:
        return partition in self.owners

    # OpTail and Inquiry

    def follow(self, partition: int, from_op_offset: int) -> None:
        self.followed.append((partition, from_op_offset))

    async def look_up(
        self, partition: int, identity: Identity, half_offset: int
    ) -> tuple[Resolution | None, bool]:
        self.looked_up.append((partition, identity, half_offset))
        if isinstance(self.look_up_answer, HalfHitchError):
            raise self.look_up_answer
        if self.look_up_answer is not None:
            return self.look_up_answer
        first = (
            one.resolution
            for one in self.twin.ops()
            if isinstance(one, DecisionRead) and one.identity == identity
        )
        return next(first, None), False

    async def look_up_many(
        self, partition: int, half_offsets: Mapping[Identity, int], seen_ms: int | None = None
    ) -> dict[Identity, LookedUp]:
        return await one_by_one(self.look_up, partition, half_offsets)

    # what came of it

    def halves(self) -> list[tuple[MemoryRecord, HalfRecord]]:
        result = []
        for record in self.kafka.committed(self.kafka.half_topic):
            half = read_record(record.offset(), record.headers())
            assert not isinstance(half, Garbage), half
            result.append((record, half))
        return result

    def decided(self) -> list[tuple[str, Resolution, int]]:
        """Id, resolution and covered count of each decision in the op log."""
        return [
            (entry.identity[1], entry.resolution, entry.covered_count)
            for entry in self.twin.ops()
            if isinstance(entry, DecisionRead)
        ]

    async def prepared(self, transaction_id: str = "T1", count: int = 1) -> str:
        """A handle of a transaction with so many messages."""
        result = await self.service.prepare(
            producer_group=GROUP,
            transaction_id=transaction_id,
            messages=[message(value=b"%s-%d" % (transaction_id.encode(), n)) for n in range(count)],
        )
        return result.handle


def message(
    topic: str = "orders", key: bytes | None = None, value: bytes | None = b"v", **options: Any
) -> OutgoingMessage:
    return OutgoingMessage(topic, key, value, options.pop("headers", []), **options)


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(20):
        await asyncio.sleep(0)
