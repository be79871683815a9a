"""Targets that come and go: nothing is lost or doubled, messages of one key keep their order."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from halfhitch.adapters.memory import WriteFault
from halfhitch.service.owner import OutcomeLostError, OwnerLimits, StepFailedError
from harness.twin import Twin

if TYPE_CHECKING:
    from halfhitch.service.owner import PartitionOwner

TOPICS = ("a", "b", "c")
KEYS = (b"k1", b"k2", None)
FAULTS = (WriteFault.ABORTED, WriteFault.ABORTED_UNSEEN, WriteFault.COMMITTED_UNSEEN)
SEEDS = 80


class Story:
    """What one seed does to one half partition."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        limits = OwnerLimits(
            batch_count_max=self.dice.choice([5, 40, 1_000]),
            payload_cache_bytes=self.dice.choice([5_000, 1_000_000]),
        )
        self.twin = Twin(limits=limits)
        for topic in TOPICS:
            self.twin.kafka.create_topic(topic, 1)
        self.owner: PartitionOwner | None = None
        self.expected: dict[tuple[str, bytes | None], list[bytes]] = defaultdict(list)
        self.count = 0

    def commit_some(self) -> None:
        names = []
        for _ in range(self.dice.randrange(1, 12)):
            name, self.count = f"T{self.count}", self.count + 1
            places = [
                (self.dice.choice(TOPICS), self.dice.choice(KEYS))
                for _ in range(self.dice.choice([1, 1, 1, 2, 3]))
            ]
            for index, (topic, key) in enumerate(places):
                value = f"{name}.{index}".encode()
                self.twin.half(name, index=index, topic=topic, key=key, value=value)
                self.expected[topic, key].append(value)
            names.append((name, len(places)))
        for name, covered in names:
            self.twin.commit(name, covered=covered)

    def act(self) -> None:
        faults, dice = self.twin.kafka.faults, self.dice
        what = dice.random()
        if what < 0.3:
            self.commit_some()
        elif what < 0.4:
            faults.away_topics ^= {dice.choice(TOPICS)}
        elif what < 0.45:
            faults.leaderless ^= {dice.choice(TOPICS)}
        elif what < 0.5:
            faults.writes.append(dice.choice(FAULTS))
        elif what < 0.53:
            self.owner = None
        else:
            self.twin.clock.advance(dice.choice([0.0, 0.3, 1.0, 5.0]))
            self.turn()

    def turn(self) -> None:
        try:
            if self.owner is None:
                self.owner = self.twin.working_owner()
            self.owner.turn(0.0)
        except StepFailedError:
            pass
        except OutcomeLostError:
            self.owner = None

    def settle(self) -> None:
        faults = self.twin.kafka.faults
        faults.away_topics, faults.leaderless, faults.writes = set(), set(), []
        for _ in range(2_000):
            self.twin.clock.advance(0.5)
            self.turn()
            if self.owner is not None and self.owner.numbers()[0][1] == 0:
                return
        raise AssertionError(f"still waiting: {self.owner and self.owner.waiting_by_topic}")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_targets_that_come_and_go_lose_double_and_reorder_nothing(seed: int) -> None:
    story = Story(seed)
    for _ in range(300):
        story.act()
    story.settle()
    assert story.count > 100, "the run was empty"
    for topic in TOPICS:
        found: dict[bytes | None, list[bytes | None]] = defaultdict(list)
        for record in story.twin.kafka.committed(topic):
            found[record.key()].append(record.value())
        for key in KEYS:
            expected = story.expected[topic, key]
            assert sorted(found[key], key=str) == sorted(expected, key=str)
            if key is not None:
                assert found[key] == expected


def test_the_runs_are_about_something() -> None:
    """Over all seeds targets go away, are probed in vain, and owners change meanwhile."""
    away = failures = takeovers = 0
    for seed in range(20):
        story = Story(seed)
        for _ in range(300):
            story.act()
        observer = story.twin.observer
        away += len(observer.of("target_away"))
        failures += sum(call[1] == "fail" for call in observer.of("kafka_transaction"))
        takeovers += len(observer.of("takeover"))
    assert away > 50
    assert failures > 100
    assert takeovers > 50
