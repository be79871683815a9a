"""From threads to the loop: in order, in bounded turns, with one wake-up for a burst."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from halfhitch.service.checking.loop_queue import LoopQueue
from harness.desks import turn


class CountingLoop:
    """The running loop, and how often it was woken from outside."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.woken_count = 0

    def call_soon(self, action) -> None:
        self._loop.call_soon(action)

    def call_soon_threadsafe(self, action) -> None:
        self.woken_count += 1
        self._loop.call_soon_threadsafe(action)


async def test_a_burst_wakes_the_loop_once_and_is_done_in_order_in_bounded_turns() -> None:
    loop = CountingLoop()
    queue = LoopQueue(loop)  # type: ignore[arg-type]
    done: list[int] = []
    for number in range(0, 1_000, 10):
        assert queue.put([partial(done.append, number + i) for i in range(10)])
    assert (done, loop.woken_count) == ([], 1)
    sizes = []
    while len(done) < 1_000:
        before = len(done)
        await turn(1)
        sizes.append(len(done) - before)
    assert done == list(range(1_000))
    assert max(sizes) <= 256
    assert loop.woken_count == 1
    queue.put([partial(done.append, 1_000)])
    await turn(1)
    assert (done[-1], loop.woken_count) == (1_000, 2)


async def test_an_action_that_fails_does_not_stop_those_behind_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = LoopQueue(asyncio.get_running_loop())
    done: list[int] = []
    queue.put([lambda: 1 // 0, partial(done.append, 1)])
    await turn(1)
    assert done == [1]
    assert "please report this" in caplog.text


async def test_a_closed_loop_is_said_to_be_so() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    queue = LoopQueue(loop)
    assert not queue.put([lambda: None])
    queue.drain_all()
