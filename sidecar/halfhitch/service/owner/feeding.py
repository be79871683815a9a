"""How what was read from both logs gets into the ledger, in an order that no reading speed changes.

Two logs are read, and the op log may be ahead. A decision that is fed before its half has to wait
in the ledger while later ones pass it: two messages of one key would change places. So entries wait
here, with everything behind them, until the halves that they speak of have been read.

Belongs to one owner and its thread.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from halfhitch.core.ledger import Ledger
from halfhitch.core.model import DecisionRead, DoneRead, HalfRead
from halfhitch.errors import TopologyError
from halfhitch.ports import Clock, KafkaHeaders, Observer, PartitionReader, StoredRecord
from halfhitch.service.owner.payloads import PayloadCache, payload_of
from halfhitch.service.transactions.op_appends import OnRead
from halfhitch.wire import half as half_wire
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage

logger = logging.getLogger(__name__)

#: So often Kafka is asked whether early decisions can be dropped; they wait a minute anyway.
_EARLY_ASK_S: Final = 5.0
#: With so many op records waiting for halves the op log is read no further; one more read of it may
#: come on top.
_WAITING_MAX: Final = 500
#: Steps whose marks were not read back yet: one, as a rule.
_WRITTEN_MAX: Final = 32


#: Log (half or op) and offset -> who wants that record to be passed over, and why.
SkipReason = Callable[[str, int], str | None]


class NewerReleaseError(TopologyError):
    """A record was written by a newer release: only an upgrade of this instance helps."""


class Feed:
    """See the module's text."""

    def __init__(
        self,
        partition: int,
        *,
        reader: PartitionReader,
        payloads: PayloadCache,
        observer: Observer,
        clock: Clock,
        skip_reason: SkipReason = lambda *_: None,
        on_read: OnRead = lambda _: None,
    ) -> None:
        self._partition = partition
        self.on_read = on_read
        self._skip_reason = skip_reason
        self._reader = reader
        self._payloads = payloads
        self._observer = observer
        self._clock = clock
        #: Done marks that were written here and are still to be read back, in their order.
        self._written: deque[op_wire.MarksRecord] = deque(maxlen=_WRITTEN_MAX)
        # Entries of op records that speak of halves not read yet. Bounded: see _WAITING_MAX.
        self._waiting: deque[tuple[int, Sequence[op_wire.OpRead]]] = deque()
        self._half_end = 0  # of the half log, when it was last asked for
        self._all_goal = 0  # the half log's end after op records below `_all_goal_for` were read
        self._all_goal_for = 0
        self._early_asked_s = 0.0
        self._incomplete_goal: int | None = None  # the half log's end when somebody asked for it
        self._newest_half_ms = 0
        #: Of the half read last: a broker's clock may have been set back.
        self.last_half_ms = 0
        #: Every op record below it has been fed whole. (The ledger's position passes a record with
        #: the first of its hundreds of entries.)
        self.op_fed_to = 0
        # Broker time: the newest record's, plus what has passed here since it was read.
        self._log_time_ms = 0
        self._log_time_read_s = 0.0

    def clear(self) -> None:
        """A new takeover begins: everything is read again."""
        self._waiting.clear()
        self._written.clear()
        self.op_fed_to = 0
        self._half_end = self._all_goal_for = 0
        self._incomplete_goal = None
        self._newest_half_ms = self.last_half_ms = 0

    @property
    def is_waiting(self) -> bool:
        """Whether entries that were read wait for halves."""
        return bool(self._waiting)

    @property
    def has_room(self) -> bool:
        """False: the op log should be read no further for now."""
        return len(self._waiting) < _WAITING_MAX

    def is_fed_to(self, op_end: int) -> bool:
        """Whether nothing that was read below this op offset waits."""
        return not self._waiting or self._waiting[0][0] >= op_end

    # -- records ---------------------------------------------------------------------------------

    def take(
        self, ledger: Ledger, halves: Sequence[StoredRecord], ops: Sequence[StoredRecord]
    ) -> None:
        """What one read gave."""
        garbage = 0
        for record in halves:
            garbage += self._half(ledger, record)
        if garbage:
            self._observer.garbage("half", garbage)
            garbage = 0
        for record in ops:
            garbage += self._op(record)
        self._feed_waiting(ledger)
        if garbage:
            self._observer.garbage("op", garbage)
        newest = ops[-1] if ops else halves[-1] if halves else None
        if newest is not None:
            self._log_time_ms = max(self._log_time_ms, newest.timestamp()[1])
            self._log_time_read_s = self._clock.monotonic_s()

    def _half(self, ledger: Ledger, record: StoredRecord) -> int:
        half_offset, payload = record.offset(), payload_of(record)
        stored_ms, facts = record.timestamp()[1], payload.facts()
        event: HalfRead | Garbage
        if facts is None:
            event = half_wire.read_identity(
                half_offset, stored_ms, payload.size_bytes, payload.headers
            )
        else:
            event = half_wire.usual_identity(half_offset, stored_ms, payload.size_bytes, facts)
        if isinstance(event, Garbage):
            self._refuse_newer("half", event)
            logger.warning(
                "half record %d of partition %d is passed over: %s",
                half_offset,
                self._partition,
                event.reason,
                extra={"action": "garbage_half"},
            )
            ledger.pass_half(half_offset)
            return 1
        ledger.half(event)
        self.last_half_ms = stored_ms
        if stored_ms > self._newest_half_ms:
            self._newest_half_ms = stored_ms
        self._payloads.put(half_offset, payload)
        return 0

    def wrote(self, records: Sequence[op_wire.MarksRecord]) -> None:
        """The step with these done marks is committed."""
        self._written.extend(records)

    def _read_back(
        self, value: bytes | None, headers: KafkaHeaders | None, key: bytes | None
    ) -> op_wire.MarksRecord | None:
        """What was written here, if this is it: there is no need to read it again."""
        if not self._written:
            return None
        first = self._written[0].record
        if (value, key, headers) != (first.value, first.key, first.headers):
            return None
        return self._written.popleft()

    def _op(self, record: StoredRecord) -> int:
        op_offset, stored_ms = record.offset(), record.timestamp()[1]
        value, headers, key = record.value(), record.headers(), record.key()
        written = self._read_back(value, headers, key)
        events: Sequence[op_wire.OpRead] | Garbage
        if written is None:
            events = op_wire.read(op_offset, stored_ms, value, headers, key)
        else:
            events = written.read_back(op_offset, stored_ms)
        if isinstance(events, Garbage):
            self._refuse_newer("op", events)
            logger.warning(
                "op record %d of partition %d is passed over: %s",
                op_offset,
                self._partition,
                events.reason,
                extra={"action": "garbage_op"},
            )
        is_garbage = isinstance(events, Garbage)
        # It takes its turn behind those that wait: passing it at once would move the position, and
        # so the op watermark, beyond decisions that have not been fed.
        self._waiting.append((op_offset, () if isinstance(events, Garbage) else events))
        return int(is_garbage)

    def _refuse_newer(self, log: str, garbage: Garbage) -> None:
        """While releases are mixed: what a newer one wrote must not be passed over."""
        if not garbage.is_newer:
            return
        skip_reason = self._skip_reason(log, garbage.log_offset)
        if skip_reason is None:
            raise NewerReleaseError(
                f"{log} record {garbage.log_offset} of half partition {self._partition} was "
                f"written by a newer release ({garbage.reason}): upgrade this instance. If no "
                "newer release has ever run here, somebody has forged it: halfhitch topics skip"
            )
        logger.warning(
            "%s record %d of half partition %d says that it is of a newer release, and is passed "
            "over by order of %s",
            log,
            garbage.log_offset,
            self._partition,
            skip_reason,
            extra={"action": "record_skipped"},
        )

    # -- what waits ------------------------------------------------------------------------------

    def _feed_waiting(self, ledger: Ledger) -> None:
        """Feed op entries in log order, but none before the halves it speaks of."""
        while self._waiting and not self._is_ahead(ledger, *self._waiting[0]):
            op_offset, events = self._waiting.popleft()
            self.on_read(events)
            for event in events:
                if isinstance(event, DecisionRead):
                    ledger.decision(event)
                else:
                    ledger.op(event)
                    if isinstance(event, DoneRead):  # a predecessor's: ours are gone already
                        self._payloads.let_go(event.half_offsets)
            if not events:
                ledger.pass_op(op_offset)
            self.op_fed_to = op_offset + 1
            self.on_read(events)

    def _is_ahead(self, ledger: Ledger, op_offset: int, events: Sequence[op_wire.OpRead]) -> bool:
        """Whether halves that these entries speak of are still to be read.

        A decision follows the acknowledgement of its halves, so they lie below the half log's end
        by now; a hint beyond the end is a stranger's invention and not waited for. (Its end is how
        far it exists: what cannot be read yet is waited for.) Halves that we have appended anew
        ourselves, for a check, are there for certain, wherever they lie. And a decision about all
        messages there are is about every one that was acknowledged before it was stored.
        """
        if ledger.unread_copies and any(
            isinstance(event, DecisionRead) and ledger.awaits_copies(event.identity)
            for event in events
        ):
            return True
        hint, is_about_all = -1, False
        for event in events:
            if isinstance(event, DecisionRead):
                if event.half_hint > hint:
                    hint = event.half_hint
                is_about_all = is_about_all or event.is_about_all
        if is_about_all and not self._has_read_all_before(op_offset):
            return True
        if hint < max(ledger.positions[0], self._reader.half_read_to()):
            return False  # or it names a place where no record is: a marker's
        if hint >= self._half_end:
            self._half_end = self._reader.half_end()
        return hint < self._half_end

    def _has_read_all_before(self, op_offset: int) -> bool:
        """Whether every half was read that was stored before this op record was."""
        if op_offset >= self._all_goal_for:
            self._all_goal = self._reader.half_end()
            self._all_goal_for = self._waiting[-1][0] + 1  # it holds for all that was read by now
        return self._reader.half_read_to() >= self._all_goal

    # -- what waits no more ----------------------------------------------------------------------

    def expire_early(self, ledger: Ledger) -> None:
        """Drop decisions whose half never came.

        On a busy partition the newest half's own time tells how far the half log was read. On a
        quiet one our clock does, but only when Kafka says that nothing is left to be read: a half
        log that cannot be fetched for a while is not one that has ended.
        """
        now_s = self._clock.monotonic_s()
        if ledger.early_count == 0 or now_s - self._early_asked_s < _EARLY_ASK_S:
            return
        self._early_asked_s = now_s
        at_end = self._reader.half_read_to() >= self._reader.half_end()
        ledger.expire_early(self._now_ms() if at_end else self._newest_half_ms)
        if ledger.unknown_decision_count:
            self._observer.unknown_decisions(ledger.unknown_decision_count)
            ledger.unknown_decision_count = 0

    def end_incomplete(self, ledger: Ledger) -> None:
        """Park what is decided, but whose messages have not come, once they surely do not exist.

        They were acknowledged before the decision, so they lie below any later end of the half log.
        To wait until nothing is left to be read would be to wait for the load to stop.
        """
        if not ledger.checks.incomplete:
            return
        if self._incomplete_goal is None:
            self._incomplete_goal = self._reader.half_end()
        if self._reader.half_read_to() >= self._incomplete_goal:
            self._incomplete_goal = None
            ledger.end_incomplete()

    def _now_ms(self) -> int:
        """Broker time, as well as it can be known without asking."""
        passed_s = self._clock.monotonic_s() - self._log_time_read_s
        return self._log_time_ms + int(passed_s * 1000)
