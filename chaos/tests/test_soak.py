"""The soak's judge finds what it is there for, and its books survive whoever writes them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from chaos.kit.readers import Seen
from chaos.kit.slots import Books, Place, SlotFates, SlotHistory, content_of
from chaos.kit.soak_judge import SoakJudge, growth
from chaos.soak import Use, use_of
from chaos.soak_report import soak_lines
from harness.kafka import wait_until
from harness.partitioning import java_partition

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOPICS = ("orders", "points")
PARTITIONS = 3
GROUP = "group"


class World:
    """Books, and what a reader would find."""

    def __init__(self, folder: Path) -> None:
        self.books = Books(folder)
        self.history, self.fates = SlotHistory(self.books), SlotFates(self.books)
        self.visible: list[Seen] = []
        self.parked: list[tuple[str, int]] = []
        self._number = 0

    def prepare(self, letter: str, count: int = 2, *, acked: bool = True) -> str:
        self._number += 1
        transaction_id = f"f-1-app0.1.0.{self._number}.{letter}"
        call = self.history.begin("prepare", (GROUP, transaction_id), [None] * count)
        if acked:
            call.ok()
        return transaction_id

    def commit(self, transaction_id: str, *, acked: bool = True) -> None:
        self.fates.settle(transaction_id, "COMMIT")
        call = self.history.begin("commit", (GROUP, transaction_id))
        if acked:
            call.ok()

    def forward(self, transaction_id: str, *indexes: int) -> None:
        for index in indexes:
            sent = content_of(transaction_id, index, TOPICS)
            assert isinstance(sent.value, bytes)
            key = sent.key
            assert key is None or isinstance(key, bytes)
            partition = 0 if key is None else java_partition(key, PARTITIONS)
            headers = [*(sent.headers or ()), ("UNIQ_KEY", transaction_id.encode())]
            headers += [("PGROUP", GROUP.encode()), ("HALFHITCH", b"1;%d;0;i" % index)]
            at = len(self.visible)
            self.visible.append(Seen(sent.topic, partition, at, key, sent.value, tuple(headers)))

    def park(self, transaction_id: str, *indexes: int) -> None:
        self.parked += [(transaction_id, index) for index in indexes]

    def judge(self) -> SoakJudge:
        judge = SoakJudge(self.books.all(), TOPICS, PARTITIONS)
        for seen in self.visible:
            judge.visible(seen)
        for transaction_id, index in self.parked:
            judge.parked(transaction_id, index)
        judge.finish()
        return judge


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Something of everything that is lawful."""
    made = World(tmp_path)
    for _ in range(3):
        committed = made.prepare("C")
        made.commit(committed)
        made.forward(committed, 0, 1)
    rolled_back = made.prepare("R")
    made.fates.settle(rolled_back, "ROLLBACK")
    made.history.begin("rollback", (GROUP, rolled_back)).ok()
    checked = made.prepare("X")
    made.fates.settle(checked, "COMMIT")
    made.forward(checked, 0, 1)
    never = made.prepare("N")
    made.park(never, 0, 1)
    unanswered = made.prepare("X")
    made.fates.settle(unanswered, "COMMIT")
    made.park(unanswered, 0, 1)
    contested = made.prepare("T")
    made.history.begin("rollback", (GROUP, contested)).ok()
    made.commit(contested, acked=False)
    return made


def test_what_is_lawful_is_green(world: World) -> None:
    judge = world.judge()
    assert not judge.found_counts, judge.examples
    assert judge.counters == {
        "records": 8,
        "parked_messages": 4,
        "transactions": 8,
        "committed": 4,
        "rolled_back": 2,
        "parked": 2,
    }


def test_a_part_of_what_nobody_was_told_of_may_be_parked(world: World) -> None:
    """The application was killed in its prepare, or in an add: what was stored is asked about."""
    world.park(world.prepare("N", acked=False), 0)
    adding = world.prepare("N", 1)
    world.history.begin("add", (GROUP, adding), [None])
    world.park(adding, 0, 1)
    judge = world.judge()
    assert not judge.found_counts, judge.examples


def _lost(world: World) -> None:
    world.commit(world.prepare("C"))


def _lost_though_only_its_application_knows(world: World) -> None:
    world.fates.settle(world.prepare("X"), "COMMIT")


def _lost_undecided(world: World) -> None:
    world.park(world.prepare("N"), 0, 1)
    world.prepare("N")


def _parked_in_part(world: World) -> None:
    world.park(world.prepare("N"), 0)


def _rolled_back_and_parked_in_part(world: World) -> None:
    rolled_back = world.prepare("R")
    world.fates.settle(rolled_back, "ROLLBACK")
    world.park(rolled_back, 1)


def _visible_and_parked(world: World) -> None:
    committed = world.prepare("X")
    world.fates.settle(committed, "COMMIT")
    world.forward(committed, 0, 1)
    world.park(committed, 0, 1)


def _lost_though_nobody_ever_contested_it(world: World) -> None:
    world.commit(world.prepare("T"))


