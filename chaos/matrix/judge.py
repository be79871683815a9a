"""Rows against messages: the one promise of the application's side. No I/O.

Each order row has exactly all its messages, each once and as it was sent; what has no row has no
message. How a program ended, what it was told and what it logged are no excuse.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chaos.matrix.programs import order_value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

LOST, INVENTED, TORN = "row without messages", "messages without row", "torn"
DOUBLED, OTHER = "doubled", "other content"


@dataclass(frozen=True)
class Message:
    """A visible one: whose it says it is, and what it says."""

    transaction_id: str
    index: int
    value: bytes | None


@dataclass
class Verdict:
    """What is wrong, by order, and what there was to be judged."""

    wrong: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    whole_count: int = 0
    empty_count: int = 0
    #: Orders that have all their messages and one more, of another attempt under their id.
    beyond_count: int = 0


def judge(
    order_ids: Iterable[str],
    rows: Mapping[str, int],
    visible: Iterable[Message],
    *,
    sent_others: Collection[str] = (),
) -> Verdict:
    """`order_ids`: all that were tried; a row or message of another one is wrong as well.

    `sent_others`: those whose attempts sent different numbers of messages under one id. They are
    one transaction, as docs/barrier.md says: what the other attempt sent may be there, too.
    """
    verdict = Verdict()
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for message in visible:
        found[message.transaction_id][message.index] += 1
        if message.value != order_value(message.transaction_id, message.index):
            verdict.wrong[message.transaction_id].append(OTHER)
    for order_id in sorted({*order_ids, *rows, *found}):
        count, indexes = rows.get(order_id), found.get(order_id, Counter())
        if count is not None and order_id in sent_others and set(indexes) > set(range(count)):
            verdict.beyond_count += 1
            count = len(indexes)
        wrong = _of_one(count, indexes)
        if wrong:
            verdict.wrong[order_id].append(wrong)
        elif order_id in rows:
            verdict.whole_count += 1
        else:
            verdict.empty_count += 1
    known = set(order_ids)
    for order_id in {*rows, *found} - known:
        verdict.wrong[order_id].append(INVENTED)
    return verdict


def _of_one(count: int | None, found: Counter[int]) -> str:
    """What is wrong with an order that has so many messages by its own account; None: no row."""
    if count is None:
        return INVENTED if found else ""
    if not found:
        return LOST
    if max(found.values()) > 1:
        return DOUBLED
    return "" if set(found) == set(range(count)) else TORN
