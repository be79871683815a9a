"""Questions about thousands of transactions at once, each answered in one turn of an owner.

Nothing here reads a payload: whoever decides a hundred thousand must not hold up the forwarding.
(But for a filter by topic, which only payloads can answer.)
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from halfhitch.core.ledger import Ledger
from halfhitch.core.model import Identity
from halfhitch.core.transaction import Transaction


class PendingHalves(NamedTuple):
    """What a decision has to name."""

    half_offsets: tuple[int, ...]
    covered_count: int


class Named(NamedTuple):
    """A pending transaction, and when its first half was stored."""

    stored_ms: int
    identity: Identity


def halves_of(ledger: Ledger, identities: Sequence[Identity]) -> dict[Identity, PendingHalves]:
    """Of those that are pending here."""
    found: dict[Identity, PendingHalves] = {}
    for identity in identities:
        known = ledger.find(identity)
        if known is not None and known.resolution is None:
            half_offsets = tuple([half_offset for _, half_offset in known.messages()])
            count = known.message_count or known.missing_count
            found[identity] = PendingHalves(half_offsets, count)
    return found


def names_of(transactions: Iterable[Transaction], count_max: int) -> tuple[list[Named], int]:
    """The first of them, and how many there are."""
    found: list[Named] = []
    count = 0
    for transaction in transactions:
        count += 1
        if len(found) < count_max:
            found.append(Named(transaction.stored_at_ms, transaction.identity))
    return found, count
