"""Following the op log, and looking a transaction up in it, without owning the partition."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters.kafka import op_tail
from halfhitch.adapters.kafka.log_ends import LogEnds
from halfhitch.adapters.kafka.op_tail import KafkaInquiry, KafkaOpTail
from halfhitch.core.model import COPIED, DoneRead, Resolution, ResolutionSource
from halfhitch.errors import KafkaUnavailable, TransactionGone
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import HalfRecord, copied_headers, system_headers
from harness.kafka import wait_until
from harness.twin import GROUP, INSTANCE, identity
from harness.worlds import KafkaWorld

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from halfhitch.core.model import Identity
    from halfhitch.wire.op import OpRead

pytestmark = pytest.mark.kafka

DEADLINE_S = 15.0
C, R = Resolution.COMMIT, Resolution.ROLLBACK


@pytest.fixture
def world(kafka: Any) -> Iterator[KafkaWorld]:
    made = KafkaWorld(kafka.bootstrap)
    yield made
    made.close()


def done(world: KafkaWorld, *names: str, ending: int = 1, partition: int = 0) -> None:
    """One op record for each done mark."""
    for name in names:
        entry = op_wire.DoneEntry(GROUP, name, ending, 0)
        value, headers = op_wire.write(op_wire.TAG_DONE, [entry], [])
        world.put(world.op_topic, [value], partition=partition, headers=headers)


def decided(world: KafkaWorld, name: str, resolution: Resolution, partition: int = 0) -> None:
    entry = op_wire.DecisionEntry(GROUP, name, 1, 0, ResolutionSource.PRODUCER)
    value, headers = op_wire.write(op_wire.tag_of(resolution), [entry], [])
    world.put(world.op_topic, [value], partition=partition, headers=headers)


def half(world: KafkaWorld, name: str, partition: int = 0) -> None:
    headers = system_headers(HalfRecord(name, GROUP, 0, 0, INSTANCE, "orders"))
    world.put(world.half_topic, [b"v"], partition=partition, headers=headers)


# -- the tail ------------------------------------------------------------------------------------


class Waiting:
    """Stands for transactions.visibility.Visibility: somebody waits until told otherwise."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str, int]] = []
        self.waits = True

    def is_waited_for(self, partition: int) -> bool:
        return self.waits

    def read(self, partition: int, events: Sequence[OpRead]) -> None:
        self.told += [
            (partition, event.identity[1], event.ending)
            for event in events
            if isinstance(event, DoneRead) and event.ending != COPIED
        ]

    def until_told(self, *names: str) -> None:
        wait_until(
            lambda: set(names) <= {name for _, name, _ in self.told},
            DEADLINE_S,
            what=lambda: f"{names} are told; so far: {self.told}",
        )


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


@pytest.fixture
def tail(world: KafkaWorld, waiting: Waiting) -> Iterator[KafkaOpTail]:
    made = KafkaOpTail(world._consumer, op_topic=world.op_topic)
    made.attach(waiting)  # type: ignore[arg-type]
    yield made
    made.stop(DEADLINE_S)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "op-tail"]


def test_done_marks_are_told_from_the_asked_offset_on(
    world: KafkaWorld, tail: KafkaOpTail, waiting: Waiting
) -> None:
    done(world, "before", "there")
    tail.follow(0, 1)
    waiting.until_told("there")
    done(world, "committed", ending=3)
    done(world, "rolled-back", ending=0)
    decided(world, "undecided", C)
    done(world, "elsewhere", partition=1)
    done(world, "last")
    waiting.until_told("last")
    assert waiting.told == [
        (0, "there", 1),
        (0, "committed", 3),
        (0, "rolled-back", 0),
        (0, "last", 1),
    ]


def test_several_partitions_are_followed_by_one_thread(
    world: KafkaWorld, tail: KafkaOpTail, waiting: Waiting
) -> None:
    done(world, "zero")
    done(world, "one", partition=1)
    tail.follow(0, 0)
    tail.follow(1, 0)
    waiting.until_told("zero", "one")
    assert len(threads()) == 1


