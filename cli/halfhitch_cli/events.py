"""What happens to transactions, one line for each thing, in the order in which it happened.

Owns `Story`: fed with records of the half, op and target topics and with the log's lines about
checks, it gives lines for people. Pure but for the clock that is handed in. Invariants: a line
comes a moment later than what it tells, so that what was read out of order is told in order; in a
flood the lines of each second are bounded, and how many were left out is told; what comes too late
to count (a decision after another, a repeat of a message) is told as that.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from halfhitch.core.model import (
    GIVEN_UP,
    PARKED,
    ROLLED_BACK,
    DecisionRead,
    DoneRead,
    Resolution,
    ResolutionSource,
)
from halfhitch.wire.plain import shown
from halfhitch_cli.records import as_text, half_of, seen
from halfhitch_cli.undone import read_op

#: Logs are read side by side, and none of them in this time is far behind the others.
_HELD_S: Final = 0.4
_LINES_A_SECOND: Final = 40
#: More than this in a moment nobody could read anyhow.
_HELD_MAX: Final = 100_000
#: Of so many transactions it is known what has happened to them before.
_REMEMBERED_MAX: Final = 100_000

_BY: Final = {
    ResolutionSource.PRODUCER: "by its producer",
    ResolutionSource.CHECK: "by the answer to a check",
    ResolutionSource.OPERATOR: "by an operator",
    ResolutionSource.POLICY: "by the give-up policy",
}
_DECIDED: Final = {
    Resolution.COMMIT: "committed",
    Resolution.ROLLBACK: "rolled back",
    Resolution.PARK: "given up",
}
#: Endings that no visible message tells of.
_ENDED: Final = {
    ROLLED_BACK: "its messages are dropped",
    PARKED: "parked: a topic does not take it (halfhitch parked list)",
    GIVEN_UP: "parked, undecided (halfhitch parked list)",
}


#: On a terminal, by stage, as SGR codes: yellow, cyan, none, green. What never becomes visible is
#: dim.
_COLOURS: Final = ("33", "36", "0", "32")
_DIM: Final = "2"


class Event(NamedTuple):
    """In the order in which they happen to one transaction at the same millisecond."""

    at_ms: int
    stage: int
    group: str
    transaction_id: str
    text: str
    #: Of a half record and of a decision.
    partition: int = -1
    #: Of a half record: which message of its transaction; None of anything else.
    message: int | None = None
    is_put_back: bool = False
    #: Of a decision: which. Of what was put back: as what it had been decided before.
    resolution: Resolution | None = None


class _Life:
    """What has happened to one transaction so far."""

    __slots__ = ("decided_ms", "messages", "resolution")

    def __init__(self) -> None:
        self.messages: set[int] = set()
        self.resolution: Resolution | None = None
        self.decided_ms = 0


class _Lives:
    """Of the transactions of late, so that what counts for nothing is told as that.

    As the ledger does it: in each half partition the first decision counts, and `horizon_ms` after
    it the id is another transaction's.
    """

    def __init__(self, horizon_ms: int) -> None:
        self._horizon_ms = horizon_ms
        self._lives: OrderedDict[tuple[int, str, str], _Life] = OrderedDict()

    def judged(self, event: Event) -> str:
        """The event's text, or that of an event that does not count."""
        if event.message is None and event.resolution is None:
            return event.text
        life = self._life(event)
        if event.message is not None:
            is_again = event.message in life.messages
            life.messages.add(event.message)
            if event.is_put_back and event.resolution is not None:
                life.resolution, life.decided_ms = event.resolution, event.at_ms
            return f"sent again, counts once: {_behind_colon(event)}" if is_again else event.text
        before = life.resolution
        if before is None:
            life.resolution, life.decided_ms = event.resolution, event.at_ms
            if not life.messages:  # it was stored before the story began, and perhaps decided
                return f"{event.text}, unless it was decided before (halfhitch tx trace)"
            return event.text
        if before is event.resolution:
            return f"{event.text}, again"
        if before is Resolution.PARK:
            return f"{event.text}: too late, it was given up; counts if it is put back"
        return f"{event.text}: refused, it was {_DECIDED[before]} before"

    def _life(self, event: Event) -> _Life:
        name = (event.partition, event.group, event.transaction_id)
        life = self._lives.get(name)
        is_another = life is not None and (
            (
                event.is_put_back
                and (event.message in life.messages or life.resolution is Resolution.PARK)
            )
            or (life.resolution is not None and event.at_ms - life.decided_ms > self._horizon_ms)
        )
        if life is None or is_another:
            life = self._lives[name] = _Life()
        self._lives.move_to_end(name)
        if len(self._lives) > _REMEMBERED_MAX:
            self._lives.popitem(last=False)
        return life


