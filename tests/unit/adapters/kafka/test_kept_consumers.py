"""Consumers are used again, by one call at a time, and closed when nobody needs them."""

from __future__ import annotations

from typing import Any

import pytest

from halfhitch.adapters.kafka.kept_consumers import KeptConsumers
from halfhitch.errors import KafkaUnavailable, TransactionGone
from harness.kafka import wait_until


class Fake:
    """Counts what is asked of it."""

    def __init__(self) -> None:
        self.unassigned_count = self.closed_count = 0

    def unassign(self) -> None:
        self.unassigned_count += 1

    def close(self) -> None:
        self.closed_count += 1


class Kept:
    def __init__(self, linger_s: float = 60.0) -> None:
        self.made: list[Fake] = []
        self.consumers = KeptConsumers(self._make, linger_s=linger_s)

    def _make(self) -> Any:
        self.made.append(Fake())
        return self.made[-1]


def test_each_conflicting_end_made_a_kafka_client_of_its_own() -> None:
    kept = Kept()
    for _ in range(3):
        with kept.consumers.lent():
            pass
    (fake,) = kept.made
    assert (fake.unassigned_count, fake.closed_count) == (3, 0)
    kept.consumers.stop()
    assert fake.closed_count == 1


def test_calls_at_the_same_time_have_a_consumer_each() -> None:
    kept = Kept()
    with kept.consumers.lent() as one, kept.consumers.lent() as other:
        assert one is not other
    with kept.consumers.lent(), kept.consumers.lent():
        pass
    assert len(kept.made) == 2
    kept.consumers.stop()


def test_a_refused_request_says_nothing_against_the_consumer() -> None:
    kept = Kept()
    with pytest.raises(TransactionGone), kept.consumers.lent():
        raise TransactionGone("long ago")
    with kept.consumers.lent():
        pass
    assert len(kept.made) == 1
    kept.consumers.stop()


@pytest.mark.parametrize("error", [KafkaUnavailable("away"), KeyboardInterrupt(), ValueError()])
def test_a_consumer_that_failed_is_not_used_again(error: BaseException) -> None:
    kept = Kept()
    with pytest.raises(type(error)), kept.consumers.lent():
        raise error
    assert kept.made[0].closed_count == 1
    with kept.consumers.lent():
        pass
    assert len(kept.made) == 2
    kept.consumers.stop()


def test_an_idle_consumer_is_closed_after_a_while_and_the_next_call_makes_another() -> None:
    kept = Kept(linger_s=0.02)
    for count in (1, 2):
        with kept.consumers.lent():
            pass
        wait_until(lambda: kept.made[-1].closed_count == 1, 20, what="the idle one closed")
        assert len(kept.made) == count


def test_a_consumer_that_comes_back_after_the_stop_is_closed() -> None:
    kept = Kept()
    with kept.consumers.lent():
        kept.consumers.stop()
    assert kept.made[0].closed_count == 1
