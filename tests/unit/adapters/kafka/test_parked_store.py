"""Before a parked transaction is put back it must be seen whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters.kafka.parked_store import KafkaParkedStore
from halfhitch.core.model import ProducerGroup, TransactionId
from halfhitch.errors import KafkaUnavailable, ShuttingDown
from halfhitch.wire.half import HalfRecord, system_headers
from halfhitch.wire.parked import CHECKS_EXHAUSTED, Parked, Resumed, note_headers, parked_headers
from halfhitch.wire.parked_fold import ParkedFold

if TYPE_CHECKING:
    from halfhitch.wire.half import Headers

IDENTITY = ProducerGroup("shop"), TransactionId("T1")


def nothing(*_: object) -> Any:
    raise AssertionError("Kafka is not needed here")


class Looks:
    """A reading whose partitions become readable one look after the other."""

    def __init__(self, *looks: list[tuple[tuple[int, int], Headers]]) -> None:
        self.fold = ParkedFold()
        self.looks = list(looks)
        self.count = 0

    def read_on(self, give_up_s: float, *, open_wait_s: float = 0.0) -> None:
        self.count += 1
        for place, headers in self.looks.pop(0) if self.looks else ():
            self.fold.take(place, 1, 1, headers)


def message(index: int) -> tuple[tuple[int, int], Headers]:
    half = HalfRecord("T1", "shop", index, 5, "node-1", "orders")
    headers = parked_headers(system_headers(half), Parked(CHECKS_EXHAUSTED, "", 2, 10 + index))
    return (index, 0), headers


@pytest.fixture
def store() -> KafkaParkedStore:
    return KafkaParkedStore(
        nothing, nothing, nothing, half_topic="half", op_topic="op", parked_topic="parked",
        owner_group="owners", transaction_timeout_ms=1_000,
    )  # fmt: skip


def test_a_transaction_that_is_readable_in_part_is_waited_for(store: KafkaParkedStore) -> None:
    looks = Looks([message(1)], [message(0)], [message(2)])
    store._reading = looks  # type: ignore[assignment]
    parking = store._still_parked([IDENTITY])[IDENTITY]
    assert [m.index for m in parking.messages] == [0, 1, 2]
    assert looks.count == 4


def test_a_note_that_appears_with_the_last_look_counts(store: KafkaParkedStore) -> None:
    note = note_headers(Resumed("shop", "T1", 2, [(0, 0)], 1, "because", "ann"))
    store._reading = Looks([message(0)], [((3, 0), note)])  # type: ignore[assignment]
    assert store._still_parked([IDENTITY]) == {}


def test_what_never_comes_to_rest_is_not_put_back(store: KafkaParkedStore) -> None:
    store._reading = Looks(*([message(index)] for index in range(40)))  # type: ignore[assignment]
    with pytest.raises(KafkaUnavailable, match="more and more"):
        store._still_parked([IDENTITY])


async def test_a_store_that_stops_takes_nothing_new(store: KafkaParkedStore) -> None:
    store.stop()
    with pytest.raises(ShuttingDown):
        await store.parkings()
