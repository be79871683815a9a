"""From an accepted socket to an encrypted connection: who gets in, who makes room, what is left."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.doors.holding import Holding
from halfhitch.doors.tls import ServerTls
from halfhitch.doors.tls_listening import Patience, TlsListener
from harness.raw_http import DEADLINE_S, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from harness.certificates import Authority, Pair

HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"  # and nothing more


class Greeter(asyncio.Protocol):
    """Says who it is, and repeats what comes."""

    def __init__(self, greeting: bytes) -> None:
        self._greeting = greeting

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(self._greeting)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


@pytest.fixture(scope="session")
def pair(authority: Authority) -> Pair:
    return authority.issue("listening")


class Rig:
    """A listener and its clients."""

    def __init__(self, authority: Authority, pair: Pair) -> None:
        self.trusting = ssl.create_default_context(cafile=str(authority.certificate))
        self._pair = pair
        self.sockets: list[socket.socket] = []
        self.listeners: list[TlsListener] = []
        self.port = 0

    def listen(self, host: str = "127.0.0.1", port: int = 0, **patience: Any) -> TlsListener:
        listener = TlsListener(
            ServerTls(self._pair.files(), lambda: 0),
            lambda: Greeter(b"s"),
            plain=lambda: Greeter(b"p"),
            holding=Holding(),
            patience=Patience(**{"wait_s": 60.0, "count_max": 10, **patience}),
        )
        self.listeners.append(listener)
        self.port = listener.listen(host, port)
        return listener

    async def connect(self, said: bytes = b"") -> socket.socket:
        connected = socket.socket()
        self.sockets.append(connected)
        connected.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connected, ("127.0.0.1", self.port))
        await loop.sock_sendall(connected, said)
        return connected

    async def greeting(self, *, tls: bool = True) -> bytes:
        async with asyncio.timeout(DEADLINE_S):
            options = {"ssl": self.trusting, "server_hostname": "localhost"} if tls else {}
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, **options)
            if not tls:
                writer.write(b"x")
            said = await reader.readexactly(1)
            writer.transport.abort()
            return said


async def is_closed(connected: socket.socket) -> None:
    """Return once the listener has closed it; what it says before that is an alert."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(DEADLINE_S):
        with contextlib.suppress(ConnectionError):
            while await loop.sock_recv(connected, 100):
                pass


@pytest.fixture
async def rig(authority: Authority, pair: Pair) -> AsyncIterator[Rig]:
    """At the end no exception may have reached the event loop, and nothing be left open."""
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, found: failures.append(found))
    made = Rig(authority, pair)
    yield made
    for listener in made.listeners:
        listener.close()
        await listener.wait_closed()
        assert listener.opening_count == 0
    for connected in made.sockets:
        connected.close()
    assert failures == []


async def test_who_opens_with_a_handshake_gets_tls_and_who_does_not_gets_the_other(
    rig: Rig,
) -> None:
    rig.listen()
    assert await rig.greeting() == b"s"
    assert await rig.greeting(tls=False) == b"p"


async def test_a_client_that_trusts_somebody_else_is_told_in_the_log(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.listen()
    rig.trusting = ssl.create_default_context()

    def shake() -> None:  # asyncio's clients go away without a word
        with socket.create_connection(("127.0.0.1", rig.port), DEADLINE_S) as connected:
            rig.trusting.wrap_socket(connected, server_hostname="localhost")

    for _ in range(15):
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.to_thread(shake)
    await until(lambda: len(caplog.messages) == 10)
    assert "the client does not know the authority of http.tls_cert" in caplog.messages[0]


async def test_a_client_that_goes_away_in_the_middle_is_told_in_the_log(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.listen()
    (await rig.connect(HELLO)).close()
    await until(lambda: "it went away in the middle" in caplog.text)


async def test_who_says_nothing_makes_room_before_who_has_begun(rig: Rig) -> None:
    """A probe that comes into a crowd is answered, however often another one comes."""
    listener = rig.listen(count_max=2, makes_room=True)
    begun = [await rig.connect(HELLO) for _ in range(3)]
    silent = [await rig.connect() for _ in range(63)]
    await until(lambda: listener.opening_count == 66)
    assert await rig.greeting() == b"s"
    await is_closed(silent[0])
    crowd = [await rig.connect() for _ in range(70)]
    await is_closed(silent[-1])
    assert await rig.greeting() == b"s"
    loop = asyncio.get_running_loop()
    for connected in (*begun, crowd[-1]):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop.sock_recv(connected, 1), 0.05)


async def test_of_those_who_have_begun_the_oldest_makes_room(rig: Rig) -> None:
    listener = rig.listen(count_max=1, makes_room=True)
    begun = [await rig.connect(HELLO) for _ in range(65)]
    await until(lambda: listener.opening_count == 65 and not listener._waiting)
    assert await rig.greeting() == b"s"
    await is_closed(begun[0])


async def test_without_that_a_crowd_is_refused_and_runs_out_of_time(rig: Rig) -> None:
    listener = rig.listen(count_max=1, wait_s=2.0)
    crowd = [await rig.connect(HELLO if number % 2 else b"") for number in range(65)]
    await until(lambda: listener.opening_count == 65)
    await is_closed(await rig.connect())
    for connected in crowd:
        await is_closed(connected)
    await until(lambda: listener.opening_count == 0)
    assert await rig.greeting() == b"s"


async def test_closing_ends_handshakes_that_are_under_way(rig: Rig) -> None:
    listener = rig.listen()
    opening = [await rig.connect(HELLO), await rig.connect()]
    await until(lambda: listener.opening_count == 2)
    listener.close()
    await listener.wait_closed()
    for connected in opening:
        await is_closed(connected)


async def test_a_port_in_use_leaves_nothing_open(rig: Rig) -> None:
    rig.listen()
    with pytest.raises(OSError, match="in use"):
        rig.listen(port=rig.port)
