"""The demo's books: they balance when every promise was kept, and each broken one shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from halfhitch.core.model import ProducerGroup, TransactionId
from halfhitch.wire.parked_fold import Parking
from halfhitch_cli.demo import forgetful
from halfhitch_cli.demo.shop import ORDERS, POINTS
from halfhitch_cli.demo.verdict import Books, judge

_FORGOTTEN_COUNT = 2


def _parking(group: str, transaction_id: str) -> Parking:
    return Parking((ProducerGroup(group), TransactionId(transaction_id)), 0, [], None)


def _total(customer: str, orders: int, points: int) -> dict[str, Any]:
    return {"customer": customer, "orders": orders, "points": points}


def _books() -> Books:
    """Three orders taken, one rolled back, one fenced; what was forgotten is parked."""
    taken = {"a": ("ann", 3), "b": ("bob", 4), "c": ("ann", 5)}
    return Books(
        attempted={*taken, "out of stock", "late"},
        taken=taken,
        refused={"late"},
        fenced={"late", "out of stock"},
        visible={topic: Counter(list(taken)) for topic in (ORDERS, POINTS)},
        undecided=set(),
        parked=[
            _parking(forgetful.GROUP, transaction_id)
            for transaction_id in forgetful.transaction_ids(_FORGOTTEN_COUNT)
        ],
        spark={
            "rows": 3,
            "points": 12,
            "duplicates": 0,
            "customers": {"ann": 8, "bob": 4},
            "totals": [_total("ann", 2, 8), _total("bob", 1, 4)],
        },
    )


def test_books_without_a_broken_promise_balance() -> None:
    verdict = judge(_books(), _FORGOTTEN_COUNT)
    assert verdict.is_right
    assert (verdict.taken, verdict.rolled_back_or_lost_attempts, verdict.refused) == (3, 2, 1)
    assert (verdict.visible_orders, verdict.visible_points, verdict.spark_rows) == (3, 3, 3)
    assert (verdict.facts, verdict.wrong_totals) == (3, 0)
    assert (verdict.lost, verdict.doubled, verdict.invented, verdict.undecided) == (0, 0, 0, 0)
    assert [parking.identity[1] for parking in verdict.parked] == ["forgotten-1", "forgotten-2"]


def _lose(books: Books) -> None:
    del books.visible[POINTS]["b"]


def _double(books: Books) -> None:
    books.visible[ORDERS]["b"] += 1


def _double_in_spark(books: Books) -> None:
    books.spark["duplicates"] = 1


def _invent(books: Books) -> None:
    books.visible[ORDERS]["out of stock"] += 1


def _move_points(books: Books) -> None:
    books.spark["customers"] = {"ann": 7, "bob": 5}


def _forget_points(books: Books) -> None:
    books.spark["points"] = 11


def _take_a_batch_twice(books: Books) -> None:
    books.spark["totals"][1] = _total("bob", 2, 8)


def _lose_a_customer(books: Books) -> None:
    del books.spark["totals"][0]


def _leave_undecided(books: Books) -> None:
    books.undecided.add("b")
    for seen in books.visible.values():
        del seen["b"]
    books.spark |= {"rows": 2, "points": 8, "customers": {"ann": 8}}
    del books.spark["totals"][1]


def _leave_one_that_is_no_order_undecided(books: Books) -> None:
    books.undecided.add("out of stock")


def _park_an_order(books: Books) -> None:
    books.parked.append(_parking("shop", "out of stock"))


def _park_twice(books: Books) -> None:
    books.parked.append(books.parked[0])


def _park_too_few(books: Books) -> None:
    del books.parked[0]


def _show_what_was_forgotten(books: Books) -> None:
    books.visible[ORDERS]["forgotten-1"] += 1


def _commit_what_was_fenced(books: Books) -> None:
    books.fenced.add("b")


def _commit_what_was_refused(books: Books) -> None:
    books.refused.add("b")


@pytest.mark.parametrize(
    ("breaks", "shown"),
    [
        (_lose, "lost"),
        (_double, "doubled"),
        (_double_in_spark, "doubled"),
        (_invent, "invented"),
        (_move_points, "invented"),
        (_forget_points, None),
        (_take_a_batch_twice, "wrong_totals"),
        (_lose_a_customer, "wrong_totals"),
        (_leave_undecided, "undecided"),
        (_leave_one_that_is_no_order_undecided, "undecided"),
        (_park_an_order, "misparked"),
        (_park_twice, "doubled"),
        (_park_too_few, "misparked"),
        (_show_what_was_forgotten, "invented"),
        (_commit_what_was_fenced, "slipped_through"),
        (_commit_what_was_refused, "slipped_through"),
    ],
)
def test_a_broken_promise_shows(breaks: Callable[[Books], None], shown: str | None) -> None:
    books = _books()
    breaks(books)
    verdict = judge(books, _FORGOTTEN_COUNT)
    assert not verdict.is_right
    kinds = ("lost", "doubled", "invented", "undecided", "misparked", "slipped_through")
    kinds += ("wrong_totals",)
    assert [kind for kind in kinds if getattr(verdict, kind)] == ([shown] if shown else [])
