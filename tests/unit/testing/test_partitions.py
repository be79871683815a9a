"""When a half partition in memory has done all there is to do."""

from __future__ import annotations

import pytest

from halfhitch.testing.partitions import SettlingWorker, wait_until_quiet
from harness.twin import Twin

_DEADLINE_S = 30


@pytest.fixture
def twin():
    return Twin()


@pytest.fixture
def worker(twin):
    running = SettlingWorker(0, lambda _: twin.owner(), twin.kafka)
    running.start()
    yield running
    running.stop()
    assert running.join(_DEADLINE_S)


def test_it_is_quiet_when_everything_is_forwarded(twin, worker):
    for number in range(50):
        twin.half(f"t-{number}", value=b"%d" % number)
        twin.commit(f"t-{number}")
    assert wait_until_quiet(twin.kafka, [worker], _DEADLINE_S) == []
    assert len(twin.values()) == 50


def test_it_is_asked_anew_each_time(twin, worker):
    assert wait_until_quiet(twin.kafka, [worker], _DEADLINE_S) == []
    twin.half("t-1")
    twin.commit("t-1")
    assert wait_until_quiet(twin.kafka, [worker], _DEADLINE_S) == []
    assert twin.values() == [b"value"]


def test_one_that_does_not_work_is_named(twin):
    asleep = SettlingWorker(0, lambda _: twin.owner(), twin.kafka)
    assert wait_until_quiet(twin.kafka, [asleep], 0.01) == [0]


def test_it_works_again_at_once_when_kafka_is_back(twin, worker):
    assert wait_until_quiet(twin.kafka, [worker], _DEADLINE_S) == []
    twin.kafka.faults.is_away = True
    twin.half("t-1")
    twin.commit("t-1")
    worker.ask()
    twin.kafka.faults.is_away = False
    assert wait_until_quiet(twin.kafka, [worker], _DEADLINE_S) == []
    assert twin.values() == [b"value"]


def test_a_step_that_fails_is_tried_again(twin):
    from halfhitch.adapters.memory import WriteFault

    twin.kafka.faults.writes[:] = [WriteFault.ABORTED, WriteFault.ABORTED_UNSEEN]
    twin.half("t-1")
    twin.commit("t-1")
    worker = SettlingWorker(0, lambda _: twin.owner(), twin.kafka)
    worker.start()
    assert wait_until_quiet(twin.kafka, [worker], _DEADLINE_S) == []
    assert twin.values() == [b"value"]
    worker.stop()
    assert worker.join(_DEADLINE_S)
