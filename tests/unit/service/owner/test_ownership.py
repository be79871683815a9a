"""Which half partitions an instance owns, as the group's membership says."""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.core.model import Resolution
from halfhitch.core.standing import Standing
from halfhitch.errors import TopologyError
from halfhitch.service.api import Filter, PartitionPhase
from halfhitch.service.owner.ownership import Ownership
from halfhitch.service.owner.worker import PartitionWorker
from halfhitch.service.transactions.first import Place
from harness.kafka import wait_until
from harness.twin import RecordingWriter, Twin, identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEADLINE_S = 10.0


class Instance:
    """One instance's Ownership over partitions of a shared twin."""

    def __init__(self, twin: Twin, name: str = "a", stop_wait_s: float = DEADLINE_S) -> None:
        self.twin = twin
        self.lost: list[int] = []
        self.made: list[int] = []
        self.make_writer: Callable[[int, Callable[[], bool]], Any] = self.plain_writer
        self.ownership = Ownership(
            self._make_worker, on_lost=self.lost.append, instance=name, stop_wait_s=stop_wait_s
        )

    def plain_writer(self, partition: int, may_write: Callable[[], bool]) -> Any:
        kafka = self.twin.kafka
        return RecordingWriter(
            kafka,
            self.twin.calls,
            partition=partition,
            generation=lambda: kafka.generation if may_write() else -1,
        )

    def _make_worker(self, partition: int) -> PartitionWorker:
        self.made.append(partition)
        return PartitionWorker(
            partition,
            lambda may_write: self.twin.owner(
                writer=self.make_writer(partition, may_write), partition=partition
            ),
        )

    def until_working(self, *partitions: int) -> None:
        wait_until(
            lambda: all(self.ownership.works(partition) for partition in partitions),
            DEADLINE_S,
            interval_s=0.002,
            what="the partitions are worked on",
        )


@pytest.fixture
def twin() -> Twin:
    return Twin(partition_count=4)


@pytest.fixture
def instance(twin: Twin) -> Iterator[Instance]:
    made = Instance(twin)
    yield made
    made.ownership.stop()


def test_assigned_partitions_are_worked_on_until_they_are_revoked(instance: Instance) -> None:
    ownership = instance.ownership
    ownership.assigned([2, 1])
    instance.until_working(1, 2)
    assert [state.partition for state in ownership.states()] == [1, 2]
    ownership.assigned([2, 3])
    instance.until_working(3)
    assert instance.made == [2, 1, 3], "one worker for each partition"
    ownership.revoked([1, 3, 0])
    assert [state.partition for state in ownership.states()] == [2]
    assert instance.lost == [1, 3]
    assert not ownership.works(1)
    assert ownership.works(2)
    assert instance.twin.calls.count("close writer") == 2, "they ended before the answer went out"


def test_what_may_be_ours_in_a_moment_is_waited_for(instance: Instance) -> None:
    """Before the group has said who owns what, and since it has put this instance out."""
    twin, ownership = instance.twin, instance.ownership
    place = Place(partition=1, half_offset=twin.half("T1", partition=1), op_offset=0)
    assert ownership.has_read(place) is False
    ownership.assigned([1])
    instance.until_working(1)
    assert ownership.has_read(place) is False
    twin.decide(Resolution.COMMIT, "T1", partition=1)
    wait_until(lambda: ownership.has_read(place), DEADLINE_S, what="it is read")
    elsewhere = place._replace(partition=0)
    assert ownership.has_read(elsewhere) is None
    ownership.lost([1])
    assert ownership.has_read(place) is False
    ownership.assigned([])
    assert ownership.has_read(place) is None
    ownership.assigned([1])
    ownership.revoked([1])
    assert ownership.has_read(place) is None, "it goes to another one"
    ownership.lost([])
    ownership.stop()
    assert ownership.has_read(place) is None


def test_who_is_no_candidate_waits_for_nothing(twin: Twin) -> None:
    said: list[str] = []
    ownership = Ownership(
        lambda _: pytest.fail("nothing is assigned"), on_lost=lambda _: None, instance="one",
        stop_wait_s=1.0, is_candidate=False, on_assigned=lambda: said.append("assigned"),
    )  # fmt: skip
    place = Place(partition=0, half_offset=0, op_offset=0)
    assert ownership.has_read(place) is None
    ownership.lost([])
    assert ownership.has_read(place) is None
    ownership.assigned([])
    assert said == ["assigned"]


