"""Whether a committed Kafka transaction can be read yet.

Kafka answers the commit when the decision stands in its transaction log; the markers that let
read_committed consumers pass are written to the target partitions after that. Whoever was promised
"visible" waits here until the last stable offset of his topics has passed what was their end.

Questions gather into rounds: one round is under way, everybody who asks meanwhile shares the next
one. (Not the one under way: its ends may have been taken before his commit.)
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Final

from halfhitch.adapters.kafka.log_ends import Log, LogEnds
from halfhitch.errors import HalfHitchError, KafkaUnavailable, VisibilityUnknown
from halfhitch.ports import TopicCatalog

_ROUND_S: Final = 5.0
_PAUSE_S: Final = 0.002


class KafkaMarkers:
    """ports.Markers. Belongs to one event loop."""

    def __init__(self, ends: LogEnds, catalog: TopicCatalog) -> None:
        self._ends = ends
        self._catalog = catalog
        self._next: tuple[set[str], asyncio.Future[None]] | None = None
        self._rounds: asyncio.Task[None] | None = None

    async def settled(self, topics: Iterable[str]) -> None:
        """See ports.Markers."""
        if self._next is None:
            self._next = (set(), asyncio.get_running_loop().create_future())
        asked, answer = self._next
        asked.update(topics)
        if self._rounds is None:
            self._rounds = asyncio.ensure_future(self._run())
        await asyncio.shield(answer)

    async def _run(self) -> None:
        while self._next is not None:
            (topics, answer), self._next = self._next, None
            partitions = [
                (topic, partition)
                for topic in topics
                for partition in range(self._catalog.partition_count(topic) or 0)
            ]
            try:
                await asyncio.to_thread(self._round, partitions)
            except HalfHitchError as error:
                answer.set_exception(error)
                answer.exception()  # looked at: those who asked may all have gone
            else:
                answer.set_result(None)
        self._rounds = None

    def _round(self, logs: Sequence[Log]) -> None:
        try:
            give_up_s = time.monotonic() + _ROUND_S
            behind = self._ends.existing(logs)
            while behind:
                stable = self._ends.readable(behind)
                behind = {log: end for log, end in behind.items() if stable[log] < end}
                if behind and time.monotonic() > give_up_s:
                    raise VisibilityUnknown(
                        "the messages are committed; another producer's open Kafka transaction "
                        f"holds back the readers of {next(iter(behind))[0]}"
                    )
                if behind:
                    time.sleep(_PAUSE_S)
        except KafkaUnavailable as error:
            raise VisibilityUnknown(
                f"the messages are committed; whether readers see them is not known: {error}"
            ) from error
