"""Memory of finished transactions, so that whatever comes late is recognised.

Within the horizon a late copy of a half is done at once (never forwarded again, never checked), an
equal decision is idempotent and a contrary one a conflict. The horizon is bounded by log time *and*
by count: at 10,000 transactions a second nobody can remember a quarter of an hour, so the oldest
generation is dropped early, and a client's retries must fit into what is left (see DESIGN.md).

Three generations: the current one and two full ones. When the current one is full (by age or count)
the oldest is dropped, so everything stays for at least two generations' worth.
"""

from typing import Final

from halfhitch.core.model import Identity, OpOffset, TimestampMs

_GENERATIONS: Final = 3


class _Generation:
    __slots__ = ("by_group", "count", "first_op_offset", "started_ms")

    def __init__(self, started_ms: TimestampMs, first_op_offset: OpOffset) -> None:
        self.started_ms = started_ms
        self.first_op_offset = first_op_offset
        # group -> id -> how it ended; two levels cost less than a tuple for each key
        self.by_group: dict[str, dict[str, int]] = {}
        self.count = 0


class Finished:
    """Identity -> ending, in the words of a done mark (see core/model.py)."""

    def __init__(self, *, horizon_ms: int, count_max: int) -> None:
        self._span_ms = max(1, horizon_ms // (_GENERATIONS - 1))
        self._count_max = max(1, count_max // _GENERATIONS)
        self._generations: list[_Generation] = []  # oldest first

    def remember(self, identity: Identity, ending: int) -> None:
        """Put an ending into the current generation; `advance` must have been called before."""
        before = self.ending(identity) if ending < 0 else None
        if before is not None and before >= 0:
            return  # the mark of a late copy out of a life before the one that was committed
        current = self._generations[-1]
        group, transaction_id = identity
        endings = current.by_group.get(group)
        if endings is None:
            endings = current.by_group[group] = {}
        if transaction_id not in endings:
            current.count += 1
        endings[transaction_id] = ending

    def ending(self, identity: Identity) -> int | None:
        """How it ended, or None when it is not remembered. Safe to call from another thread."""
        group, transaction_id = identity
        for generation in reversed(self._generations):
            endings = generation.by_group.get(group)
            if endings is not None:
                ending = endings.get(transaction_id)
                if ending is not None:
                    return ending
        return None

    def forget(self, identity: Identity) -> None:
        """It lives again: it was parked, and is put back."""
        group, transaction_id = identity
        for generation in self._generations:
            if generation.by_group.get(group, {}).pop(transaction_id, None) is not None:
                generation.count -= 1

    def advance(self, log_time_ms: TimestampMs, op_position: OpOffset) -> None:
        """Log time has come to here; start a new generation when the current one is full."""
        if not self._generations:
            self._generations.append(_Generation(log_time_ms, op_position))
            return
        current = self._generations[-1]
        if current.count >= self._count_max or log_time_ms - current.started_ms >= self._span_ms:
            # One new list instead of a change in place: `ending` may be iterating on another
            # thread.
            kept = self._generations[-(_GENERATIONS - 1) :]
            self._generations = [*kept, _Generation(log_time_ms, op_position)]

    @property
    def first_op_offset(self) -> OpOffset | None:
        """Replay must begin here to rebuild this memory."""
        return self._generations[0].first_op_offset if self._generations else None

    def __len__(self) -> int:
        return sum(generation.count for generation in self._generations)
