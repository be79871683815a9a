"""Messages that are stored and not ended, as the half and the op topic tell. Pure.

Owns `Undone`. Invariants: a half is undone until a done mark names its offset, in whatever order
the two are read; a copy that an owner has made (for a check, or because it grew old) is not a new
message.
"""

from dataclasses import dataclass
from typing import Any, Final

from halfhitch.core.model import COPIED, DoneRead
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage
from halfhitch_cli.records import Seen, half_of

#: A half partition and an offset in it.
Place = tuple[int, int]

#: The two logs are read side by side: what is further apart than this does not belong together.
_DONE_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class Ended:
    """A transaction that an owner has carried out; `ending` as op records have it."""

    group: str
    transaction_id: str
    ending: int
    at_ms: int
    messages: tuple[Seen, ...]  # that were known here


class Undone:
    """Fed with records of both logs."""

    def __init__(self) -> None:
        self._waiting: dict[Place, Seen] = {}
        self._done: dict[Place, None] = {}  # of halves that were not read (yet)

    @property
    def messages(self) -> list[Seen]:
        """In the order in which they came."""
        return list(self._waiting.values())

    def half(self, record: Any) -> Seen | None:
        """A record of the half topic; the message if it is a new one."""
        found = half_of(
            record.partition(), record.offset(), record.timestamp()[1], record.key(),
            record.value(), record.headers(),
        )  # fmt: skip
        if found is None:
            return None
        message, half = found
        place = message.half_partition or 0, message.position
        if place in self._done:
            del self._done[place]
            return None
        self._waiting[place] = message
        return message if half.first_half_offset is None else None

    def op(self, record: Any) -> list[Ended]:
        """A record of the op topic; what it says has ended."""
        ended = []
        for mark in read_op(record):
            if not isinstance(mark, DoneRead):
                continue
            partition = record.partition()
            messages = []
            for half_offset in mark.half_offsets:
                message = self._waiting.pop((partition, half_offset), None)
                if message is None:
                    self._remember((partition, half_offset))
                else:
                    messages.append(message)
            if mark.ending != COPIED:
                group, transaction_id = mark.identity
                ended.append(
                    Ended(group, transaction_id, mark.ending, mark.stored_at_ms, tuple(messages))
                )
        return ended

    def _remember(self, place: Place) -> None:
        self._done[place] = None
        if len(self._done) > _DONE_MAX:
            del self._done[next(iter(self._done))]


_NOTHING: Final[list[Any]] = []


def read_op(record: Any) -> Any:
    """The events of an op record; of garbage, none."""
    found = op_wire.read(
        record.offset(), record.timestamp()[1], record.value(), record.headers(), record.key()
    )
    return _NOTHING if isinstance(found, Garbage) else found
