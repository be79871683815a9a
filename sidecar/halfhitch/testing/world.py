"""A whole coordinator over a Kafka in memory: the shipped service, desk, owners and data door.

Only Kafka, Redis (there is none) and the clock are not what an installation has. One instance owns
every half partition, so nothing has to be looked up in another's logs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from halfhitch.access import Access
from halfhitch.adapters.memory import (
    MemoryClock,
    MemoryKafka,
    MemoryMarkers,
    MemoryPartitionReader,
    MemoryPartitionWriter,
    MemoryRecordLog,
    MemoryTopicCatalog,
)
from halfhitch.adapters.system import new_transaction_id
from halfhitch.composition.limits import http_limits
from halfhitch.composition.options import engine_options
from halfhitch.config import Settings
from halfhitch.core.model import (
    Identity,
    ProducerGroup,
    Resolution,
    ResolutionSource,
)
from halfhitch.doors.http.server import HttpDoor
from halfhitch.errors import HalfHitchError
from halfhitch.observability.metrics import Metrics
from halfhitch.ports import PartitionReader
from halfhitch.service.checking.api import OUTCOME_OF, CheckOutcome
from halfhitch.service.checking.desk import Desk
from halfhitch.service.checking.policy import GiveUpPolicy
from halfhitch.service.owner.checkback import CheckBack
from halfhitch.service.owner.ownership import Ownership
from halfhitch.service.owner.payloads import PayloadCache
from halfhitch.service.owner.questions import CheckQuestions
from halfhitch.service.owner.turn import PartitionOwner
from halfhitch.service.topic_policy import TopicPolicy
from halfhitch.service.transactions.admission import Admission
from halfhitch.service.transactions.dependencies import Dependencies
from halfhitch.service.transactions.first import FirstDecisions, LookedUp, gone
from halfhitch.service.transactions.intake import Intake
from halfhitch.service.transactions.looking_up import Look, told_in
from halfhitch.service.transactions.op_appends import DecisionLog
from halfhitch.service.transactions.service import TransactionService
from halfhitch.service.transactions.sizes import TransactionSizes
from halfhitch.service.transactions.visibility import Visibility
from halfhitch.testing.partitions import SettlingWorker
from halfhitch.wire import half as half_wire
from halfhitch.wire.check import Check
from halfhitch.wire.half import Garbage
from halfhitch.wire.handle import HandleCodec
from halfhitch.wire.topics import InternalTopics

HANDLE_KEY = b"only a coordinator in memory signs with this"
_STOP_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class AskedCheck:
    """One question that went out to the producers of a group."""

    transaction_id: str
    producer_group: str
    number: int


class Gate:
    """service.checking.api.CheckGate: the desk, with a door in front of it that a test may shut."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.is_shut = False
        self.asked: list[AskedCheck] = []

    def take(self, producer_group: ProducerGroup, wanted_count: int) -> int:
        """See CheckGate. Nobody is live while it is shut."""
        return 0 if self.is_shut else self._desk.take(producer_group, wanted_count)

    def give_back(self, producer_group: ProducerGroup, count: int) -> None:
        """See CheckGate."""
        self._desk.give_back(producer_group, count)

    def send(self, checks: Sequence[Check]) -> None:
        """See CheckGate."""
        self.asked += [AskedCheck(c.identity[1], c.identity[0], c.number) for c in checks]
        self._desk.send(checks)

    def forget(self, identities: Sequence[Identity], outcomes: Sequence[CheckOutcome] = ()) -> None:
        """See CheckGate."""
        self._desk.forget(identities, outcomes)

    def decide(
        self, partition: int, identity: Identity, resolution: Resolution, covered_count: int,
        half_offsets: tuple[int, ...], reason: str,
    ) -> None:  # fmt: skip
        """See CheckGate."""
        self._desk.decide(partition, identity, resolution, covered_count, half_offsets, reason)


class OpLog:
    """Inquiry and OpTail: what an instance asks that does not own the partition."""

    def __init__(self, kafka: MemoryKafka) -> None:
        self._kafka = kafka

    def follow(self, partition: int, from_op_offset: int) -> None:
        """See OpTail. The owners here tell all there is to tell."""

    async def look_up(
        self, partition: int, identity: Identity, half_offset: int
    ) -> tuple[Resolution | None, bool]:
        """See Inquiry."""
        look = Look(half_offset)
        for record in self._kafka.committed(self._kafka.half_topic):
            half = half_wire.read_identity(
                record.offset(), record.timestamp()[1], 0, record.headers() or []
            )
            is_it = (record.partition, record.offset()) == (partition, half_offset)
            if is_it and not isinstance(half, Garbage) and half.identity == identity:
                look.begin(half)
        events = (
            event
            for record in self._kafka.committed(self._kafka.op_topic)
            if record.partition == partition
            for event in told_in(
                record.offset(), record.timestamp()[1], record.value(), record.headers()
            )
        )
        any(event.identity == identity and look.take(event) for event in events)
        if look.refusal is not None:
            raise look.refusal
        begin = self._kafka.log(self._kafka.half_topic, partition).start
        if look.told[0] is None and half_offset < begin:
            raise gone(identity)
        return look.told

    async def look_up_many(
        self,
        partition: int,
        half_offsets: Mapping[Identity, int],
        seen_ms: int | None = None,  # noqa: ARG002 - all is read
    ) -> dict[Identity, LookedUp]:
        """See Inquiry."""
        return await one_by_one(self.look_up, partition, half_offsets)


