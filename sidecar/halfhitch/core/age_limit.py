"""Whether a transaction's age ends it: `checks.age_s_max`.

By two scales of time. The ledger's own one is careful, for it decides about checks: it stands still
while nobody owns the partition, and at a takeover it may begin days ago. So the calendar counts,
too. Each may be wrong, and would then end everything at once: after a sleep of days, when the
sidecars are there before their producers; with a clock that is days ahead. Therefore

- an owner ends unasked only whom it has had for an hour (or as long as the limit is, if that is
  less), and by the careful scale;
- whom it has asked itself, and whose producers could not say until the next check was due, it ends
  by whichever scale says more.
"""

from typing import Final

from halfhitch.core.transaction import Transaction

_UNASKED_MS: Final = 3_600_000


class AgeLimit:
    """For one owner. `calendar_ms` is None as long as nobody knows it."""

    def __init__(self, age_ms_max: int) -> None:
        self._age_ms_max = age_ms_max
        self._unasked_from_ms = 0
        self.calendar_ms: int | None = None

    def begin(self, now_ms: int) -> None:
        """The replay is over."""
        self._unasked_from_ms = now_ms + min(_UNASKED_MS, self._age_ms_max)

    def unasked_ms(self, transaction: Transaction) -> int:
        """When it is ended if nothing is heard of it, on the careful scale."""
        return max(transaction.aged_from_ms + self._age_ms_max, self._unasked_from_ms)

    def is_reached(self, transaction: Transaction, now_ms: int) -> bool:
        """Whether it is to be given up now."""
        if now_ms >= self.unasked_ms(transaction):
            return True
        # A replay knows of no delivery: what counts as delivered was so in this owner's time.
        is_asked = transaction.is_delivered and transaction.check_count > 0
        if not is_asked or now_ms < transaction.due_ms:
            return False
        age_ms = now_ms - transaction.aged_from_ms
        if self.calendar_ms is not None:
            age_ms = max(age_ms, self.calendar_ms - transaction.stored_at_ms)
        return age_ms >= self._age_ms_max
