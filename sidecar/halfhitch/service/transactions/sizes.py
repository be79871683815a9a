"""How many bytes a transaction has, and how many it may have.

All messages of a transaction go into one Kafka transaction, which Kafka gives a bounded time: a
transaction that its owner cannot read back and write in that time would stop its half partition,
again after every takeover.

Of a transaction that grows nobody carries the size along: its handle has none. The owner's ledger
knows what was read; what went through this instance a moment ago is remembered here. So parts that
went through several instances, none of which owns the half partition, are counted by each alone.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from halfhitch.core.model import Identity
from halfhitch.errors import TransactionTooLarge
from halfhitch.service.api import OutgoingMessage
from halfhitch.wire.half import INDEX_MAX

_REMEMBERED_MAX: Final = 10_000


class TransactionSizes:
    """Used on the event loop. Sizes are those of keys, values and headers, in bytes."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        #: A transaction that begins with less need not be remembered before it grows.
        self._small_bytes = bytes_max // (INDEX_MAX + 1)
        self._remembered: OrderedDict[Identity, int] = OrderedDict()

    def begins(self, messages: Sequence[OutgoingMessage]) -> int:
        """The size of a new transaction. Raises TransactionTooLarge."""
        return self._checked(0, messages)

    def grows(
        self,
        identity: Identity,
        known_bytes: int,
        messages: Sequence[OutgoingMessage],
        *,
        is_repeat: bool = False,
    ) -> int:
        """Its size with these messages; `known_bytes`: as its owner knows it, if that is here.

        Raises TransactionTooLarge. Not when they come again: they may be among the known bytes, and
        were within the bound the first time.
        """
        try:
            return self._checked(max(known_bytes, self._remembered.get(identity, 0)), messages)
        except TransactionTooLarge:
            if not is_repeat:
                raise
            return self._bytes_max

    def stored(self, identity: Identity, size_bytes: int, *, has_grown: bool = False) -> None:
        """It has this size now."""
        if size_bytes < self._small_bytes and not has_grown:
            return
        self._remembered[identity] = size_bytes
        self._remembered.move_to_end(identity)
        if len(self._remembered) > _REMEMBERED_MAX:
            self._remembered.popitem(last=False)

    def _checked(self, before_bytes: int, messages: Sequence[OutgoingMessage]) -> int:
        size_bytes = before_bytes + sum(map(_size_of, messages))
        if size_bytes > self._bytes_max:
            raise TransactionTooLarge(
                f"the messages of this transaction take {size_bytes} bytes together; at most "
                f"{self._bytes_max} are allowed (messages.transaction_bytes_max): send references "
                "instead of contents, or several transactions"
            )
        return size_bytes


def _size_of(message: OutgoingMessage) -> int:
    size_bytes = len(message.key or b"") + len(message.value or b"")
    for name, value in message.headers:
        size_bytes += len(name) + len(value or b"")
    return size_bytes