def _behind_colon(event: Event) -> str:
    return event.text.partition(": ")[2]


class Story:
    """Used by one thread, but for `heard`, which any thread may call."""

    def __init__(
        self,
        now_s: Callable[[], float],
        wall_ms: Callable[[], int],
        *,
        horizon_s: float,
        is_coloured: bool = False,
    ) -> None:
        """`horizon_s`: as the setting `ledger.horizon_s`."""
        self._now_s = now_s
        self._is_coloured = is_coloured
        self._wall_ms = wall_ms
        self._came: deque[tuple[float, Event]] = deque(maxlen=_HELD_MAX)
        self._lives = _Lives(int(horizon_s * 1000))
        self._second = 0
        self._told = 0
        self._left_out = 0

    def add(self, event: Event) -> None:
        """It is told a moment later."""
        self._came.append((self._now_s(), event))

    def half(self, record: Any) -> None:
        """A record of the half topic."""
        found = half_of(
            record.partition(), record.offset(), record.timestamp()[1], record.key(),
            record.value(), record.headers(),
        )  # fmt: skip
        if found is None or found[1].first_half_offset is not None:
            return
        message, half = found
        text = f"stored, invisible: {shown(message.topic)}, key {as_text(message.key)}"
        if half.resumed_count:
            text = f"put back, invisible: {shown(message.topic)}"
        self.add(
            Event(
                message.stored_ms, 0, message.group, message.transaction_id, text,
                partition=record.partition(), message=half.index,
                is_put_back=half.resumed_count > 0, resolution=half.born,
            )
        )  # fmt: skip

    def op(self, record: Any) -> None:
        """A record of the op topic."""
        for entry in read_op(record):
            group, transaction_id = entry.identity
            if isinstance(entry, DecisionRead):
                text = f"{_DECIDED[entry.resolution]} {_BY[entry.source]}"
                if entry.reason and entry.source is not ResolutionSource.PRODUCER:
                    text += f": {entry.reason}"
                self.add(
                    Event(
                        entry.stored_at_ms, 2, group, transaction_id, text,
                        partition=record.partition(), resolution=entry.resolution,
                    )
                )  # fmt: skip
            elif isinstance(entry, DoneRead) and entry.ending in _ENDED:
                text = _ENDED[entry.ending]
                self.add(Event(self._wall_ms(), 3, group, transaction_id, text))

    def target(self, record: Any) -> None:
        """A record of an ordinary topic; those of other producers are not ours to tell."""
        message = seen(
            record.topic(), record.partition(), record.offset(), record.timestamp()[1],
            record.key(), record.value(), record.headers(),
        )  # fmt: skip
        if message.group:
            text = f"visible on {shown(message.place)}"
            # Its own time is that of the forward; readers see it when the step is committed: now.
            self.add(Event(self._wall_ms(), 3, message.group, message.transaction_id, text))

    def heard(self, line: logging.LogRecord) -> None:
        """A line of the log about a check (see engine/told.py)."""
        fields = vars(line)
        transaction_id = str(fields.get("transaction_id", ""))
        text = line.getMessage().replace(f" about {transaction_id}", "", 1)
        group = str(fields.get("producer_group", ""))
        asked_ms = int((line.created - float(fields.get("took_s", 0.0))) * 1000)
        self.add(Event(asked_ms, 1, group, transaction_id, text))

    def due(self, *, is_over: bool = False) -> Iterator[str]:
        """The lines whose moment has come; all of them when it is over."""
        now_s = self._now_s()
        until_s = now_s if is_over else now_s - _HELD_S
        ripe: list[Event] = []
        while self._came and self._came[0][0] <= until_s:
            ripe.append(self._came.popleft()[1])
        for event in sorted(ripe, key=lambda event: event[:2]):
            yield from self._line(event._replace(text=self._lives.judged(event)), int(now_s))
        if self._left_out and (is_over or int(now_s) != self._second):
            yield self._rest()

    def _line(self, event: Event, second: int) -> Iterator[str]:
        if second != self._second:
            if self._left_out:
                yield self._rest()
            self._second, self._told = second, 0
        self._told += 1
        if self._told > _LINES_A_SECOND:
            self._left_out += 1
            return
        moment = datetime.fromtimestamp(event.at_ms / 1000, UTC).astimezone()
        who = f"{shown(event.group)}  {shown(event.transaction_id)}"
        text = shown(event.text)
        if self._is_coloured:
            colour = _DIM if event.text in _ENDED.values() else _COLOURS[event.stage]
            text = f"\x1b[{colour}m{text}\x1b[0m"
        yield f"{moment:%H:%M:%S}  {who}  {text}"

    def _rest(self) -> str:
        left_out, self._left_out = self._left_out, 0
        return f"          ... and {left_out} more events"
