"""What only the asyncio producer's checks have to do with: loops, tasks, and their cancellation."""

import asyncio
import gc
import logging
import subprocess
import sys

import pytest

from halfhitch.client import AsyncTransactionProducer, LocalTransactionState, checks
from harness.check_streams import ChecksDoor

COMMIT = LocalTransactionState.COMMIT
DEADLINE_S = 10


async def commit(check):
    return COMMIT


def ours():
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("halfhitch-check")]


async def test_nothing_is_left_after_close():
    with ChecksDoor() as door:
        producer = AsyncTransactionProducer("orders", door.address, check=commit)
        stream = await asyncio.to_thread(door.stream)
        for number in range(20):
            stream.check(f"t{number}")
        await asyncio.to_thread(door.until_ends, 20)
        await producer.close()
        assert ours() == []


async def test_a_producer_made_in_a_loop_answers_at_once():
    with ChecksDoor() as door:
        producer = AsyncTransactionProducer("orders", door.address, check=commit)
        (await asyncio.to_thread(door.stream)).check("t1")
        await asyncio.to_thread(door.until_ends, 1)
        await producer.close()


@pytest.mark.parametrize("by", ["block", "call", "start_checks"])
def test_a_producer_made_without_a_loop_answers_from_its_first_use_on(by):
    async def use():
        if by == "block":
            await producer.__aenter__()
        elif by == "call":
            await producer.view("h")
        else:
            await producer.start_checks()
        (await asyncio.to_thread(door.stream)).check("t1")
        await asyncio.to_thread(door.until_ends, 1)
        await producer.close()

    with ChecksDoor() as door:
        producer = AsyncTransactionProducer("orders", door.address, check=commit)
        assert door.streams == []
        asyncio.run(use())


def test_a_producer_that_was_never_used_is_closed_without_a_stream():
    with ChecksDoor() as door:
        producer = AsyncTransactionProducer("orders", door.address, check=commit)
        asyncio.run(producer.close())
        assert door.requests == []


def test_a_loop_that_ends_without_close_has_nothing_to_warn_of():
    # Warnings are errors: a transport that is still open when the loop ends would warn.
    async def forget():
        producer = AsyncTransactionProducer("orders", door.address, check=commit)
        (await asyncio.to_thread(door.stream)).check("t1")
        await asyncio.to_thread(door.until_ends, 1)
        async with asyncio.timeout(DEADLINE_S):
            while not producer._pool._idle:  # the answer to the check's end has come
                await asyncio.sleep(0.005)
        producer._pool._drop_idle()
        return producer

    with ChecksDoor() as door:
        producer = asyncio.run(forget())
        door.streams[0].until_over()
        asyncio.run(close_late(producer))
        gc.collect()


async def close_late(producer):
    await producer.close()


async def test_a_dropped_producer_ends_its_stream():
    with ChecksDoor() as door:
        producer = AsyncTransactionProducer("orders", door.address, check=commit)
        stream = await asyncio.to_thread(door.stream)
        del producer
        gc.collect()
        await asyncio.to_thread(stream.until_over)
        async with asyncio.timeout(DEADLINE_S):
            while ours():
                await asyncio.sleep(0.005)


async def test_a_check_that_was_cancelled_inside_is_unknown(caplog):
    async def cancelled(check):
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task

    with ChecksDoor() as door:
        async with AsyncTransactionProducer("orders", door.address, check=cancelled):
            (await asyncio.to_thread(door.stream)).check("t1")
            assert await asyncio.to_thread(door.until_ends, 1) == [("t1", "unknown")]


async def test_a_function_that_is_not_async_is_told_and_never_a_decision(caplog):
    with ChecksDoor() as door:
        async with AsyncTransactionProducer("orders", door.address, check=lambda check: COMMIT):
            (await asyncio.to_thread(door.stream)).check("t1")
            assert await asyncio.to_thread(door.until_ends, 1) == [("t1", "unknown")]
    (record,) = caplog.records
    assert "await" in str(record.exc_info[1])


async def test_a_check_that_outlasts_close_is_cancelled_and_nothing_is_sent(monkeypatch):
    monkeypatch.setattr(checks, "CLOSE_S", 0.1)
    seen = []

    async def endless(check):
        seen.append("asked")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return COMMIT

    with ChecksDoor() as door:
        async with AsyncTransactionProducer("orders", door.address, check=endless):
            (await asyncio.to_thread(door.stream)).check("t1")
            async with asyncio.timeout(DEADLINE_S):
                while not seen:
                    await asyncio.sleep(0.005)
        assert seen == ["asked", "cancelled"]
        assert ours() == []
        assert door.ends() == []


async def test_a_check_may_close_the_producer():
    closed = asyncio.Event()

    async def closes(check):
        await producer.close()
        closed.set()
        return COMMIT

    with ChecksDoor() as door:
        producer = AsyncTransactionProducer("orders", door.address, check=closes)
        (await asyncio.to_thread(door.stream)).check("t1")
        async with asyncio.timeout(DEADLINE_S):
            await closed.wait()
        async with asyncio.timeout(DEADLINE_S):
            while ours():
                await asyncio.sleep(0.005)


async def test_a_bug_of_ours_does_not_end_the_answers(monkeypatch, caplog):
    monkeypatch.setattr(checks, "PAUSE_S_MAX", 0.1)
    feed = checks.CheckStream.feed

    def failing(*args):
        monkeypatch.setattr(checks.CheckStream, "feed", feed)
        raise ZeroDivisionError

    monkeypatch.setattr(checks.CheckStream, "feed", failing)
    with caplog.at_level(logging.WARNING, "halfhitch.client"), ChecksDoor() as door:
        async with AsyncTransactionProducer("orders", door.address, check=commit):
            await asyncio.to_thread(door.stream)
            (await asyncio.to_thread(door.stream, 2)).check("t1")
            await asyncio.to_thread(door.until_ends, 1)
    assert [record.action for record in caplog.records] == ["check_stream_bug"]


async def test_a_blocked_loop_is_no_silence_of_the_sidecar(monkeypatch):
    monkeypatch.setattr(checks, "SILENCE_S", 0.3)
    monkeypatch.setattr(checks, "HEARTBEAT_S", 0.1)
    with ChecksDoor() as door:
        async with AsyncTransactionProducer("orders", door.address, check=commit):
            stream = await asyncio.to_thread(door.stream)
            await asyncio.to_thread(stream.until_beats, 1)
            stream.heartbeat()
            stream.check("t1")
            threads_gate(0.5)
            assert await asyncio.to_thread(door.until_ends, 1) == [("t1", "commit?source=check")]
            assert len(door.streams) == 1


def threads_gate(blocked_s):
    import threading

    threading.Event().wait(blocked_s)


def test_the_modules_of_checks_are_not_imported_without_one():
    code = (
        "import sys, asyncio; from halfhitch.client import AsyncTransactionProducer;"
        "asyncio.run(AsyncTransactionProducer('orders', 'http://127.0.0.1:9').close());"
        "print(sorted(name for name in sys.modules if name.endswith('checks')))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.strip() == "[]"
