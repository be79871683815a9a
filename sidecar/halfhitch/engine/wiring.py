"""The parts of an engine, tied together: every port has its adapter here.

Nothing in here starts, runs or ends; that is life.py.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from halfhitch import __version__
from halfhitch.adapters.callback.links import CallbackLinks
from halfhitch.adapters.callback.target import Target
from halfhitch.adapters.kafka import topics
from halfhitch.adapters.kafka.asked_halves import KafkaAskedHalves
from halfhitch.adapters.kafka.audit_topic import AuditTopic
from halfhitch.adapters.kafka.burden_board import KafkaBurdenBoard
from halfhitch.adapters.kafka.catalog import KafkaTopicCatalog
from halfhitch.adapters.kafka.half_search import KafkaHalfSearch
from halfhitch.adapters.kafka.held_logs import HeldLogs
from halfhitch.adapters.kafka.log_ends import LogEnds
from halfhitch.adapters.kafka.markers import KafkaMarkers
from halfhitch.adapters.kafka.membership import GroupMembership
from halfhitch.adapters.kafka.op_tail import KafkaInquiry, KafkaOpTail
from halfhitch.adapters.kafka.parked_store import KafkaParkedStore, resumer_id
from halfhitch.adapters.kafka.partition_reader import KafkaPartitionReader
from halfhitch.adapters.kafka.partition_writer import KafkaPartitionWriter
from halfhitch.adapters.kafka.record_log import KafkaRecordLog
from halfhitch.adapters.kafka.skip_orders import SkipOrders
from halfhitch.adapters.kafka.stored import StoredOffsets
from halfhitch.adapters.kafka.story_log import KafkaStoryLog
from halfhitch.adapters.kafka.target_logs import KafkaTargetLogs
from halfhitch.adapters.kafka.topic_watch import TopicWatch
from halfhitch.adapters.otlp import OtlpExporter
from halfhitch.adapters.redis.index import RedisIndex
from halfhitch.adapters.system import new_transaction_id
from halfhitch.core.model import Identity, Resolution, ResolutionSource
from halfhitch.engine.kafka_clients import Appends, EngineClients
from halfhitch.engine.options import EngineOptions
from halfhitch.engine.told import ToldReports
from halfhitch.errors import HalfHitchError
from halfhitch.ports import Clock, Observer, PartitionReader
from halfhitch.service.checking.api import OUTCOME_OF, CheckOutcome
from halfhitch.service.checking.desk import Desk
from halfhitch.service.checking.policy import GiveUpPolicy
from halfhitch.service.operators.many import ManyOperations
from halfhitch.service.operators.parked_watch import ParkedWatch
from halfhitch.service.operators.parts import OperationsParts
from halfhitch.service.operators.stories import StoriesService
from halfhitch.service.owner.checkback import CheckBack
from halfhitch.service.owner.ownership import Ownership
from halfhitch.service.owner.payloads import PayloadCache
from halfhitch.service.owner.questions import CheckQuestions
from halfhitch.service.owner.rhythm import Rhythm
from halfhitch.service.owner.spans import Spans
from halfhitch.service.owner.stories import AuditPlace, Stories
from halfhitch.service.owner.turn import PartitionOwner
from halfhitch.service.owner.worker import PartitionWorker
from halfhitch.service.topic_policy import TopicPolicy
from halfhitch.service.transactions.admission import Admission
from halfhitch.service.transactions.dependencies import Dependencies
from halfhitch.service.transactions.first import FirstDecisions
from halfhitch.service.transactions.intake import Intake
from halfhitch.service.transactions.intake_watch import IntakeWatch
from halfhitch.service.transactions.op_appends import DecisionLog
from halfhitch.service.transactions.service import TransactionService
from halfhitch.service.transactions.sizes import TransactionSizes
from halfhitch.service.transactions.topic_directory import TopicDirectory
from halfhitch.service.transactions.visibility import Visibility
from halfhitch.wire.handle import HandleCodec
from halfhitch.wire.topics import InternalTopics

#: In one look for Kafka transactions that hang; the internal ones come first.
_LOGS_MAX: Final = 2_000
#: One try at the internal topics. A stop cannot interrupt it, so it must be short; it is repeated.
TOPICS_WAIT_S: Final = 5.0

#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_DECIDED: Final = CheckOutcome.DECIDED
_CHECK: Final = ResolutionSource.CHECK


def _nobody(_: str) -> None:
    """Nobody wants to know which groups prepare here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What the parts ask of the engine that runs them."""

    kafka_answers: Callable[[], bool]
    partition_count: Callable[[], int]  # 0 until Kafka was reached
    first_half: Callable[[int], int]  # see DecisionLog.first_half
    on_fatal: Callable[[HalfHitchError], None]  # from any thread
    check_now: Callable[[int, Identity], None]


class Parts:
    """All parts of one engine. Made on its event loop; nothing is added or replaced later."""

    def __init__(
        self, options: EngineOptions, observer: Observer, clock: Clock, life: Life
    ) -> None:
        self._options, self._observer, self._clock, self._life = options, observer, clock, life
        self._names = names = InternalTopics(options.topic_prefix)
        self._clients = EngineClients(options, names)
        self._loop = loop = asyncio.get_running_loop()
        self.index = self._make_index()
        self.admin = self._clients.admin()
        self._ends = LogEnds(self.admin)
        self._catalog = KafkaTopicCatalog(self.admin, message_bytes_max=options.message_bytes_max)
        consumer, half, op = self._clients.consumer, names.half, names.op
        self._inquiry = KafkaInquiry(consumer, self._ends, half_topic=half, op_topic=op)
        self._half_search = KafkaHalfSearch(consumer, self._ends, half_topic=half)
        self.stored_offsets = StoredOffsets(self._clients.consumer)
        self.watch = TopicWatch(
            self.admin,
            self.stored_offsets,
            names,
            message_bytes_max=options.message_bytes_max,
            wait_s=TOPICS_WAIT_S,
        )
        self.audit = AuditTopic(self.admin, names, options.audit)
        self.spans = self._make_exporter()
        self._topic_policy = TopicPolicy(internal_topics=names.reserved, allow=options.allow_topics)
        self._give_up_policy = GiveUpPolicy(options.give_up, options.give_up_topics)
        self.log = self._make_log()
        self._decisions = DecisionLog(self.log)
        self.handles = HandleCodec(options.handle_keys, installation=None)
        self.tail = KafkaOpTail(self._clients.consumer, op_topic=names.op)
        self._visibility = visibility = Visibility(loop, self.tail)
        self._rhythm = Rhythm(self._visibility.is_waited_for)
        self.tail.attach(visibility)
        self.ownership = self._make_ownership()
        self._decisions.owner_read_to = self.ownership.op_read_to
        self._decisions.first_half = life.first_half
        self._firsts = FirstDecisions(self.ownership, self._inquiry, wait_s=options.visible_wait_s)
        self._decisions.on_read.append(self._firsts.look_soon)
        self.membership = self._make_membership()
        self.asked_halves = KafkaAskedHalves(
            loop, self._clients.consumer, self.handles.encode, half_topic=names.half
        )
        self.desk = self._make_desk()
        self.callbacks = self._make_callbacks()
        self.intake = Intake(options.intake_limits)
        self.board = KafkaBurdenBoard(
            self._clients.bounds_client, group=names.bounds_group, half_topic=names.half
        )
        self.intake_watch = IntakeWatch(
            self.intake,
            self.board,
            states=self.ownership.states,
            partition_count=life.partition_count,
        )
        dependencies = self._dependencies()
        self.transactions = TransactionService(dependencies)
        self.topic_directory = TopicDirectory(
            self._topic_policy, self._catalog, dependencies.admission
        )
        self.parked = self._parked_store()
        self.parked_watch = ParkedWatch(self.parked, self.ownership.states, observer.parked_open)
        self.operations = ManyOperations(self._operations_parts())
        self.held_logs = self._make_held_logs()
        self.story_log = self._make_story_log()
        self.target_logs = KafkaTargetLogs(self._clients.looker)
        logs = self.story_log, self.operations, self.target_logs
        self.stories = StoriesService(*logs, self.audit.untold, clock.wall_ms)

    def _make_ownership(self) -> Ownership:
        return Ownership(
            self._make_worker,
            on_lost=self._lost,
            instance=self._options.instance,
            stop_wait_s=self._options.stop_wait_s,
            is_candidate=self._options.owner_enabled,
            on_assigned=self._assigned,
        )

    def _make_log(self) -> KafkaRecordLog:
        return KafkaRecordLog(
            self._clients.record_producer,
            half_topic=self._names.half,
            op_topic=self._names.op,
            on_answered=self._observer.appended,
        )

    def _make_exporter(self) -> OtlpExporter | None:
        """None where nobody is to be told of traces."""
        options = self._options
        if options.spans_endpoint is None:
            return None
        return OtlpExporter(options.spans_endpoint, instance=options.instance, version=__version__)

    def _make_membership(self) -> GroupMembership:
        return GroupMembership(
            self._clients.member,
            half_topic=self._names.half,
            listener=self.ownership,
            session_s=self._options.session_timeout_ms / 1000,
            kafka_answers=self._life.kafka_answers,
            note=self.watch.note,
            on_fatal=self._life.on_fatal,
        )

    def _make_story_log(self) -> KafkaStoryLog:
        return KafkaStoryLog(
            self._clients.searcher,
            self.admin,
            self._ends,
            topic=self._names.audit,
            index_partition=lambda: self.audit.index_partition,
        )

    def _make_desk(self) -> Desk:
        return Desk(
            loop=self._loop,
            instance=self._options.instance,
            index=self.index,
            presence=self.index,
            decisions=self._decisions,
            observer=self._observer,
            clock=self._clock,
            reports=ToldReports(
                self.ownership,
                number_max=self._options.owner_limits.check_rules.count_max,
            ),
            limits=self._options.desk_limits,
            halves=self.asked_halves,
            check_now=self._life.check_now,
        )

    def _make_callbacks(self) -> CallbackLinks | None:
        """Where producers are asked by POST; None where that is not wanted."""
        options = self._options
        if options.check_url is None:
            return None
        return CallbackLinks(
            Target.parse(options.check_url, options.check_url_networks),
            desk=self.desk,
            end=self._end_by_check,
            groups=options.check_url_groups,
            token=options.check_url_token,
            answer_s=options.desk_limits.answer_s,
        )

    def _make_held_logs(self) -> HeldLogs:
        """Looks at both internal logs, and at the targets that are known here."""
        names, options = self._names, self._options

        def logs() -> list[tuple[str, int]]:
            halves = range(self._life.partition_count())
            found = [(topic, p) for topic in (names.half, names.op) for p in halves]
            if found:
                known = self._catalog.known()
                found += [(topic, p) for topic, count in known.items() for p in range(count)]
            return found[:_LOGS_MAX]

        return HeldLogs(
            self.admin,
            self._ends,
            logs=logs,
            always=(names.half, names.op),
            bootstrap=options.bootstrap,
            options=options.admin_options,
            tell=self._observer.unreadable,
            after_s=options.held_after_s,
        )

    def _parked_store(self) -> KafkaParkedStore:
        """What was given up, to be looked at and put back."""
        names = self._names
        return KafkaParkedStore(
            self._clients.consumer,
            self._clients.resume_producer,
            lambda: self.admin,
            half_topic=names.half,
            op_topic=names.op,
            parked_topic=names.parked,
            owner_group=names.owner_group,
            transaction_timeout_ms=self._options.transaction_timeout_ms,
        )

    def _make_index(self) -> RedisIndex | None:
        """Redis, not started: its keys carry the id of the Kafka cluster, which may be away."""
        options = self._options
        if options.redis_url is None:
            return None
        return RedisIndex(
            options.redis_url,
            instance=options.instance,
            observer=self._observer,
            on_post=self._on_post,
            # As long as anything can be pending, and a little longer.
            kept_s=options.owner_limits.check_rules.age_ms_max // 1000 + 3_600,
            body_bytes_max=options.message_bytes_max * 2 + topics.RECORD_OVERHEAD_BYTES,
        )

    def _on_post(self, kind: str, body: bytes, age_s: float) -> None:
        """To the desk, which is made after the index that it asks."""
        self.desk.on_inbox(kind, body, age_s)

    def _dependencies(self) -> Dependencies:
        options = self._options
        return Dependencies(
            log=self.log,
            decisions=self._decisions,
            admission=Admission(
                policy=self._topic_policy,
                catalog=self._catalog,
                message_bytes_max=options.message_bytes_max,
            ),
            owners=self.ownership,
            visibility=self._visibility,
            inquiry=self._inquiry,
            firsts=self._firsts,
            markers=KafkaMarkers(self._ends, self._catalog),
            handles=self.handles,
            observer=self._observer,
            clock=self._clock,
            new_id=new_transaction_id,
            instance=options.instance,
            visible_wait_s=options.visible_wait_s,
            on_decided=self._on_decided,
            on_group=_nobody if self.callbacks is None else self.callbacks.notice,
            intake=self.intake,
            sizes=TransactionSizes(options.transaction_bytes_max),
        )

    def _operations_parts(self) -> OperationsParts:
        return OperationsParts(
            owners=self.ownership,
            decisions=self._decisions,
            halves=self._half_search,
            inquiry=self._inquiry,
            firsts=self._firsts,
            parked=self.parked,
            index=self.index,
            presence=self.index,
            observer=self._observer,
            clock=self._clock,
            partition_count=self._life.partition_count,
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
            partition_count=self._life.partition_count,
            preferred_partition=self.ownership.preferred_partition,
            target_partitions=self._catalog.partition_count,
            decisions=self._decisions,
        )

    def half_ends(self, partition_count: int) -> dict[int, int]:
        """How far the half logs go. Blocks; raises KafkaUnavailable."""
        logs = [(self._names.half, partition) for partition in range(partition_count)]
        return {partition: end for (_, partition), end in self._ends.existing(logs).items()}

    # -- what parts tell each other ---------------------------------------------------------------

    def _assigned(self) -> None:
        """The group has said who owns what; from any thread."""
        self._firsts.look_soon()

    def _lost(self, partition: int) -> None:
        """The half partition has gone; from any thread."""
        self._visibility.lost(partition)
        self._firsts.look_soon()

    async def _end_by_check(self, handle: str, resolution: Resolution) -> None:
        await self.transactions.end(handle, resolution, source=ResolutionSource.CHECK)

    def _notice(self, producer_group: str) -> None:
        """From owners' threads: the group has transactions to be checked, and nobody is live."""
        if self.callbacks is not None:
            self._loop.call_soon_threadsafe(self.callbacks.notice, producer_group)

    def _on_decided(
        self, identity: Identity, resolution: Resolution | None, source: ResolutionSource
    ) -> None:
        """An end was answered here: if a check of it is out, that is its answer."""
        outcome = _DECIDED
        if source is _CHECK and resolution is not None:
            outcome = OUTCOME_OF[resolution]
        self.desk.settle(identity, outcome)

    # -- owners ------------------------------------------------------------------------------------

    def _make_worker(self, partition: int) -> PartitionWorker:
        return PartitionWorker(
            partition, partial(self._make_owner, partition), on_newer=self.membership.leave
        )

    def _make_owner(self, partition: int, may_write: Callable[[], bool]) -> PartitionOwner:
        options, names = self._options, self._names
        writer = KafkaPartitionWriter(
            partial(self._clients.owner_producer, f"{names.owner_group}-{partition}"),
            make_resumer=partial(
                self._clients.resume_producer, resumer_id(names.owner_group, partition)
            ),
            admin=self.admin,
            group_metadata=partial(self.membership.metadata, may_write),
            half_topic=names.half,
            op_topic=names.op,
            partition=partition,
            transaction_timeout_ms=options.transaction_timeout_ms,
            on_left=partial(self._observer.producer_left, partition),
            forward=self._clients.forward,
        )
        return PartitionOwner(
            partition,
            reader=KafkaPartitionReader(
                self._clients.consumer,
                ends=self._ends,
                half_topic=names.half,
                op_topic=names.op,
                partition=partition,
                native=self._clients.native_consumer(partition),
            ),
            writer=writer,
            policy=self._topic_policy,
            parked_topic=names.parked,
            observer=self._observer,
            clock=self._clock,
            limits=options.owner_limits,
            on_done=self._visibility.done,
            make_checkback=partial(self._make_checkback, partition),
            dice=random.random,
            skip_reason=partial(self._skip_reason, partition),
            stories=self._make_stories(partition),
            on_read=self._decisions.read,
            rhythm=self._rhythm,
        )

    def _make_stories(self, partition: int) -> Stories | None:
        """What is told to the audit topic, where that is wanted."""
        if self._options.audit is None:
            return None
        place = AuditPlace(
            topic=self._names.audit,
            index_partition=lambda: self.audit.index_partition,
            ask_end=partial(self.audit.ask_end, partition),
        )
        return Stories(
            partition, place, instance=self._options.instance, observer=self._observer,
            clock=self._clock,
            spans=None if self.spans is None else Spans(self.spans, self._options.instance),
        )  # fmt: skip

    def _skip_reason(self, partition: int, log: str, log_offset: int) -> str | None:
        topic = self._names.half if log == "half" else self._names.op
        orders = SkipOrders(StoredOffsets(self._clients.skips_client))
        return orders.reason(topic, partition, log_offset)

    def stop_asking(self) -> None:
        """Kafka, on behalf of callers: the doors have drained."""
        logs = self._half_search, self.story_log, self.target_logs
        for asker in (self._catalog, self._inquiry, *logs):
            asker.stop()

    def _make_checkback(
        self, partition: int, payloads: PayloadCache, reader: PartitionReader
    ) -> CheckBack:
        return CheckBack(
            partition,
            gate=self.desk,
            index=self.index,
            on_nobody=self._notice,
            policy=self._give_up_policy,
            questions=CheckQuestions(
                partition,
                half_topic=self._names.half,
                sign=self.handles.encode,
                number_max=self._options.owner_limits.check_rules.count_max,
            ),
            observer=self._observer,
            clock=self._clock,
            payloads=payloads,
            reader=reader,
        )
