"""The coordinator in memory: what a test does with it, with the shipped client."""

from __future__ import annotations

import threading

import pytest

from halfhitch.client.values import LocalTransactionState, Message
from halfhitch.errors import ConfigurationError, HalfHitchError
from halfhitch.testing import MemoryCoordinator
from harness.producers import answering, driven

COMMIT, ROLLBACK, UNKNOWN = (
    LocalTransactionState.COMMIT,
    LocalTransactionState.ROLLBACK,
    LocalTransactionState.UNKNOWN,
)


@pytest.fixture
def coordinator():
    with MemoryCoordinator(topics={"orders": 2, "points": 1}) as running:
        yield running


def values(coordinator, topic="orders"):
    return [message.value for message in coordinator.messages(topic)]


def test_a_prepared_message_is_invisible_and_a_committed_one_is_seen(shell, coordinator):
    with driven(shell, "shop", coordinator.address) as producer:
        message = Message("orders", b"book", key=b"k", headers=[("a", b"b")])
        prepared = producer.prepare([message], transaction_id="t-1")
        assert values(coordinator) == []
        assert coordinator.pending() == ["t-1"]
        producer.commit(prepared.handle)
    (seen,) = coordinator.messages("orders")
    assert (seen.key, seen.value, seen.headers) == (b"k", b"book", (("a", b"b"),))
    assert (seen.transaction_id, seen.producer_group) == ("t-1", "shop")
    assert coordinator.pending() == []


def test_what_is_rolled_back_is_never_seen(shell, coordinator):
    with driven(shell, "shop", coordinator.address) as producer:
        prepared = producer.prepare([Message("orders", b"book"), Message("points", b"1")])
        producer.rollback(prepared.handle)
        coordinator.advance(3600)
    assert values(coordinator) == values(coordinator, "points") == []


def test_time_stands_still_until_it_is_moved_and_then_brings_the_check(shell, coordinator):
    check = answering(shell, lambda _: COMMIT)
    with driven(shell, "shop", coordinator.address, check=check) as producer:
        producer.prepare([Message("orders", b"book")], transaction_id="t-1")
        assert coordinator.checks() == []
        coordinator.advance(30)
        assert [check.number for check in coordinator.checks("t-1")] == [1]
        assert values(coordinator) == [b"book"]
        assert coordinator.checks("another") == []


def test_who_never_knows_is_asked_fifteen_times_and_the_message_is_parked(coordinator):
    with driven("sync", "shop", coordinator.address, check=lambda _: UNKNOWN) as producer:
        producer.prepare([Message("orders", b"book")])
        coordinator.advance(2 * 3600)
    assert [check.number for check in coordinator.checks()] == list(range(1, 16))
    assert [message.value for message in coordinator.parked()] == [b"book"]
    assert values(coordinator) == []


def test_settings_are_those_of_a_coordinator():
    settings = {"checks.count_max": 2, "checks.immunity_s": 100}
    with (
        MemoryCoordinator({"orders": 1}, settings) as coordinator,
        driven("sync", "shop", coordinator.address, check=lambda _: UNKNOWN) as producer,
    ):
        producer.prepare([Message("orders", b"book")])
        coordinator.advance(90)
        assert coordinator.checks() == []
        coordinator.advance(3600)
        assert len(coordinator.checks()) == 2


def test_nobody_is_asked_while_no_producer_is_live(coordinator):
    with driven("sync", "shop", coordinator.address, check=lambda _: ROLLBACK) as producer:
        producer.prepare([Message("orders", b"book")], transaction_id="t-1")
        with coordinator.no_producer():
            coordinator.advance(600)
            assert coordinator.checks() == []
            assert coordinator.pending("shop") == ["t-1"]
            assert coordinator.pending("others") == []
        coordinator.advance(60)
        assert coordinator.pending() == []


def test_a_producer_that_hangs_does_not_stop_the_time_for_ever(coordinator):
    told = threading.Event()

    def check(_):
        told.wait(60)
        return COMMIT

    with driven("sync", "shop", coordinator.address, check=check) as producer:
        producer.prepare([Message("orders", b"book")])
        coordinator.advance(10)
        assert len(coordinator.checks()) == 1
        told.set()
        coordinator.advance(30)
    assert values(coordinator) == [b"book"]


def test_without_kafka_nothing_is_acknowledged_and_nothing_is_lost(coordinator):
    options = {"deadline_s": 0.5, "answers_checks": False}
    with driven("sync", "shop", coordinator.address, **options) as producer:
        prepared = producer.prepare([Message("orders", b"book")])
        with coordinator.kafka_away(), pytest.raises(HalfHitchError):
            producer.prepare([Message("orders", b"lost")])
        producer.commit(prepared.handle)
    assert values(coordinator) == [b"book"]


def test_a_topic_that_is_not_there_is_named(coordinator):
    with pytest.raises(ConfigurationError, match="create_topic"):
        coordinator.messages("others")
    coordinator.create_topic("others", 3)
    assert coordinator.messages("others") == []


def test_without_its_block_it_says_how_it_is_used():
    coordinator = MemoryCoordinator()
    with pytest.raises(ConfigurationError, match="with MemoryCoordinator"):
        _ = coordinator.address
    with coordinator, pytest.raises(ConfigurationError, match="running already"), coordinator:
        pass
    with pytest.raises(ConfigurationError, match="with MemoryCoordinator"):
        coordinator.advance(1)


def test_time_does_not_run_backwards(coordinator):
    with pytest.raises(ValueError, match="backwards"):
        coordinator.advance(-1)


def test_a_setting_that_does_not_exist_is_named():
    with pytest.raises(ConfigurationError, match=r"checks\.count_max"):
        MemoryCoordinator(settings={"checks.count_maximum": 3})


def test_two_of_them_know_nothing_of_each_other():
    with MemoryCoordinator({"orders": 1}) as one, MemoryCoordinator({"orders": 1}) as other:
        with driven("sync", "shop", one.address, answers_checks=False) as producer:
            producer.commit(producer.prepare([Message("orders", b"book")]).handle)
        assert values(one) == [b"book"]
        assert values(other) == []
