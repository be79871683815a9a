"""Whether a committed Kafka transaction can be read yet.

Kafka answers the commit when the decision stands in its transaction log; the markers that let
read_committed consumers pass are written to the target partitions after that. Whoever was promised
"visible" waits here until the last stable offset of his topics has passed what was their end.

All who wait share the looks: each look asks for the ends of those who have come since, and how far
all logs that somebody waits for can be read. So a topic that another producer holds back keeps
nobody waiting but its own callers.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from halfhitch.adapters.kafka.log_ends import Log, LogEnds
from halfhitch.errors import KafkaUnavailable, VisibilityUnknown
from halfhitch.ports import TopicCatalog

logger = logging.getLogger(__name__)

_WAIT_S: Final = 5.0
_PAUSE_S: Final = 0.002


@dataclass(slots=True, eq=False)
class _Waiting:
    """One caller."""

    topics: frozenset[str]
    answer: asyncio.Future[None]
    give_up_s: float
    #: What could not be read at the last look, and must be read up to there.
    behind: dict[Log, int] = field(default_factory=dict)


class KafkaMarkers:
    """ports.Markers. Belongs to one event loop."""

    def __init__(self, ends: LogEnds, catalog: TopicCatalog, *, wait_s: float = _WAIT_S) -> None:
        self._ends = ends
        self._catalog = catalog
        self._wait_s = wait_s
        self._new: list[_Waiting] = []
        self._looking: asyncio.Task[None] | None = None

    async def settled(self, topics: Iterable[str]) -> None:
        """See ports.Markers."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        give_up_s = time.monotonic() + self._wait_s
        self._new.append(_Waiting(frozenset(topics), answer, give_up_s))
        if self._looking is None:
            self._looking = asyncio.ensure_future(self._look_on())
        await answer

    async def _look_on(self) -> None:
        """Look until nobody waits any more."""
        waiting: list[_Waiting] = []
        try:
            while waiting or self._new:
                new, self._new = self._new, []
                waiting += new
                try:
                    await asyncio.to_thread(self._look, waiting, new)
                except KafkaUnavailable as error:
                    _fail(waiting, error)
                except Exception as error:
                    logger.exception("a look at markers failed", extra={"action": "markers_failed"})
                    _fail(waiting, error)
                waiting = [one for one in waiting if self._goes_on(one)]
                if waiting and not self._new:
                    await asyncio.sleep(_PAUSE_S)
        finally:
            self._looking = None

    def _look(self, waiting: list[_Waiting], new: list[_Waiting]) -> None:
        """The ends of the new ones' logs, and what is still behind of all. In a thread."""
        logs = {one: self._logs_of(one.topics) for one in new}
        if new:
            existing = self._ends.existing({log for some in logs.values() for log in some})
            for one, some in logs.items():
                one.behind = {log: existing[log] for log in some}
        readable = self._ends.readable({log for one in waiting for log in one.behind})
        for one in waiting:
            one.behind = {log: end for log, end in one.behind.items() if readable[log] < end}

    def _logs_of(self, topics: Iterable[str]) -> list[Log]:
        return [
            (topic, partition)
            for topic in topics
            for partition in range(self._catalog.partition_count(topic) or 0)
        ]

    def _goes_on(self, one: _Waiting) -> bool:
        """Answer it, if that can be done."""
        if one.answer.done():  # failed, or nobody waits for it any more
            return False
        if not one.behind:
            one.answer.set_result(None)
        elif time.monotonic() > one.give_up_s:
            one.answer.set_exception(
                VisibilityUnknown(
                    "the messages are committed; another producer's open Kafka transaction "
                    f"holds back the readers of {next(iter(one.behind))[0]}"
                )
            )
        return not one.answer.done()


def _fail(waiting: Iterable[_Waiting], error: Exception) -> None:
    for one in waiting:
        if not one.answer.done():
            one.answer.set_exception(
                VisibilityUnknown(
                    f"the messages are committed; whether readers see them is not known: {error}"
                )
            )
