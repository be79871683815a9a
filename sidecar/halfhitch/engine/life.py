"""The life of an engine: starting, Kafka that comes and goes, stopping, and what is told of it.

Start order: record log -> (Kafka reached, internal topics verified) -> service open -> membership,
which brings the owners. Stop order is the reverse: the doors have drained before `stop` is called;
then partitions are given up in order, so that no Kafka transaction stays open, then appends are
flushed.

Kafka may be away at start: the service then answers 503, and the engine goes on trying. Topics that
break a promise are final: `failed` tells, and the process should end.
"""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

from halfhitch import __version__
from halfhitch.adapters.kafka import clients
from halfhitch.adapters.system import SystemClock
from halfhitch.core.model import Identity
from halfhitch.engine.kafka_clients import Appends
from halfhitch.engine.opening import verified
from halfhitch.engine.options import EngineOptions
from halfhitch.engine.wiring import TOPICS_WAIT_S, Life, Parts
from halfhitch.errors import BackendError, HalfHitchError
from halfhitch.ports import Clock, Observer
from halfhitch.service.api import MembershipState, PartitionPhase, PartitionState, ProducersState
from halfhitch.service.checking.desk import GroupState

logger = logging.getLogger(__name__)

#: Kafka is asked for a sign of life so often; readiness follows it.
_PROBE_S: Final = 2.0
#: While it is away: who waits for Kafka shall not wait for us.
_PROBE_AGAIN_S: Final = 0.5
_FLUSH_S: Final = 5.0
#: What is decided may take so long to be carried out here, before its half partition is given up.
_CARRY_OUT_S: Final = 2.0
_LOOK_S: Final = 0.05
#: So many looks in a row have to find nothing: the newest decisions are still being read.
_LOOKS: Final = 3
#: When whoever watches the start is told that Kafka is waited for, and how often again.
WAITED_S: Final = 2.0
WAITED_AGAIN_S: Final = 60.0