def test_stop_gives_up_everything(instance: Instance) -> None:
    instance.ownership.assigned([0, 1])
    instance.until_working(0, 1)
    instance.ownership.stop()
    assert instance.ownership.states() == []
    assert sorted(instance.lost) == [0, 1]
    assert instance.twin.calls.count("close writer") == 2


def test_a_message_that_may_go_anywhere_goes_to_an_owned_partition(instance: Instance) -> None:
    ownership = instance.ownership
    assert ownership.preferred_partition(4) in range(4)
    assert ownership.preferred_partition(4) == ownership.preferred_partition(4)
    ownership.assigned([3, 2])
    assert ownership.preferred_partition(4) == 2
    ownership.revoked([2])
    assert ownership.preferred_partition(4) == 3
    ownership.revoked([3])
    assert ownership.preferred_partition(1) == 0


def test_a_message_that_may_go_anywhere_goes_where_it_is_taken(instance: Instance) -> None:
    ownership = instance.ownership
    ownership.assigned([3, 2])
    instance.until_working(2, 3)
    assert ownership.preferred_partition(4, {0, 1}) == 2
    assert ownership.preferred_partition(4, {2}) == 3, "another owned one"
    assert ownership.preferred_partition(4, {2, 3}) == 0, "or anybody else's"
    assert ownership.preferred_partition(4, {0, 1, 2, 3}) == 2, "or nowhere, and is refused"


def test_a_message_that_may_go_anywhere_does_not_go_where_nothing_works(twin: Twin) -> None:
    instance = Instance(twin)
    broken = threading.Event()
    broken.set()

    def trouble(partition: int, may_write: Callable[[], bool]) -> Any:
        if partition == 1 and broken.is_set():
            raise TopologyError("the log was cut")
        return instance.plain_writer(partition, may_write)

    instance.make_writer = trouble
    ownership = instance.ownership
    ownership.assigned([1, 2])
    instance.until_working(2)
    wait_until(ownership.troubles, DEADLINE_S, what="the trouble is told")
    assert ownership.troubles() == ["half partition 1 stands still: the log was cut"]
    assert ownership.preferred_partition(4) == 2
    broken.clear()
    instance.until_working(1)
    wait_until(lambda: not ownership.troubles(), DEADLINE_S, what="the trouble has passed")
    assert ownership.preferred_partition(4) == 1
    ownership.stop()


def test_instances_that_own_nothing_spread_over_the_partitions(twin: Twin) -> None:
    names = [f"sidecar-{n}" for n in range(40)]
    used = {Instance(twin, name).ownership.preferred_partition(4) for name in names}
    assert used == {0, 1, 2, 3}


def test_only_of_owned_partitions_anything_is_known(instance: Instance) -> None:
    twin, ownership = instance.twin, instance.ownership
    half_offset = twin.half("T1", partition=1)
    assert ownership.standing(1, identity("T1"), half_offset) is Standing.UNKNOWN
    ownership.assigned([1])
    instance.until_working(1)
    assert ownership.standing(1, identity("T1"), half_offset) is Standing.PENDING
    assert ownership.standing(0, identity("T1"), half_offset) is Standing.UNKNOWN
    assert ownership.standing(1, identity("gone"), half_offset) is None
    ownership.revoked([1])
    assert ownership.standing(1, identity("T1"), half_offset) is Standing.UNKNOWN


