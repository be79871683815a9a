"""The queues of what waits for a permit: by group, in order, and free of what was decided."""

import pytest

from halfhitch.core import waiting
from halfhitch.core.model import ProducerGroup, TimestampMs, TransactionId
from halfhitch.core.transaction import State, Transaction
from halfhitch.core.waiting import Waiting


def one(name: str, group: str = "orders", *, is_delivered: bool = True) -> Transaction:
    identity = ProducerGroup(group), TransactionId(name)
    transaction = Transaction(identity, State.PENDING, TimestampMs(0))
    transaction.is_delivered = is_delivered
    return transaction


def names(queues: dict[ProducerGroup, object]) -> dict[str, list[str]]:
    return {group: [t.identity[1] for t in queue] for group, queue in queues.items()}  # type: ignore[attr-defined]


def test_each_group_has_a_queue_of_its_own_in_the_order_of_coming() -> None:
    queues = Waiting()
    for name, group in (("A", "orders"), ("B", "payments"), ("C", "orders")):
        queues.put(one(name, group))
    assert names(queues.fresh) == {"orders": ["A", "C"], "payments": ["B"]}  # type: ignore[arg-type]
    assert queues.demand() == {"orders": 2, "payments": 1}
    assert queues.count == 3


def test_what_was_not_delivered_waits_apart_from_what_is_to_have_its_next_number() -> None:
    queues = Waiting()
    queues.put(one("A"))
    queues.put(one("B", is_delivered=False))
    assert names(queues.fresh) == {"orders": ["A"]}  # type: ignore[arg-type]
    assert names(queues.again) == {"orders": ["B"]}  # type: ignore[arg-type]
    assert queues.demand() == {"orders": 2}


def test_one_whose_step_was_aborted_comes_first() -> None:
    queues = Waiting()
    queues.put(one("A"))
    queues.put(one("B"), is_first=True)
    assert names(queues.fresh) == {"orders": ["B", "A"]}  # type: ignore[arg-type]


def test_whoever_is_put_waits_and_whoever_leaves_does_not() -> None:
    queues, transaction = Waiting(), one("A")
    queues.leave(transaction)  # never waited
    queues.put(transaction)
    assert transaction.is_waiting
    queues.leave(transaction)
    assert not transaction.is_waiting
    queues.leave(transaction)  # a second time
    assert queues.count == 0


def test_they_are_taken_in_order_and_those_that_left_are_passed_over() -> None:
    queues = Waiting()
    waiting_ones = [one(name) for name in "ABCD"]
    for transaction in waiting_ones:
        queues.put(transaction)
    queues.leave(waiting_ones[0])
    queues.leave(waiting_ones[2])
    queue = queues.fresh[ProducerGroup("orders")]
    for wanted in (waiting_ones[1], waiting_ones[3]):
        assert queues.take(queue) is wanted
        assert not wanted.is_waiting
    assert queues.take(queue) is None
    assert (queues.count, queues._left_count) == (0, 0)


def test_one_that_left_and_came_again_is_taken_once() -> None:
    queues, transaction = Waiting(), one("A")
    queues.put(transaction)
    queues.leave(transaction)
    queues.put(transaction)
    assert queues.count == 1
    queue = queues.fresh[ProducerGroup("orders")]
    assert queues.take(queue) is transaction
    assert queues.take(queue) is None
    assert queues.count == 0


def test_a_group_of_which_nobody_waits_has_no_queue() -> None:
    queues = Waiting()
    queues.put(one("A"))
    queues.fresh[ProducerGroup("orders")].clear()
    assert queues.demand() == {}
    assert queues.fresh == {}


@pytest.mark.interpreted("replaces a Final limit, which is built in where it is compiled")
def test_the_decided_do_not_pile_up_where_nobody_takes_them_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "_LEFT_MAX", 10)
    queues = Waiting()
    staying = [one(f"S{number}", is_delivered=number % 2 == 0) for number in range(20)]
    for transaction in staying:
        queues.put(transaction)
    for number in range(1_000):
        leaving = one(f"L{number}", is_delivered=number % 3 == 0)
        queues.put(leaving)
        queues.leave(leaving)
    assert sum(queues.demand().values()) <= 20 + 50
    assert queues.count == 20
    for transaction in staying:
        assert transaction.is_waiting


@pytest.mark.parametrize("left_count", [1, 900])
def test_how_many_wait_is_told_right_when_the_decided_were_taken_out_as_usual(
    left_count: int,
) -> None:
    queues = Waiting()
    for number in range(left_count):
        transaction = one(f"L{number}")
        queues.put(transaction)
        queues.leave(transaction)
    assert queues.take(queues.fresh[ProducerGroup("orders")]) is None
    for number in range(10):
        queues.put(one(f"T{number}"))
    assert queues.count == 10
