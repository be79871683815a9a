"""What an owner tells the audit topic: how each transaction ended, and what happened on the way.

The records are part of the step's own Kafka transaction: what has ended is told exactly once, or
the step has not happened. What comes between steps (answers to checks) goes with the next one; an
owner that has no next one makes a step for it after a moment.

Telling must never stop what is told of. So a topic that is missing, away or refuses is left out of
the steps and tried again later, ever more rarely; what is to be told then waits here, as far as
there is room, and what is lost is counted and said.

An index says of which transactions and keys a run of records speaks. It is made here, of what was
written, once the topic has said where it ends; a run that its owner did not live to finish has
none, and whoever reads looks through it.

Used by the owner's thread. Not here: whether the topic is there (engine), reading (adapters).
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from halfhitch.core.model import Identity, ProducerGroup, TransactionId
from halfhitch.core.step import Step
from halfhitch.ports import (
    Clock,
    Observer,
    PartitionWriter,
    Payload,
    StoredRecord,
    TargetRecord,
    WriteResult,
)
from halfhitch.service.checking.api import CheckReport
from halfhitch.service.owner.feeding import SkipReason
from halfhitch.service.owner.payloads import PayloadCache
from halfhitch.service.owner.spans import Spans
from halfhitch.service.owner.step_stories import Known, Piece, of_step
from halfhitch.wire import op as op_wire
from halfhitch.wire import story
from halfhitch.wire.story import Event, Index

logger = logging.getLogger(__name__)

#: Entries that wait while the topic takes none, or for a step; then the oldest are lost.
_WAITING_MAX: Final = 10_000
#: Of these, so many go with one step.
_TOGETHER_MAX: Final = 2_000
#: What waits for a step gets one of its own after this.
_STEP_AFTER_S: Final = 2.0
#: An index speaks of so many entries, or a few more.
_INDEX_ENTRIES: Final = 4_096
#: Pauses after the topic has refused: first, and at most.
_PAUSE_S: Final = 30.0
_PAUSE_MAX_S: Final = 600.0
#: So many steps in a row failed and nobody says why: it might be this topic.
_DOUBTS_MAX: Final = 3
#: Of what is no transaction's.
_NOBODYS: Final = (ProducerGroup(""), TransactionId(""))


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlace:
    """Where the stories of one half partition go."""

    topic: str
    #: The partition of the indexes; None: the topic is not there.
    index_partition: Callable[[], int | None]
    #: Where the partition of the stories ends. What is given says it; None: not known yet.
    ask_end: Callable[[], Callable[[], int | None]]


@dataclass(slots=True)
class _Told:
    """What the step that is out tells."""

    pieces: list[Piece]
    waited_count: int = 0  # so many others have waited, and are written with them
    is_written: bool = False
    index: Index | None = None


class Stories:
    """See the module's text."""

    def __init__(
        self,
        partition: int,
        place: AuditPlace,
        *,
        instance: str,
        observer: Observer,
        clock: Clock,
        spans: Spans | None = None,
        index_entries: int = _INDEX_ENTRIES,
        doubts_max: int = _DOUBTS_MAX,
    ) -> None:
        """`spans`: None where nobody wants to be told of traces."""
        self._spans = spans
        self._doubts_max = doubts_max
        self._index_bytes = index_entries * story.MARK_BYTES
        self._partition = partition
        self._place = place
        self._instance = instance
        self._observer = observer
        self._clock = clock
        self._waiting: deque[Piece] = deque()  # bounded by `_wait`
        self._waits_from_s = 0.0
        self._lost_count = 0
        self._silent_until_s = -1.0
        self._pause_s = 0.0
        self._doubts = 0
        self._told: _Told | None = None
        self._skips: set[tuple[str, int]] = set()  # no more than there are orders
        self._begin_run(None)

    def _begin_run(self, first: int | None) -> None:
        self._first = first  # audit offset at which the run of the next index begins
        self._marks = bytearray()
        self._first_ms = self._last_ms = 0
        self._asked: Callable[[], int | None] | None = None
        self._asked_bytes = self._asked_ms = 0

    def begin(self) -> None:
        """A takeover: what others have written since is not known here."""
        self._begin_run(None)
        self._forget()

    def _forget(self) -> None:
        self._told = None
        if self._spans is not None:
            self._spans.forget()

    # -- what is told ----------------------------------------------------------------------------

    def answered(self, report: CheckReport) -> None:
        """What became of a check; it goes with the next step."""
        if self._spans is not None:
            self._spans.answered(report, self._clock.wall_ms())
        self._happened(
            report.identity,
            story.ANSWERED,
            number=report.number,
            by=report.by or None,
            outcome=report.outcome.value,
            reason=report.reason,
            took_ms=int(report.since_s * 1000),
        )

    def read(self, records: Sequence[StoredRecord]) -> None:
        """Op records were read, while the owner works: operators' notes are told.

        Not by whoever writes them: the partition has one writer, or no index would be right.
        """
        for record in records:
            for note in op_wire.read_notes(record.headers()):
                identity = note.producer_group, note.transaction_id
                self._happened(
                    identity,
                    story.PUT_BACK if note.action == "resume" else note.action,
                    number=record.offset(),
                    by=note.operator,
                    reason=note.reason,
                )

    def telling(self, skip_reason: SkipReason) -> SkipReason:
        """The same, and each record that is passed over by order is told once of, with whose."""

        def told(log: str, log_offset: int) -> str | None:
            order = skip_reason(log, log_offset)
            if order is not None and (log, log_offset) not in self._skips:
                self._skips.add((log, log_offset))
                by, _, why = order.partition(": ")
                where = f"{log}-{self._partition}"
                told_of: dict[str, Any] = {"number": log_offset, "by": by, "reason": why}
                self._happened(_NOBODYS, story.SKIPPED, outcome=where, **told_of)
            return order

        return told

    def _happened(self, identity: Identity, what: str, **told: Any) -> None:
        event = Event(*identity, what, self._clock.wall_ms(), **told)
        if not self._waiting:
            self._waits_from_s = self._clock.monotonic_s()
        self._wait((story.encode(event), story.mark_of(identity[1])))

    def _wait(self, piece: Piece) -> None:
        self._waiting.append(piece)
        if len(self._waiting) > _WAITING_MAX:
            self._waiting.popleft()
            self._lost_count += 1
            self._observer.stories(0, 1)

    @property
    def needs_step(self) -> bool:
        """Whether something waits for a step that does not come."""
        return (
            bool(self._waiting)
            and self._clock.monotonic_s() - self._waits_from_s >= _STEP_AFTER_S
            and not self._is_silent
        )

    @property
    def _is_silent(self) -> bool:
        is_paused = self._clock.monotonic_s() < self._silent_until_s
        return is_paused or self._place.index_partition() is None

    # -- a step ----------------------------------------------------------------------------------

    def records(
        self,
        step: Step,
        payload: Mapping[int, Payload],
        payloads: PayloadCache,
        whys: Mapping[Identity, tuple[str, str]],
        writer: PartitionWriter,
    ) -> list[TargetRecord]:
        """What the step writes to the audit topic. `whys`: why transactions are parked in it."""
        self._forget()
        now_ms = self._clock.wall_ms()
        try:
            pieces = of_step(step, Known(payload, payloads, whys), self._spans, now_ms)
        except Exception:  # a mistake of ours here must not keep the step from being written
            logger.exception(
                "half partition %d: a step is not told of",
                self._partition,
                extra={"action": "audit_bug"},
            )
            self._observer.stories(0, len(step.transactions))
            self._told = None
            return []
        if self._is_silent or not self._may_try(writer):
            self._told = _Told(pieces)
            return []
        waiting = list(islice(self._waiting, _TOGETHER_MAX))
        index = self._finished_run()
        self._told = _Told(pieces, len(waiting), is_written=True, index=index)
        encoded = [piece for piece, _ in [*waiting, *pieces]]
        if self._lost_count:
            lost = Event("", "", story.LOST, now_ms, self._lost_count)
            encoded.insert(0, story.encode(lost))
        topic, headers = self._place.topic, story.story_headers()
        found = [
            TargetRecord(topic, self._partition, None, value, headers)
            for value in story.write(now_ms, self._instance, encoded)
        ]
        index_partition = self._place.index_partition()
        if index is not None and index_partition is not None:
            value, headers = story.write_index(index)
            found.append(TargetRecord(topic, index_partition, None, value, headers))
        self._first_ms = self._first_ms or now_ms
        self._last_ms = now_ms
        return found

    def _may_try(self, writer: PartitionWriter) -> bool:
        """After it was refused: not while a partition of the topic surely has no leader."""
        if not self._pause_s or not writer.leaderless([self._place.topic]):
            return True
        self._silent_until_s = self._clock.monotonic_s() + self._pause_s
        return False

    def _finished_run(self) -> Index | None:
        """The index of a run that is long enough, once the topic has said where it ends.

        The answer is of some moment since it was asked for, with steps in between: so marks from
        then until now belong to both runs.
        """
        if self._asked is None:
            if self._first is None or len(self._marks) >= self._index_bytes:
                self._asked = self._place.ask_end()
                self._asked_bytes, self._asked_ms = len(self._marks), self._last_ms
            return None
        try:
            end = self._asked()
        except Exception as error:  # noqa: BLE001 - whatever Kafka's client gives: there is no index
            logger.info(
                "the end of the audit topic is not known: %s",
                error,
                extra={"action": "audit_end_unknown"},
            )
            self._begin_run(None)
            return None
        if end is None:
            return None
        if self._first is None:
            self._next_run(end)
            return None
        where = self._partition, self._first, end, self._first_ms, self._last_ms
        return Index(*where, bytes(self._marks))

    def _next_run(self, first: int) -> None:
        marks, first_ms = self._marks[self._asked_bytes :], self._asked_ms
        self._begin_run(first)
        self._marks, self._first_ms = marks, first_ms

    def confirmed(self) -> None:
        """The step is committed, and what it told with it."""
        told, self._told = self._told, None
        if self._spans is not None:
            self._spans.confirmed(self._clock.wall_ms())
        if told is None:
            return
        if not told.is_written:
            for piece in told.pieces:
                self._wait(piece)
            return
        if told.index is not None:
            self._next_run(told.index.end)
        for _ in range(told.waited_count):
            self._marks += self._waiting.popleft()[1]
        self._marks += b"".join([marks for _, marks in told.pieces])
        self._waits_from_s = self._clock.monotonic_s()
        if self._pause_s:
            logger.info(
                "half partition %d: %s takes what is told again",
                self._partition,
                self._place.topic,
                extra={"action": "audit_back"},
            )
        self._lost_count, self._pause_s, self._doubts = 0, 0.0, 0
        self._observer.stories(told.waited_count + len(told.pieces), 0)

    def refused(self, result: WriteResult) -> bool:
        """The step was aborted. True: for what it told alone, so the next one tells nothing.

        A broker may take a target with it: that one is found out by the same step, not by the next.
        """
        told, self._told = self._told, None
        topic = self._place.topic
        if told is None or not told.is_written:
            return False
        named = {*result.away_topics, *result.closed, *result.refusing}
        ours = [why.startswith(topic) for why in result.poisoned.values()]
        is_named = topic in named or any(ours)
        if is_named:
            self._pause(result.reason)
        elif not (named or result.poisoned or result.is_ours):
            self._doubts += 1
            if self._doubts >= self._doubts_max:
                self._pause(result.reason)  # what the step tells might be the cause, or it is not
        return is_named and named <= {topic} and all(ours)

    def _pause(self, reason: str) -> None:
        self._doubts = 0
        self._pause_s = min(_PAUSE_MAX_S, self._pause_s * 2 or _PAUSE_S)
        self._silent_until_s = self._clock.monotonic_s() + self._pause_s
        logger.warning(
            "half partition %d: %s takes nothing, so what becomes of transactions is not told for "
            "%.0f s; nothing else waits for it: %s",
            self._partition,
            self._place.topic,
            self._pause_s,
            reason,
            extra={"action": "audit_away"},
        )
