"""What was read of logs, by transaction, for as long as somebody asks for more of them.

An operator's thousands come 250 in a request, and each request reads the same logs from about the
same place to their ends. The committed part of a log never changes, so the next one goes on where
the last one ended. Kept for seconds, under a bound; what is too much for it is read again.

Used by several threads: one reads a log, and who wants the same one waits for what it has read.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from halfhitch.core.model import Identity

#: After the last one has asked.
KEPT_S: Final = 10.0
#: Of all logs together; some 400 bytes each.
ENTRIES_MAX: Final = 100_000

T = TypeVar("T")


class KeptLog(Generic[T]):
    """One log from `start` to `read_to`, as far as anybody may ask for it."""

    def __init__(self, start: int, entries_max: int) -> None:
        self.start = start
        #: The offset of what comes next.
        self.read_to = start
        self.entry_count = 0
        self._entries_max = entries_max
        self._by_identity: dict[Identity, list[tuple[int, T]]] = {}

    @property
    def is_full(self) -> bool:
        """Then it has no room for what nobody asks for now, and is not kept."""
        return self.entry_count >= self._entries_max

    def put(self, offset_in_log: int, identity: Identity, entry: T) -> None:
        """An entry. One that is put once more, by a reader that began again, counts once."""
        if offset_in_log >= self.read_to:
            self._by_identity.setdefault(identity, []).append((offset_in_log, entry))
            self.entry_count += 1

    def of(self, identity: Identity, since: int) -> list[T]:
        """Its entries in their order, but for those below this offset."""
        return [entry for at, entry in self._by_identity.get(identity, ()) if at >= since]


@dataclass(slots=True)
class Lent(Generic[T]):
    """A log in the hands of one reader."""

    log: KeptLog[T] | None
    entries_max: int

    def begin(self, start: int, end: int) -> KeptLog[T]:
        """The log as it was read from `start` or before; else one that is still to be read.

        A log that ends before what was read of it is another one of that name.
        """
        if self.log is None or not self.log.start <= start <= self.log.read_to <= end:
            self.log = KeptLog(start, self.entries_max)
        return self.log


class KeptLogs(Generic[T]):
    """Those of one topic, by partition."""

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self._entries_max = entries_max
        self._lock = threading.Lock()
        self._reading: dict[int, threading.Lock] = {}
        self._kept: dict[int, tuple[KeptLog[T], float]] = {}

    @contextmanager
    def lent(self, partition: int, give_up_s: float) -> Iterator[Lent[T]]:
        """What was read of it, to go on from. Who cannot have it until then begins anew.

        Whoever has it asks for the log's bounds now and not before: another one may have read on.
        """
        with self._lock:
            reading = self._reading.setdefault(partition, threading.Lock())
        if not reading.acquire(timeout=max(0.0, give_up_s - time.monotonic())):
            yield Lent(None, self._entries_max)
            return
        try:
            with self._lock:
                found, _ = self._kept.pop(partition, (None, 0.0))
            lent = Lent(found, self._entries_max)
            try:
                yield lent
            finally:
                self._put_back(partition, lent.log)
        finally:
            reading.release()

    def _put_back(self, partition: int, log: KeptLog[T] | None) -> None:
        with self._lock:
            others = sum(other.entry_count for other, _ in self._kept.values())
            if log is not None and others + log.entry_count < self._entries_max:
                self._kept[partition] = log, time.monotonic()

    def forget_idle(self, idle_s: float = KEPT_S) -> None:
        """What nobody has asked for since."""
        with self._lock:
            since_s = time.monotonic() - idle_s
            self._kept = {p: kept for p, kept in self._kept.items() if kept[1] > since_s}
