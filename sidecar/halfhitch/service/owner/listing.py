"""What is pending here, as operators ask for it: one turn of the owner answers it.

A transaction's topics and its birth stand in its half records, and only the youngest of these are
in memory. The others are read back from the half log many at a time: a page of ten thousand is one
reading. What is held at once is bounded in bytes, for a half may be large.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from halfhitch.core.ledger import Ledger
from halfhitch.core.model import ProducerGroup, TransactionId
from halfhitch.core.transaction import Transaction
from halfhitch.ports import Clock, PartitionReader, Payload
from halfhitch.service.api import Filter, Undecided
from halfhitch.service.owner.payloads import OVERHEAD_BYTES, PayloadCache
from halfhitch.service.owner.questions import born_ms, topics_of

#: Of half records that are in memory together for a list.
_AT_ONCE_BYTES: Final = 32 * 1024 * 1024


class Listing:
    """For one half partition. `view` tells of checks: CheckBack.view."""

    def __init__(
        self,
        partition: int,
        *,
        payloads: PayloadCache,
        reader: PartitionReader,
        clock: Clock,
        view: Callable[[Transaction], tuple[int, float | None, str | None]],
    ) -> None:
        self._partition = partition
        self._payloads = payloads
        self._reader = reader
        self._clock = clock
        self._view = view

    def page(self, ledger: Ledger, wanted: Filter) -> tuple[list[Undecided], int]:
        """Those that match, the oldest first, and how many there are."""
        found: list[Transaction] = []
        count = 0
        for transaction in self.matching(ledger, wanted):
            count += 1
            if len(found) < wanted.count_max:
                found.append(transaction)
        check_max = ledger.checks.rules.count_max
        shown: list[Undecided] = []
        for part in _in_parts(found):
            payload = self._read(part)
            shown += [self._shown(transaction, payload, check_max) for transaction in part]
        return shown, count

    def matching(self, ledger: Ledger, wanted: Filter) -> Iterator[Transaction]:
        """All that match, the oldest first. Without a topic no payload is read back."""
        found = (t for t in _candidates(ledger, wanted) if self._matches(t, wanted))
        return found if wanted.topic is None else self._of_topic(found, wanted.topic)

    def age_s(self, transaction: Transaction) -> float:
        """By the calendar: the ledger's scale, which is never too high, decides about checks only.

        By what is here of its halves, for nothing is read back.
        """
        payload = self._payloads.present(o for _, o in transaction.messages())
        return max(0.0, (self._clock.wall_ms() - born_ms(transaction, payload)) / 1000)

    def _matches(self, transaction: Transaction, wanted: Filter) -> bool:
        """All but the topic."""
        group, transaction_id = transaction.identity
        return (
            wanted.takes_group(group)
            and (wanted.transaction_id is None or wanted.transaction_id == transaction_id)
            and (wanted.older_than_s is None or self.age_s(transaction) >= wanted.older_than_s)
            and (wanted.check_count_min or 0) <= transaction.check_count
        )

    def _of_topic(self, transactions: Iterable[Transaction], topic: str) -> Iterator[Transaction]:
        for part in _in_parts(transactions):
            payload = self._read(part)
            for transaction in part:
                if topic in topics_of([o for _, o in transaction.messages()], payload):
                    yield transaction

    def _read(self, transactions: Sequence[Transaction]) -> dict[int, Payload]:
        halves = [half_offset for each in transactions for _, half_offset in each.messages()]
        return self._payloads.all_of(halves, self._reader)

    def _shown(
        self, transaction: Transaction, payload: Mapping[int, Payload], check_max: int
    ) -> Undecided:
        halves = [half_offset for _, half_offset in transaction.messages()]
        check_count, next_s, _ = self._view(transaction)
        last_answer, asked, last_reason = transaction.answer or (None, None, None)
        born = born_ms(transaction, payload)
        return Undecided(
            transaction_id=transaction.identity[1],
            producer_group=transaction.identity[0],
            partition=self._partition,
            topics=topics_of(halves, payload),
            message_count=transaction.message_count or transaction.missing_count,
            half_offsets=tuple(halves),
            age_s=max(0.0, (self._clock.wall_ms() - born) / 1000),
            check_count=check_count,
            check_max=check_max,
            delivered=transaction.is_delivered,
            next_check_s=next_s,
            last_answer=last_answer,
            asked=asked,
            last_reason=last_reason,
            stored_ms=born,
        )


def _candidates(ledger: Ledger, wanted: Filter) -> Iterable[Transaction]:
    """Who is named is not looked for among a million others."""
    if wanted.producer_group is None or wanted.transaction_id is None:
        return ledger.pending()
    identity = ProducerGroup(wanted.producer_group), TransactionId(wanted.transaction_id)
    found = ledger.find(identity)
    return () if found is None or found.resolution is not None else (found,)


def _in_parts(transactions: Iterable[Transaction]) -> Iterator[list[Transaction]]:
    """As many as may be in memory together; one alone may be more."""
    part: list[Transaction] = []
    size_bytes = 0
    for transaction in transactions:
        of_this = transaction.size_bytes + transaction.message_count * OVERHEAD_BYTES
        if part and size_bytes + of_this > _AT_ONCE_BYTES:
            yield part
            part, size_bytes = [], 0
        part.append(transaction)
        size_bytes += of_this
    if part:
        yield part
