"""Transactions by the time at which something is to be done about them.

Buckets instead of a heap: an entry costs one reference, adding and taking are constant, and the
dropped ones (decided in the meantime) are swept away when they are the majority. A transaction has
one time, `wake_ms`; an entry whose bucket is not that of the transaction's time is a dropped one.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final

from halfhitch.core.transaction import Transaction

#: Width of a bucket, 2**6 ms: nothing is late by more.
_SHIFT: Final = 6
#: The buckets are swept when they hold so many dropped entries and these are the majority.
_DROPPED_MAX: Final = 10_000


class Timers:
    """`live` counts the entries that are not dropped."""

    def __init__(self) -> None:
        self._buckets: dict[int, list[Transaction]] = {}
        self._keys: list[int] = []  # a heap of the buckets there are
        self.live = 0
        self._dropped = 0

    def add(self, transaction: Transaction, wake_ms: int) -> None:
        """Wake it then; a time set before is dropped."""
        if transaction.wake_ms >= 0:
            self.drop(transaction)
        wake_ms = max(0, wake_ms)
        key = wake_ms >> _SHIFT
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = []
            heappush(self._keys, key)
        elif bucket and bucket[-1].wake_ms == wake_ms:
            wake_ms = bucket[-1].wake_ms  # one number in memory for all that are equal
        transaction.wake_ms = wake_ms
        bucket.append(transaction)
        self.live += 1

    def drop(self, transaction: Transaction) -> None:
        """Do not wake it."""
        if transaction.wake_ms < 0:
            return
        transaction.wake_ms = -1
        self.live -= 1
        self._dropped += 1
        if self._dropped > _DROPPED_MAX and self._dropped > self.live:
            self._sweep()

    def due(self, now_ms: int, count_max: int) -> Iterator[Transaction]:
        """Take those whose time has come, in the order of their times, at most so many."""
        while self._keys and count_max > 0:
            key = self._keys[0]
            if key >= now_ms >> _SHIFT:  # only when the whole bucket is past: never early
                return
            bucket = self._buckets[key]
            taken, left = bucket[:count_max], bucket[count_max:]
            if left:
                self._buckets[key] = left
            else:
                del self._buckets[heappop(self._keys)]
            for transaction in taken:
                if transaction.wake_ms < 0 or transaction.wake_ms >> _SHIFT != key:
                    self._dropped -= 1
                    continue
                transaction.wake_ms = -1
                self.live -= 1
                count_max -= 1
                yield transaction

    def _sweep(self) -> None:
        kept = {}
        for key, bucket in self._buckets.items():
            seen: dict[int, Transaction] = {}
            for transaction in bucket:  # one that came back to a time it had left stands here twice
                if transaction.wake_ms >= 0 and transaction.wake_ms >> _SHIFT == key:
                    seen[id(transaction)] = transaction
            if seen:
                kept[key] = list(seen.values())
        self._buckets = kept
        self._keys = sorted(kept)
        self._dropped = 0