LookUp = Callable[[int, Identity, int], Awaitable[tuple[Resolution | None, bool]]]


async def one_by_one(
    look_up: LookUp, partition: int, half_offsets: Mapping[Identity, int]
) -> dict[Identity, LookedUp]:
    """What `Inquiry.look_up_many` gives, by its `look_up`."""
    found: dict[Identity, LookedUp] = {}
    for identity, half_offset in half_offsets.items():
        try:
            found[identity] = await look_up(partition, identity, half_offset)
        except HalfHitchError as error:
            found[identity] = error
    return found


class World:
    """Made, started and stopped on its event loop."""

    def __init__(self, settings: Settings, kafka: MemoryKafka, clock: MemoryClock) -> None:
        self.kafka, self.clock = kafka, clock
        self._options = options = engine_options(settings)
        self._loop = loop = asyncio.get_running_loop()
        self._observer = observer = Metrics()
        self.parked_topic = InternalTopics().parked
        self._policy = TopicPolicy(
            internal_topics=(kafka.half_topic, kafka.op_topic, self.parked_topic),
            allow=options.allow_topics,
        )
        self._give_up = GiveUpPolicy(options.give_up, options.give_up_topics)
        self._handles = HandleCodec((HANDLE_KEY,))
        log, op_log = MemoryRecordLog(kafka), OpLog(kafka)
        self._decisions = DecisionLog(log)
        self._visibility = Visibility(loop, op_log)
        self.workers: dict[int, SettlingWorker] = {}
        self.ownership = Ownership(
            self._make_worker,
            on_lost=self._visibility.lost,
            instance=options.instance,
            stop_wait_s=_STOP_WAIT_S,
        )
        self._decisions.owner_read_to = self.ownership.op_read_to
        self._firsts = FirstDecisions(self.ownership, op_log, wait_s=options.visible_wait_s)
        self.desk = Desk(
            loop=loop,
            instance=options.instance,
            index=None,
            presence=None,
            decisions=self._decisions,
            observer=observer,
            clock=clock,
            reports=self.ownership,
            limits=options.desk_limits,
        )
        self.gate = Gate(self.desk)
        self.transactions = TransactionService(
            Dependencies(
                log=log,
                decisions=self._decisions,
                admission=Admission(
                    policy=self._policy,
                    catalog=MemoryTopicCatalog(kafka),
                    message_bytes_max=options.message_bytes_max,
                ),
                owners=self.ownership,
                visibility=self._visibility,
                inquiry=op_log,
                firsts=self._firsts,
                markers=MemoryMarkers(),
                handles=self._handles,
                observer=observer,
                clock=clock,
                new_id=new_transaction_id,
                instance=options.instance,
                visible_wait_s=options.visible_wait_s,
                on_decided=self._on_decided,
                on_group=lambda _: None,
                intake=Intake(options.intake_limits),
                sizes=TransactionSizes(options.transaction_bytes_max),
            )
        )
        self.door = HttpDoor(
            self.transactions,
            checks=self.desk,
            port=0,
            access=Access(),
            # A test that has left a transaction undecided does not wait for its end.
            limits=replace(http_limits(settings), unended_s=0.01),
        )

    async def start(self) -> None:
        """Owners take over, the door opens."""
        self.desk.start()
        count = self.kafka.partition_count(self.kafka.half_topic) or 0
        self.ownership.assigned(range(count))
        self.transactions.open(count)
        await self.door.start()

    async def stop(self) -> None:
        """The door first, as an installation does it."""
        await self.door.stop(drain_s=1.0)
        await asyncio.to_thread(self.ownership.stop)
        self.desk.stop()

    def _on_decided(
        self, identity: Identity, resolution: Resolution | None, source: ResolutionSource
    ) -> None:
        is_answer = source is ResolutionSource.CHECK and resolution is not None
        self.desk.settle(identity, OUTCOME_OF[resolution] if is_answer else CheckOutcome.DECIDED)

    # -- owners ------------------------------------------------------------------------------------

    def _make_worker(self, partition: int) -> SettlingWorker:
        worker = SettlingWorker(partition, partial(self._make_owner, partition), self.kafka)
        self.workers[partition] = worker
        return worker

    def _make_owner(self, partition: int, _: Callable[[], bool]) -> PartitionOwner:
        return PartitionOwner(
            partition,
            reader=MemoryPartitionReader(self.kafka, partition=partition),
            writer=MemoryPartitionWriter(self.kafka, partition=partition),
            policy=self._policy,
            parked_topic=self.parked_topic,
            observer=self._observer,
            clock=self.clock,
            limits=self._options.owner_limits,
            on_done=self._visibility.done,
            make_checkback=partial(self._make_checkback, partition),
            on_read=self._firsts.look_soon,
        )

    def _make_checkback(
        self, partition: int, payloads: PayloadCache, reader: PartitionReader
    ) -> CheckBack:
        return CheckBack(
            partition,
            gate=self.gate,
            index=None,
            policy=self._give_up,
            questions=CheckQuestions(
                partition,
                half_topic=self.kafka.half_topic,
                sign=self._handles.encode,
                number_max=self._options.owner_limits.check_rules.count_max,
            ),
            observer=self._observer,
            clock=self.clock,
            payloads=payloads,
            reader=reader,
        )