class Engine:
    """Make it, `await start()`, use `transactions`, `await stop()`; all on one event loop."""

    def __init__(
        self, options: EngineOptions, observer: Observer, clock: Clock | None = None
    ) -> None:
        self._options = options
        self._observer = observer
        self._clock = clock or SystemClock()
        self._started_s = self._clock.monotonic_s()
        self._kafka_trouble: str | None = "Kafka has not been reached yet"
        self._tasks: list[asyncio.Future[Any]] = []
        self._is_open = self._is_leaving = False
        self._partition_count = 0
        self._half_ends: dict[int, int] = {}  # when Kafka was reached
        self._cluster_id = ""  # until Kafka was reached
        self._failure: asyncio.Future[HalfHitchError] | None = None

    async def start(self) -> None:
        """Begin; returns at once, whether or not Kafka is there."""
        self._loop = loop = asyncio.get_running_loop()
        self._failure = loop.create_future()
        life = Life(
            kafka_answers=lambda: self._kafka_trouble is None,
            partition_count=lambda: self._partition_count,
            first_half=lambda partition: self._half_ends.get(partition, sys.maxsize),
            on_fatal=self._fail_soon,
            check_now=self._check_now,
        )
        self._parts = parts = Parts(self._options, self._observer, self._clock, life)
        self.desk, self.intake = parts.desk, parts.intake
        self.transactions, self.operations = parts.transactions, parts.operations
        self.stories = parts.stories
        self.topic_directory = parts.topic_directory
        parts.log.start()
        parts.desk.start()
        held = parts.held_logs.run(self._clock.monotonic_s)
        waiting = tell_waiting(self._options.bootstrap, self._waits_for_kafka)
        watching = (parts.intake_watch.run(), parts.parked_watch.run(), held)
        running = (self._open(), self._probe(), *watching, waiting)
        self._tasks = [asyncio.ensure_future(each) for each in running]

    def appends(self) -> Appends:
        """For whoever else appends halves and decisions in this process."""
        return self._parts.appends()

    def _check_now(self, partition: int, identity: Identity) -> None:
        """Another instance's operator wants this checked."""
        asked = self._parts.ownership.check_now(partition, identity)
        task = asyncio.gather(asked, return_exceptions=True)  # nobody here waits for an answer
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    def leave(self) -> None:
        """A stop has begun: new prepares would fail. What is at work goes on."""
        self._is_leaving = True

    async def stop(self) -> None:
        """Give partitions up in order, flush, let go. The doors must have drained before."""
        self.leave()
        await self._carry_out()
        if mine := [state.partition for state in self.partitions()]:
            logger.info("handing over half partitions %s", mine, extra={"action": "handing_over"})
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        parts = self._parts
        if parts.membership.is_alive:
            await asyncio.to_thread(parts.membership.stop, self._options.stop_wait_s + 2.0)
        await asyncio.to_thread(parts.ownership.stop)
        if parts.spans is not None:
            await asyncio.to_thread(parts.spans.stop)
        if parts.callbacks is not None:
            await parts.callbacks.stop()
        parts.desk.stop()
        parts.parked.stop()
        parts.stop_asking()
        await asyncio.to_thread(parts.board.close)
        if parts.index is not None:
            await parts.index.stop()
        await asyncio.to_thread(parts.tail.stop, 2.0)
        await asyncio.to_thread(parts.asked_halves.stop, 2.0)
        await parts.log.stop(_FLUSH_S)

    async def _carry_out(self) -> None:
        """Forward what is decided, if that is soon: the next owner first reads both logs anew.

        What waits for a target that is away is left to it.
        """
        looks = 0
        give_up_s = self._clock.monotonic_s() + _CARRY_OUT_S
        while looks < _LOOKS and self._clock.monotonic_s() < give_up_s:
            working = [
                state
                for state in self.partitions()
                if state.phase is PartitionPhase.WORKING and state.trouble is None
            ]
            if not working:
                return
            is_done = all(s.decided_count <= s.waiting_count for s in working)
            looks = looks + 1 if is_done else 0
            await asyncio.sleep(_LOOK_S)

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
                    self._parts.admin,
                    self._parts.stored_offsets,
                    self._parts.watch,
                    self._options,
                    wait_s=TOPICS_WAIT_S,
                )
                self._half_ends = await asyncio.to_thread(self._parts.half_ends, count)
            except BackendError as error:
                self._kafka_trouble = error.message
                await asyncio.sleep(1.0)
                continue
            except HalfHitchError as error:
                self._fail(error)
                return
            self._partition_count = count
            await self._look_for_audit()
            # Nothing is awaited from here to `open`: who says that it is ready takes prepares.
            self._kafka_trouble = None
            self._is_open = True
            bootstrap = self._options.bootstrap
            logger.info("Kafka at %s answers", bootstrap, extra={"action": "kafka_reached"})
            self._open_index()
            self.transactions.open(count)
            if self._options.owner_enabled:
                self._parts.membership.start()
            await self._watch_topics()
            return

    async def _look_for_audit(self) -> None:
        """Nothing waits for it: where it is missing, nothing is told."""
        audit, before = self._parts.audit, self._parts.audit.trouble
        await asyncio.to_thread(
            audit.look,
            self._partition_count,
            creates=self._options.create_topics,
            wait_s=TOPICS_WAIT_S,
        )
        if audit.trouble is not None and audit.trouble != before:
            logger.warning("%s", audit.trouble, extra={"action": "audit_missing"})

    def _waits_for_kafka(self) -> bool:
        """It has not been reached yet, and that is not given up."""
        return not (self._is_open or (self._failure is not None and self._failure.done()))

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
            await self._look_for_audit()
            try:
                await asyncio.to_thread(self._parts.watch.look)
            except HalfHitchError as error:
                self.transactions.open(0)  # no more prepares
                self._fail(error)
                return

    def _open_index(self) -> None:
        """Before the owners: they tell it what they own."""
        # Installations that share Redis or a handle key are told apart by what they share least.
        prefix = self._options.topic_prefix
        installation = f"{self._cluster_id}{prefix and '.'}{prefix}"
        self._parts.handles.bind(installation)
        if self._parts.index is not None:
            self._parts.index.start(installation)

    async def _probe(self) -> None:
        while True:
            await asyncio.sleep(_PROBE_S if self._kafka_trouble is None else _PROBE_AGAIN_S)
            clients.logger.tell_left_out()
            if not self._is_open:
                continue
            try:
                await asyncio.to_thread(self._parts.log.probe)
            except BackendError as error:
                self._kafka_trouble = error.message
            else:
                self._kafka_trouble = None

    # -- what people and probes ask (service.api.System) -----------------------------------------

    def unready_reasons(self) -> list[str]:
        """Why new prepares would fail now."""
        failure = self._failure
        if failure is not None and failure.done():  # what the probe finds does not make it good
            return [failure.result().message]
        if self._is_leaving:
            return ["this instance is stopping"]
        return [] if self._kafka_trouble is None else [self._kafka_trouble]

    def degraded_reasons(self) -> list[str]:
        """What does not work as it should, while prepares and ends do."""
        parts = self._parts
        redis = None if parts.index is None else parts.index.trouble
        alone = [trouble for trouble in (redis, parts.intake_watch.trouble) if trouble is not None]
        owning = [*parts.ownership.troubles(), *parts.membership.troubles()]
        audit = [] if parts.audit.trouble is None else [parts.audit.trouble]
        topics = [*parts.watch.troubles, *parts.held_logs.troubles, *audit]
        return [*owning, *topics, *parts.intake.troubles(), *alone]

    def death_reasons(self) -> list[str]:
        """Why only a restart would help."""
        if not self._is_open:
            return []
        reasons = []
        if self._options.owner_enabled and not self._parts.membership.is_alive:
            reasons.append("the thread of the owners' group membership has died")
        if not self._parts.log.is_alive:
            reasons.append("the thread that appends to the half and op logs has died")
        return reasons

    def partitions(self) -> list[PartitionState]:
        """The partitions this instance owns."""
        return self._parts.ownership.states()

    def membership(self) -> tuple[int, MembershipState | None]:
        """How many half partitions there are (0: not known yet), and whether it may own some."""
        return self._partition_count, self._parts.membership.state()

    def queued_records(self) -> int:
        """Halves, decisions and plain messages that wait for Kafka. On any thread."""
        return self._parts.log.queued_count

    def producers(self) -> list[ProducersState]:
        """See service.api.System."""
        undecided: Counter[str] = Counter()
        for state in self.partitions():
            undecided.update(state.pending_by_group)
        known = {group.producer_group: group for group in self.desk.describe()}
        return [
            _producers(group, known.get(group), undecided[group])
            for group in sorted({*known, *undecided})
        ]

    def info(self) -> dict[str, str | int | float | bool | None]:
        """Flat facts, safe to show."""
        return {
            "version": __version__,
            "instance": self._options.instance,
            "kafka_bootstrap": self._options.bootstrap,
            "kafka_cluster_id": self._cluster_id,
            "topic_prefix": self._options.topic_prefix,
            "owner_enabled": self._options.owner_enabled,
            "membership_trouble": self._parts.membership.trouble,
            "uptime_s": round(self._clock.monotonic_s() - self._started_s, 1),
        }


def _producers(group: str, known: GroupState | None, undecided_count: int) -> ProducersState:
    if known is None:
        return ProducersState(group, (), 0, (), 0, 0, "closed", undecided_count)
    permits = known.permits
    return ProducersState(
        group,
        known.links,
        known.link_count,
        known.elsewhere,
        known.waiting_count,
        permits.outstanding_count,
        str(permits.breaker),
        undecided_count,
    )


async def tell_waiting(
    bootstrap: str,
    waits: Callable[[], bool],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Say what a start waits for, rarely: without it a wrong address looks like a slow start."""
    await sleep(WAITED_S)
    while waits():
        logger.warning(
            "waiting for Kafka at %s, which has not answered yet: nothing is taken until it does. "
            "Is it up, and is kafka.bootstrap right?",
            bootstrap,
            extra={"action": "waiting_for_kafka"},
        )
        await sleep(WAITED_AGAIN_S)