def _doubled(world: World) -> None:
    world.visible.append(world.visible[0])


def _invented(world: World) -> None:
    world.forward("f-1-app0.1.0.99.C", 0)


def _invented_index(world: World) -> None:
    committed = world.prepare("C", 1)
    world.commit(committed)
    world.forward(committed, 0, 1)


def _rolled_back_and_visible(world: World) -> None:
    rolled_back = world.prepare("R")
    world.fates.settle(rolled_back, "ROLLBACK")
    world.forward(rolled_back, 0, 1)


def _torn(world: World) -> None:
    committed = world.prepare("C")
    call = world.history.begin("add", (GROUP, committed), [None])
    call.ok()
    world.commit(committed)
    world.forward(committed, 0, 1)


def _corrupted(world: World) -> None:
    seen = world.visible[0]
    world.visible[0] = Seen(*seen.place, seen.key, b"other", seen.headers)


def _misrouted(world: World) -> None:
    seen = next(seen for seen in world.visible if seen.key is not None)
    moved = Seen(seen.topic, (seen.partition + 1) % 3, 77, seen.key, seen.value, seen.headers)
    world.visible[world.visible.index(seen)] = moved


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (_lost, "lost"),
        (_lost_though_only_its_application_knows, "lost"),
        (_lost_undecided, "lost"),
        (_lost_though_nobody_ever_contested_it, "lost"),
        (_parked_in_part, "torn"),
        (_rolled_back_and_parked_in_part, "torn"),
        (_visible_and_parked, "doubled"),
        (_doubled, "doubled"),
        (_invented, "invented"),
        (_invented_index, "invented"),
        (_rolled_back_and_visible, "invented"),
        (_torn, "torn"),
        (_corrupted, "corrupted"),
        (_misrouted, "misrouted"),
    ],
)
def test_what_is_spoiled_is_found(world: World, spoil: Callable[[World], None], kind: str) -> None:
    spoil(world)
    judge = world.judge()
    assert set(judge.found_counts) == {kind}, judge.examples


def test_books_are_read_by_the_next_life_and_the_first_fate_stands(tmp_path: Path) -> None:
    first = World(tmp_path)
    transaction_id = first.prepare("C")
    first.fates.settle(transaction_id, "COMMIT")
    other = World(tmp_path)
    assert other.fates.settle(transaction_id, "ROLLBACK") == "COMMIT"
    assert other.fates.settle(first.prepare("C"), "ROLLBACK") == "ROLLBACK"
    assert other.fates.settle("of.nobody.1.1.C", "ROLLBACK") == "ROLLBACK"
    assert other.books.count() == 2


def test_only_ids_of_ours_have_a_place() -> None:
    assert Place.of("f-1-app0.2.3.45.C") == Place("f-1-app0.2.3", 45, "C")
    assert Place.of("order-7") is None
    assert Place.of("a.b.c") is None


@pytest.mark.parametrize(
    ("values", "is_flat"),
    [
        ([100.0] * 30, True),
        ([100.0 + n % 7 for n in range(30)], True),
        ([*[100.0] * 29, 400.0], True),  # one peak is no growth
        ([100.0 + 2 * n for n in range(30)], False),
        ([100.0] * 5, False),  # too few to say anything
    ],
)
def test_growth_is_seen_and_breathing_is_not(values: list[float], is_flat: bool) -> None:
    assert growth(values, ratio_max=1.15).is_flat is is_flat


def test_the_page_tells_of_no_soak_as_of_one() -> None:
    assert "No run is on record." in soak_lines([])
    run = {
        "at": "today", "transactions": 1_000_000, "counters": {"per_second": 900},
        "faults": {"x": 2}, "found": {"lost": 1}, "use": {}, "verdict": "red",
        "reason": "1 lost", "seconds": 1.0, "memory_by_tenth": [80, 81],
    }  # fmt: skip
    assert any("1,000,000" in line and "**red**: 1 lost" in line for line in soak_lines([run]))


_LEAVING_BEHIND = """
import sys
from confluent_kafka import Producer
left_behind = []
for _ in sys.stdin:
    left_behind.append(Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}))
    print(flush=True)
"""


def test_a_kafka_client_that_is_left_behind_is_counted() -> None:
    """In a process of its own: in this one, clients of other tests come and go."""
    with subprocess.Popen(
        [sys.executable, "-c", _LEAVING_BEHIND],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for count in (1, 2):
            process.stdin.write("one more\n")
            process.stdin.flush()
            process.stdout.readline()

            # A thread that has just begun still has the name of the one that made it.
            def is_counted(count: int = count) -> bool:
                return use_of(process.pid)[3] == count

            wait_until(is_counted, 30.0, what=f"{count} to be counted")
        process.stdin.close()


def test_a_client_more_at_each_takeover_is_growth() -> None:
    use = Use(os.getpid())
    use.samples = [(100.0, 20, 30, clients) for clients in range(100)]
    assert not use.growths()["Kafka clients"].is_flat
    assert use.by_tenth(3) == sorted(use.by_tenth(3))
    assert len(use.by_tenth(3)) == 10
