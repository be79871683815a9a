"""Threads of one purpose's own: who hangs there keeps nobody else waiting, and few wait."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from halfhitch.errors import Overloaded, ShuttingDown
from halfhitch.threads import Threads

DEADLINE_S = 20


class Gate:
    """Calls that hang until they are let go."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.entered = threading.Semaphore(0)

    def pass_(self, number: int) -> int:
        self.entered.release()
        assert self.opened.wait(DEADLINE_S)
        return number

    async def until_entered(self) -> None:
        assert await asyncio.get_running_loop().run_in_executor(
            None, lambda: self.entered.acquire(timeout=DEADLINE_S)
        )


async def test_a_call_gives_its_result_or_its_error() -> None:
    threads = Threads("add", 1, calls_max=2)
    assert await threads.call(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await threads.call(divmod, 7, 0)
    assert threads.calls_count == 0
    threads.stop()


async def test_calls_that_hang_take_no_thread_of_others_and_few_may_wait() -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    gate, threads = Gate(), Threads("look for topics", 2, calls_max=4)
    calls = [asyncio.create_task(threads.call(gate.pass_, number)) for number in range(4)]
    await gate.until_entered()
    await gate.until_entered()
    with pytest.raises(Overloaded, match="4 requests wait already to look for topics"):
        await threads.call(gate.pass_, 5)
    assert await asyncio.wait_for(asyncio.to_thread(int), DEADLINE_S) == 0
    gate.opened.set()
    assert await asyncio.gather(*calls) == [0, 1, 2, 3]
    assert threads.calls_count == 0
    assert await threads.call(int) == 0
    threads.stop()


async def test_who_waits_no_longer_gives_his_place_back() -> None:
    gate, threads = Gate(), Threads("look", 1, calls_max=2)
    first = asyncio.create_task(threads.call(gate.pass_, 1))
    await gate.until_entered()
    second = asyncio.create_task(threads.call(gate.pass_, 2))
    await asyncio.sleep(0)
    assert threads.calls_count == 2
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert threads.calls_count == 1
    gate.opened.set()
    assert await first == 1
    threads.stop()


async def test_after_the_stop_nothing_is_done_and_what_waited_is_cancelled() -> None:
    gate, threads = Gate(), Threads("look", 1, calls_max=2)
    calls = [asyncio.create_task(threads.call(gate.pass_, number)) for number in range(2)]
    await gate.until_entered()
    threads.stop()
    with pytest.raises(ShuttingDown):
        await threads.call(int)
    gate.opened.set()
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert found[0] == 0
    assert isinstance(found[1], asyncio.CancelledError)
