"""Orders to pass over a record: what is kept is read back, within what Kafka takes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from halfhitch.adapters.kafka.skip_orders import SkipOrders, parse, text_of
from halfhitch.errors import KafkaUnavailable


class Stored:
    """stored.StoredOffsets of one group."""

    def __init__(self) -> None:
        self.metadata: str | None = None
        self.is_away = False

    def of(self, places: Any, _wait_s: float, _action: str) -> list[Any]:
        if self.is_away:
            raise KafkaUnavailable("away")
        offset = -1 if self.metadata is None else 1
        return [SimpleNamespace(offset=offset, metadata=self.metadata) for _ in places]

    def keep(self, places: Any, _action: str) -> None:
        (place,) = places
        self.metadata = place.metadata


def test_orders_are_kept_beside_those_before() -> None:
    orders = SkipOrders(stored := Stored())  # type: ignore[arg-type]
    assert orders.reason("half", 0, 17) is None
    orders.add("half", 0, 17, operator="ops", reason="forged; it was Möbius")
    orders.add("half", 0, 4, operator="ops", reason="forged")
    assert orders.reason("half", 0, 17) == "ops: forged; it was Möbius"
    assert orders.reason("half", 0, 4) == "ops: forged"
    assert orders.reason("half", 0, 5) is None
    stored.is_away = True
    assert orders.reason("half", 0, 17) is None, "nobody can be asked: the record still stops"


def test_the_newest_order_always_fits_and_the_lowest_go() -> None:
    orders = dict.fromkeys(range(50), ("o" * 100, "ü" * 200))
    text = text_of(orders, 3)
    kept = parse(text)
    assert len(text.encode()) <= 4_000
    assert 3 in kept
    assert set(kept) - {3} == set(range(50 - len(kept) + 1, 50))


@pytest.mark.parametrize("text", [None, "", "1;5;9", "[]", "{}", '{"skip":5}', '{"skip":[[1]]}'])
def test_what_somebody_else_has_written_there_is_no_order(text: str | None) -> None:
    assert parse(text) == {}