def test_a_mark_in_an_aborted_kafka_transaction_is_not_told(
    world: KafkaWorld, tail: KafkaOpTail, waiting: Waiting
) -> None:
    entry = op_wire.DoneEntry(GROUP, "aborted", 1, 0)
    value, headers = op_wire.write(op_wire.TAG_DONE, [entry], [])
    world.unfinished(world.op_topic, [value], headers=headers).abort()
    done(world, "after")
    tail.follow(0, 0)
    waiting.until_told("after")
    assert waiting.told == [(0, "after", 1)]


def test_an_earlier_offset_may_be_asked_for_at_any_moment(
    world: KafkaWorld, tail: KafkaOpTail, waiting: Waiting
) -> None:
    """Also in the very moment in which the partition has only just been assigned."""
    done(world, *[f"T{n}" for n in range(6)])
    for first_offset in (5, 4, 3):
        tail.follow(0, first_offset)
        wait_until(lambda: not tail._asked, DEADLINE_S, interval_s=0.0005)
    waiting.until_told("T3", "T4", "T5")
    tail.follow(0, 1)
    waiting.until_told("T1", "T2")
    assert "T0" not in {name for _, name, _ in waiting.told}
    done(world, "later")
    waiting.until_told("later")


def test_an_offset_below_the_start_of_the_log_does_not_end_the_following(
    world: KafkaWorld, tail: KafkaOpTail, waiting: Waiting
) -> None:
    done(world, *[f"T{n}" for n in range(6)])
    world.writer().delete_below(0, 4)
    tail.follow(0, 0)
    waiting.until_told("T4", "T5")
    done(world, "later")
    tail.follow(0, 6)
    waiting.until_told("later")


