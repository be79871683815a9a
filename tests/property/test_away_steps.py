"""Targets that come and go: nothing is lost or doubled, messages of one key keep their order.

HALFHITCH_DETOUR_SEEDS says how many stories are told; `make test-all` tells more of them.
"""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pytest

from halfhitch.adapters.memory import WriteFault
from halfhitch.service.owner.turn import OutcomeLostError, StepFailedError
from harness.defaults import owner_limits
from harness.twin import Twin

if TYPE_CHECKING:
    from halfhitch.service.owner.turn import PartitionOwner

TOPICS = ("a", "b", "c")
KEYS = (b"k1", b"k2", None)
FAULTS = (WriteFault.ABORTED, WriteFault.ABORTED_UNSEEN, WriteFault.COMMITTED_UNSEEN)
SEED_COUNT = int(os.environ.get("HALFHITCH_DETOUR_SEEDS", "20"))


class Story:
    """What one seed does to one half partition."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        limits = owner_limits(
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
            if self.owner is not None and self.owner.numbers().decided_count == 0:
                return
        raise AssertionError(f"still waiting: {self.owner and self.owner.waiting_by_topic}")

    def judge(self) -> None:
        """Everything once, and what has one key in its order."""
        assert self.count > 100, "the run was empty"
        for topic in TOPICS:
            found: dict[bytes | None, list[bytes | None]] = defaultdict(list)
            for record in self.twin.kafka.committed(topic):
                found[record.key()].append(record.value())
            for key in KEYS:
                expected = self.expected[topic, key]
                assert sorted(found[key], key=str) == sorted(expected, key=str)
                if key is not None:
                    assert found[key] == expected

    def happened(self) -> Counter[str]:
        """How often what the story is about took place before all settled."""
        observer = self.twin.observer
        return Counter(
            away=len(observer.of("target_away")),
            failed=sum(call[1] == "fail" for call in observer.of("kafka_transaction")),
            takeovers=len(observer.of("takeover")),
        )


@pytest.mark.timeout(3_600)
def test_targets_that_come_and_go_lose_double_and_reorder_nothing() -> None:
    """Over all seeds targets go away, are probed in vain, and owners change meanwhile."""
    happened: Counter[str] = Counter()
    for seed in range(SEED_COUNT):
        print(f"{seed=}")  # shown if it fails
        story = Story(seed)
        for _ in range(300):
            story.act()
        happened += story.happened()
        story.settle()
        story.judge()
    for what, at_least in {"away": 2.5, "failed": 5, "takeovers": 2.5}.items():
        assert happened[what] > at_least * SEED_COUNT, happened
