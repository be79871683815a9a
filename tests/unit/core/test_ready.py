"""The queue of transactions whose outcome can be written."""

from __future__ import annotations

from halfhitch.core.model import HalfOffset, TimestampMs
from halfhitch.core.ready import Ready
from halfhitch.core.transaction import State, Transaction, Trigger
from harness.ledger_world import identity_of


def made(name: str, message_count: int = 1, size_bytes: int = 10) -> Transaction:
    transaction = Transaction(identity_of(name), State.READY, TimestampMs(0))
    for index in range(message_count):
        transaction.take(index, HalfOffset(index), size_bytes)
    return transaction


def queue_of(*transactions: Transaction) -> Ready:
    return Ready(transactions)


def names(transactions: list[Transaction]) -> list[str]:
    return [str(transaction.identity[1]) for transaction in transactions]


def everything(ready: Ready) -> list[str]:
    return names(ready.choose(1_000, 1_000_000))


def test_whoever_is_looked_at_is_who_would_be_chosen_and_nobody_is_moved() -> None:
    for message_count_max, bytes_max in [(3, 1_000), (1_000, 30), (1, 1), (1_000, 1_000)]:
        ready = queue_of(*(made(f"T{n}", message_count=1 + n % 3) for n in range(9)))
        seen = names(ready.look(message_count_max, bytes_max))
        assert {t.state for t in ready} == {State.READY}
        assert names(ready.choose(message_count_max, bytes_max)) == seen


def test_one_transaction_is_chosen_however_large_it_is() -> None:
    ready = queue_of(made("large", message_count=50, size_bytes=1_000), made("next"))
    assert names(ready.look(10, 100)) == ["large"]
    assert names(ready.choose(10, 100)) == ["large"]


def test_who_is_put_aside_is_passed_over_and_comes_first_once_taken_back() -> None:
    one, two, three, four = (made(f"T{n}") for n in range(1, 5))
    ready = queue_of(one, two, three, four)
    ready.put_aside([one, three])
    assert names(ready.look(1_000, 1_000)) == ["T2", "T4"]
    assert names(ready.choose(1, 1_000)) == ["T2"]
    ready.take_back([one, three])
    assert names(ready.look(1_000, 1_000)) == ["T1", "T3", "T4"]
    assert everything(ready) == ["T1", "T3", "T4"]


def test_nobody_is_chosen_twice_however_often_he_was_put_aside_and_taken_back() -> None:
    one, two = made("T1"), made("T2")
    ready = queue_of(two, one)
    for _ in range(3):
        ready.put_aside([one])
        ready.take_back([one])
    assert names(ready.look(1_000, 1_000)) == ["T1", "T2"]
    assert everything(ready) == ["T1", "T2"]
    assert everything(ready) == []


def test_who_is_chosen_by_name_and_aborted_keeps_his_place_before_the_others() -> None:
    one, two = made("T1"), made("T2")
    ready = queue_of(one, two)
    for transaction in ready.take([one]):
        transaction.move(Trigger.ABORTED)
        ready.extendleft([transaction])
    assert everything(ready) == ["T1", "T2"]


def test_who_was_finished_while_he_was_aside_stays_finished() -> None:
    one, two = made("T1"), made("T2")
    ready = queue_of(one, two)
    ready.put_aside([one, two])
    one.move(Trigger.DONE_READ)
    ready.take_back([one, two])
    assert one.state is State.FINISHED
    assert everything(ready) == ["T2"]


def test_places_that_are_left_behind_are_cleared_away() -> None:
    many = [made(f"T{n}") for n in range(1_000)]
    ready = queue_of(*many)
    ready.put_aside(many)
    assert ready.look(10, 1_000) == []
    assert len(ready) == 0
