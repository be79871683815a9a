"""Checks by callback, against servers that answer well, badly, or not at all."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
import subprocess
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters.callback import CallbackLinks, Target
from halfhitch.adapters.callback import client as client_module
from halfhitch.adapters.callback import links as links_module
from halfhitch.core.model import Resolution
from halfhitch.errors import (
    ContraryDecision,
    InvalidHandle,
    KafkaUnavailable,
    OutcomeUnknown,
    TransactionGone,
    TransactionParked,
)
from halfhitch.service.checking.api import CheckOutcome
from halfhitch.wire.check import encode
from harness.callback_server import Asked, CallbackServer, ok
from harness.deaf_socket import make_deaf
from harness.fake_desk import FakeDesk, a_check
from harness.raw_http import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from halfhitch.wire.check import Check

COMMIT = ok({"state": "COMMIT"})
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
#: For everything that is not about time: on a busy machine nothing may be cut off by accident.
PLENTY_S = 20.0
SHORT_S = 0.5


class World:
    """A server, links that call it, and what became of each check."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.stack = stack
        self.server = CallbackServer(COMMIT)
        self.desk = FakeDesk()
        self.ended: list[tuple[str, Resolution]] = []
        self.end_fails: Exception | None = None
        self.links: CallbackLinks = None  # type: ignore[assignment]

    async def start(
        self,
        *,
        url: str = "",
        networks: Sequence[str] = (),
        server_tls: ssl.SSLContext | None = None,
        **settings: Any,
    ) -> None:
        await self.server.start(server_tls)
        target = Target.parse(
            url.replace(":0/", f":{self.server.port}/") or self.server.url, networks
        )
        self.links = CallbackLinks(
            target, desk=self.desk, end=self._end, **{"answer_s": PLENTY_S, **settings}
        )
        self.stack.push_async_callback(self.links.stop)

    async def _end(self, handle: str, resolution: Resolution) -> None:
        self.ended.append((handle, resolution))
        if self.end_fails is not None:
            raise self.end_fails

    async def ask(self, check: Check | None = None) -> CheckOutcome:
        """Offer a check and wait for what it settles as."""
        count = len(self.desk.settled)
        check = check or a_check()
        link = self.links.for_group(check.identity[0])
        assert link is not None
        assert link.offer(check)
        await until(lambda: len(self.desk.settled) > count)
        identity, outcome = self.desk.settled[-1]
        assert identity == check.identity
        return outcome


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """At the end no exception may have reached the event loop."""
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    async with AsyncExitStack() as stack:
        world = World(stack)
        stack.push_async_callback(world.server.stop)
        yield world
    assert failures == []


# -- a good server -------------------------------------------------------------------------------


async def test_a_check_is_one_post_with_fixed_headers(world: World) -> None:
    await world.start(token="s3cret")
    check = a_check(3)
    assert await world.ask(check) is CheckOutcome.COMMIT
    (asked,) = world.server.asked
    assert asked.target == "/checks?of=me"
    assert asked.body == encode(check)
    assert asked.check["check_number"] == 3
    assert [(name, value) for name, value in asked.headers if name.lower() != "content-length"] == [
        ("Host", f"127.0.0.1:{world.server.port}"),
        ("User-Agent", "halfhitch"),
        ("Accept", "application/json"),
        ("Content-Type", "application/json"),
        ("Half-Token", "s3cret"),
    ]


async def test_without_a_token_none_is_sent(world: World) -> None:
    await world.start()
    await world.ask()
    assert "half-token" not in {name.lower() for name, _ in world.server.asked[0].headers}


