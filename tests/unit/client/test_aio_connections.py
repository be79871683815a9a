"""Places of the asyncio producer, when a signal's handler raises anywhere in its code."""

import asyncio

import pytest

from halfhitch.client import aio_connections, turns
from halfhitch.client.address import parse_address
from halfhitch.client.aio_connections import ConnectionPool
from halfhitch.client.protocol import Response
from halfhitch.client.retries import TransportFailure
from harness.strikes import strikes


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
    for strike in strikes(aio_connections, turns):
        with strike:
            await pool.ask()
        await pool.ask(0.2)


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")  # struck before its await
async def test_an_exception_of_a_handler_while_a_call_waits_keeps_no_place():
    pool = Pool()
    for strike in strikes(aio_connections, turns):
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
