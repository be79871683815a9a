"""The coordinator without doors: everything between the transaction service and Kafka, wired.

Start order: record log -> (Kafka reached, internal topics verified) -> service open -> membership,
which brings the owners. Stop order is the reverse: the doors have drained before `stop` is called;
then partitions are given up in order, so that no Kafka transaction stays open, then appends are
flushed.

Kafka may be away at start: the service then answers 503, and the engine goes on trying. Topics that
break a promise are final: `failed` tells, and the process should end.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from halfhitch import __version__
from halfhitch.adapters.callback.links import CallbackLinks
from halfhitch.adapters.kafka import clients, topics
from halfhitch.adapters.kafka.burden_board import KafkaBurdenBoard
from halfhitch.adapters.kafka.catalog import KafkaTopicCatalog
from halfhitch.adapters.kafka.half_search import KafkaHalfSearch
from halfhitch.adapters.kafka.held_logs import HeldLogs
from halfhitch.adapters.kafka.log_ends import LogEnds
from halfhitch.adapters.kafka.markers import KafkaMarkers
from halfhitch.adapters.kafka.membership import GroupMembership
from halfhitch.adapters.kafka.op_tail import KafkaInquiry, KafkaOpTail
from halfhitch.adapters.kafka.parked_store import resumer_id
from halfhitch.adapters.kafka.partition_reader import KafkaPartitionReader
from halfhitch.adapters.kafka.partition_writer import KafkaPartitionWriter
from halfhitch.adapters.kafka.record_log import KafkaRecordLog
from halfhitch.adapters.kafka.stored import StoredOffsets
from halfhitch.adapters.kafka.topic_watch import TopicWatch
from halfhitch.adapters.redis.later import LaterIndex
from halfhitch.adapters.system import SystemClock, new_transaction_id
from halfhitch.core.model import Identity, Resolution, ResolutionSource
from halfhitch.engine_clients import Appends, EngineClients
from halfhitch.engine_opening import callbacks, held_logs, made_index, parked_store, verified
from halfhitch.engine_options import EngineOptions
from halfhitch.errors import BackendError, HalfHitchError
from halfhitch.ports import Clock, Observer, PartitionReader
from halfhitch.service.admission import Admission
from halfhitch.service.api import MembershipState, PartitionState
from halfhitch.service.asking import Asking
from halfhitch.service.checkback import CheckBack
from halfhitch.service.checking.api import OUTCOME_OF, CheckOutcome
from halfhitch.service.checking.desk import Desk
from halfhitch.service.checking.policy import GiveUpPolicy
from halfhitch.service.decisions import DecisionLog
from halfhitch.service.intake import Intake
from halfhitch.service.intake_watch import IntakeWatch
from halfhitch.service.operations import OperationsParts, OperationsService
from halfhitch.service.owner import PartitionOwner
from halfhitch.service.ownership import Ownership
from halfhitch.service.parts import Inquiry, Parts
from halfhitch.service.payloads import PayloadCache
from halfhitch.service.sizes import TransactionSizes
from halfhitch.service.target_topics import TargetTopics
from halfhitch.service.topics import TopicPolicy
from halfhitch.service.transactions import TransactionService
from halfhitch.service.visibility import Visibility
from halfhitch.service.worker import PartitionWorker
from halfhitch.wire.handle import HandleCodec

__all__ = ["Engine", "EngineOptions"]

logger = logging.getLogger(__name__)

#: Kafka is asked for a sign of life so often; readiness follows it.
_PROBE_S: Final = 2.0
#: While it is away: who waits for Kafka shall not wait for us.
_PROBE_AGAIN_S: Final = 0.5
_FLUSH_S: Final = 5.0
#: One try at the internal topics. A stop cannot interrupt it, so it must be short; it is repeated.
_TOPICS_WAIT_S: Final = 5.0


#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_DECIDED: Final = CheckOutcome.DECIDED
_CHECK: Final = ResolutionSource.CHECK


def _nobody(_: str) -> None:
    """Nobody wants to know which groups prepare here."""


class Engine:
    """Make it, `await start()`, use `transactions`, `await stop()`; all on one event loop."""

    def __init__(
        self, options: EngineOptions, observer: Observer, clock: Clock | None = None
    ) -> None:
        self._options = options
        self._observer = observer
        self._clock = clock or SystemClock()
        self._names = topics.InternalTopics(options.topic_prefix)
        self._clients = EngineClients(options, self._names)
        self._started_s = self._clock.monotonic_s()
        self._kafka_trouble: str | None = "Kafka has not been reached yet"
        self._tasks: list[asyncio.Future[Any]] = []
        self._is_open = False
        self._partition_count = 0
        self._cluster_id = ""  # until Kafka was reached
        self._failure: asyncio.Future[HalfHitchError] | None = None
        self._index = None if options.redis_url is None else LaterIndex()
        self._callbacks: CallbackLinks | None = None

    async def start(self) -> None:
        """Begin; returns at once, whether or not Kafka is there."""
        self._loop = loop = asyncio.get_running_loop()
        options, names = self._options, self._names
        self._failure = loop.create_future()
        self._admin = self._clients.admin()
        self._ends = LogEnds(self._admin)
        self._catalog = KafkaTopicCatalog(self._admin, message_bytes_max=options.message_bytes_max)
        self._stored_offsets = StoredOffsets(self._clients.consumer)
        self._watch = TopicWatch(
            self._admin,
            self._stored_offsets,
            names,
            message_bytes_max=options.message_bytes_max,
            wait_s=_TOPICS_WAIT_S,
        )
        self._policy = TopicPolicy(internal_topics=names.all, allow=options.allow_topics)
        self._log = KafkaRecordLog(
            self._clients.record_producer,
            half_topic=names.half,
            op_topic=names.op,
        )
        self._decisions = DecisionLog(self._log)
        self._policy_of_topics = GiveUpPolicy(options.give_up, options.give_up_topics)
        self._handles = HandleCodec(options.handle_keys)
        self._tail = KafkaOpTail(self._clients.consumer, op_topic=names.op)
        visibility = Visibility(loop, self._tail)
        self._tail.attach(visibility)
        self._ownership = Ownership(
            self._make_worker(visibility),
            on_lost=visibility.lost,
            instance=options.instance,
            stop_wait_s=options.stop_wait_s,
        )
        self._membership = GroupMembership(
            self._clients.member,
            half_topic=names.half,
            listener=self._ownership,
            session_s=options.session_timeout_ms / 1000,
            kafka_answers=lambda: self._kafka_trouble is None,
            note=self._watch.note,
            on_fatal=self._fail_soon,
        )
        self.desk = Desk(
            loop=loop,
            instance=options.instance,
            index=self._index,
            presence=self._index,
            decisions=self._decisions,
            observer=self._observer,
            clock=self._clock,
            reports=self._ownership,
            limits=options.desk_limits,
            check_now=self._check_now,
        )
        self._callbacks = callbacks(options, self.desk, self._end_by_check)
        self.intake = self._make_intake()
        parts = self._parts(visibility)
        self.transactions = TransactionService(parts)
        self.target_topics = TargetTopics(self._policy, self._catalog, parts.admission)
        self.operations = OperationsService(self._operations_parts(parts.inquiry))
        self._log.start()
        self.desk.start()
        self._held = self._make_held_logs()
        held = self._held.run(self._clock.monotonic_s)
        running = (self._open(), self._probe(), self._intake_watch.run(), held)
        self._tasks = [asyncio.ensure_future(each) for each in running]

    def _make_held_logs(self) -> HeldLogs:
        return held_logs(
            self._admin,
            self._ends,
            self._options,
            partition_count=lambda: self._partition_count,
            targets=self._catalog.known,
            observer=self._observer,
        )

    def _make_intake(self) -> Intake:
        intake = Intake(self._options.intake_limits)
        self._board = KafkaBurdenBoard(
            self._clients.bounds_client,
            group=self._names.bounds_group,
            half_topic=self._names.half,
        )
        self._intake_watch = IntakeWatch(
            intake,
            self._board,
            states=self._ownership.states,
            partition_count=lambda: self._partition_count,
        )
        return intake

    def _parts(self, visibility: Visibility) -> Parts:
        options, names = self._options, self._names
        return Parts(
            log=self._log,
            decisions=self._decisions,
            admission=Admission(
                policy=self._policy,
                catalog=self._catalog,
                message_bytes_max=options.message_bytes_max,
            ),
            owners=self._ownership,
            visibility=visibility,
            inquiry=KafkaInquiry(
                self._clients.consumer, self._ends, half_topic=names.half, op_topic=names.op
            ),
            markers=KafkaMarkers(self._ends, self._catalog),
            handles=self._handles,
            observer=self._observer,
            clock=self._clock,
            new_id=new_transaction_id,
            instance=options.instance,
            visible_wait_s=options.visible_wait_s,
            on_decided=self._on_decided,
            on_group=_nobody if self._callbacks is None else self._callbacks.notice,
            intake=self.intake,
            sizes=TransactionSizes(options.transaction_bytes_max),
        )

    def _operations_parts(self, inquiry: Inquiry) -> OperationsParts:
        self._parked = parked_store(self._clients, self._admin, self._options)
        return OperationsParts(
            owners=self._ownership,
            decisions=self._decisions,
            halves=KafkaHalfSearch(self._clients.consumer, self._ends, half_topic=self._names.half),
            inquiry=inquiry,
            parked=self._parked,
            index=self._index,
            presence=self._index,
            observer=self._observer,
            clock=self._clock,
            partition_count=lambda: self._partition_count,
            check_count_max=self._options.owner_limits.check_rules.count_max,
        )

    def appends(self) -> Appends:
        """For whoever else appends halves and decisions in this process."""
        return Appends(
            config=self._clients.record_config(),
            instance=self._options.instance,
            message_bytes_max=self._options.message_bytes_max,
            half_topic=self._names.half,
            op_topic=self._names.op,
            partition_count=lambda: self._partition_count,
            target_partitions=self._catalog.partition_count,
            decisions=self._decisions,
        )

    async def _end_by_check(self, handle: str, resolution: Resolution) -> None:
        await self.transactions.end(handle, resolution, source=ResolutionSource.CHECK)

    def _notice(self, producer_group: str) -> None:
        """From owners' threads: the group has transactions to be checked, and nobody is live."""
        if self._callbacks is not None:
            self._loop.call_soon_threadsafe(self._callbacks.notice, producer_group)

    def _on_decided(
        self, identity: Identity, resolution: Resolution | None, source: ResolutionSource
    ) -> None:
        """An end was answered here: if a check of it is out, that is its answer."""
        outcome = _DECIDED
        if source is _CHECK and resolution is not None:
            outcome = OUTCOME_OF[resolution]
        self.desk.settle(identity, outcome)

    def _check_now(self, partition: int, identity: Identity) -> None:
        """Another instance's operator wants this checked."""
        asked = self._ownership.check_now(partition, identity)
        task = asyncio.gather(asked, return_exceptions=True)  # nobody here waits for an answer
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    async def stop(self) -> None:
        """Give partitions up in order, flush, let go. The doors must have drained before."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._membership.is_alive:
            await asyncio.to_thread(self._membership.stop, self._options.stop_wait_s + 2.0)
        await asyncio.to_thread(self._ownership.stop)
        if self._callbacks is not None:
            await self._callbacks.stop()
        self.desk.stop()
        self._parked.stop()
        await asyncio.to_thread(self._board.close)
        if self._index is not None:
            await self._index.stop()
        await asyncio.to_thread(self._tail.stop, 2.0)
        await self._log.stop(_FLUSH_S)

    async def failed(self) -> HalfHitchError:
        """Wait for an error that no waiting will mend; the process should end with it."""
        assert self._failure is not None, "start() first"
        return await asyncio.shield(self._failure)

    # -- Kafka comes and goes --------------------------------------------------------------------

    async def _open(self) -> None:
        """Verify the internal topics, then serve. Retried until Kafka answers."""
        while True:
            try:
                self._cluster_id, count = await asyncio.to_thread(
                    verified,
                    self._admin,
                    self._stored_offsets,
                    self._watch,
                    self._options,
                    wait_s=_TOPICS_WAIT_S,
                )
            except BackendError as error:
                self._kafka_trouble = error.message
                await asyncio.sleep(1.0)
                continue
            except HalfHitchError as error:
                self._fail(error)
                return
            self._kafka_trouble = None
            self._is_open = True
            self._partition_count = count
            self._open_index()
            self.transactions.open(count)
            if self._options.owner_enabled:
                self._membership.start()
            await self._watch_topics()
            return

    def _fail(self, error: HalfHitchError) -> None:
        """What no waiting will mend: the process should end."""
        if self._failure is not None and not self._failure.done():
            logger.error("%s", error, extra={"action": "engine_failed"})
            self._failure.set_result(error)

    def _fail_soon(self, error: HalfHitchError) -> None:
        """From another thread."""
        self._loop.call_soon_threadsafe(self._fail, error)

    async def _watch_topics(self) -> None:
        """Until `stop`: somebody may change the internal topics under us."""
        while True:
            await asyncio.sleep(self._options.watch_s)
            try:
                await asyncio.to_thread(self._watch.look)
            except HalfHitchError as error:
                self.transactions.open(0)  # no more prepares
                self._fail(error)
                return

    def _open_index(self) -> None:
        """Before the owners: they tell it what they own."""
        options = self._options
        if options.redis_url is None or self._index is None:
            return
        index = made_index(
            options.redis_url,
            self._cluster_id,
            options,
            observer=self._observer,
            on_post=self.desk.on_inbox,
        )
        index.start()
        self._index.opened(index)

    async def _probe(self) -> None:
        while True:
            await asyncio.sleep(_PROBE_S if self._kafka_trouble is None else _PROBE_AGAIN_S)
            clients.logger.tell_left_out()
            if not self._is_open:
                continue
            try:
                await asyncio.to_thread(self._log.probe)
            except BackendError as error:
                self._kafka_trouble = error.message
            else:
                self._kafka_trouble = None

    # -- parts -----------------------------------------------------------------------------------

    def _make_worker(self, visibility: Visibility) -> Callable[[int], PartitionWorker]:
        options, names = self._options, self._names

        def make_owner(partition: int, may_write: Callable[[], bool]) -> PartitionOwner:
            writer = KafkaPartitionWriter(
                partial(self._clients.owner_producer, f"{names.owner_group}-{partition}"),
                make_resumer=partial(
                    self._clients.resume_producer, resumer_id(names.owner_group, partition)
                ),
                admin=self._admin,
                group_metadata=partial(self._membership.metadata, may_write),
                half_topic=names.half,
                op_topic=names.op,
                partition=partition,
                transaction_timeout_ms=options.transaction_timeout_ms,
            )
            return PartitionOwner(
                partition,
                reader=KafkaPartitionReader(
                    self._clients.consumer,
                    ends=self._ends,
                    half_topic=names.half,
                    op_topic=names.op,
                    partition=partition,
                ),
                writer=writer,
                policy=self._policy,
                parked_topic=names.parked,
                observer=self._observer,
                clock=self._clock,
                limits=options.owner_limits,
                on_done=visibility.done,
                make_checkback=partial(self._make_checkback, partition),
                dice=random.random,
            )

        return lambda partition: PartitionWorker(
            partition, partial(make_owner, partition), on_newer=self._membership.leave
        )

    def _make_checkback(
        self, partition: int, payloads: PayloadCache, reader: PartitionReader
    ) -> CheckBack:
        return CheckBack(
            partition,
            gate=self.desk,
            index=self._index,
            on_nobody=self._notice,
            policy=self._policy_of_topics,
            asking=Asking(
                partition,
                half_topic=self._names.half,
                sign=self._handles.encode,
                number_max=self._options.owner_limits.check_rules.count_max,
            ),
            observer=self._observer,
            clock=self._clock,
            payloads=payloads,
            reader=reader,
        )

    # -- what people and probes ask (service.api.System) -----------------------------------------

    def unready_reasons(self) -> list[str]:
        """Why new prepares would fail now."""
        failure = self._failure
        if failure is not None and failure.done():  # what the probe finds does not make it good
            return [failure.result().message]
        return [] if self._kafka_trouble is None else [self._kafka_trouble]

    def degraded_reasons(self) -> list[str]:
        """What does not work as it should, while prepares and ends do."""
        redis = None if self._index is None else self._index.trouble
        alone = [trouble for trouble in (redis, self._intake_watch.trouble) if trouble is not None]
        owning = [*self._ownership.troubles(), *self._membership.troubles()]
        topics = [*self._watch.troubles, *self._held.troubles]
        return [*owning, *topics, *self.intake.troubles(), *alone]

    def death_reasons(self) -> list[str]:
        """Why only a restart would help."""
        if not self._is_open:
            return []
        reasons = []
        if self._options.owner_enabled and not self._membership.is_alive:
            reasons.append("the thread of the owners' group membership has died")
        if not self._log.is_alive:
            reasons.append("the thread that appends to the half and op logs has died")
        return reasons

    def partitions(self) -> list[PartitionState]:
        """The partitions this instance owns."""
        return self._ownership.states()

    def membership(self) -> tuple[int, MembershipState | None]:
        """How many half partitions there are (0: not known yet), and whether it may own some."""
        return self._partition_count, self._membership.state()

    def info(self) -> dict[str, str | int | float | bool | None]:
        """Flat facts, safe to show."""
        return {
            "version": __version__,
            "instance": self._options.instance,
            "kafka_bootstrap": self._options.bootstrap,
            "kafka_cluster_id": self._cluster_id,
            "topic_prefix": self._options.topic_prefix,
            "owner_enabled": self._options.owner_enabled,
            "membership_trouble": self._membership.trouble,
            "uptime_s": round(self._clock.monotonic_s() - self._started_s, 1),
        }
