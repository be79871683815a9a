"""The loop in a thread: what is left at the block's end is cancelled and waited for."""

import asyncio
import threading

from halfhitch.testing.loops import loop_in_thread


def test_the_loop_runs_in_another_thread_until_the_end_of_the_block() -> None:
    async def thread() -> int:
        return threading.get_ident()

    with loop_in_thread() as loop:
        assert asyncio.run_coroutine_threadsafe(thread(), loop).result(60) != threading.get_ident()
        assert not loop.is_closed()
    assert loop.is_closed()


def test_a_task_that_is_left_may_end_in_order() -> None:
    ended: list[str] = []

    async def closes_slowly() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("closed")

    async def begun() -> asyncio.Task[None]:
        task = asyncio.create_task(closes_slowly())
        await asyncio.sleep(0)
        return task

    with loop_in_thread() as loop:
        task = asyncio.run_coroutine_threadsafe(begun(), loop).result(60)
    assert task.cancelled()
    assert ended == ["closed"]


def test_what_a_task_that_ends_begins_in_its_turn_is_waited_for_too() -> None:
    ended: list[str] = []
    later: list[asyncio.Task[None]] = []

    async def closing() -> None:
        await asyncio.sleep(0.01)
        ended.append("connection")

    async def leaves_its_closing_behind() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            later.append(asyncio.create_task(closing()))

    async def begun() -> asyncio.Task[None]:
        task = asyncio.create_task(leaves_its_closing_behind())
        await asyncio.sleep(0)
        return task

    with loop_in_thread() as loop:
        asyncio.run_coroutine_threadsafe(begun(), loop).result(60)
    assert ended == ["connection"]
    assert later[0].done()
