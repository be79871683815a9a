"""Since when the topics tell everything: retention and trimming decide what can be judged.

Owns `Bounds`. Whatever is doubtful counts as "not known": a false alarm costs more than a missed
second look, for nobody looks at a third one.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from halfhitch.service.verifying.account import Account, PlaceAccount
from halfhitch.service.verifying.facts import Facts, Forward

NEVER: Final = math.inf
ALWAYS: Final = -math.inf
#: A machine's clock may be wrong by so much; the broker's is taken as it is.
CLOCK_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Rules:
    """`step_ms`: no Kafka transaction of an owner lasts longer. `memory_ms`: a done mark may be
    written anew for a late copy so long after the first one."""

    step_ms: int = 15_000
    memory_ms: int = 900_000


class Bounds:
    """Made once, when everything was read; needs one pass over all transactions (`witness`)."""

    def __init__(self, account: Account, rules: Rules) -> None:
        layout = account.layout
        self._account = account
        self._step_ms, self._memory_ms = rules.step_ms, rules.memory_ms
        ops = account.of_topic(layout.op_topic)
        logs = ops + account.of_topic(layout.half_topic)
        #: Every op record there ever was has been read.
        self.op_is_complete = not account.op_gap and not any(place.is_trimmed for place in ops)
        self.op_is_open = any(place.is_open for place in ops)
        self.op_from_ms = self._op_from(ops, logs)
        #: By place: everything behind this log offset was forwarded within the op log's time.
        self._surely_from: dict[int, int] = {}
        self._since: dict[str | None, float] = {}

    def _op_from(self, ops: list[PlaceAccount], logs: list[PlaceAccount]) -> float:
        """Done marks of this time and later have all been read."""
        if self.op_is_complete:
            # From the beginning of this installation; others may have written here before.
            return min((p.first_ms for p in logs if p.first_ms is not None), default=NEVER)
        return max(
            (NEVER if p.first_ms is None else p.first_ms for p in ops if p.is_trimmed),
            default=NEVER,
        )

    # -- forwarded records -----------------------------------------------------------------------

    def witness(self, facts: Facts) -> None:
        """A forwarded record with a done mark tells the time of those behind it."""
        if not facts.forwards:
            return
        marks = [d for d in facts.dones if d.ending > 0]
        for forward in facts.forwards:
            known = self._surely_from.get(forward.place)
            if known is not None and known <= forward.log_offset:
                continue
            if any(
                forward.index < mark.ending and self._is_witness(forward.time_ms, mark.stored_ms)
                for mark in marks
            ):
                self._surely_from[forward.place] = forward.log_offset

    def _is_witness(self, forwarded_ms: int, marked_ms: int) -> bool:
        """Whether this mark is the record's own, and not one written anew for a late copy."""
        if self.op_is_complete:
            return True
        is_own = abs(marked_ms - forwarded_ms) <= self._step_ms
        return is_own and marked_ms >= self.op_from_ms + 2 * self._step_ms

    def needs_mark(self, forward: Forward, *, is_known: bool) -> bool:
        """Whether the done mark of this record would have been read if there were one.

        `is_known`: the op or half log speaks of the transaction.
        """
        if self._account.op_gap or self.op_is_open:
            return False
        if is_known and self.op_is_complete:
            return True
        if forward.log_offset > self._surely_from.get(forward.place, NEVER):
            return True
        if forward.is_broker_time or is_known:
            return forward.time_ms >= self.op_from_ms + self._step_ms
        return self.op_is_complete and forward.time_ms >= self.op_from_ms

    # -- targets ---------------------------------------------------------------------------------

    def kept_since(self, topic: str | None) -> float:
        """What was forwarded to this topic (None: to any) since then has not been deleted."""
        if topic not in self._since:
            self._since[topic] = self._kept_since(self._places(topic))
        return self._since[topic]

    def is_open(self, topic: str | None) -> bool:
        """Whether an open Kafka transaction hides the end of one of its partitions."""
        return any(place.is_open for place in self._places(topic))

    def _places(self, topic: str | None) -> list[PlaceAccount]:
        if topic is not None:
            return self._account.of_topic(topic)
        targets = self._account.layout.targets
        return [place for place in self._account.places if place.place[0] in targets]

    def _kept_since(self, places: Iterable[PlaceAccount]) -> float:
        since = ALWAYS
        for place in places:
            if place.place[0] in self._account.layout.compacted:
                return NEVER
            if not place.is_trimmed:
                continue
            if place.first_ms is None:
                return NEVER
            doubt_ms = 0 if place.is_broker_time else CLOCK_MS
            since = max(since, place.first_ms + doubt_ms + self._memory_ms + self._step_ms)
        return since