async def test_for_one_that_is_named_only_its_owner_is_asked(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each owner that is asked takes a turn for it, on the thread that forwards."""
    instance.twin.half("T1", partition=1)
    instance.ownership.assigned([0, 1])
    instance.until_working(0, 1)
    asked: list[int] = []
    for partition in (0, 1):
        owner = instance.ownership._workers[partition].owner
        assert owner is not None
        undecided = owner.checkback.undecided
        monkeypatch.setattr(
            owner.checkback,
            "undecided",
            lambda wanted, n=partition, ask=undecided: (asked.append(n), ask(wanted))[1],
        )
    named = Filter(producer_group="group", transaction_id="T1")
    found, count = await instance.ownership.undecided(named)
    assert ([shown.partition for shown in found], count, asked) == ([1], 1, [1])
    nobody = Filter(producer_group="group", transaction_id="T2")
    assert await instance.ownership.undecided(nobody) == ([], 0)
    assert asked == [1]
    await instance.ownership.undecided(Filter(transaction_id="T1"))
    assert asked == [1, 0, 1]


async def test_a_list_was_in_another_order_each_time_it_was_made(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was as old as it was when it was looked at: of two of one millisecond the later one
    was the older, and a page had what was on the page before."""
    for number in range(4):
        instance.twin.half(f"T{number}", partition=number % 2)
    instance.ownership.assigned([0, 1])
    instance.until_working(0, 1)
    ticks = itertools.count(instance.twin.clock.wall_ms())
    monkeypatch.setattr(instance.twin.clock, "wall_ms", lambda: next(ticks))
    found, _ = await instance.ownership.undecided(Filter())
    assert [shown.transaction_id for shown in found] == ["T0", "T2", "T1", "T3"]


# -- workers that hang ---------------------------------------------------------------------------


class Hanging:
    """Stands for a PartitionWorker that does not end."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.is_abandoned = False
        self.stopped_at_s: float | None = None

    def start(self) -> None:
        pass

    def stop(self) -> None:
        self.stopped_at_s = time.monotonic()

    def join(self, wait_s: float) -> bool:
        threading.Event().wait(wait_s)
        return False

    def abandon(self) -> None:
        self.is_abandoned = True


def hanging(stop_wait_s: float) -> tuple[Ownership, dict[int, Hanging], list[int]]:
    workers: dict[int, Hanging] = {}
    lost: list[int] = []

    def make(partition: int) -> Any:
        workers[partition] = Hanging(partition)
        return workers[partition]

    ownership = Ownership(make, on_lost=lost.append, instance="a", stop_wait_s=stop_wait_s)
    ownership.assigned([0, 1, 2, 3])
    return ownership, workers, lost


def test_all_that_are_revoked_share_one_deadline_and_who_hangs_may_write_no_more() -> None:
    ownership, workers, lost = hanging(stop_wait_s=1.0)
    began_s = time.monotonic()
    ownership.revoked([0, 1, 2])
    assert time.monotonic() - began_s < 2.0
    assert lost == [0, 1, 2]
    assert [workers[n].is_abandoned for n in range(4)] == [True, True, True, False]
    stops = [workers[n].stopped_at_s for n in range(3)]
    assert all(stop is not None and stop - began_s < 0.9 for stop in stops), "all at once"


def test_what_is_lost_is_not_waited_for_but_may_write_no_more() -> None:
    ownership, workers, lost = hanging(stop_wait_s=60.0)
    began_s = time.monotonic()
    ownership.lost([1, 2])
    assert time.monotonic() - began_s < 5.0
    assert lost == [1, 2]
    assert workers[1].is_abandoned
    assert workers[2].is_abandoned
    assert not workers[0].is_abandoned


def test_a_worker_that_was_left_behind_cannot_forward_what_its_successor_has_forwarded(
    twin: Twin,
) -> None:
    """See worker.py: its fence may succeed late, and its instance is still a member."""
    left_behind = Instance(twin, "a", stop_wait_s=0.05)
    at_work, go_on, done = threading.Event(), threading.Event(), threading.Event()
    outcomes = []

    class Hangs(RecordingWriter):
        def write(self, *values: Any) -> Any:
            at_work.set()
            assert go_on.wait(DEADLINE_S)
            self.fence()
            outcomes.append(super().write(*values).outcome.value)
            done.set()
            raise ZeroDivisionError("enough seen")

    left_behind.make_writer = lambda partition, may_write: Hangs(
        twin.kafka,
        twin.calls,
        partition=partition,
        generation=lambda: twin.kafka.generation if may_write() else -1,
    )
    twin.half("T1")
    twin.commit("T1")
    left_behind.ownership.assigned([0])
    assert at_work.wait(DEADLINE_S)
    (hung,) = left_behind.ownership.states()
    assert hung.phase is PartitionPhase.WORKING
    left_behind.ownership.revoked([0])
    twin.kafka.generation += 1
    successor = Instance(twin, "b")
    successor.ownership.assigned([0])
    wait_until(lambda: twin.values() == [b"value"], DEADLINE_S, what="the successor's forward")
    go_on.set()
    assert done.wait(DEADLINE_S)
    assert outcomes == ["fail"]
    twin.half("T2", value=b"next")
    twin.commit("T2")
    wait_until(lambda: b"next" in twin.values(), DEADLINE_S, what="the next forward")
    successor.ownership.stop()
    assert twin.values() == [b"value", b"next"]