def test_when_nobody_waits_any_more_the_thread_ends_and_comes_back_when_asked(
    world: KafkaWorld,
    tail: KafkaOpTail,
    waiting: Waiting,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(op_tail, "_LINGER_S", 0.2)
    done(world, "first")
    tail.follow(0, 0)
    waiting.until_told("first")
    waiting.waits = False
    wait_until(lambda: not threads(), DEADLINE_S, what="the thread ends")
    waiting.waits = True
    done(world, "second")
    tail.follow(0, 1)
    waiting.until_told("second")
    assert waiting.told == [(0, "first", 1), (0, "second", 1)]


def test_after_a_failure_the_next_who_asks_is_served(
    world: KafkaWorld, waiting: Waiting, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [RuntimeError("a bug")]

    def consumer() -> Any:
        if failures:
            raise failures.pop()
        return world._consumer()

    tail = KafkaOpTail(consumer, op_topic=world.op_topic)
    tail.attach(waiting)  # type: ignore[arg-type]
    done(world, "first")
    tail.follow(0, 0)
    wait_until(lambda: not threads(), DEADLINE_S, what="the thread ends")
    tail.follow(0, 0)
    waiting.until_told("first")
    tail.stop(DEADLINE_S)
    assert "cannot be followed" in caplog.text


# -- looking up ----------------------------------------------------------------------------------


def inquiry(world: KafkaWorld) -> KafkaInquiry:
    return KafkaInquiry(
        world._consumer,
        LogEnds(world._admin),
        half_topic=world.half_topic,
        op_topic=world.op_topic,
    )


async def found(
    world: KafkaWorld, which: Identity, half_offset: int
) -> tuple[Resolution | None, bool]:
    return await inquiry(world).look_up(0, which, half_offset)


async def test_a_transaction_is_looked_up_from_its_first_half_on(world: KafkaWorld) -> None:
    for name in ("pending", "committed", "carried-out", "rolled-back"):
        half(world, name)
    assert await found(world, identity("pending"), 0) == (None, False)
    decided(world, "committed", C)
    decided(world, "carried-out", C)
    decided(world, "rolled-back", R)
    done(world, "carried-out", ending=1)
    done(world, "rolled-back", ending=0)
    assert await found(world, identity("pending"), 0) == (None, False)
    assert await found(world, identity("committed"), 1) == (C, False)
    assert await found(world, identity("carried-out"), 2) == (C, True)
    assert await found(world, identity("rolled-back"), 3) == (R, True)


async def test_a_decision_that_lies_before_its_half_is_found_too(world: KafkaWorld) -> None:
    decided(world, "T1", R)
    half(world, "T1")
    assert await found(world, identity("T1"), 0) == (R, False)


async def test_of_contrary_decisions_the_first_counts(world: KafkaWorld) -> None:
    half(world, "T1")
    decided(world, "T1", R)
    decided(world, "T1", C)
    assert await found(world, identity("T1"), 0) == (R, False)
    done(world, "T1", ending=0)
    assert await found(world, identity("T1"), 0) == (R, True)


async def test_a_decision_behind_the_giving_up_passed_for_the_first(world: KafkaWorld) -> None:
    """Whoever ended what had been given up, while its half partition was taken over, was told 200:
    his own decision was the last in the log.
    """
    half(world, "T1")
    decided(world, "T1", Resolution.PARK)
    decided(world, "T1", C)
    assert await found(world, identity("T1"), 0) == (Resolution.PARK, False)
    done(world, "T1", ending=-2)
    decided(world, "T1", R)
    assert await found(world, identity("T1"), 0) == (Resolution.PARK, False)
    value, headers = op_wire.write_note(
        identity("T1"), action="resume", operator="ann", reason="mended"
    )
    world.put(world.op_topic, [value], headers=headers)
    # As what it was put back its halves say, and its done mark will.
    assert await found(world, identity("T1"), 0) == (None, False)
    done(world, "T1", ending=1)
    assert await found(world, identity("T1"), 0) == (C, True)


async def test_of_a_trimmed_one_the_copy_tells_that_says_how_it_was_decided(
    world: KafkaWorld,
) -> None:
    """A repeated prepare lay before the copy that was appended while its target was away; the
    decision lay before what is read, so a contrary one passed for the first.
    """
    half(world, "T1")
    half(world, "T1")
    headers = system_headers(HalfRecord("T1", GROUP, 0, 0, INSTANCE, "orders"))
    renewed = copied_headers(headers, 0, check_count=0, stored_ms=1, decision=(C, 1))
    world.put(world.half_topic, [b"v"], headers=renewed)
    world.writer().delete_below(1, 0)
    decided(world, "T1", R)
    assert await found(world, identity("T1"), 0) == (C, False)


async def test_what_was_trimmed_before_a_held_log_could_be_read_was_told_to_be_gone(
    world: KafkaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("T0", "T1"):
        half(world, name)
    stranger = world.unfinished(world.op_topic, [b"x"])
    decided(world, "T0", C)
    done(world, "T0", ending=1)
    world.writer().delete_below(1, 0)
    monkeypatch.setattr(op_tail, "_LOOK_UP_S", 2.0)
    with pytest.raises(KafkaUnavailable, match="a Kafka transaction is open"):
        await found(world, identity("T0"), 0)
    stranger.abort()
    monkeypatch.undo()
    assert await found(world, identity("T0"), 0) == (C, True)


async def test_a_half_that_is_not_there_any_more_or_not_its_own_is_gone(
    world: KafkaWorld,
) -> None:
    for name in ("T0", "T1", "T2"):
        half(world, name)
    world.writer().delete_below(1, 0)
    decided(world, "T0", C)
    for which, half_offset in (("T0", 0), ("T0", 1), ("T9", 3), ("T9", 99)):
        with pytest.raises(TransactionGone):
            await found(world, identity(which), half_offset)
    assert await found(world, identity("T1"), 1) == (None, False)


async def test_where_a_strangers_kafka_transaction_hides_all_that_was_decided_nothing_is_said(
    world: KafkaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka finds no record since then that could be read, which passed for "nothing is there": the
    contrary of a commit was told that it counts.
    """
    monkeypatch.setattr(op_tail, "_LOOK_UP_S", 3.0)
    half(world, "T1")
    stranger = world.unfinished(world.op_topic, [b"x"])
    decided(world, "T1", C)
    asked = inquiry(world)
    with pytest.raises(KafkaUnavailable, match="a Kafka transaction is open"):
        await asked.look_up(0, identity("T1"), 0)
    stranger.abort()
    monkeypatch.undo()
    assert await asked.look_up(0, identity("T1"), 0) == (C, False)


async def test_what_ended_a_moment_ago_was_gone_as_soon_as_its_half_was_trimmed(
    world: KafkaWorld,
) -> None:
    """Whoever repeated an end in a takeover was told that it had ended long ago."""
    for name in ("T0", "T1"):
        half(world, name)
        decided(world, name, C)
        done(world, name, ending=1)
    decided(world, "T0", R)
    world.writer().delete_below(1, 0)
    assert await found(world, identity("T0"), 0) == (C, True)


async def test_many_are_looked_up_by_one_reading_as_each_would_be_alone(world: KafkaWorld) -> None:
    names = ("gone", "pending", "committed", "carried-out", "contrary", "parked")
    for name in names:
        half(world, name)
    decided(world, "committed", C)
    decided(world, "carried-out", C)
    done(world, "carried-out", ending=1)
    decided(world, "contrary", R)
    decided(world, "contrary", C)
    world.writer().delete_below(1, 0)
    half_offsets = {identity(name): place for place, name in enumerate(names)}
    half_offsets[identity("never")] = 99
    told = await inquiry(world).look_up_many(0, half_offsets, 2**50)
    assert {name: each for (_, name), each in told.items() if isinstance(each, tuple)} == {
        "pending": (None, False), "parked": (None, False), "committed": (C, False),
        "carried-out": (C, True), "contrary": (R, False),
    }  # fmt: skip
    for name in ("gone", "never"):
        assert isinstance(told[identity(name)], TransactionGone)


async def test_a_decision_that_was_carried_out_and_trimmed_at_once_passed_for_none(
    world: KafkaWorld,
) -> None:
    """While thousands are decided, the owner trims the first of them before their answer."""
    seen_ms = time.time_ns() // 1_000_000
    for name in ("mine", "theirs", "undone"):
        half(world, name)
        decided(world, name, R)
    done(world, "mine", ending=0)
    done(world, "theirs", ending=1)
    world.writer().delete_below(3, 0)
    names = {identity(name): place for place, name in enumerate(("mine", "theirs", "undone"))}
    told = await inquiry(world).look_up_many(0, names, seen_ms)
    assert (told[identity("mine")], told[identity("theirs")]) == ((R, True), (C, True))
    assert isinstance(told[identity("undone")], TransactionGone)


async def test_those_who_only_looked_kept_whoever_ended_something_waiting(
    world: KafkaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reading of a log that is held takes its thread for ten seconds."""
    asked, may_end = inquiry(world), threading.Event()

    def look_up(_: int, half_offsets: dict[Identity, int], *__: object) -> dict[Identity, Any]:
        assert identity("viewed") not in half_offsets or may_end.wait(DEADLINE_S)
        return dict.fromkeys(half_offsets, (C, False))

    monkeypatch.setattr(asked, "_look_up", look_up)
    views = [asyncio.create_task(asked.look_up(0, identity("viewed"), 0)) for _ in range(10)]
    await asyncio.sleep(0)  # they come first
    async with asyncio.timeout(DEADLINE_S / 2):
        told = await asked.look_up_many(0, {identity("T1"): 0})
    assert told == {identity("T1"): (C, False)}
    may_end.set()
    assert await asyncio.gather(*views) == [(C, False)] * 10
    asked.stop()
