"""Tasks take turns, and no exception of a handler keeps a place."""

import asyncio

import pytest

from halfhitch.client import aio_turns, turns
from halfhitch.client.aio_turns import Turns
from harness.strikes import strikes


async def _work(line, done=None, name=""):
    try:
        with await line.taken():
            if done is not None:
                done.append(name)
            await asyncio.sleep(0)
    finally:
        line.pass_on()


async def test_tasks_take_turns_in_the_order_of_coming(monkeypatch):
    monkeypatch.setattr(aio_turns, "LOOK_S", 1000.0)  # they are rung
    line, done = Turns(1), []
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for name in "abcd":
            group.create_task(_work(line, done, name))
    assert done == [*"abcd"]
    assert line.is_free


async def test_who_is_in_time_no_more_is_told():
    line = Turns(1)
    with await line.taken(), pytest.raises(TimeoutError):
        await line.taken(asyncio.get_running_loop().time() + 0.01)
    assert line.is_free


async def test_a_task_that_is_cancelled_while_it_waits_holds_up_nobody(monkeypatch):
    monkeypatch.setattr(aio_turns, "LOOK_S", 1000.0)
    line, done = Turns(1), []
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        tasks = [group.create_task(_work(line, done, name)) for name in "abc"]
        await asyncio.sleep(0)
        tasks[1].cancel()
    assert done == ["a", "c"]


async def test_nobody_rang_and_who_waits_looks_for_itself():
    line = Turns(1)
    place = await line.taken()
    waiting = asyncio.create_task(_work(line))
    await asyncio.sleep(0)
    del place
    async with asyncio.timeout(20):
        await waiting


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")  # struck before its await
async def test_no_step_of_taking_or_leaving_keeps_a_place():
    line = Turns(1)
    for strike in strikes(aio_turns, turns):
        with strike:
            await _work(line)
        assert line.is_free, strike.place