@pytest.mark.parametrize(
    ("state", "ended"),
    [
        ("COMMIT", [("h.order-1", Resolution.COMMIT)]),
        ("ROLLBACK", [("h.order-1", Resolution.ROLLBACK)]),
        ("UNKNOWN", []),
    ],
)
async def test_each_answer_is_carried_out_and_settled(
    world: World, state: str, ended: list[tuple[str, Resolution]]
) -> None:
    await world.start()
    world.server.answer = ok({"state": state, "transaction_id": "order-1"})
    assert await world.ask() is CheckOutcome[state]
    assert world.ended == ended


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (KafkaUnavailable("Try again."), CheckOutcome.NO_ANSWER),
        (OutcomeUnknown("Perhaps."), CheckOutcome.NO_ANSWER),
        (
            ContraryDecision("No.", decided="rolled_back", requested="committed"),
            CheckOutcome.DECIDED,
        ),
        (TransactionGone("Long ago."), CheckOutcome.DECIDED),
        (TransactionParked("Look."), CheckOutcome.DECIDED),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_decision_that_cannot_be_stored_is_no_answer(
    world: World, error: Exception, outcome: CheckOutcome
) -> None:
    await world.start()
    world.end_fails = error
    assert await world.ask() is outcome


@pytest.mark.parametrize("error", [InvalidHandle("What?"), RuntimeError("a bug")])
async def test_a_bug_does_not_leave_the_desk_waiting(
    world: World, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    await world.start()
    world.end_fails = error
    assert await world.ask() is CheckOutcome.NO_ANSWER
    assert "asking by callback failed" in caplog.text


async def test_connections_are_kept_and_used_again(world: World) -> None:
    await world.start()
    for number in range(1, 21):
        assert await world.ask(a_check(number)) is CheckOutcome.COMMIT
    assert world.server.connection_count == 1


async def test_a_kept_connection_is_closed_before_a_server_would(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_IDLE_S", 0.01)
    await world.start()
    await world.ask()
    await until(lambda: not world.links._client._idle and not world.server._writers)
    assert await world.ask() is CheckOutcome.COMMIT
    assert world.server.connection_count == 2


@pytest.mark.parametrize(
    "answer",
    [
        ok({"state": "COMMIT"}, b"Connection: close"),
        b'HTTP/1.0 200 OK\r\n\r\n{"state":"COMMIT"}',
        b'HTTP/1.1 200 OK\r\n\r\n{"state":"COMMIT"}',
        CHUNKED + b'8\r\n{"state"\r\na\r\n:"COMMIT"}\r\n0\r\n\r\n',
        b"HTTP/1.1 100 Continue\r\n\r\n" + COMMIT,
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + COMMIT,
        ok({"state": "COMMIT"}, b"Content-Type: text/plain", b"Set-Cookie: a=b"),
    ],
    ids=["close", "1.0", "to-the-end", "chunked", "continue", "early-hints", "odd-headers"],
)
async def test_all_forms_of_a_response_are_read(world: World, answer: bytes) -> None:
    world.server.closes = True
    world.server.answer = answer
    await world.start()
    for _ in range(2):
        assert await world.ask() is CheckOutcome.COMMIT
    assert "cookie" not in {name.lower() for name, _ in world.server.asked[1].headers}


async def test_a_response_may_come_byte_by_byte(world: World) -> None:
    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        for byte in COMMIT:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    world.server.answer = answer
    await world.start()
    assert await world.ask() is CheckOutcome.COMMIT


async def test_large_checks_arrive_whole(world: World) -> None:
    await world.start()
    check = a_check(value=b"\xff" * 3_000_000)
    assert await world.ask(check) is CheckOutcome.COMMIT
    assert world.server.asked[0].body == encode(check)


# -- answers that are none -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        ok({"state": "COMMIT"}, status=b"404 Not Found"),
        ok({"state": "COMMIT"}, status=b"500 Internal Server Error"),
        ok({"state": "COMMIT"}, status=b"202 Accepted"),
        ok({"state": "COMMIT", "transaction_id": "order-2"}),
        ok({"state": "commit"}),
        ok(b'{"state":"COMMIT","state":"ROLLBACK"}'),
        ok(b"garbage"),
        ok(b""),
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n" + COMMIT,
        b"garbage that is no HTTP at all\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 999999999999 OK\r\n\r\n",
        COMMIT + ok({"state": "ROLLBACK"}),
        COMMIT + b"\x00trailing garbage",
        b'HTTP/1.1 200 OK\r\nContent-Length: 18\r\nContent-Length: 5\r\n\r\n{"state":"COMMIT"}',
        b'HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{"state":"COMMIT"}',
        b"HTTP/1.1 200 OK\r\nContent-Length: 18\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        CHUNKED + b'zz\r\n{"state":"COMMIT"}\r\n0\r\n\r\n',
        b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"state":"COMMIT"}',
        CHUNKED + b'12\r\n{"state":"COMMIT"}\r\n',
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
    ids=lambda answer: repr(answer[:70]),
)
async def test_a_bad_answer_decides_nothing_and_counts(world: World, answer: bytes) -> None:
    world.server.closes = True
    world.server.answer = answer
    await world.start()
    assert await world.ask() is CheckOutcome.NO_ANSWER
    assert world.desk.reasons[-1]
    assert world.ended == []
    # And nothing of it is left for the next.
    world.server.answer = COMMIT
    assert await world.ask() is CheckOutcome.COMMIT


