"""Reads the halves that another instance wants this one's producers to be asked about.

Owns one thread and one consumer, made with the first such question and kept until the stop. What
has come in while it read is read in one go: the copies of checks that left together lie together.
"""

import asyncio
import logging
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaException

from halfhitch.adapters.kafka.half_fetching import HalfFetcher
from halfhitch.adapters.watchdog import resting
from halfhitch.errors import KafkaUnavailable
from halfhitch.service.checking.halves import Filled, filled_check
from halfhitch.wire.check import Check
from halfhitch.wire.handle import Handle

logger = logging.getLogger(__name__)

#: As many questions are read in one go: their messages are in memory together.
_AT_ONCE_MAX: Final = 256

_Wanted = tuple[Check, Filled]


class KafkaAskedHalves:
    """service.checking.halves.AskedHalves."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        make_consumer: Callable[[], Consumer],
        sign: Callable[[Handle], str],
        *,
        half_topic: str,
    ) -> None:
        self._loop = loop
        self._fetcher = HalfFetcher(make_consumer, half_topic)
        self._sign = sign
        #: Bounded by whoever asks: the desk takes so many questions of others and no more.
        self._wanted: deque[_Wanted] = deque()
        self._any = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def fill(self, check: Check, filled: Filled) -> None:
        """See service.checking.halves.AskedHalves."""
        if self._stopping.is_set():
            filled(None)
            return
        self._wanted.append((check, filled))
        self._any.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="asked-halves", daemon=True)
            self._thread.start()

    def stop(self, at_most_s: float) -> None:
        """End; what was not read is not answered. Blocks."""
        self._stopping.set()
        self._any.set()
        if self._thread is not None:
            self._thread.join(at_most_s)

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                resting()
                self._any.wait()
                self._any.clear()
                while self._wanted and not self._stopping.is_set():
                    count = min(len(self._wanted), _AT_ONCE_MAX)
                    self._answer([self._wanted.popleft() for _ in range(count)])
        finally:
            if self._fetcher.consumer is not None:
                self._fetcher.consumer.close()
            resting()

    def _answer(self, some: Sequence[_Wanted]) -> None:
        by_partition: dict[int, list[_Wanted]] = defaultdict(list)
        for check, filled in some:
            by_partition[check.partition].append((check, filled))
        for partition, asked in by_partition.items():
            answers = self._read(partition, [check for check, _ in asked])
            whole = [(filled, answer) for (_, filled), answer in zip(asked, answers, strict=True)]
            try:
                self._loop.call_soon_threadsafe(_hand_over, whole)
            except RuntimeError:  # the loop has been closed: nobody waits for it
                self._stopping.set()

    def _read(self, partition: int, checks: Sequence[Check]) -> list[Check | None]:
        offsets = {half_offset for check in checks for half_offset in check.half_offsets}
        try:
            records = self._fetcher.fetch(partition, offsets)
            return [filled_check(check, records, self._sign) for check in checks]
        except (KafkaUnavailable, KafkaException) as error:
            logger.warning(
                "%d checks of other instances cannot be put to the producers here: %s; those "
                "instances try another way",
                len(checks),
                error,
                extra={"action": "asked_halves_unread"},
            )
        except Exception:
            logger.exception(
                "halves were not read; please report this", extra={"action": "check_bug"}
            )
        return [None] * len(checks)


def _hand_over(answers: Sequence[tuple[Filled, Check | None]]) -> None:
    for filled, answer in answers:
        filled(answer)
