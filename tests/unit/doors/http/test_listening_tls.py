"""The data door over TLS: what is spoken, who is told what, who waits for whom."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.access import Access, Identity, Right
from halfhitch.doors.http.dispatch import Dispatcher
from halfhitch.doors.tls import ServerTls
from harness.certificates import Pair
from harness.defaults import http_limits
from harness.raw_http import DEADLINE_S, Client, raw_half, request, until

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import OpenDoors
    from halfhitch.doors.http import HttpDoor
    from halfhitch.doors.http.requests import Request
    from harness.certificates import Authority

ASKED = request("GET", "/v1/openapi.yaml")


@pytest.fixture(scope="session")
def served(authority: Authority) -> Pair:
    return authority.issue("served")


@pytest.fixture(scope="session")
def orders(authority: Authority) -> Pair:
    return authority.issue("orders-client", "DNS:orders.shop.svc", use="client")


def tls_of(pair: Pair, **more: Any) -> ServerTls:
    return ServerTls(pair.files(protocols=("http/1.1",), **more), lambda: 0)


def trusting(authority: Authority, pair: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if pair is not None:
        context.load_cert_chain(*pair.paths)
    return context


async def over_tls(door: HttpDoor, context: ssl.SSLContext) -> Client:
    """The caller closes it."""
    assert door.port is not None
    async with asyncio.timeout(DEADLINE_S):
        opened = await asyncio.open_connection(
            "127.0.0.1", door.port, ssl=context, server_hostname="localhost"
        )
    return Client(*opened)


async def test_the_routes_are_served_over_tls(
    doors: OpenDoors, authority: Authority, served: Pair
) -> None:
    door = await doors.open(tls=tls_of(served))
    client = await over_tls(door, trusting(authority))
    for _ in range(3):
        assert (await client.ask(raw_half(b"v" * 100_000))).status == 201
    await client.close()
    await until(lambda: door.connection_count == 0)


async def test_a_plain_request_to_a_tls_port_is_told_to_use_https(
    doors: OpenDoors, served: Pair
) -> None:
    door = await doors.open(tls=tls_of(served))
    client = await doors.client(door)
    answer = await client.ask(raw_half(b"v" * 300_000))
    assert (answer.status, answer.code) == (400, "tls_expected")
    assert "https://" in answer.json()["error"]["message"]
    await client.ended()
    assert doors.service.transactions == {}


async def test_tls_to_a_plain_port_is_told_in_the_log(
    doors: OpenDoors, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    door = await doors.open()
    for _ in range(30):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await over_tls(door, trusting(authority))
    told = [line for line in caplog.messages if "a client spoke TLS" in line]
    assert len(told) == 10
    assert "http.tls_cert" in told[0]
    client = await doors.client(door)
    await client.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    answer = await client.answer()
    assert "what came is TLS" in answer.json()["error"]["message"]


async def test_the_unix_socket_of_a_tls_door_stays_plain(
    doors: OpenDoors, served: Pair, tmp_path: Path
) -> None:
    door = await doors.open(tls=tls_of(served), unix_path=tmp_path / "door.sock")
    client = await Client.unix(str(tmp_path / "door.sock"))
    assert (await client.ask(raw_half())).status == 201
    await client.close()
    assert door.port is not None


async def test_a_refusal_over_tls_is_read_by_who_is_still_sending(
    doors: OpenDoors, authority: Authority, served: Pair
) -> None:
    """Closing with unread bytes would reset the connection, and the reset overtake the answer."""
    door = await doors.open(tls=tls_of(served), limits=http_limits(body_bytes_max=1_000))

    def ask() -> bytes:
        """As most clients do: the whole body first, and only then a look for the answer."""
        assert door.port is not None
        with (
            socket.create_connection(("127.0.0.1", door.port), DEADLINE_S) as plain,
            trusting(authority).wrap_socket(plain, server_hostname="localhost") as encrypted,
        ):
            encrypted.sendall(raw_half(b"v" * 8_000_000))
            return encrypted.recv(12)

    assert await asyncio.to_thread(ask) == b"HTTP/1.1 413"


async def test_who_says_goodbye_over_tls_has_what_he_began_carried_out(
    doors: OpenDoors, authority: Authority, served: Pair
) -> None:
    door = await doors.open(tls=tls_of(served))
    client = await over_tls(door, trusting(authority))
    doors.service.hold()
    await client.send(raw_half())
    await doors.service.until_waiting(1)
    client.writer.close()
    doors.service.release()
    await until(lambda: door.in_flight_count == 0 and door.connection_count == 0)
    assert len(doors.service.transactions) == 1


async def test_a_check_stream_runs_over_tls(
    doors: OpenDoors, authority: Authority, served: Pair
) -> None:
    from harness.fake_desk import FakeDesk

    desk = FakeDesk()
    door = await doors.open(tls=tls_of(served), checks=desk)
    client = await over_tls(door, trusting(authority))
    await client.send(request("GET", "/v1/checks?producer_group=shop", [("Half-Heartbeat", "60")]))
    await until(lambda: desk.links)
    await client.close()
    await until(lambda: not desk.links)
    await until(lambda: door.connection_count == 0)


async def test_a_stopping_door_does_not_wait_for_goodbyes(
    doors: OpenDoors, authority: Authority, served: Pair
) -> None:
    """A pool of blocking connections reads nothing between requests, least of all a goodbye."""
    limits = http_limits(write_stall_s=600)
    door = await doors.open(tls=tls_of(served), limits=limits)
    client = await over_tls(door, trusting(authority))
    assert (await client.ask(raw_half())).status == 201
    client.writer.transport.pause_reading()
    async with asyncio.timeout(DEADLINE_S):
        await door.stop(drain_s=60)
    client.writer.transport.abort()


# -- clients' certificates -----------------------------------------------------------------------


async def test_the_names_of_a_clients_certificate_are_on_each_request(
    doors: OpenDoors,
    authority: Authority,
    served: Pair,
    orders: Pair,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[str, ...]] = []

    def admit(dispatcher: Dispatcher, asked: Request) -> Any:
        seen.append(asked.peer_certificate_names)
        return admitted(dispatcher, asked)

    admitted = Dispatcher.admit
    monkeypatch.setattr(Dispatcher, "admit", admit)
    tls = tls_of(served, client_ca=authority.certificate, clients="wanted")
    door = await doors.open(tls=tls)
    for pair in (orders, None):
        client = await over_tls(door, trusting(authority, pair))
        assert (await client.ask(ASKED)).status == 200
        assert (await client.ask(ASKED)).status == 200
        await client.close()
    assert seen == [("CN:orders-client", "DNS:orders.shop.svc")] * 2 + [()] * 2


@pytest.mark.parametrize("clients", ["wanted", "required"])
async def test_a_certificate_that_has_expired_since_names_nobody(
    doors: OpenDoors,
    authority: Authority,
    served: Pair,
    orders: Pair,
    clients: Any,
) -> None:
    """Connections live on, and TLS sessions are resumed without being verified again."""
    now_ms = 0
    files = served.files(
        protocols=("http/1.1",),
        client_ca=authority.certificate,
        clients=clients,
        tells_without_certificate=True,
    )
    tls = ServerTls(files, lambda: now_ms)
    access = Access(
        identities=[
            Identity(
                name="shop",
                rights=frozenset({Right.PRODUCE}),
                groups=("*",),
                topics=("*",),
                certificates=("DNS:orders.shop.svc",),
            )
        ]
    )
    door = await doors.open(tls=tls, access=access)
    client = await over_tls(door, trusting(authority, orders))
    assert (await client.ask(raw_half())).status == 201
    now_ms = 10**13
    refused = (403, "certificate_required") if clients == "required" else (401, "unauthorized")
    other = await over_tls(door, trusting(authority, orders))  # as a resumed session would
    for asking in (client, other):
        answer = await asking.ask(raw_half())
        assert (answer.status, answer.code) == refused
        await asking.close()


async def test_who_has_no_certificate_is_told_so_where_one_is_required_and_nothing_else(
    doors: OpenDoors, authority: Authority, served: Pair, orders: Pair
) -> None:
    """asyncio closes a failed handshake without an alert: the client would not know why."""
    tls = tls_of(
        served,
        client_ca=authority.certificate,
        clients="required",
        tells_without_certificate=True,
    )
    door = await doors.open(tls=tls)
    bare = await over_tls(door, trusting(authority))
    await bare.send(raw_half() * 3)
    answer = await bare.answer("POST")
    assert (answer.status, answer.code) == (403, "certificate_required")
    await bare.close()
    client = await over_tls(door, trusting(authority, orders))
    assert (await client.ask(raw_half())).status == 201
    await client.close()
    assert len(doors.service.transactions) == 1


async def test_a_certificate_of_another_authority_is_turned_away(
    doors: OpenDoors,
    authority: Authority,
    served: Pair,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from harness.certificates import Authority as Another

    foreign = Another(tmp_path / "foreign", "Somebody else").issue("orders", use="client")
    tls = tls_of(
        served,
        client_ca=authority.certificate,
        clients="required",
        tells_without_certificate=True,
    )
    door = await doors.open(tls=tls)
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        client = await over_tls(door, trusting(authority, foreign))
        try:
            assert await client.reader.read() == b""  # TLS 1.3 tells it with the first read
        finally:
            client.writer.transport.abort()
    await until(lambda: "does not come from http.tls_client_ca" in caplog.text)
    await until(lambda: door.connection_count == 0)


# -- who waits for whom --------------------------------------------------------------------------


async def test_a_slow_handshake_holds_nobody_else_and_is_ended(
    doors: OpenDoors, authority: Authority, served: Pair
) -> None:
    door = await doors.open(tls=tls_of(served), limits=http_limits(handshake_s=0.5))
    silent, slow = await doors.client(door), await doors.client(door)
    await slow.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc")
    client = await over_tls(door, trusting(authority))
    assert (await client.ask(raw_half())).status == 201
    for stuck in (silent, slow):
        async with asyncio.timeout(DEADLINE_S):
            try:
                await stuck.reader.read()  # an alert at most, and then the end
            except ConnectionError:
                pass
    assert (await client.ask(raw_half())).status == 201
    await client.close()


async def test_handshakes_take_no_place_of_connections(
    doors: OpenDoors, authority: Authority, served: Pair
) -> None:
    """68 silent connections held all places of a door of four, and everybody else was closed."""
    limits = http_limits(connection_count_max=4, connection_peer_count_max=4, handshake_s=60)
    door = await doors.open(tls=tls_of(served), limits=limits)
    crowd = [await doors.client(door) for _ in range(4 + 64)]
    clients = [await over_tls(door, trusting(authority)) for _ in range(4)]
    for client in clients:
        assert (await client.ask(raw_half())).status == 201
    for client in (*crowd, *clients):
        client.writer.transport.abort()


# -- renewal -------------------------------------------------------------------------------------


async def test_connections_live_on_while_the_certificate_is_replaced_under_load(
    doors: OpenDoors, authority: Authority, served: Pair, tmp_path: Path
) -> None:
    pair = Pair(tmp_path / "tls.pem", tmp_path / "tls.key")
    pair.replace(served)
    tls = tls_of(pair)
    door = await doors.open(tls=tls)
    kept = [await over_tls(door, trusting(authority)) for _ in range(4)]
    is_over = False
    answered = [0] * len(kept)

    async def ask_on(number: int) -> None:
        while not is_over:
            assert (await kept[number].ask(raw_half(b"v" * 20_000))).status == 201
            answered[number] += 1

    asking = [asyncio.ensure_future(ask_on(number)) for number in range(len(kept))]
    for turn in range(3):
        before = min(answered)
        loop = asyncio.get_running_loop()
        name = f"turn-{turn}-{id(loop)}"
        pair.replace(await asyncio.to_thread(authority.issue, name))
        for _ in range(2):
            await asyncio.to_thread(tls.renew)
        newcomer = await over_tls(door, trusting(authority))
        certificate = newcomer.writer.get_extra_info("peercert")
        assert ((("commonName", name),),) == certificate["subject"]
        assert (await newcomer.ask(raw_half())).status == 201
        await newcomer.close()
        await until(lambda: min(answered) > before)  # noqa: B023 - awaited here
    is_over = True
    await asyncio.gather(*asking)
    for client in kept:
        await client.close()


async def test_the_files_are_looked_at_while_the_door_is_open(
    doors: OpenDoors,
    authority: Authority,
    served: Pair,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    pair = Pair(tmp_path / "tls.pem", tmp_path / "tls.key")
    pair.replace(served)
    await doors.open(tls=tls_of(pair))
    name = f"looked-{id(asyncio.get_running_loop())}"
    pair.replace(await asyncio.to_thread(authority.issue, name))
    await until(lambda: "http.tls_cert was replaced" in caplog.text)


async def test_an_identity_is_known_by_its_certificate_and_strangers_by_none(
    doors: OpenDoors, authority: Authority, served: Pair, orders: Pair
) -> None:
    known = Identity(
        name="orders",
        rights=frozenset({Right.PRODUCE}),
        groups=("g",),
        topics=("orders",),
        certificates=("DNS:orders.shop.svc",),
    )
    tls = tls_of(served, client_ca=authority.certificate, clients="wanted")
    door = await doors.open(tls=tls, access=Access(identities=[known]))
    statuses = []
    for pair in (orders, authority.issue("stranger", use="client"), None):
        for topic in ("orders", "payments"):
            client = await over_tls(door, trusting(authority, pair))
            statuses.append((await client.ask(raw_half(topic=topic))).status)
            await client.close()
    assert statuses == [201, 403, 401, 401, 401, 401]


# -- sessions, and authorities that are taken away -----------------------------------------------


@pytest.mark.parametrize("asks_on", [False, True], ids=["idle", "at work"])
async def test_a_connection_ends_when_the_authorities_change_and_its_client_is_verified_anew(
    doors: OpenDoors,
    authority: Authority,
    served: Pair,
    orders: Pair,
    tmp_path: Path,
    asks_on: bool,
) -> None:
    """Whose authority was taken away went on for as long as the connection was kept open."""
    from harness.certificates import Authority as Another

    authorities = tmp_path / "clients-ca.pem"
    authorities.write_bytes(authority.certificate.read_bytes())
    tls = tls_of(served, client_ca=authorities, clients="wanted")
    door = await doors.open(tls=tls)
    client = await over_tls(door, trusting(authority, orders))
    bare = await over_tls(door, trusting(authority))
    assert (await client.ask(raw_half())).status == 201
    assert (await bare.ask(raw_half())).status == 201
    if asks_on:
        doors.service.hold()
        await client.send(raw_half())
        await doors.service.until_waiting(1)
    authorities.write_bytes(Another(tmp_path / "another", "Others").certificate.read_bytes())
    for _ in range(2):
        await asyncio.to_thread(tls.renew)
    if asks_on:
        await until(lambda: any(held._reader.is_ended for held in door._load.connections))
        doors.service.release()
        last = await client.answer("POST")
        assert (last.status, last.header("connection")) == (201, "close")
    await client.ended()
    assert (await bare.ask(raw_half())).status == 201, "who has shown none is left alone"
    for one in (client, bare):
        one.writer.transport.abort()


async def test_a_client_that_is_always_sending_was_never_verified_anew(
    doors: OpenDoors, authority: Authority, served: Pair, orders: Pair, tmp_path: Path
) -> None:
    """The sweep saw a request that was being received, each time another one."""
    from harness.certificates import Authority as Another

    authorities = tmp_path / "clients-ca.pem"
    authorities.write_bytes(authority.certificate.read_bytes())
    tls = tls_of(served, client_ca=authorities, clients="wanted")
    door = await doors.open(tls=tls)
    client = await over_tls(door, trusting(authority, orders))
    begun, rest = raw_half()[:20], raw_half()[20:]
    await client.send(begun)
    authorities.write_bytes(Another(tmp_path / "another", "Others").certificate.read_bytes())
    for _ in range(2):
        await asyncio.to_thread(tls.renew)
    await client.send(rest + begun)
    last = await client.answer("POST")
    assert (last.status, last.header("connection")) == (201, "close")
    await client.ended()
    client.writer.transport.abort()


async def test_a_client_whose_certificate_has_no_names_was_never_verified_anew(
    doors: OpenDoors, authority: Authority, served: Pair, tmp_path: Path
) -> None:
    """Where a certificate is required one without any name is enough, beside a token."""
    from harness.certificates import Authority as Another

    nameless = authority.issue("nameless", "", use="client", subject="/O=Nobody")
    authorities = tmp_path / "clients-ca.pem"
    authorities.write_bytes(authority.certificate.read_bytes())
    tls = tls_of(served, client_ca=authorities, clients="required")
    client = await over_tls(await doors.open(tls=tls), trusting(authority, nameless))
    assert (await client.ask(raw_half())).status == 201
    authorities.write_bytes(Another(tmp_path / "another", "Others").certificate.read_bytes())
    for _ in range(2):
        await asyncio.to_thread(tls.renew)
    await client.ended()
    client.writer.transport.abort()


async def test_a_check_stream_ends_when_the_authorities_change(
    doors: OpenDoors, authority: Authority, served: Pair, orders: Pair, tmp_path: Path
) -> None:
    from harness.certificates import Authority as Another
    from harness.fake_desk import FakeDesk

    authorities = tmp_path / "clients-ca.pem"
    authorities.write_bytes(authority.certificate.read_bytes())
    tls = tls_of(served, client_ca=authorities, clients="wanted")
    desk = FakeDesk()
    door = await doors.open(tls=tls, checks=desk)
    client = await over_tls(door, trusting(authority, orders))
    await client.send(request("GET", "/v1/checks?producer_group=shop", [("Half-Heartbeat", "60")]))
    await until(lambda: desk.links)
    authorities.write_bytes(Another(tmp_path / "another", "Others").certificate.read_bytes())
    for _ in range(2):
        await asyncio.to_thread(tls.renew)
    await until(lambda: not desk.links)
    client.writer.transport.abort()
