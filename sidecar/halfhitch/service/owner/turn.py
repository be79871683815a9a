"""The owner of one half partition: reads both logs, asks the ledger, writes one Kafka transaction.

Order of a takeover, always: fence (new producer, init_transactions: whoever was before us can write
no more, what he left open is aborted) -> read the stored watermarks (stable ones) -> read the half
log to its end, then the op log to its end -> only then plan. Reading the watermarks before fencing
would be a race: the predecessor could still commit a step in between.

Used by one thread. Not here: threads, retries of a whole takeover (worker.py), Kafka (ports).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from halfhitch.core.check_rules import CheckRules
from halfhitch.core.ledger import Ledger, Step
from halfhitch.core.model import DoneMark, Identity
from halfhitch.core.standing import Standing
from halfhitch.crash_points import reached
from halfhitch.errors import KafkaUnavailable
from halfhitch.ports import (
    Clock,
    Observer,
    PartitionReader,
    PartitionWriter,
    Payload,
    WriteOutcome,
    WriteResult,
)
from halfhitch.service.owner.away_steps import AwaySteps
from halfhitch.service.owner.checkback import CheckBack
from halfhitch.service.owner.feeding import Feed, SkipReason
from halfhitch.service.owner.forwarding import Forwarder
from halfhitch.service.owner.lag import Lag
from halfhitch.service.owner.numbers import (
    OwnerNumbers,
    commits_by_time,
    dropped_count,
    first_commit,
)
from halfhitch.service.owner.pace import Pace
from halfhitch.service.owner.payloads import PayloadCache
from halfhitch.service.owner.proven_pair import begin_reading
from halfhitch.service.owner.rhythm import Rhythm
from halfhitch.service.owner.stories import Stories
from halfhitch.service.owner.takeover import replay
from halfhitch.service.owner.trimming import Trimmer
from halfhitch.service.topic_policy import TopicPolicy
from halfhitch.service.transactions.op_appends import OnRead
from halfhitch.wire import op as op_wire
from halfhitch.wire.proof import write_proof
from halfhitch.wire.trace_parent import sampled_trace

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OwnerLimits:
    """Bounds of one partition's owner: the settings `owner`, `ledger` and `checks`."""

    batch_count_max: int
    batch_bytes_max: int
    payload_cache_bytes: int
    horizon_ms: int
    finished_max: int
    check_rules: CheckRules


class StepFailedError(KafkaUnavailable):
    """The step's Kafka transaction was surely aborted; the ledger stands: try again later."""


class OutcomeLostError(KafkaUnavailable):
    """Nobody knows how the step's Kafka transaction ended: only a new takeover can tell."""


