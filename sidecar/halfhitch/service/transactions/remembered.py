"""The decisions of one half partition that landed a moment ago: two generations.

They answer for their owner until it has read them. Nor are they forgotten with that at once: an
owner may have to take its half partition over again, and knows nothing until it has replayed both
logs. So time counts only as far as Kafka stores decisions. While it stands still, or is not
reached, nothing is forgotten: that is when owners lose their partitions, and contrary ends come
late.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from halfhitch.core.model import Identity
from halfhitch.service.transactions.asked import UnderWay

#: Twice that at most, where the owner here has read them; it reads within a tenth of it as a rule.
_RECENT_S: Final = 1.0
#: Where no owner works here: a takeover that begins takes some seconds.
_UNOWNED_S: Final = 10.0
#: Whatever has not been written to for so long: an id may be used anew some day.
_STALE_S: Final = 600.0
#: Of each generation, wherever its owner is: a decision takes some 250 bytes.
_COUNT_MAX: Final = 50_000


class Forgotten(NamedTuple):
    """Decisions that are not remembered any more."""

    half_end: int  # of transactions that lie below this half offset
    op_end: int  # and they themselves below this op offset

    def may_hold(self, half_offset: int, read_to: int | None) -> bool:
        """Whether one of them is of the transaction that lies there, and no owner has read it.

        `read_to`: see `Remembered.stored`.
        """
        return half_offset < self.half_end and (read_to is None or read_to < self.op_end)


class Remembered:
    """By identity: the first one of its transaction that is remembered."""

    def __init__(self) -> None:
        self.forgotten = Forgotten(0, 0)
        self._recent: dict[Identity, UnderWay] = {}
        self._older: dict[Identity, UnderWay] = {}
        self._older_end = 0  # they lie below this op offset
        self._stored_end = 0  # and the recent ones below this one
        self._recent_half_end = self._older_half_end = 0
        self._renewed_s = 0.0
        self._put_s = 0.0

    def find(self, identity: Identity, now_s: float) -> UnderWay | None:
        """None: nothing is remembered."""
        if now_s - self._put_s > _STALE_S and (self._recent or self._older):
            self._turn(self._stored_end)
            self._turn(self._stored_end)
        return self._recent.get(identity) or self._older.get(identity)

    def put(self, identity: Identity, head: UnderWay, now_s: float) -> None:
        """All of its transaction have landed, or failed."""
        self._recent[identity], self._put_s = head, now_s

    def pass_over(self, half_offset: int, op_offset: int) -> None:
        """What is stored there, of a transaction that lies there, is forgotten at once."""
        half_end, op_end = self.forgotten
        self.forgotten = Forgotten(max(half_end, half_offset + 1), max(op_end, op_offset + 1))

    def note(self, half_offset: int) -> None:
        """A decision of the transaction that lies there has landed; `put` comes later."""
        self._recent_half_end = max(self._recent_half_end, half_offset + 1)

    def stored(self, op_offset: int, read_to: int | None, now_s: float) -> None:
        """Something was stored there, and all that lies before it has landed and been put in.

        `read_to`: what lies below it an owner here has read; None: no owner works here.
        """
        self._stored_end = max(self._stored_end, op_offset + 1)
        kept_s = _UNOWNED_S if read_to is None else _RECENT_S
        is_read = read_to is None or read_to >= self._older_end
        if (now_s - self._renewed_s > kept_s and is_read) or len(self._recent) >= _COUNT_MAX:
            self._turn(op_offset)
            self._renewed_s = now_s

    def _turn(self, op_offset: int) -> None:
        """Forget the older ones; what is recent lies below this op offset."""
        half_end, op_end = self.forgotten
        self.forgotten = Forgotten(
            max(half_end, self._older_half_end), max(op_end, self._older_end)
        )
        self._older, self._recent = self._recent, {}
        self._older_half_end, self._recent_half_end = self._recent_half_end, 0
        self._older_end = op_offset


def read_to(partition_count: int, owner_read_to: Callable[[int], int | None]) -> list[int]:
    """How far owners here have read each op log, as native threads want it; -1: none works here."""
    found = [owner_read_to(partition) for partition in range(partition_count)]
    return [-1 if one is None else one for one in found]