async def test_why_there_is_no_decision_is_handed_on(world: World) -> None:
    world.server.answer = ok({"state": "UNKNOWN", "reason": "RuntimeError: db down"})
    await world.start()
    assert await world.ask() is CheckOutcome.UNKNOWN
    world.server.answer = ok({"state": "COMMIT"}, status=b"500 Oh")
    assert await world.ask() is CheckOutcome.NO_ANSWER
    assert world.desk.reasons == ["RuntimeError: db down", "status 500 instead of 200"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(world: World, status: int) -> None:
    other = CallbackServer(COMMIT)
    await other.start()
    world.stack.push_async_callback(other.stop)
    location = b"Location: " + other.url.encode()
    world.server.answer = ok({"state": "COMMIT"}, location, status=b"%d Elsewhere" % status)
    await world.start()
    assert await world.ask() is CheckOutcome.NO_ANSWER
    assert other.connection_count == 0
    assert len(world.server.asked) == 1


async def test_no_proxy_from_the_environment_is_used(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = CallbackServer(COMMIT)
    await proxy.start()
    world.stack.push_async_callback(proxy.stop)
    for name in (
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    await world.start()
    assert await world.ask() is CheckOutcome.COMMIT
    assert proxy.connection_count == 0


async def pour(writer: asyncio.StreamWriter, head: bytes, piece: bytes) -> int:
    """Write without end; how much was taken until the other side broke it off."""
    writer.write(head)
    sent_bytes = 0
    try:
        while True:
            writer.write(piece)
            await writer.drain()
            sent_bytes += len(piece)
            await asyncio.sleep(0)
    except OSError:
        return sent_bytes


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n", b" " * 65536),
        (b"HTTP/1.1 200 OK\r\n\r\n", b" " * 65536),
        (CHUNKED, b"1000\r\n" + b" " * 4096 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"X: " + b"x" * 1000 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65536),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (CHUNKED + b"0\r\n", b"X: x\r\n"),
    ],
    ids=["1-GB", "to-the-end", "chunks", "headers", "one-header", "interim", "trailers"],
)
async def test_an_answer_without_end_is_cut_off(world: World, head: bytes, piece: bytes) -> None:
    poured: list[int] = []

    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        poured.append(await pour(writer, head, piece))

    world.server.answer = answer
    await world.start()
    assert await world.ask() is CheckOutcome.NO_ANSWER
    await until(lambda: poured)
    assert poured[0] < 20_000_000  # the connection was closed; the rest lay in kernel buffers


@pytest.mark.parametrize(
    ("head", "drop"),
    [(b"", b"H"), (b"HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n", b'{"state":"COMMIT"')],
    ids=["head", "body"],
)
async def test_a_response_that_stalls_is_no_answer_in_time(
    world: World, head: bytes, drop: bytes
) -> None:
    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(head + drop)
        await asyncio.sleep(60)

    world.server.answer = answer
    await world.start(answer_s=SHORT_S)
    started_s = time.monotonic()
    assert await world.ask() is CheckOutcome.NO_ANSWER
    assert time.monotonic() - started_s >= SHORT_S * 0.8
    assert world.ended == []


async def test_a_server_that_says_nothing_is_silent(world: World) -> None:
    async def answer(_: Asked, __: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    world.server.answer = answer
    await world.start(answer_s=SHORT_S)
    assert await world.ask() is CheckOutcome.SILENT


async def test_what_is_wrong_is_logged_once_in_a_while_and_without_the_body(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.server.answer = ok({"state": "no-such-s3cret"})
    await world.start()
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            await world.ask()
    (record,) = caplog.records
    assert "a state other than COMMIT" in record.getMessage()
    assert "no-such-s3cret" not in caplog.text
    assert "of=me" not in caplog.text


# -- ways that break -----------------------------------------------------------------------------


async def test_a_refused_connection_is_not_delivered(world: World) -> None:
    await world.start()
    await world.server.stop()
    assert await world.ask() is CheckOutcome.UNDELIVERED


@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
async def test_a_connection_that_breaks_without_a_response_is_lost(
    world: World, is_reset: bool
) -> None:
    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        if is_reset:
            plain = writer.get_extra_info("socket")
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    world.server.answer = answer
    await world.start()
    assert await world.ask() is CheckOutcome.LOST
    assert len(world.server.asked) == 1  # a new connection: not tried twice


async def test_a_kept_connection_that_was_closed_is_replaced(world: World) -> None:
    await world.start()
    assert await world.ask() is CheckOutcome.COMMIT
    world.server.closes = True

    async def leave(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if len(world.server.asked) == 2:
            writer.transport.abort()
        else:
            writer.write(COMMIT)

    world.server.answer = leave
    assert await world.ask() is CheckOutcome.COMMIT
    assert (len(world.server.asked), world.server.connection_count) == (3, 2)


async def test_a_kept_connection_that_breaks_and_no_other_is_lost_not_undelivered(
    world: World,
) -> None:
    """The request may have been read before the connection broke: that must not be forgotten."""
    await world.start()
    await world.ask()

    async def die(_: Asked, __: asyncio.StreamWriter) -> None:
        assert world.server._server is not None
        world.server._server.close()
        raise OSError

    world.server.answer = die
    assert await world.ask() is CheckOutcome.LOST


async def test_what_comes_unasked_ends_a_kept_connection(world: World) -> None:
    writers: list[asyncio.StreamWriter] = []

    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(COMMIT)

    world.server.answer = answer
    await world.start()
    await world.ask()
    writers[0].write(ok({"state": "ROLLBACK"}))
    await until(lambda: not any(kept.is_open for kept, _ in world.links._client._idle))
    assert await world.ask() is CheckOutcome.COMMIT
    assert world.server.connection_count == 2
    assert [resolution for _, resolution in world.ended] == [Resolution.COMMIT] * 2


async def test_a_machine_that_is_gone_is_lost_not_silent(world: World) -> None:
    """A kept connection to it takes the request into the kernel's buffer all the same."""
    writers: list[asyncio.StreamWriter] = []

    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(COMMIT)

    world.server.answer = answer
    await world.start(answer_s=3)
    await world.ask()
    make_deaf(writers[0].get_extra_info("socket"))
    assert world.server._server is not None
    world.server._server.close()
    assert await world.ask() is CheckOutcome.LOST
    assert len(world.server.asked) == 1


# -- names and addresses -------------------------------------------------------------------------


async def test_a_name_is_looked_up_once_and_its_checked_address_called(world: World) -> None:
    """A second look-up could give another address than the one that was checked (rebinding)."""
    asked_for: list[tuple[str, int]] = []

    def resolve(host: str, port: int) -> list[str]:
        asked_for.append((host, port))
        return ["127.0.0.1"] if len(asked_for) == 1 else ["169.254.169.254"]

    await world.start(url="http://app.invalid:0/x", resolve=resolve)
    for _ in range(3):
        assert await world.ask() is CheckOutcome.COMMIT
    assert asked_for == [("app.invalid", world.server.port)]
    assert ("Host", f"app.invalid:{world.server.port}") in world.server.asked[0].headers


@pytest.mark.parametrize(
    "addresses",
    [
        ["10.0.0.1"],
        ["127.0.0.1", "10.0.0.1"],
        ["127.0.0.1", "169.254.169.254"],
        ["127.0.0.1", "::ffff:169.254.169.254"],
        ["fe80::1%lo"],
        ["not an address"],
        [],
    ],
)
async def test_a_name_with_one_bad_address_is_not_called_at_all(
    world: World, addresses: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    await world.start(url="http://app.invalid:0/x", resolve=lambda *_: addresses)
    assert await world.ask() is CheckOutcome.UNDELIVERED
    assert world.server.connection_count == 0
    assert "gave no answer" in caplog.text


async def test_each_address_is_tried(world: World) -> None:
    addresses = ["127.0.0.2", "127.0.0.1"]  # nobody listens on the first
    await world.start(url="http://app.invalid:0/x", resolve=lambda *_: addresses)
    assert await world.ask() is CheckOutcome.COMMIT


@pytest.mark.parametrize("error", [socket.gaierror(-2, "unknown"), UnicodeError("label too long")])
async def test_a_name_that_cannot_be_looked_up_is_not_delivered(
    world: World, error: Exception
) -> None:
    def resolve(host: str, port: int) -> list[str]:
        raise error

    await world.start(url="http://app.invalid:0/x", resolve=resolve)
    for _ in range(2):
        assert await world.ask() is CheckOutcome.UNDELIVERED


async def test_a_slow_look_up_is_not_delivered_and_serves_those_after_it(world: World) -> None:
    asked_count = 0
    is_free = False

    def resolve(host: str, port: int) -> list[str]:
        nonlocal asked_count
        asked_count += 1
        while not is_free:
            time.sleep(0.005)
        return ["127.0.0.1"]

    await world.start(url="http://app.invalid:0/x", resolve=resolve, answer_s=SHORT_S)
    try:
        assert [await world.ask() for _ in range(2)] == [CheckOutcome.UNDELIVERED] * 2
    finally:
        is_free = True
    await until(lambda: world.links._client._resolver._kept)
    assert await world.ask() is CheckOutcome.COMMIT
    assert asked_count == 1


async def test_the_name_localhost_is_looked_up_by_the_system(world: World) -> None:
    await world.start(url="http://localhost:0/x")
    assert await world.ask() is CheckOutcome.COMMIT


async def test_a_name_is_looked_up_again_after_a_while(world: World) -> None:
    found = [["127.0.0.1"], ["10.0.0.1"]]
    await world.start(url="http://app.invalid:0/x", resolve=lambda *_: found.pop(0))
    world.server.closes = True
    assert await world.ask() is CheckOutcome.COMMIT
    world.links._client._resolver._kept_until_s = 0
    assert await world.ask() is CheckOutcome.UNDELIVERED


# -- TLS -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """For app.invalid, trusted by nobody yet."""
    folder = tmp_path_factory.mktemp("tls")
    key, chain = folder / "key.pem", folder / "cert.pem"
    asked = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    asked += ["-keyout", str(key), "-out", str(chain), "-days", "2", "-subj", "/CN=app.invalid"]
    asked += ["-addext", "subjectAltName=DNS:app.invalid"]
    subprocess.run(["openssl", *asked], check=True, capture_output=True)
    return key, chain


def server_context(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate[1], certificate[0])
    return context


async def test_a_certificate_that_is_trusted_and_of_that_name_is_taken(
    world: World, certificate: tuple[Path, Path]
) -> None:
    trusting = ssl.create_default_context(cafile=certificate[1])
    await world.start(
        url="https://app.invalid:0/x",
        resolve=lambda *_: ["127.0.0.1"],
        server_tls=server_context(certificate),
        tls=trusting,
    )
    for _ in range(3):
        assert await world.ask() is CheckOutcome.COMMIT
    assert world.server.connection_count == 1


@pytest.mark.parametrize("host", ["app.invalid", "other.invalid"], ids=["untrusted", "other-name"])
async def test_a_certificate_that_is_not_is_refused_before_anything_is_sent(
    world: World, certificate: tuple[Path, Path], host: str
) -> None:
    trusting = None if host == "app.invalid" else ssl.create_default_context(cafile=certificate[1])
    await world.start(
        url=f"https://{host}:0/x",
        resolve=lambda *_: ["127.0.0.1"],
        server_tls=server_context(certificate),
        tls=trusting,
    )
    assert await world.ask() is CheckOutcome.UNDELIVERED
    assert world.server.asked == []


async def test_a_server_without_tls_is_not_delivered_to(world: World) -> None:
    await world.start(url="https://app.invalid:0/x", resolve=lambda *_: ["127.0.0.1"], answer_s=2)
    assert await world.ask() is CheckOutcome.UNDELIVERED


# -- links and groups ----------------------------------------------------------------------------


async def test_a_group_is_live_once_it_has_been_heard_of(world: World) -> None:
    await world.start(groups=["orders", "shop-*"])
    for group in ("orders", "orders", "shop-1", "orders-2", "ORDERS", "shop-1"):
        world.links.notice(group)
    assert [link.producer_group for link in world.desk.links] == ["orders", "shop-1"]
    assert world.links.for_group("orders") is world.desk.links[0]
    assert world.links.for_group("billing") is None
    assert world.desk.links[0].name == f"callback http://127.0.0.1:{world.server.port}/checks"


async def test_groups_are_bounded_and_come_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links_module, "GROUPS_MAX", 3)
    await world.start()
    first = world.links.for_group("g")
    assert first is not None
    first.in_flight_count = 1  # a check is on its way
    for number in range(100):
        world.links.notice(f"made-up-{number}")
    assert len(world.links._links) == len(world.desk.links) == 3
    assert world.links.for_group("g") is first
    first.in_flight_count = 0
    world.links.notice("one-more")
    assert first not in world.desk.links
    assert not first.offer(a_check())
    again = world.links.for_group("g")
    assert again is not first
    assert again in world.desk.links


async def test_a_group_that_hangs_takes_its_own_places_only(world: World) -> None:
    hanging = asyncio.Event()

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.check["transaction_id"].startswith("hung"):
            await hanging.wait()
        writer.write(COMMIT)

    world.server.answer = answer
    await world.start()
    link = world.links.for_group("hung")
    assert link is not None
    taken_count = sum(link.offer(a_check(transaction_id=f"hung-{n}")) for n in range(500))
    assert taken_count == 64
    assert await world.ask() is CheckOutcome.COMMIT  # another group
    assert not link.offer(a_check())
    hanging.set()
    await until(lambda: len(world.desk.settled) == 65)
    assert link.in_flight_count == 0
    assert link.offer(a_check())
    assert len(world.links._client._idle) <= 64


async def test_a_place_is_free_when_the_desk_hears_of_the_answer(world: World) -> None:
    """It then offers the next check at once, from within settle."""
    await world.start()
    link = world.links.for_group("g")
    assert link is not None
    seen: list[int] = []
    settle = world.desk.settle

    def settled(*arguments: Any) -> bool:
        seen.append(link.in_flight_count)
        return settle(*arguments)

    world.desk.settle = settled  # type: ignore[method-assign]
    await world.ask()
    assert seen == [0]


async def test_stopping_gives_up_what_is_under_way_and_takes_nothing_more(world: World) -> None:
    async def answer(_: Asked, __: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    world.server.answer = answer
    await world.start()
    link = world.links.for_group("g")
    assert link is not None
    assert link.offer(a_check())
    await until(lambda: world.server.asked)
    async with asyncio.timeout(5):
        await world.links.stop()
    assert world.desk.links == []
    assert world.desk.disconnected_count == world.desk.connected_count == 1
    assert world.desk.settled == []  # disconnecting has told the desk
    assert not link.offer(a_check())
    world.links.notice("late")
    assert world.desk.links == []
    await world.links.stop()  # twice is harmless
