"""From an accepted socket to an encrypted connection: who gets in, who makes room, what is left."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.doors.tls import ServerTls
from halfhitch.doors.tls_listening import Patience, TlsListener
from harness.certificates import LONG_AGO
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

    def listen(
        self, host: str = "127.0.0.1", port: int = 0, files: Any = None, **patience: Any
    ) -> TlsListener:
        listener = TlsListener(
            ServerTls(self._pair.files(**(files or {})), lambda: 0),
            lambda: Greeter(b"s"),
            plain=lambda: Greeter(b"p"),
            patience=Patience(**{"wait_s": 60.0, "count_max": 10, **patience}),
        )
        self.listeners.append(listener)
        self.port = listener.listen(host, port)
        return listener

    async def connect(self, said: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
        connected = socket.socket()
        self.sockets.append(connected)
        connected.setblocking(False)
        connected.bind((source, 0))
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connected, ("127.0.0.1", self.port))
        await loop.sock_sendall(connected, said)
        return connected

    async def greeting(self, *, tls: bool = True) -> bytes:
        async with asyncio.timeout(DEADLINE_S):
            options = {"ssl": self.trusting, "server_hostname": "localhost"} if tls else {}
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, **options)
            try:
                if not tls:
                    writer.write(b"x")
                return await reader.readexactly(1)
            finally:
                writer.transport.abort()


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


async def is_open(connected: socket.socket) -> bool:
    """Whether the listener has said nothing yet, not even goodbye."""
    loop = asyncio.get_running_loop()
    try:
        await asyncio.wait_for(loop.sock_recv(connected, 1), 0.05)
    except TimeoutError:
        return True
    except ConnectionError:
        pass
    return False


async def test_who_says_nothing_makes_room_before_who_has_begun(rig: Rig) -> None:
    listener = rig.listen(count_max=16)
    begun = [await rig.connect(HELLO) for _ in range(2)]
    await until(lambda: len(listener._shaking) == 2)
    silent = [await rig.connect() for _ in range(6)]
    await until(lambda: listener.opening_count == 8)
    assert await rig.greeting() == b"s"
    await is_closed(silent[0])
    crowd = [await rig.connect() for _ in range(20)]
    await is_closed(silent[-1])
    assert await rig.greeting() == b"s"
    for connected in (*begun, crowd[-1]):
        assert await is_open(connected)
    assert listener.opening_count <= 8


async def test_where_all_have_begun_the_oldest_of_them_goes_and_not_who_has_just_come(
    rig: Rig,
) -> None:
    """A newcomer says nothing for a moment: it was the first to make room for the next one."""
    listener = rig.listen(count_max=16)
    begun = [await rig.connect(HELLO) for _ in range(8)]
    await until(lambda: len(listener._shaking) == 8)
    newcomer = await rig.connect()
    await is_closed(begun[0])
    another = await rig.connect()
    await is_closed(begun[1])
    assert await is_open(newcomer)
    assert await is_open(another)
    assert await rig.greeting() == b"s"


async def test_many_that_make_room_at_once_do_not_take_each_others_numbers(rig: Rig) -> None:
    """A socket was closed under its transport, and its number was the next connection's."""
    listener = rig.listen(count_max=80)
    crowd = [await rig.connect(HELLO) for _ in range(40)]
    await until(lambda: len(listener._shaking) == 40)
    greetings = await asyncio.gather(*(rig.greeting() for _ in range(8)))
    assert greetings == [b"s"] * 8
    for connected in crowd[:8]:
        await is_closed(connected)


@pytest.mark.parametrize("said", [b"", HELLO], ids=["silent", "begun"])
async def test_one_address_has_half_of_the_handshakes_and_pushes_out_its_own(
    rig: Rig, said: bytes
) -> None:
    listener = rig.listen(count_max=8)
    others = [await rig.connect(said, "127.0.0.2") for _ in range(3)]
    await until(lambda: listener.opening_count == 3)
    crowd = [await rig.connect(said, "127.0.0.3") for _ in range(12)]
    for connected in crowd[:8]:
        await is_closed(connected)
    for connected in (*others, *crowd[8:]):
        assert await is_open(connected)
    assert await rig.greeting() == b"s"


async def test_two_addresses_that_hold_all_handshakes_keep_nobody_out(rig: Rig) -> None:
    """Theirs counted among the door's connections: everybody else was closed without a word."""
    listener = rig.listen(count_max=8)
    for number in range(8):
        await rig.connect(source=f"127.0.0.{2 + number % 2}")
    await until(lambda: listener.opening_count == 8)
    for _ in range(3):
        assert await rig.greeting() == b"s"
    assert await rig.greeting(tls=False) == b"p"


async def test_who_does_not_get_on_with_it_runs_out_of_time(rig: Rig) -> None:
    listener = rig.listen(count_max=16, wait_s=2.0)
    crowd = [await rig.connect(HELLO if number % 2 else b"") for number in range(8)]
    for connected in crowd:
        await is_closed(connected)
    await until(lambda: listener.opening_count == 0)
    assert await rig.greeting() == b"s"


class NoMoreFiles:
    """A listening socket where there are no files left."""

    def accept(self) -> Any:
        raise OSError(24, "Too many open files")

    def fileno(self) -> int:
        return 0


async def test_that_no_connection_can_be_accepted_was_a_line_for_each_try(
    rig: Rig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = rig.listen()
    monkeypatch.setattr(listener._loop, "remove_reader", lambda _: True, raising=False)
    bare: Any = NoMoreFiles()
    for _ in range(30):
        listener._accept(bare)
    monkeypatch.undo()
    told = [line for line in caplog.messages if "cannot accept connections" in line]
    assert len(told) == 10


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


@pytest.mark.parametrize(
    ("name", "issued", "said"),
    [
        ("over", {"use": "client", "valid": LONG_AGO}, "has expired: it needs a new one"),
        (
            "early",
            {"use": "client", "valid": ("20900101000000Z", "20910101000000Z")},
            "not yet valid: it is used too early",
        ),
        ("for-servers", {"use": "server"}, "clientAuth"),
    ],
)
async def test_what_is_wrong_with_a_clients_certificate_is_told_as_what_it_is(
    rig: Rig,
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
    name: str,
    issued: dict[str, Any],
    said: str,
) -> None:
    """It was said not to come from the right authority, whatever was the matter."""
    rig.listen(files={"client_ca": authority.certificate, "clients": "required"})
    rig.trusting.load_cert_chain(*authority.issue(f"listening-{name}", **issued).paths)
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        await rig.greeting()
    await until(lambda: said in caplog.text)
    assert "does not come from" not in caplog.text


async def test_a_disk_that_hangs_takes_no_thread_of_others(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    entered, released = threading.Event(), threading.Event()

    def hanging(_: ServerTls) -> None:
        entered.set()
        assert released.wait(DEADLINE_S)

    monkeypatch.setattr(ServerTls, "renew", hanging)
    rig.listen(renew_s=0.001)
    try:
        await until(entered.is_set)
        assert await asyncio.wait_for(asyncio.to_thread(int), DEADLINE_S) == 0
    finally:
        released.set()
