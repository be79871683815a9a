"""The thread of one owned half partition, on a Kafka in memory."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters.memory import WriteFault
from halfhitch.service.api import PartitionPhase
from halfhitch.service.owner import worker as worker_module
from halfhitch.service.owner.numbers import CheckNumbers, OwnerNumbers
from halfhitch.service.owner.worker import PartitionWorker
from harness.kafka import wait_until
from harness.twin import RecordingReader, RecordingWriter, Twin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from halfhitch.service.owner.feeding import NewerReleaseError
    from halfhitch.service.owner.turn import PartitionOwner

DEADLINE_S = 10.0


@contextmanager
def running(
    twin: Twin,
    make_owner: Callable[[Callable[[], bool]], PartitionOwner] | None = None,
    **more: Any,
) -> Iterator[PartitionWorker]:
    """A started worker, stopped at the end."""
    worker = PartitionWorker(0, make_owner or (lambda _: twin.owner()), **more)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()
        assert worker.join(DEADLINE_S), "the worker did not stop"


def until(condition: Callable[[], object], what: str) -> None:
    wait_until(condition, DEADLINE_S, interval_s=0.002, what=what)


def until_working(worker: PartitionWorker) -> None:
    until(lambda: worker.state().phase is PartitionPhase.WORKING, "the worker works")


def test_a_worker_takes_over_carries_out_decisions_and_lets_go_when_stopped() -> None:
    twin = Twin()
    with running(twin) as worker:
        until_working(worker)
        assert worker.owner is not None
        twin.half("T1")
        twin.half("T2")
        twin.commit("T1")
        until(lambda: twin.values() == [b"value"], "the forward")
        until(lambda: worker.state().half_watermark == 1, "the watermark")
        state = worker.state()
        assert (state.partition, state.trouble) == (0, None)
        assert (state.pending_count, state.decided_count, state.finished_count) == (1, 0, 1)
        assert state.half_position == 2
    assert worker.state().phase is PartitionPhase.STOPPED
    assert worker.owner is None
    assert twin.calls[-2:] == ["close reader", "close writer"]


def test_nobody_is_shown_an_owner_that_has_not_taken_over() -> None:
    twin = Twin()
    twin.kafka.faults.is_away = True
    with running(twin) as worker:
        until(lambda: worker.state().trouble is not None, "the trouble")
        assert worker.owner is None
        assert worker.state().phase in (PartitionPhase.FAILED, PartitionPhase.TAKING_OVER)
        twin.kafka.faults.is_away = False
        until_working(worker)
        until(lambda: worker.state().trouble is None, "the end of the trouble")


def test_a_failed_step_is_tried_again_with_the_same_owner_and_the_trouble_is_shown() -> None:
    twin = Twin()
    owners = []

    def make_owner(_: Callable[[], bool]) -> PartitionOwner:
        owners.append(twin.owner())
        return owners[-1]

    twin.half("T1")
    twin.commit("T1")
    twin.kafka.faults.writes = [WriteFault.ABORTED, WriteFault.ABORTED]
    with running(twin, make_owner) as worker:
        until(lambda: worker.state().trouble is not None, "the trouble")
        until(lambda: twin.values() == [b"value"], "the forward")
        until(lambda: worker.state().trouble is None, "the end of the trouble")
    assert len(owners) == 1
    assert len(twin.written_values()) == 3


@pytest.mark.parametrize("fault", [WriteFault.COMMITTED_UNSEEN, WriteFault.LEFT_OPEN])
def test_an_unknown_outcome_makes_a_new_owner_take_over_with_exactly_one_forward(
    fault: WriteFault,
) -> None:
    twin = Twin()
    owners = []

    def make_owner(_: Callable[[], bool]) -> PartitionOwner:
        owners.append(twin.owner())
        return owners[-1]

    twin.half("T1")
    twin.commit("T1")
    twin.kafka.faults.writes = [fault]
    with running(twin, make_owner) as worker:
        until(lambda: len(owners) == 2, "the second takeover")
        until_working(worker)
        twin.half("T2", value=b"next")
        twin.commit("T2")
        until(lambda: len(twin.values()) == 2, "both forwards")
    assert twin.values() == [b"value", b"next"]
    assert not owners[0].is_working


@pytest.mark.parametrize("is_read_at_takeover", [True, False])
def test_a_record_of_a_newer_release_is_told_and_the_partition_does_not_work_on(
    is_read_at_takeover: bool,
) -> None:
    """It used to be taken over again for ever, and no instance that could read it ever got it."""
    twin = Twin()
    told: list[NewerReleaseError] = []

    def newer() -> None:
        kafka = twin.kafka
        kafka.append(kafka.op_topic, 0, None, b"0,", [("TAGS", b"d"), ("HALFHITCH", b"2[]")])

    if is_read_at_takeover:
        newer()
    with running(twin, on_newer=told.append) as worker:
        if not is_read_at_takeover:
            until_working(worker)
            newer()
        until(lambda: told, "the telling")
        assert "newer release" in told[0].message
        assert "upgrade this instance" in told[0].message
        assert worker.state().trouble == told[0].message
        twin.half("T1")
        twin.commit("T1")
        until(lambda: len(told) > 1, "the next try, as long as nobody takes it away")
        assert worker.owner is None
    assert twin.values() == []


def test_a_bug_is_logged_and_does_not_end_the_partition(
    caplog: pytest.LogCaptureFixture,
) -> None:
    twin = Twin()
    bugs = [ZeroDivisionError("a bug"), ZeroDivisionError("again")]

    def make_owner(_: Callable[[], bool]) -> PartitionOwner:
        if bugs:
            raise bugs.pop()
        return twin.owner()

    with caplog.at_level(logging.ERROR), running(twin, make_owner) as worker:
        until_working(worker)
    actions = [getattr(record, "action", None) for record in caplog.records]
    assert actions == ["partition_bug", "partition_bug"]
    assert caplog.records[0].exc_info is not None


def test_a_stop_does_not_wait_for_a_long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_PAUSE_S", 3_600.0)
    monkeypatch.setattr(worker_module, "_PAUSE_MAX_S", 3_600.0)
    twin = Twin()
    twin.kafka.faults.is_away = True
    with running(twin) as worker:
        until(lambda: worker.state().trouble is not None, "the trouble")


def test_what_a_stop_interrupts_is_no_trouble() -> None:
    twin = Twin()
    at_work, go_on = threading.Event(), threading.Event()

    class Interrupted(RecordingWriter):
        def write(self, *values: Any) -> Any:
            at_work.set()
            assert go_on.wait(DEADLINE_S)
            return super().write(*values)

    twin.half("T1")
    twin.commit("T1")
    twin.kafka.faults.writes = [WriteFault.LEFT_OPEN]
    with running(twin, lambda _: twin.owner(writer=Interrupted(twin.kafka, twin.calls))) as worker:
        assert at_work.wait(DEADLINE_S)
        worker.stop()
        assert not worker.join(0.01), "it is still at work"
        go_on.set()
    assert worker.state().trouble is None
    assert worker.state().phase is PartitionPhase.STOPPED


def test_an_abandoned_worker_may_write_no_more() -> None:
    twin = Twin()
    questions: list[Callable[[], bool]] = []

    def make_owner(may_write: Callable[[], bool]) -> PartitionOwner:
        questions.append(may_write)
        return twin.owner()

    with running(twin, make_owner) as worker:
        until_working(worker)
        assert questions[0]()
        worker.abandon()
        assert not questions[0]()


@pytest.mark.interpreted("replaces a method")
def test_each_number_of_an_owner_is_shown_under_its_own_name() -> None:
    """They went through three tuples by position: a swap of two was type-correct and silent."""
    worker = PartitionWorker(7, lambda _: Twin().owner())
    names = [field.name for field in fields(OwnerNumbers)]
    owner = worker._owner = Twin().working_owner()
    owner.numbers = lambda: OwnerNumbers(**{name: n for n, name in enumerate(names, 1)})
    owner.checkback.numbers = CheckNumbers(
        due_count=21, checking_count=22, oldest_age_s=23.0, pending_by_group={"shop": 24}
    )
    shown = worker.state()
    assert {name: getattr(shown, name) for name in names} == {
        name: n for n, name in enumerate(names, 1)
    }
    assert (shown.due_count, shown.checking_count, shown.oldest_age_s) == (21, 22, 23.0)
    assert shown.pending_by_group == {"shop": 24}


class WaitsReader(RecordingReader):
    """Gives what is there at once, and remembers how long it was allowed to wait."""

    def __init__(self, twin: Twin) -> None:
        super().__init__(twin.kafka, twin.calls, partition=0)
        self.waits: list[float] = []

    def read(self, wait_s: float) -> Any:
        self.waits.append(wait_s)
        return super().read(0.001)


def test_a_partition_with_nothing_under_way_wakes_twice_a_second_and_no_oftener() -> None:
    """Ten turns a second for each partition were most of what an idle sidecar cost."""
    twin = Twin()
    reader = WaitsReader(twin)
    with running(twin, lambda _: twin.owner(reader=reader)) as worker:
        until(lambda: 0.5 in reader.waits, "a long wait")
        assert 0.1 in reader.waits
        twin.half("T1")
        until(lambda: worker.state().pending_count == 1, "the half")
        reader.waits.clear()
        until(lambda: len(reader.waits) > 50, "many turns")
        assert 0.5 not in reader.waits[1:], "what is pending may have to be asked about"
        twin.commit("T1")
        until(lambda: twin.values() == [b"value"], "the forward")
        reader.waits.clear()
        until(lambda: 0.5 in reader.waits, "a long wait again")
