"""Places of the asyncio producer, when a signal's handler raises anywhere in its code."""

import asyncio
import gc
import time
from contextlib import suppress

import pytest

from halfhitch.client import (
    AsyncTransactionProducer,
    aio_connections,
    aio_transactions,
    aio_turns,
    turns,
)
from halfhitch.client.address import parse_address
from halfhitch.client.aio_connections import ConnectionPool
from halfhitch.client.protocol import Response
from halfhitch.client.retries import TransportFailure
from harness.scripted_http import ScriptedServer
from harness.strikes import Exit, strikes


class Connection:
    """Always answers."""

    is_open = True

    async def exchange(self, request, ends_at_s):
        return Response(200, {}, b"", reusable=True)

    def abort(self):
        self.is_open = False


class Limits:
    """Of one call."""

    def __init__(self, left_s):
        self.ends_at_s = asyncio.get_running_loop().time() + left_s

    def try_ends_at_s(self, now_s):
        return self.ends_at_s


class Pool(ConnectionPool):
    """With one place."""

    def __init__(self):
        super().__init__(parse_address("http://127.0.0.1:9"), 1)

    async def _open(self, loop, ends_at_s):
        return Connection()

    async def ask(self, left_s=10):
        return await self.exchange(b"request", Limits(left_s))


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")  # struck before its await
async def test_an_exception_of_a_handler_lost_a_place_for_ever():
    pool = Pool()
    for strike in strikes(aio_connections, aio_turns, turns):
        with strike:
            await pool.ask()
        await pool.ask(0.2)


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")  # struck before its await
async def test_an_exception_of_a_handler_while_a_call_waits_keeps_no_place():
    pool = Pool()
    for strike in strikes(aio_connections, aio_turns, turns):
        all_in_use = pytest.raises(TransportFailure, match="all 1 connections")
        with pool._line.join(asyncio.Event()), strike, all_in_use:
            await pool.ask(0.002)
        await pool.ask(0.2)


async def test_a_call_that_is_cancelled_while_it_waits_leaves_the_line():
    pool = Pool()
    place = pool._line.join(asyncio.Event())
    waiting = [asyncio.create_task(pool.ask()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    del place
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(answer) for answer in answers] == [asyncio.CancelledError, Response, Response]
    assert pool._line.is_free


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::ResourceWarning")  # as struck
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("module", [aio_connections, aio_transactions, aio_turns])
def test_an_exit_anywhere_left_what_the_program_s_end_waited_for(module):
    """A connection that was no more idle and not yet in use: `close` waited until the sidecar ended
    it, 75 s later. Or the lock of a transaction, between the call that gives it back and its first
    step: the rollback of it waited for ever.
    """

    async def program(address):
        async with (
            asyncio.timeout(20),
            AsyncTransactionProducer("orders", address) as producer,
            producer.transaction() as tx,
        ):
            await tx.send("orders", b"1")
            try:
                await tx.send("orders", b"2")  # on the first one's connection
            finally:
                await tx.rollback()

    with ScriptedServer() as server:
        for strike in strikes(module, is_real=True, kind=Exit):
            began_s = time.monotonic()
            with strike, suppress(asyncio.CancelledError):
                asyncio.run(program(server.address))
            assert time.monotonic() - began_s < 10, strike.place
    gc.collect()
