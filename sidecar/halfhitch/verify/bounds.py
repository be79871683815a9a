"""Since when the topics tell everything: retention and trimming decide what can be judged.

Owns `Bounds`. Whatever is doubtful counts as "not known": a false alarm costs more than a missed
second look, for nobody looks at a third one.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from halfhitch.verify.account import Account, PlaceAccount
from halfhitch.verify.facts import Facts, Forward, Half

NEVER: Final = math.inf
ALWAYS: Final = -math.inf
#: A machine's clock may be wrong by so much; the broker's is taken as it is.
CLOCK_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Rules:
    """`step_ms`: no Kafka transaction of an owner lasts longer. `memory_ms`: a done mark may be
    written anew for a late copy so long after the first one. `grown_ms`: owners hear so late at
    most that a topic has more partitions; clients look every five minutes."""

    step_ms: int = 15_000
    memory_ms: int = 900_000
    grown_ms: int = 600_000


class Bounds:
    """Made once, when everything was read; needs one pass over all transactions (`witness`)."""

    def __init__(self, account: Account, rules: Rules) -> None:
        layout = account.layout
        self._account = account
        self.step_ms, self.memory_ms = rules.step_ms, rules.memory_ms
        ops = account.of_topic(layout.op_topic)
        logs = ops + account.of_topic(layout.half_topic)
        #: Every op record there ever was has been read.
        self.op_is_complete = not account.op_gap and not any(place.is_trimmed for place in ops)
        self.op_is_open = any(place.is_open for place in ops)
        self.op_from_ms = self._op_from(ops, logs)
        #: By place: everything behind this log offset was forwarded within the op log's time.
        self.surely_from: dict[int, int] = {}

    def _op_from(self, ops: list[PlaceAccount], logs: list[PlaceAccount]) -> float:
        """Done marks of this time and later have all been read."""
        if self.op_is_complete:
            # From the beginning of this installation; others may have written here before.
            return min((p.first_ms for p in logs if p.first_ms is not None), default=NEVER)
        return max(
            (NEVER if p.first_ms is None else p.first_ms for p in ops if p.is_trimmed),
            default=NEVER,
        )

    def reaches_back(self, time_ms: int) -> bool:
        """Whether all that was remembered of a transaction at this time has been read."""
        return self.op_is_complete or time_ms >= self.op_from_ms + self.memory_ms

    # -- forwarded records -----------------------------------------------------------------------

    def witness(self, facts: Facts) -> None:
        """A forwarded record with a done mark tells the time of those behind it."""
        if not facts.forwards:
            return
        marks = [d for d in facts.dones if d.ending > 0]
        for forward in facts.forwards:
            known = self.surely_from.get(forward.place)
            if known is not None and known <= forward.log_offset:
                continue
            if any(
                forward.index < mark.ending and self._is_witness(forward.time_ms, mark.stored_ms)
                for mark in marks
            ):
                self.surely_from[forward.place] = forward.log_offset

    def _is_witness(self, forwarded_ms: int, marked_ms: int) -> bool:
        """Whether this mark is the record's own, and not one written anew for a late copy."""
        if self.op_is_complete:
            return True
        is_own = abs(marked_ms - forwarded_ms) <= self.step_ms
        return is_own and marked_ms >= self.op_from_ms + 2 * self.step_ms

    def needs_mark(self, forward: Forward, *, is_known: bool) -> bool:
        """Whether the done mark of this record would have been read if there were one.

        `is_known`: the op or half log speaks of the transaction.
        """
        if self._account.op_gap or self.op_is_open:
            return False
        if is_known and self.op_is_complete:
            return True
        if forward.log_offset > self.surely_from.get(forward.place, NEVER):
            return True
        if forward.is_broker_time or is_known:
            return forward.time_ms >= self.op_from_ms + self.step_ms
        return self.op_is_complete and forward.time_ms >= self.op_from_ms

    # -- targets ---------------------------------------------------------------------------------

    def is_open(self, places: Iterable[PlaceAccount]) -> bool:
        """Whether an open Kafka transaction hides the end of one of these partitions."""
        return any(place.is_open for place in places)

    def may_be_trimmed(self, places: Iterable[PlaceAccount], since_ms: int) -> bool:
        """Whether one of these may have lost what was forwarded at this time."""
        return any(since_ms < self._kept_since(place) for place in places)

    def _kept_since(self, place: PlaceAccount) -> float:
        """What was forwarded to this partition since then has not been deleted.

        Whatever was appended behind the first record that is left is there. A stranger's clock
        tells when that was only where it does not go back.
        """
        if not place.is_trimmed:
            return ALWAYS
        firsts = [place.first_ms]
        if place.is_broker_time or not place.is_muddled:
            firsts.append(place.first_of_any_ms)
        known = [first_ms for first_ms in firsts if first_ms is not None]
        if not known:
            return NEVER
        doubt_ms = 0 if place.is_broker_time else CLOCK_MS
        return min(known) + doubt_ms + self.memory_ms + self.step_ms

    def may_be_compacted(self, topic: str, half: Half | None, since_ms: int) -> bool:
        """Whether compaction may have deleted this message: without its half its key is not known.

        A message without a key is not taken by a compacted topic; it became one later, then.
        """
        kept_ms = self._account.layout.compacted.get(topic)
        if kept_ms is None:
            return False
        if half is None or half.key_hash < 0:
            return True
        # The note that a key is gone, or this message if it was one, may be gone itself.
        if since_ms < self._account.newest_ms - kept_ms:
            return True
        is_broker_time = any(place.is_broker_time for place in self._account.of_topic(topic))
        doubt_ms = 0 if is_broker_time else CLOCK_MS
        earliest_ms = since_ms - doubt_ms - self.memory_ms - self.step_ms
        return self._account.has_later(topic, half.key_digest, earliest_ms)
