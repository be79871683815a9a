"""What an owner reads and writes with: the played counterparts of the adapters to a real Kafka.

The writer decides as KafkaPartitionWriter does: what fails before the end was asked for is FAIL,
what nobody answers is UNKNOWN and never aborted, and any sign that a request was sent twice makes
the producer suspect. `GUARD` switches that off, for tests that show what it is good for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

from confluent_kafka import KafkaException

from halfhitch.adapters.memory.kafka import Fenced, StaleGeneration
from halfhitch.errors import BelowLogError, KafkaUnavailable, TopologyError
from halfhitch.ports import ReadBatch, WriteOutcome, WriteResult
from halfhitch.wire.proof import read_proof
from harness.simulation.cluster import HALF, OP, RESUMER
from harness.simulation.several.broker import Concurrent, WrongState
from harness.simulation.several.world import LARGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from halfhitch.adapters.memory.kafka import MemoryLog
    from halfhitch.ports import KafkaHeaders, StoredRecord, TargetRecord
    from halfhitch.wire.op import StepRecord
    from harness.simulation.several.instance import Author
    from harness.simulation.several.world import World

#: How long the client waits before it sends a request again: its connection was reset, or not.
_RETRY_MS = {True: (20, 200), False: (400, 5_000)}
_SLOW_COMMIT_MS = 300
_MAKINGS_MAX = 5
#: Of identical lines the client logs so many, then none for half a minute.
_LINES_MAX = 2
#: A replay that brings nothing for fifteen seconds gives up.
_IDLE_MS_MAX = 5_000


class SeveralReader:
    """ports.PartitionReader, read_committed. Positions do not go back when something is aborted."""

    def __init__(self, world: World, partition: int) -> None:
        self._world = world
        self._places = [(HALF, partition), (OP, partition)]
        self._half = world.kafka.log(HALF, partition)
        self._op = world.kafka.log(OP, partition)
        self._half_position = self._op_position = 0
        self._is_op_held = True
        self.stamp = ""

    def committed_positions(self) -> tuple[int | None, int | None]:
        """Stable ones: whose Kafka transaction is open may still change them."""
        world, kafka = self._world, self._world.kafka
        world.travel("reading the stored watermarks")
        give_up_ms = world.timeline.now_ms + 10_000
        while not kafka.is_stable(self._places):
            world.timeline.count["unstable watermarks waited for"] += 1
            if world.timeline.now_ms > give_up_ms:
                raise KafkaUnavailable("the stored watermarks are not stable")
            world.tasks.sleep(200)
        old = world.old_pair(self._places[0][1])
        if old is None:
            half, op = (kafka.stored_position(*place) for place in self._places)
            is_pair = self._is_pair(half, op)
            self.stamp = kafka.stamp(self._places)
        else:
            half, op = (old[0][place] for place in self._places)
            self.stamp, is_pair = old[1], True
        world.travel("after reading the stored watermarks")
        return half, op if is_pair or half is None else None

    def _is_pair(self, half: int | None, op: int | None) -> bool:
        """Stored together; else somebody has changed one of them."""
        pair = dict(zip(self._places, (half, op), strict=True))
        return all(self._world.kafka.stored_with.get(place) == pair for place in self._places)

    def begin(self, half_position: int | None, op_position: int | None) -> tuple[int, int]:
        self._world.travel("asking for the bounds of the logs")
        starts = [
            self._start(self._half, half_position),
            self._start(self._op, op_position),
        ]
        for log, start in zip((self._half, self._op), starts, strict=True):
            if start < log.start:
                raise BelowLogError(f"{log.topic} starts at {log.start}, not at {start}")
        self._half_position, self._op_position = starts
        self._is_op_held = True
        return self._half_position, self._op_position

    def _start(self, log: MemoryLog, position: int | None) -> int:
        if position is None:
            return log.start
        if not log.start <= position <= log.end:
            # It was read a while ago: who has taken over since may have moved it, and trimmed.
            stored = self._world.kafka.stored_position(log.topic, log.partition)
            if stored is not None and not log.start <= stored <= log.end:
                self._world.red(f"I8: {log.topic} starts at {log.start}, its watermark is {stored}")
        if position > log.end:
            raise TopologyError(f"{log.topic} ends at {log.end}, not at {position}")
        return position

    def hold_op(self) -> None:
        self._is_op_held = True

    def release_op(self) -> None:
        self._is_op_held = False

    def _has_news(self) -> bool:
        return self._half_position < self._half.stable_end or (
            not self._is_op_held and self._op_position < self._op.stable_end
        )

    def read(self, wait_s: float) -> ReadBatch:
        """Idle turns are made longer than they are: they show nothing."""
        world = self._world
        world.travel("while reading")
        if not self._has_news() and wait_s > 0:
            longer = world.timeline.dice.choice([1, 5, 30] if world.is_faulty else [30, 60])
            self._wait(min(_IDLE_MS_MAX, int(wait_s * 1000) * longer))
        count_max = world.plan.read_max
        half: Sequence[StoredRecord] = []
        op: Sequence[StoredRecord] = []
        # Fetches are on their way while the owner works: a read may know nothing of the newest.
        is_half_slow = world.fault(world.plan.lag, "half log slow")
        is_op_slow = self._is_op_held or world.fault(world.plan.lag, "op log slow")
        if not is_half_slow:
            half, self._half_position = self._committed(self._half, self._half_position, count_max)
        if not is_op_slow:
            op, self._op_position = self._committed(self._op, self._op_position, count_max)
        return ReadBatch(half, op)

    def _committed(
        self, log: MemoryLog, position: int, count_max: int
    ) -> tuple[Sequence[StoredRecord], int]:
        return log.committed(position, count_max)

    def _wait(self, ms: int) -> None:
        task, waiters = self._world.tasks.current, self._world.kafka.waiters
        for place in self._places:
            waiters.setdefault(place, []).append(task)
        try:
            self._world.tasks.sleep(ms)
        finally:
            for place in self._places:
                waiters[place].remove(task)

    def half_end(self) -> int:
        return self._half.end

    def wake(self) -> None:
        """Nothing waits here."""

    def half_read_to(self) -> int:
        return self._half_position

    def op_end(self) -> int:
        return self._op.end

    def op_read_to(self) -> int:
        return self._op_position

    def held(self) -> str | None:
        held = [log for log in (self._half, self._op) if log.stable_end < log.end]
        return "a Kafka transaction is open" if held else None

    def fetch_halves(self, half_offsets: Sequence[int]) -> dict[int, StoredRecord]:
        world, log = self._world, self._half
        world.travel("reading halves back")
        if world.fault(world.plan.unreadable, "halves unreadable"):
            raise KafkaUnavailable("halves cannot be read back")
        there = range(log.start, log.stable_end)
        return {o: log.records[o] for o in half_offsets if o in there}

    def close(self) -> None:
        """Nothing is held."""


class SeveralWriter:
    """ports.PartitionWriter. `metadata`: the member's, or KafkaException when it may not write."""

    #: The guard: what was sent twice makes a producer suspect. "slow" believes in slowness alone.
    GUARD = "on"
    #: What was heard while a producer was made counts: another one is made.
    SILENCE = True
    #: Lines that the client suppresses are heard all the same.
    DEBUG_LINES = True
    #: The owner takes no more than its own instance's door.
    OWN_LIMIT = False
    #: Which topic refuses by right is asked for; else a refusal looks like any failure.
    RIGHTS = True

    def __init__(
        self, world: World, partition: int, author: Author, metadata: Callable[[], Any]
    ) -> None:
        self._world = world
        self._half, self._op = (HALF, partition), (OP, partition)
        self.transactional_id = f"owner-{partition}"
        self._author = author
        self._metadata = metadata
        self._producer_epoch: int | None = None
        self._is_suspect = False
        self._stamp = ""
        self._line_count = 0  # identical ones that the client had to log, of this producer
        self.is_small = False

    # -- fencing ----------------------------------------------------------------------------------

    def fence(self) -> None:
        world = self._world
        self._producer_epoch = None
        if world.fault(world.plan.held_init, "held InitProducerId"):
            world.hold(self.transactional_id, "InitProducerId", self._init)
            world.tasks.sleep(10_000)
            self._producer_epoch = None
            raise KafkaUnavailable("cannot be taken over: no answer")
        found: list[int] = []
        for _ in range(_MAKINGS_MAX):
            self._line_count = 0
            world.call("fencing", lambda: found.append(self._init()))
            while world.fault(world.plan.reset_in_making, "resets while a producer is made"):
                self._line_count += 1
            if not self.SILENCE or not self._line_count:
                break
        else:
            raise KafkaUnavailable("connections break again and again while a producer is made")
        self._producer_epoch = found[-1]
        world.timeline.note(
            "{} fences: {} epoch {}", self._author, self.transactional_id, found[-1]
        )

    def _init(self) -> int:
        return self._world.kafka.init_producer_id(self.transactional_id)

    def end_resume(self) -> None:
        """MemoryKafka's simple Kafka transactions serve whoever puts parked messages back."""
        self._world.travel("ending a resume")
        self._world.timeline.count["resumes ended by a takeover"] += 1
        self._world.kafka.init_producer(RESUMER)

    # -- one Kafka transaction --------------------------------------------------------------------

    def write(
        self,
        targets: Sequence[TargetRecord],
        ops: Sequence[StepRecord],
        half_watermark: int,
        op_watermark: int,
    ) -> WriteResult:
        world = self._world
        if self._producer_epoch is None:
            return WriteResult(WriteOutcome.FAIL, "the producer was not fenced")
        self._is_suspect = False
        world.write_count += 1
        self._stamp = f"w{world.write_count}"
        refused = self._refused(targets)
        away = world.away_topics.intersection(target.topic for target in targets)
        try:
            self._produce(targets, ops, is_refused=refused is not None)
            self._send_offsets({self._half: half_watermark, self._op: op_watermark})
        except (Fenced, StaleGeneration, WrongState, KafkaUnavailable, KafkaException) as error:
            self._abort()
            if refused is not None:
                return self._failed(refused)
            is_ours = isinstance(error, Fenced | StaleGeneration | KafkaException)
            return self._failed(WriteResult(WriteOutcome.FAIL, repr(error), is_ours=is_ours))
        if away:
            world.timeline.count["steps for targets that are away"] += 1
            world.tasks.sleep(6_700)  # so long a record is tried
            self._abort()
            is_told = world.timeline.chance(0.7)  # else nobody says which target it was
            away_topics = frozenset(away) if is_told else frozenset()
            result = WriteResult(WriteOutcome.FAIL, "not in time", away_topics=away_topics)
            return self._failed(result)
        if world.fault(world.plan.aborted_step, "aborted steps"):
            self._abort()
            return self._failed(WriteResult(WriteOutcome.FAIL, "a record was not delivered"))
        return self._commit()

    def _refused(self, targets: Sequence[TargetRecord]) -> WriteResult | None:
        """As the brokers do it: for good, of whole topics or of what is large."""
        world, ours = self._world, (HALF, OP)
        topics = {OP, *(target.topic for target in targets)}
        gone = {t for t in topics if world.kafka.partition_count(t) is None}
        closed = {t: f"{t} takes nothing" for t in topics & (gone | world.closed)}
        large = [n for n, target in enumerate(targets) if len(target.value or b"") > LARGE_BYTES]
        refusing = {
            topic: f"{topic}: too large"
            for n in large
            if (topic := targets[n].topic) in world.narrow and topic not in closed
        }
        poisoned = {
            place: closed[target.topic]
            for place, target in enumerate(targets)
            if target.topic in closed and target.topic not in ours
        }
        if self.OWN_LIMIT and self.is_small:
            poisoned.update(dict.fromkeys(large, "too large for this producer"))
        if not closed and not refusing and not poisoned:
            return None
        world.timeline.count["steps that were refused"] += 1
        if not self.RIGHTS and not gone:
            return WriteResult(WriteOutcome.FAIL, "something is wrong with this step")
        is_ours = not {HALF, OP}.isdisjoint([*closed, *refusing])
        return WriteResult(
            WriteOutcome.FAIL, "refused", poisoned=poisoned, closed=closed, refusing=refusing,
            is_ours=is_ours,
        )  # fmt: skip

    def _failed(self, result: WriteResult) -> WriteResult:
        self._world.timeline.count["steps that failed"] += 1
        self._world.timeline.note("{} FAIL: {}", self._author, result.reason)
        return result

    def _produce(
        self,
        targets: Sequence[TargetRecord],
        ops: Sequence[StepRecord],
        *,
        is_refused: bool,
    ) -> None:
        kafka = self._world.kafka
        added: set[tuple[str, int]] = set()
        if is_refused:
            raise WrongState("refused")
        for target in targets:
            partition = target.partition
            if partition is None:
                count = kafka.partition_count(target.topic) or 1
                partition = 0 if target.key is None else crc32(target.key) % count
            place = target.topic, partition
            self._one(place, (target.key, target.value, target.headers), added)
        for value, headers, key in ops:
            if key is not None and read_proof(kafka.log(*self._op).end, headers, key):
                # It goes with the one before it: in the same batch nothing can happen to it alone.
                content = (key, value, headers)
                proof_at = kafka.produce(self.transactional_id, self._epoch, self._op, content)
                self._world.stored(self._op, proof_at)
            else:
                self._one(self._op, (key, value, headers), added)

    def _one(
        self,
        place: tuple[str, int],
        content: tuple[bytes | None, bytes | None, KafkaHeaders],
        added: set[tuple[str, int]],
    ) -> None:
        world, kafka = self._world, self._world.kafka
        identity = self.transactional_id, self._epoch
        if place not in added:
            world.call("adding a partition",
                       lambda: kafka.add_partition(*identity, self._author, place))  # fmt: skip
            added.add(place)
            world.let_arrive(self.transactional_id)
        world.travel("producing")
        log_offset = kafka.produce(*identity, place, content)
        world.stored(place, log_offset)
        world.let_arrive(self.transactional_id)

    @property
    def _epoch(self) -> int:
        if self._producer_epoch is None:
            raise Fenced("closed")
        return self._producer_epoch

    def _send_offsets(self, positions: dict[tuple[str, int], int]) -> None:
        world, kafka = self._world, self._world.kafka
        identity = self.transactional_id, self._epoch
        world.call("adding offsets", lambda: kafka.add_offsets(*identity, self._author))
        world.let_arrive(self.transactional_id)
        member, stamp = self.member(), self._stamp

        def send() -> None:
            kafka.commit_offsets(*identity, member, positions, stamp)

        if world.fault(world.plan.held_offsets, "held TxnOffsetCommit"):
            world.hold(self.transactional_id, "TxnOffsetCommit", send)
            self._again()
        world.call("sending offsets", send)
        world.let_arrive(self.transactional_id)

    def member(self) -> tuple[str, int] | None:
        """The group metadata that the offsets are sent with."""
        member: tuple[str, int] = self._metadata()
        return member

    def _again(self) -> None:
        """What was sent is not answered: it is sent again, by the client, without a word."""
        world = self._world
        is_fast = world.timeline.chance(world.plan.fast_retry)
        ms = world.timeline.dice.randint(*_RETRY_MS[is_fast])
        world.timeline.count["retries in silence"] += 1
        world.tasks.sleep(ms)
        is_heard = ms > _SLOW_COMMIT_MS
        if is_fast:  # the connection was lost: a line that the client logs twice, then suppresses
            self._line_count += 1
            is_heard = is_heard or self.DEBUG_LINES or self._line_count <= _LINES_MAX
        else:  # the request timed out
            is_heard = True
        if self.GUARD == "on":
            self._is_suspect = self._is_suspect or is_heard
        elif self.GUARD == "slow" and ms > _SLOW_COMMIT_MS:
            self._is_suspect = True

    # -- its end ----------------------------------------------------------------------------------

    def _end_request(self, *, is_commit: bool) -> Callable[[], None]:
        kafka, identity = self._world.kafka, (self.transactional_id, self._epoch)
        return lambda: kafka.end(*identity, is_commit=is_commit)

    def _commit(self) -> WriteResult:
        world, count = self._world, self._world.timeline.count
        request = self._end_request(is_commit=True)
        began_ms = world.timeline.now_ms
        try:
            if world.fault(world.plan.lost_answer, "commits without an answer"):
                return self._unanswered(request)
            if world.fault(world.plan.held_end, "held EndTxn"):
                world.hold(self.transactional_id, "EndTxn", request)
                self._again()
            world.call("committing", request)
        except (Fenced, WrongState, KafkaUnavailable) as error:
            return self._unknown(repr(error))
        count["steps"] += 1
        if self.GUARD != "off" and world.timeline.now_ms - began_ms > _SLOW_COMMIT_MS:
            self._is_suspect = True
        count["suspect steps"] += self._is_suspect
        return WriteResult(WriteOutcome.OK, is_suspect=self._is_suspect, stamp=self._stamp)

    def _unanswered(self, request: Callable[[], None]) -> WriteResult:
        world, dice = self._world, self._world.timeline.dice
        what = dice.choice(["done", "held", "held", "lost"])
        world.travel("committing")
        if what == "done":
            request()
        elif what == "held":
            world.hold(self.transactional_id, "EndTxn", request)
        world.tasks.sleep(10_000)
        return self._unknown(f"no answer ({what})")

    def _unknown(self, reason: str) -> WriteResult:
        self._producer_epoch = None
        self._world.timeline.count["unknown outcomes"] += 1
        self._world.timeline.note("{} UNKNOWN: {}", self._author, reason)
        return WriteResult(WriteOutcome.UNKNOWN, reason)

    def _abort(self) -> None:
        """If that does not work, whoever fences ends it."""
        world = self._world
        try:
            request = self._end_request(is_commit=False)
            if world.fault(world.plan.held_end, "held EndTxn of an abort"):
                world.hold(self.transactional_id, "EndTxn", request)
                world.tasks.sleep(world.timeline.dice.randint(20, 5_000))
            else:
                world.call("aborting", request)
        except (Fenced, WrongState, Concurrent, KafkaUnavailable):
            world.timeline.count["aborts that did not work"] += 1
        finally:
            self._producer_epoch = None

    def idle(self) -> bool:
        """Signs that come late; here there are only false ones."""
        return self._world.fault(0.002, "suspect while idle")

    def leaderless(self, topics: Collection[str]) -> frozenset[str]:
        return frozenset(t for t in topics if t in self._world.away_topics and len(t) % 2)

    def delete_below(self, half_offset: int, op_offset: int) -> None:
        """Halves first; op records only when that has worked."""
        world = self._world
        if world.timeline.chance(world.plan.trim_fails):
            return
        for place, position in ((self._half, half_offset), (self._op, op_offset)):
            world.travel("deleting records")
            world.kafka.delete_below(*place, position)
            world.timeline.count["trims"] += 1

    def close(self) -> None:
        self._producer_epoch = None