class PartitionOwner:
    """See the module's text. `on_done` is called after every committed step, on this thread."""

    def __init__(
        self,
        partition: int,
        *,
        reader: PartitionReader,
        writer: PartitionWriter,
        policy: TopicPolicy,
        parked_topic: str,
        observer: Observer,
        clock: Clock,
        limits: OwnerLimits,
        on_done: Callable[[int, Sequence[DoneMark]], None],
        make_checkback: Callable[[PayloadCache, PartitionReader], CheckBack],
        dice: Callable[[], float] = lambda: 0.5,
        skip_reason: SkipReason = lambda *_: None,
        stories: Stories | None = None,
        on_read: OnRead = lambda _: None,
        rhythm: Rhythm | None = None,
    ) -> None:
        """`stories`: None where nothing is told to the audit topic."""
        self.partition = partition
        self._reader, self._writer = reader, writer
        self._observer = observer
        self._clock = clock
        self._limits = limits
        self._on_done = on_done
        self._ledger: Ledger | None = None
        self._payloads = PayloadCache(limits.payload_cache_bytes)
        self._forwarder = Forwarder(
            partition,
            policy=policy,
            parked_topic=parked_topic,
            step_messages_max=limits.batch_count_max,
            check_count_max=limits.check_rules.count_max,
        )
        self._away_steps = AwaySteps(
            partition,
            forwarder=self._forwarder,
            parked_topic=parked_topic,
            payloads=self._payloads,
            reader=reader,
            writer=writer,
            observer=observer,
            clock=clock,
            dice=dice,
            bytes_max=limits.batch_bytes_max,
            renew_s=limits.check_rules.renew_ms / 1000,
        )
        self.checkback = make_checkback(self._payloads, reader)
        self._stories = stories
        if stories is not None:
            self.checkback.on_report = stories.answered
        self._trimmer = Trimmer(writer, clock)
        self.pace = Pace(clock.monotonic_s, partition, rhythm)
        #: What hides records from the takeover under way: for people.
        self.waits_for: str | None = None
        self.lag = Lag(reader, clock)
        # Watermarks as Kafka has them stored, and the stamp of the write that did it: anything else
        # there means that somebody else has written.
        self._stored: tuple[int | None, int | None, str] = (None, None, "")
        self._feed = Feed(
            partition,
            reader=reader,
            payloads=self._payloads,
            observer=observer,
            clock=clock,
            skip_reason=skip_reason if stories is None else stories.telling(skip_reason),
            on_read=on_read,
        )
        self._op_held = False

    # -- takeover --------------------------------------------------------------------------------

    def take_over(self) -> None:
        """Fence, replay, be ready. Raises KafkaUnavailable or NewerReleaseError; call again."""
        began_s = self._clock.monotonic_s()
        self._ledger = None
        self.checkback.put_back()
        self._payloads.clear()
        self._away_steps.clear()
        self._feed.clear()
        self.waits_for = None
        self.lag.clear()
        self._writer.fence()
        start = begin_reading(
            self._reader,
            clock=self._clock,
            partition=self.partition,
            observer=self._observer,
            on_held=self._replay_is_held,
        )
        # What Kafka gave, wherever it is begun: the next look compares with what it gives then.
        self._stored = start.stored
        half_start, op_start = start.half_start, start.op_start
        self._feed.op_fed_to = op_start
        ledger = Ledger(
            half_position=half_start,
            op_position=op_start,
            horizon_ms=self._limits.horizon_ms,
            finished_max=self._limits.finished_max,
            rules=self._limits.check_rules,
        )
        replayed = replay(
            self._reader,
            lambda batch: self._feed.take(ledger, batch.half, batch.op),
            is_fed_to=self._feed.is_fed_to,
            clock=self._clock,
            partition=self.partition,
            on_held=self._replay_is_held,
        )
        self.waits_for = None
        reached("after_replay")
        ledger.foreign_count = 0
        ledger.sort_by_age()
        self.checkback.start_clock(self._feed.last_half_ms)
        self._trimmer.begin(half_start, op_start)
        self._op_held = False
        if self._stories is not None:
            self._stories.begin()
        # Before the ledger tells, and again when it does: whoever is told in between that nothing
        # is known of a transaction hears at once that somebody knows now.
        self._feed.on_read(None)
        self._ledger = ledger
        self._feed.on_read(None)
        self._observer.takeover(self.partition, self._clock.monotonic_s() - began_s, replayed)
        logger.info(
            "half partition %d taken over: %d records replayed from half %d, op %d",
            self.partition,
            replayed,
            half_start,
            op_start,
            extra={"action": "partition_taken_over"},
        )

    def _replay_is_held(self, held: str) -> None:
        """A resume whose process has died stays open until Kafka's coordinator has had enough."""
        self.waits_for = held
        logger.warning(
            "half partition %d waits with its takeover: %s",
            self.partition,
            held,
            extra={"action": "takeover_waits"},
        )
        self._writer.end_resume()

    # -- turns -----------------------------------------------------------------------------------

    def turn(self, wait_s: float) -> bool:
        """Read, plan, write one step. True when there may be more to do at once.

        Raises StepFailedError (call again after a pause) or OutcomeLostError, KafkaUnavailable,
        NewerReleaseError (take over again).
        """
        ledger, feed = self._working_ledger(), self._feed
        batch = self.pace.read(self._reader, min(wait_s, 0.01) if feed.is_waiting else wait_s)
        reached("after_read")
        self.checkback.tick(ledger)
        feed.take(ledger, batch.half, batch.op)
        self.checkback.calendar.read(batch.half)
        if self._stories is not None and batch.op:
            self._stories.read(batch.op)
        if ledger.foreign_count:
            raise OutcomeLostError(
                f"somebody else carries out transactions of half partition {self.partition}"
            )
        self.lag.look(ledger, feed, batch)
        feed.expire_early(ledger)
        feed.end_incomplete(ledger)
        self._hold_or_release_op(ledger)
        rooms = self.checkback.begin(ledger, is_fed=not feed.is_waiting)
        is_alone, away_steps = self.checkback.is_alone, self._away_steps
        step = ledger.plan(
            message_count_max=self._forwarder.messages_max,
            bytes_max=self._limits.batch_bytes_max,
            rooms=rooms,
            chosen=[] if is_alone else away_steps.choose(ledger) if away_steps else None,
            renewals=away_steps.renewals() if away_steps and not is_alone else (),
            with_notes=away_steps.takes_notes and not is_alone,
            even_empty=self._stories is not None and self._stories.needs_step,
        )
        self.checkback.planned(step)
        if step is None:
            if self._writer.idle():
                self._recycle()
            return bool(batch.half or batch.op)
        reached("after_plan")
        self._write(ledger, step)
        return True

    def _hold_or_release_op(self, ledger: Ledger) -> None:
        reads_op = ledger.reads_op and self._feed.has_room
        if self._op_held is reads_op:
            if reads_op:
                self._reader.release_op()
            else:
                self._reader.hold_op()
            self._op_held = not reads_op

    # -- one step --------------------------------------------------------------------------------

    def _write(self, ledger: Ledger, step: Step) -> None:
        began_s = self._clock.monotonic_s()
        wanted = [half_offset for halves in step.forwards for half_offset in halves]
        if step.copies:
            wanted += self.checkback.wanted(step)
        payload = self._payloads.all_of(wanted, self._reader)
        forwards = targets = self._forwarder.records(step, payload)
        if step.copies or step.notes:
            forwards = forwards + self._forwarder.notes(step.notes)
            targets = forwards + self.checkback.records(step, payload)
        stories = self._stories
        if stories is not None:
            targets = targets + stories.records(
                step, payload, self._payloads, self._forwarder.parkings, self._writer
            )
        marks = op_wire.write_marks(step.all_done)
        ops = op_wire.with_conflicts(marks, step.conflicts)
        if ops:  # none for its own sake: it would move the op log's end for ever
            ops.append(write_proof(step.half_watermark, step.op_watermark))
        result = self._writer.write(targets, ops, step.half_watermark, step.op_watermark)
        took_s = self._clock.monotonic_s() - began_s
        self.pace.stepped(
            len(step.transactions),
            took_s,
            lag_s=self.lag.seconds(),
            leaves_more=len(ledger.ready) > 0,
        )
        self._observer.kafka_transaction(
            self.partition,
            result.outcome.value,
            took_s,
            self._forwarder.forwarded_count,
            dropped_count(step),
        )
        if result.outcome is WriteOutcome.UNKNOWN:
            raise OutcomeLostError(f"how a Kafka transaction ended is not known: {result.reason}")
        if result.outcome is WriteOutcome.FAIL:
            if result.is_unexplained or (stories is not None and stories.refused(result)):
                self._away_steps.put_back()
                ledger.abort(step)
                closing_in = True  # the next step is the same, and tells nothing, or tells more
            else:
                closing_in = self._forwarder.refused(step, targets, result)
                closing_in = self._away_steps.failed(step, forwards, result, took_s) or closing_in
                ledger.abort(step)
                closing_in = self.checkback.refused(ledger, step, result) or closing_in
            self._aborted(result, closing_in=closing_in)
            return
        if step.copies:
            self.checkback.tick(ledger)  # intervals begin with the delivery, not with the plan
        reached("before_confirm")
        ledger.confirm(step)
        self._feed.wrote(marks)
        if stories is not None:
            stories.confirmed()
        reached("after_confirm")
        if step.copies:
            self.checkback.sent_after(step)
        self._away_steps.succeeded(step, forwards)
        self._forwarder.succeeded(step, self._observer.parked)
        self._observer.forwarded(self._forwarder.forwarded_by_topic)
        self._stored = (step.half_watermark, step.op_watermark, result.stamp)
        self._after(step, payload, is_proven=bool(ops))
        if result.is_suspect:
            self._recycle()

    def _aborted(self, result: WriteResult, *, closing_in: bool) -> None:
        """Raises StepFailedError unless the next step is another one."""
        self.checkback.put_back()
        self._fence_again()
        if not closing_in:
            raise StepFailedError(f"a Kafka transaction was aborted: {result.reason}")

    def _recycle(self) -> None:
        """The producer is suspect: late requests of its may still be on their way."""
        self._observer.producer_recycled(self.partition)
        self._fence_again()

    def _fence_again(self) -> None:
        """After any sign of trouble: outdate late requests, then look whether we are still alone.

        The ledger is the fold of the logs only as long as nobody else writes marks, and none of
        our own that we took for aborted. Every write leaves its stamp beside the stored watermarks,
        which themselves may stand still for hours: a single pending transaction holds both.
        """
        self._writer.fence()
        positions = self._reader.committed_positions()
        if (*positions, self._reader.stamp) != self._stored:
            raise OutcomeLostError(
                f"the stored watermarks of half partition {self.partition} were written by "
                "somebody else, or by a step that was taken for aborted"
            )

    def _after(self, step: Step, payload: Mapping[int, Payload], *, is_proven: bool) -> None:
        self.lag.wrote(len(step.transactions))
        self._payloads.let_go([o for mark in step.all_done for o in mark.half_offsets])
        for conflict in step.conflicts:
            self._observer.conflict(conflict.kind, 1)
        self._on_done(self.partition, step.done)
        reached("after_told")
        wall_ms = self._clock.wall_ms()
        for decided_ms, count in commits_by_time(step).items():
            # The broker's clock against ours: good enough for a dashboard, used for nothing else.
            self._observer.forwarded_after((wall_ms - decided_ms) / 1000, count)
        first = first_commit(step)
        if first is not None and (found := payload.get(next(first.covered(), -1))) is not None:
            # Of one in a step: a look at each one's headers would be a price for all.
            trace_id = sampled_trace(found.headers)
            if trace_id is not None:
                took_s = (wall_ms - first.decided_ms) / 1000
                self._observer.traced("visible", took_s, trace_id, wall_ms)
        self._trimmer.committed(step.half_watermark, step.op_watermark, is_proven=is_proven)

    # -- what is known ---------------------------------------------------------------------------

    def standing(self, identity: Identity, half_offset: int) -> Standing | None:
        """Of a transaction whose first half lies there; None when it was read and is known no more.

        For other threads. The position is looked at before the ledger: a half that is below it has
        been entered before, so "unknown" then means ended beyond the memory.
        """
        ledger = self._ledger
        if ledger is None:
            return Standing.UNKNOWN
        was_read = half_offset < ledger.positions[0]
        standing = ledger.standing(identity)
        return None if standing is Standing.UNKNOWN and was_read else standing

    def covered_count(self, identity: Identity) -> int:
        """How many messages its commit covers; 0 when none is known. For other threads."""
        ledger = self._ledger
        return 0 if ledger is None else ledger.covered_count(identity)

    def differs(self, identity: Identity, first_index: int, digests: Sequence[int]) -> bool:
        """Whether the id stands for other messages than these. For other threads."""
        ledger = self._ledger
        return ledger is not None and ledger.differs(identity, first_index, digests)

    def is_reused(self, half_offsets: Sequence[int]) -> bool:
        """Whether one of these halves is known as that of a reused id. For other threads."""
        ledger = self._ledger
        return ledger is not None and ledger.is_reused(half_offsets)

    def checked(self, identity: Identity) -> tuple[int, float | None, str | None]:
        """Of a pending transaction: check count, seconds until the next, the last answer.

        For other threads.
        """
        ledger = self._ledger
        transaction = None if ledger is None else ledger.find(identity)
        if transaction is None or transaction.resolution is not None:
            return 0, None, None
        return self.checkback.view(transaction)

    def size_bytes(self, identity: Identity) -> int:
        """Of an unfinished transaction, as far as it was read. For other threads."""
        ledger = self._ledger
        transaction = None if ledger is None else ledger.find(identity)
        return 0 if transaction is None else transaction.size_bytes

    @property
    def op_read_to(self) -> int | None:
        """Of what lies below it in the op log `standing` tells; None while a takeover goes on."""
        return None if self._ledger is None else self._feed.op_fed_to

    @property
    def is_working(self) -> bool:
        """Whether the takeover is complete."""
        return self._ledger is not None

    @property
    def troubles(self) -> list[str]:
        """What stands still although the partition works, a sentence each: for people."""
        checkback = self.checkback
        found = (self._away_steps.trouble, checkback.trouble, checkback.calendar.trouble)
        return [trouble for trouble in found if trouble is not None]

    @property
    def waiting_by_topic(self) -> dict[str, int]:
        """Targets that are away, and how many transactions wait for each: for people."""
        return self._away_steps.waiting_by_topic

    @property
    def waiting_count(self) -> int:
        """All decided transactions that wait for a target. From any thread."""
        return self._away_steps.waiting_count

    def numbers(self) -> OwnerNumbers:
        """What the ledger counts, its positions, the committed watermarks."""
        ledger = self._ledger
        half_watermark, op_watermark = self._trimmer.watermarks
        if ledger is None:
            return OwnerNumbers(half_watermark=half_watermark, op_watermark=op_watermark)
        pending_count, decided_count, early_count, finished_count = ledger.counts
        half_position, op_position = ledger.positions
        return OwnerNumbers(
            pending_count=pending_count,
            decided_count=decided_count,
            early_count=early_count,
            finished_count=finished_count,
            half_watermark=half_watermark,
            half_position=half_position,
            op_watermark=op_watermark,
            op_position=op_position,
        )

    def close(self) -> None:
        """Let go of reader and writer; an open Kafka transaction is aborted."""
        self._ledger = None
        self._away_steps.clear()
        self.checkback.end()
        self._reader.close()
        self._writer.close()

    def _working_ledger(self) -> Ledger:
        if self._ledger is None:
            raise KafkaUnavailable(f"half partition {self.partition} is not taken over yet")
        return self._ledger
