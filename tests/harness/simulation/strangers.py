"""Whoever else has Kafka transactions open: on the half log, the op log, a target.

They hold the last stable offset of a log while it goes on growing. In the end they are aborted, so
nothing of them is ever seen.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halfhitch.adapters.memory.kafka import KafkaTransaction, MemoryLog

#: A moment, longer than a session, longer than early decisions are kept.
_OPEN_MS = (300, 20_000, 20_000, 150_000)


def fresh_dice(dice: Random) -> Random:
    """Of the same seed, and no throw is taken from these: older lives stay as they were."""
    return Random(repr(dice.getstate()[1][:8]))  # type: ignore[index]


class Strangers:
    """`places`: topic and partition of each log that they may write to."""

    def __init__(self, cluster: Any, places: Sequence[tuple[str, int]]) -> None:
        self._cluster = cluster
        self._timeline = cluster.timeline
        self._places = places
        self._dice = fresh_dice(cluster.timeline.dice)
        self._count = 0
        self._open: dict[KafkaTransaction, MemoryLog] = {}

    def schedule(self, times: int, active_ms: int) -> None:
        """So many in a life."""
        for _ in range(times):
            self._timeline.after(self._dice.randint(0, active_ms), self.act)

    def act(self) -> None:
        """One begins, writes a record, and leaves it open."""
        if not self._cluster.is_faulty:
            return
        kafka, place = self._cluster.kafka, self._dice.choice(self._places)
        self._count += 1
        name = f"stranger-{self._count}"
        open_ = kafka.begin(name, kafka.init_producer(name))
        self._open[open_] = kafka.log(*place)
        kafka.append(*place, None, b"?", [("TAGS", b"?")], open_)
        open_ms = self._dice.choice(_OPEN_MS)
        self._timeline.count[f"strangers in {place[0]}"] += 1
        self._timeline.note("{} opens a Kafka transaction in {} for {} ms", name, place, open_ms)
        self._timeline.after(open_ms, lambda: self._end(open_))

    def end_all(self) -> None:
        """No faults any more."""
        for open_ in list(self._open):
            self._end(open_)

    def _end(self, open_: KafkaTransaction) -> None:
        log = self._open.pop(open_, None)
        if log is None:
            return
        self._cluster.kafka.abort(open_)
        self._timeline.note("{} aborts", open_.transactional_id)
        wake = getattr(self._cluster.kafka, "wake_readers", None)
        if wake is not None:
            wake(log)
