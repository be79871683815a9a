"""What happens, as it happens: the events that `halfhitch dev` shows.

Owns a thread that reads the half, op and target topics from their ends on, and listens to the log's
lines about checks. Invariants: it changes nothing and joins nothing; whatever goes wrong in it, the
sidecar beside it goes on.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer

from halfhitch.adapters.kafka.scan import LogScan
from halfhitch.engine import told
from halfhitch.errors import KafkaUnavailable
from halfhitch.wire.topics import InternalTopics
from halfhitch_cli.events import Story
from halfhitch_cli.following import all_topics, bounds, logs_of

_POLL_S: Final = 0.1
_PAUSE_S: Final = 1.0
_NEW_TOPICS_S: Final = 2.0


class Watching(logging.Handler):
    """The lines go to `write`, from a thread of its own, until `stop`."""

    def __init__(
        self,
        bootstrap: str,
        names: InternalTopics,
        write: Callable[[str], None],
        *,
        horizon_s: float,
        is_coloured: bool = False,
    ) -> None:
        super().__init__(logging.INFO)
        self._bootstrap = bootstrap
        self._names = names
        self._write = write
        self._story = Story(
            time.monotonic, lambda: time.time_ns() // 1_000_000,
            horizon_s=horizon_s, is_coloured=is_coloured,
        )  # fmt: skip
        self._over = threading.Event()
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name="halfhitch-events", daemon=True)

    def start(self) -> None:
        """Begin; waits until it reads, for a moment."""
        logger = told.logger
        logger.setLevel(logging.INFO)
        logger.addHandler(self)
        logger.propagate = False  # it is shown here, and once is enough
        self._thread.start()
        self._begun.wait(_PAUSE_S)

    def stop(self) -> None:
        """Tell what is left, and end."""
        told.logger.removeHandler(self)
        told.logger.propagate = True
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(2 * _PAUSE_S)

    def emit(self, record: logging.LogRecord) -> None:
        """A line about a check."""
        self._story.heard(record)

    def _run(self) -> None:
        while not self._over.is_set():
            consumer = Consumer(
                {
                    "bootstrap.servers": self._bootstrap,
                    "client.id": "halfhitch-dev-events",
                    "group.id": "halfhitch-dev-events",
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "isolation.level": "read_committed",
                    "fetch.wait.max.ms": 100,
                    "log_level": 0,
                    "error_cb": lambda _: None,
                }
            )
            try:
                self._follow(consumer)
            except KafkaUnavailable:  # a topic was deleted, Kafka restarts: from the ends again
                self._over.wait(_PAUSE_S)
            finally:
                consumer.close()
        self._tell(is_over=True)

    def _follow(self, consumer: Consumer) -> None:
        scan = LogScan(consumer)
        known = self._begin(consumer, scan, {})
        self._begun.set()
        looked_s = time.monotonic()
        while not self._over.is_set():
            for record in scan.some(_POLL_S):
                self._take(record)
            self._tell()
            if time.monotonic() - looked_s > _NEW_TOPICS_S:
                known = self._begin(consumer, scan, known)
                looked_s = time.monotonic()

    def _begin(self, consumer: Consumer, scan: LogScan, known: dict[str, int]) -> dict[str, int]:
        """Follow what is new: at first from its end, later on from its beginning."""
        there = {
            name: count
            for name, count in all_topics(consumer).items()
            if not name.startswith("__") and name != self._names.parked
        }
        new = {name: count for name, count in there.items() if name not in known}
        if new:
            found = bounds(consumer, logs_of(new))
            scan.begin({log: pair[0 if known else 1] for log, pair in found.items()})
        return there

    def _take(self, record: Any) -> None:
        if record.topic() == self._names.half:
            self._story.half(record)
        elif record.topic() == self._names.op:
            self._story.op(record)
        else:
            self._story.target(record)

    def _tell(self, *, is_over: bool = False) -> None:
        for line in self._story.due(is_over=is_over):
            self._write(line)
