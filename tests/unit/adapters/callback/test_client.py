"""Which connection a check takes: kept ones, new ones, and over TLS."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from typing import TYPE_CHECKING

import pytest

from halfhitch.adapters.callback import client as client_module
from halfhitch.service.checking.api import CheckOutcome
from harness.callback_server import Asked, CallbackServer, ok
from harness.callback_world import COMMIT, World
from harness.deaf_socket import make_deaf
from harness.fake_desk import a_check
from harness.raw_http import until

if TYPE_CHECKING:
    from pathlib import Path


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


async def test_a_refused_connection_is_not_delivered(world: World) -> None:
    await world.start()
    await world.server.stop()
    assert await world.ask() is CheckOutcome.UNDELIVERED


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
