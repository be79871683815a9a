"""Consumers that are used again.

Looking one transaction up takes a consumer for a moment. Making one is threads, connections and
metadata: the greater part of what a lookup costs, and what a producer whose ends conflict can bring
about as often as it likes.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Consumer

from halfhitch.errors import RequestError

#: An idle consumer is closed after this time. Idleness is looked at as often.
LINGER_S: Final = 20.0


class KeptConsumers:
    """Lends each consumer to one call at a time; as many are open as calls ran at once."""

    def __init__(
        self, make_consumer: Callable[[], Consumer], *, linger_s: float = LINGER_S
    ) -> None:
        self._make_consumer = make_consumer
        self._linger_s = linger_s
        self._lock = threading.Lock()
        self._idle: list[tuple[float, Consumer]] = []  # since when; the last was used last
        self._timer: threading.Timer | None = None
        self._is_stopped = False

    @contextmanager
    def lent(self) -> Iterator[Consumer]:
        """One that is assigned nothing.

        It is kept afterwards, unless Kafka failed it: a refusal of the request says nothing
        against the consumer.
        """
        with self._lock:
            consumer = self._idle.pop()[1] if self._idle else None
        if consumer is None:
            consumer = self._make_consumer()
        is_kept = False
        try:
            try:
                yield consumer
            except RequestError:
                consumer.unassign()
                is_kept = True
                raise
            # What is assigned is fetched in the background.
            consumer.unassign()
            is_kept = True
        finally:
            if not (is_kept and self._keep(consumer)):
                consumer.close()

    def _keep(self, consumer: Consumer) -> bool:
        with self._lock:
            if self._is_stopped:
                return False
            self._idle.append((time.monotonic(), consumer))
            self._look_later()
            return True

    def _look_later(self) -> None:
        """Under the lock. A timer runs while a consumer is idle, and at no other time."""
        if self._idle and self._timer is None:
            self._timer = threading.Timer(self._linger_s, self._close_idle)
            self._timer.daemon = True
            self._timer.start()

    def _close_idle(self) -> None:
        with self._lock:
            self._timer = None
            last_s = time.monotonic() - self._linger_s
            old = [consumer for since_s, consumer in self._idle if since_s <= last_s]
            self._idle = [each for each in self._idle if each[0] > last_s]
            if not self._is_stopped:
                self._look_later()
        for consumer in old:
            consumer.close()

    def stop(self) -> None:
        """Close those that are idle; one that is lent is closed when it comes back."""
        with self._lock:
            self._is_stopped = True
            timer, self._timer = self._timer, None
            idle, self._idle = self._idle, []
        if timer is not None:
            timer.cancel()
        for _, consumer in idle:
            consumer.close()
