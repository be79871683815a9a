"""What strangers may take from the admin door: whoever holds it open must not fail the probes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.doors.admin import AdminDoor
from halfhitch.doors.admin.door import ADMIN_LIMITS
from halfhitch.doors.http import HttpDoor
from halfhitch.observability.metrics import Metrics
from harness.admin_door import QuietSystem
from harness.defaults import http_limits
from harness.fake_operations import FakeOperations
from harness.fake_transactions import FakeTransactions
from harness.identities import access_with
from harness.raw_http import DEADLINE_S, Answer, Client, raw_half, request, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.timeout(120)
#: Generous for a machine that others use too; without the bounds it is for ever.
PROBE_S = 5.0
CROWD = 520
TOKEN = "t" * 16


class SlowOperations(FakeOperations):
    """Works on a question until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()
        self.asked_count = 0

    async def parked(self, wanted: Any) -> Any:
        self.asked_count += 1
        await self.may_answer.wait()
        return await super().parked(wanted)


class Stage:
    """Admin doors, and connections to the last one that are closed at the end."""

    def __init__(self, closing: contextlib.AsyncExitStack) -> None:
        self._closing = closing

    async def open(self, **options: Any) -> AdminDoor:
        self.door = AdminDoor(
            QuietSystem(), Metrics(), (), "127.0.0.1", 0, access=access_with(TOKEN), **options
        )
        await self.door.start()
        self._closing.push_async_callback(self.door.stop)
        return self.door

    async def client(self) -> Client:
        client = await Client.tcp(self.door.port)
        self._closing.push_async_callback(client.close)
        return client

    async def crowd(self, count: int, words: bytes) -> list[Client]:
        crowd = []
        for _ in range(count):
            client = await self.client()
            client.writer.write(words)
            crowd.append(client)
        return crowd

    async def asked(self, path: str) -> Answer:
        return await (await self.client()).ask(request("GET", path, [("Half-Token", TOKEN)]))

    async def probe(self, path: str = "/livez") -> int:
        """As a kubelet does it: a connection of its own, no token, and little patience."""
        client = await self.client()
        async with asyncio.timeout(PROBE_S):
            return (await client.ask(request("GET", path))).status


@pytest.fixture
async def bare() -> AsyncIterator[Stage]:
    async with contextlib.AsyncExitStack() as closing:
        yield Stage(closing)


@pytest.fixture
async def stage(bare: Stage) -> Stage:
    """With a door as it is shipped."""
    await bare.open()
    return bare


@pytest.mark.parametrize(
    "words",
    [
        b"",
        b"GET /li",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n",
        b"GET /v1/status HTTP/1.1\r\n",
    ],
    ids=["nothing", "half a line", "half a head", "half of what needs a token"],
)
async def test_a_crowd_that_holds_connections_open_keeps_no_probe_out(
    stage: Stage, words: bytes
) -> None:
    """They were all 503, for as long as the crowd liked: Kubernetes restarted the pod."""
    crowd = await stage.crowd(CROWD, words)
    for _ in range(5):
        assert await stage.probe() == 204
        assert await stage.probe("/readyz") == 204
    # Who came first goes first: it has had the most time.
    async with asyncio.timeout(DEADLINE_S):
        with contextlib.suppress(ConnectionResetError):
            assert await crowd[0].reader.read() == b""


async def test_a_crowd_that_comes_back_at_once_keeps_no_probe_out(stage: Stage) -> None:
    await stage.crowd(CROWD, b"GET /li")

    async def come_back() -> None:
        while True:
            await stage.crowd(1, b"GET /li")

    coming = [asyncio.create_task(come_back()) for _ in range(8)]
    answers = [await stage.probe() for _ in range(20)]
    for task in coming:
        task.cancel()
    await asyncio.gather(*coming, return_exceptions=True)
    assert answers == [204] * 20


async def test_requests_at_work_keep_no_probe_out(bare: Stage) -> None:
    operations = SlowOperations()
    await bare.open(operations=operations)
    waiting = [asyncio.create_task(bare.asked("/v1/parked")) for _ in range(64)]
    await until(lambda: operations.asked_count == 64)
    refused = await bare.asked("/v1/parked")
    assert (refused.status, refused.code) == (429, "overloaded")
    assert refused.header("retry-after") == "1"
    await bare.crowd(CROWD, b"GET /li")
    assert await bare.probe() == 204
    assert await bare.probe("/readyz") == 204
    operations.may_answer.set()
    # Nobody whose request was being worked on was sent away for the crowd.
    assert [(await answer).status for answer in waiting] == [200] * 64
    assert operations.asked_count == 64


async def test_a_request_that_does_not_arrive_in_time_is_given_up(bare: Stage) -> None:
    await bare.open(limits=replace(ADMIN_LIMITS, receive_s=0.1))
    token = f"Half-Token: {TOKEN}\r\n".encode()
    post = b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\n" + token + b"Content-Length: 9\r\n\r\nhalf"
    for words in (b"GET /li", post):
        (client,) = await bare.crowd(1, words)
        answer = await client.answer()
        assert (answer.status, answer.code) == (408, "request_too_slow")
        await client.ended()


@pytest.mark.parametrize(
    ("token", "status"), [(b"", 401), (f"Half-Token: {TOKEN}\r\n".encode(), 413)]
)
async def test_a_body_is_refused_by_its_head(stage: Stage, token: bytes, status: int) -> None:
    """A stranger's, whatever its size; one that is too large, whosever it is."""
    client = await stage.client()
    head = b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\n" + token + b"Content-Length: 20000\r\n\r\n"
    client.writer.write(head)
    assert (await client.answer()).status == status


@pytest.mark.parametrize(
    "endless", [b"A: ", b"", b"A: b\r\n" * 100_000], ids=["value", "name", "100,000 headers"]
)
async def test_a_head_that_does_not_end_is_refused_at_its_bound(
    stage: Stage, endless: bytes
) -> None:
    """One such header took 280 MB, and the data door did not answer for 20 s meanwhile."""
    client = await stage.client()
    client.writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + endless + b"x" * 2_000_000)
    async with asyncio.timeout(DEADLINE_S):
        answer = await client.answer()
    assert (answer.status, answer.code) == (431, "headers_too_large")


async def test_the_data_door_answers_while_the_admin_door_is_flooded(stage: Stage) -> None:
    data = HttpDoor(FakeTransactions(), port=0, access=access_with(), limits=http_limits())
    await data.start()
    client = await Client.tcp(data.port or 0)

    async def flood() -> None:
        while True:
            hostile = await stage.client()
            hostile.writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nA: ")
            with contextlib.suppress(OSError):
                while True:
                    await hostile.send(b"x" * 1_000_000)

    flooding = asyncio.create_task(flood())
    slowest_s = 0.0
    for _ in range(100):
        began_s = time.monotonic()
        assert (await client.ask(raw_half())).status == 201
        slowest_s = max(slowest_s, time.monotonic() - began_s)
        await asyncio.sleep(0.01)
    flooding.cancel()
    await asyncio.gather(flooding, return_exceptions=True)
    await client.close()
    await data.stop(drain_s=0)
    print(f"slowest answer {slowest_s * 1000:.0f} ms")
    assert slowest_s < 10.0, "it has to come at all, while the flood goes on"
