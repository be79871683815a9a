"""What is written down of what librdkafka logs: one outage must not fill a disk."""

from __future__ import annotations

import logging
import re

import pytest

from halfhitch.adapters.kafka import clients
from halfhitch.adapters.kafka.client_log import ClientLog
from halfhitch.adapters.kafka.guard import Suspicion

FORM = "%s [%s] %s"
BROKERS = ("127.0.0.1:9092", "127.0.0.1:9093")


class World:
    """A log that is read, and a clock that is set."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.now_s = 0.0
        self._caplog = caplog
        caplog.set_level(logging.INFO, "clients")
        self.log = ClientLog(logging.getLogger("clients"), now_s=lambda: self.now_s)

    def fail(self, name: str, broker: str) -> None:
        line = f"[thrd:{broker}/1]: {broker}/1: Connect to ipv4#{broker} failed: refused"
        self.log.log(logging.ERROR, FORM, "FAIL", name, line)

    def told(self) -> list[str]:
        """What was written since this was last asked."""
        found = [record.getMessage() for record in self._caplog.records]
        self.levels = {record.levelno for record in self._caplog.records}
        self._caplog.clear()
        return found


@pytest.fixture
def world(caplog: pytest.LogCaptureFixture) -> World:
    return World(caplog)


def test_a_thousand_refused_connections_cost_a_line_for_each_kind_of_client_and_broker(
    world: World,
) -> None:
    for n in range(1_200):
        world.now_s = n / 100
        world.fail(f"halfhitch-a#{'consumer' if n % 3 else 'producer'}-{n % 7}", BROKERS[n % 2])
    first = world.told()
    assert len(first) == 4
    assert world.levels == {logging.WARNING}, "the client connects again by itself"
    world.now_s += 6
    world.log.tell_left_out()
    (left_out,) = world.told()
    assert sum(int(count) for count in re.findall(r"(\d+) FAIL", left_out)) == 1_200 - 4
    assert "399 FAIL of halfhitch-a#consumer with 127.0.0.1:9092" in left_out
    world.log.tell_left_out()
    assert world.told() == []


def test_an_outage_of_an_hour_costs_fewer_and_fewer_lines(world: World) -> None:
    for n in range(36_000):
        world.now_s = n / 10
        world.fail("a#consumer-1", BROKERS[0])
        world.log.tell_left_out()
    told = world.told()
    assert 5 <= len(told) <= 12
    assert "(299 more of its kind were left out)" in told[1]


def test_what_was_left_out_is_told_once_it_is_over(world: World) -> None:
    for n in range(100):
        world.now_s += 2
        world.fail(f"a#{'consumer' if n % 10 == 0 else 'producer'}-1", BROKERS[0])
        world.log.tell_left_out()
    assert not any("others like them" in line for line in world.told())
    world.now_s += 5
    world.log.tell_left_out()
    (line,) = world.told()
    assert "a#consumer" in line
    assert "a#producer" in line


def test_after_a_minute_of_calm_trouble_is_news_again(world: World) -> None:
    world.fail("a#consumer-1", BROKERS[0])
    world.fail("a#consumer-2", BROKERS[0])
    assert len(world.told()) == 1
    world.now_s = 61.0
    world.fail("a#consumer-1", BROKERS[0])
    assert len(world.told()) == 1
    world.now_s = 200.0
    world.log.tell_left_out()
    world.fail("a#consumer-1", BROKERS[0])
    assert len(world.told()) == 1


def test_what_nobody_wants_to_read_takes_no_place(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "clients")
    world.fail("a#consumer-1", BROKERS[0])
    world.now_s += 6
    world.log.tell_left_out()
    assert world.told() == []
    caplog.set_level(logging.INFO, "clients")
    world.fail("a#consumer-1", BROKERS[0])
    assert len(world.told()) == 1


def test_errors_that_are_no_lost_connection_stay_errors(world: World) -> None:
    world.log.log(logging.CRITICAL, FORM, "FATAL", "a#consumer-1", "[thrd:main]: it is over")
    assert world.told() == ["FATAL [a#consumer-1] [thrd:main]: it is over"]
    assert world.levels == {logging.CRITICAL}


def test_the_suspicion_hears_what_is_left_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "logger", world.log)
    heard: list[str] = []

    class Ears(Suspicion):
        def hear(self, facility: str, line: str) -> None:
            heard.append(f"{facility} {line}")

    listening = clients._Listening(Ears())
    for n in range(20):
        listening.log(logging.INFO, FORM, "FAIL", f"a#producer-{n}", f"[thrd:x:1/1]: x:1/1: {n}")
    assert len(heard) == 20
    assert len(world.told()) == 1
