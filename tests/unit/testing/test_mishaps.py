"""What goes wrong at the very call, and how a transaction ends all the same."""

from __future__ import annotations

import pytest

from halfhitch.client.errors import DecisionUnknown
from halfhitch.client.values import LocalTransactionState, Message
from halfhitch.testing import MemoryCoordinator, SimulatedCrash
from harness.producers import answering, driven


@pytest.fixture
def coordinator():
    with MemoryCoordinator(topics={"orders": 1}) as running:
        yield running


@pytest.fixture
def rows():
    """The program's database."""
    return set()


@pytest.fixture
def producer(shell, coordinator, rows):
    def check(asked):
        known = asked.transaction_id in rows
        return LocalTransactionState.COMMIT if known else LocalTransactionState.ROLLBACK

    answer = answering(shell, check)
    with driven(shell, "shop", coordinator.address, check=answer) as running:
        yield running


def values(coordinator):
    return [message.value for message in coordinator.messages("orders")]


def test_a_crash_is_no_exception_and_the_check_commits(coordinator, producer, rows):
    prepared = producer.prepare([Message("orders", b"book")], transaction_id="t-1")
    rows.add("t-1")
    with pytest.raises(SimulatedCrash) as caught, coordinator.crash_after_local_commit():
        producer.commit(prepared.handle)
    assert not isinstance(caught.value, Exception)
    assert values(coordinator) == []
    coordinator.advance(30)
    assert values(coordinator) == [b"book"]


def test_a_lost_commit_is_unknown_at_once_and_the_check_settles_it(coordinator, producer):
    prepared = producer.prepare([Message("orders", b"book")], transaction_id="t-1")
    with pytest.raises(DecisionUnknown) as caught, coordinator.lose_next_commit():
        producer.commit(prepared.handle)
    assert caught.value.handle == prepared.handle
    assert caught.value.requested == "commit"
    coordinator.advance(30)  # the database has no row
    assert values(coordinator) == []
    assert coordinator.pending() == []


def test_a_lost_answer_is_unknown_and_the_message_is_there(coordinator, producer):
    prepared = producer.prepare([Message("orders", b"book")])
    with pytest.raises(DecisionUnknown), coordinator.lose_next_answer():
        producer.commit(prepared.handle)
    assert values(coordinator) == [b"book"]
    producer.commit(prepared.handle)  # as the error tells


def test_a_mishap_strikes_once(coordinator, producer):
    first, second = (producer.prepare([Message("orders", it)]) for it in (b"one", b"two"))
    with coordinator.lose_next_commit():
        with pytest.raises(DecisionUnknown):
            producer.commit(first.handle)
        producer.commit(second.handle)
    assert values(coordinator) == [b"two"]


def test_a_mishap_that_did_not_come_about_fails_the_test(coordinator, producer):
    with (
        pytest.raises(AssertionError, match="none could go wrong"),
        coordinator.lose_next_commit(),
    ):
        prepared = producer.prepare([Message("orders", b"book")])
    producer.commit(prepared.handle)  # and does not come later
    assert values(coordinator) == [b"book"]


def test_an_error_of_the_block_is_not_covered_by_that(coordinator):
    with pytest.raises(KeyError), coordinator.crash_after_local_commit():
        raise KeyError("the program's own")


def test_producers_are_as_they_were_afterwards():
    from halfhitch.client import AsyncTransactionProducer, TransactionProducer

    before = TransactionProducer.perform, AsyncTransactionProducer.perform
    with MemoryCoordinator():
        assert TransactionProducer.perform is not before[0]
    assert (TransactionProducer.perform, AsyncTransactionProducer.perform) == before
