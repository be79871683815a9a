"""Who waits for a decision to be carried out, and how they learn of it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from halfhitch.core.model import (
    ConflictKind,
    ConflictRead,
    DoneMark,
    HalfOffset,
    OpOffset,
    TimestampMs,
)
from halfhitch.service.transactions.visibility import Visibility
from harness.twin import identity

T1, T2 = identity("T1"), identity("T2")


class Tail:
    """Notes what is to be followed."""

    def __init__(self) -> None:
        self.followed: list[tuple[int, int]] = []

    def follow(self, partition: int, from_op_offset: int) -> None:
        self.followed.append((partition, from_op_offset))


def made() -> tuple[Visibility, Tail]:
    tail = Tail()
    return Visibility(asyncio.get_running_loop(), tail), tail


def mark(which: object = T1, ending: int = 1) -> DoneMark:
    return DoneMark(which, ending, [HalfOffset(0)])  # type: ignore[arg-type]


async def from_a_thread(call: object, *values: object) -> None:
    thread = threading.Thread(target=call, args=values)  # type: ignore[arg-type]
    thread.start()
    await asyncio.to_thread(thread.join)


async def test_all_who_wait_for_a_transaction_hear_of_it_from_any_thread() -> None:
    visibility, _ = made()
    first = visibility.wait(0, T1, 5)
    second = visibility.wait(0, T1, 7)
    other = visibility.wait(0, T2, 6)
    await from_a_thread(visibility.done, 0, [mark(ending=3)])
    assert await asyncio.wait_for(first, 5) == 3
    assert await asyncio.wait_for(second, 5) == 3
    assert not other.done()
    assert visibility.is_waited_for(0), "somebody waits for the other one"
    visibility.give_up(0, T2, other)
    assert not visibility.is_waited_for(0)


async def test_partitions_and_groups_are_not_mixed_up() -> None:
    visibility, _ = made()
    waits = [visibility.wait(0, T1, 1), visibility.wait(1, T1, 1)]
    visibility.done(1, [mark()])
    assert await asyncio.wait_for(waits[1], 5) == 1
    assert not waits[0].done()
    visibility.done(0, [DoneMark((T1[0] + "x", T1[1]), 1, [])])  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert not waits[0].done()


async def test_news_that_nobody_waits_for_is_dropped() -> None:
    visibility, _ = made()
    visibility.done(0, [mark()])
    late = visibility.wait(0, T1, 5)
    visibility.done(0, [mark(T2)])
    await asyncio.sleep(0)
    assert not late.done()


async def test_whoever_gives_up_leaves_the_others_waiting() -> None:
    visibility, _ = made()
    future = visibility.wait(0, T1, 5)
    assert visibility.wait(0, T1, 5) is future
    visibility.give_up(0, T1, future)
    assert visibility.is_waited_for(0)
    visibility.done(0, [mark()])
    assert await asyncio.wait_for(future, 5) == 1
    assert not visibility.is_waited_for(0)
    visibility.give_up(0, T1, future)


async def test_one_who_was_told_does_not_count_as_one_who_came_later() -> None:
    """1. A waits. 2. The news comes. 3. B waits for the next mark. 4. A, told, gives up."""
    visibility, _ = made()
    told = visibility.wait(0, T1, 5)
    visibility.done(0, [mark()])
    later = visibility.wait(0, T1, 9)
    assert later is not told
    visibility.give_up(0, T1, told)
    visibility.done(0, [mark()])
    assert await asyncio.wait_for(later, 5) == 1


async def test_a_cancelled_future_is_passed_over() -> None:
    visibility, _ = made()
    gone, stays = visibility.wait(0, T1, 1), visibility.wait(0, T2, 1)
    gone.cancel()
    visibility.done(0, [mark(T1), mark(T2, 0)])
    assert await asyncio.wait_for(stays, 5) == 0


async def test_when_a_partition_goes_the_tail_reads_on_from_the_earliest_who_waits() -> None:
    visibility, tail = made()
    for partition, which, op_offset in ((0, T1, 8), (0, T2, 6), (1, T1, 3)):
        visibility.wait(partition, which, op_offset)
    await from_a_thread(visibility.lost, 0)
    await from_a_thread(visibility.lost, 2)
    await asyncio.sleep(0)
    assert tail.followed == [(0, 6)]


@pytest.mark.parametrize("op_offset", [0, 17])
async def test_whoever_waits_elsewhere_lets_the_op_log_tell(op_offset: int) -> None:
    visibility, tail = made()
    visibility.follow(3, op_offset)
    assert tail.followed == [(3, op_offset)]


async def test_of_two_decisions_in_one_record_one_may_have_named_other_messages() -> None:
    """The other one's `wait=visible` got 409 although its message was visible."""
    visibility, _ = made()
    where = (OpOffset(9), TimestampMs(0))
    visibility.read(0, [ConflictRead(*where, T1, ConflictKind.REUSED, OpOffset(5), ())])
    assert visibility.is_reused(0, 5, T1)
    assert not visibility.is_reused(0, 5, T2)
    assert not visibility.is_reused(1, 5, T1)
