"""https:// of both producers: what is verified, and what a person is told when it fails."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.client import ClientTls, DecisionUnknown, Message, SidecarUnavailable
from halfhitch.client.address import parse_address
from halfhitch.client.tls import Trust
from halfhitch.client.values import LocalTransactionState
from halfhitch.errors import ConfigurationError, RequestError
from harness.certificates import LONG_AGO, Authority, Pair
from harness.producers import SHELLS, driven
from harness.tls_door import tls_door

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ONE = [Message("orders", b"one")]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def served(authority: Authority) -> Pair:
    return authority.issue("served")


@pytest.fixture(scope="module")
def orders(authority: Authority) -> Pair:
    return authority.issue("orders", "DNS:orders", use="client")


@pytest.fixture
def trusted(authority: Authority) -> ClientTls:
    return ClientTls(ca_file=authority.certificate)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_messages_go_over_tls(shell: str, host: str, served: Pair, trusted: ClientTls) -> None:
    with tls_door(served) as door, driven(shell, "shop", door.address(host), tls=trusted) as it:
        for number in range(3):
            prepared = it.prepare([Message("orders", b"v" * 200_000)], f"id-{number}")
            assert it.commit(prepared.handle).state == "committed"
        assert len(door.service.transactions) == 3


@pytest.mark.parametrize("shell", SHELLS)
def test_checks_come_over_tls(shell: str, served: Pair, trusted: ClientTls) -> None:
    connected = threading.Event()
    if shell == "sync":

        def check(_: Any) -> LocalTransactionState:
            return LocalTransactionState.UNKNOWN
    else:

        async def check(_: Any) -> LocalTransactionState:  # type: ignore[misc]
            return LocalTransactionState.UNKNOWN

    with tls_door(served) as door:
        take = door.desk.connect
        door.desk.connect = lambda link: (take(link), connected.set())[0]  # type: ignore[method-assign]
        with driven(shell, "shop", door.address(), tls=trusted, check=check) as it:
            it.prepare(ONE)
            assert connected.wait(20)


@pytest.mark.parametrize("shell", SHELLS)
def test_what_the_environment_names_counts(
    shell: str, served: Pair, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls_door(served) as door:
        monkeypatch.setenv("HALFHITCH_ADDRESS", door.address())
        monkeypatch.setenv("HALFHITCH_CLIENT_CA_FILE", str(authority.certificate))
        with driven(shell, "shop", None) as it:  # type: ignore[arg-type]
            assert it.prepare(ONE).handle


# -- what fails, and what is said ----------------------------------------------------------------


def refused(shell: str, address: str, tls: ClientTls | None, **options: Any) -> str:
    """The sentence of a prepare that cannot be sent; at once, not when the deadline is over."""
    with (
        driven(shell, "shop", address, tls=tls, deadline_s=3_600, **options) as it,
        pytest.raises(SidecarUnavailable) as caught,
    ):
        it.prepare(ONE)
    return str(caught.value)


@pytest.mark.parametrize("shell", SHELLS)
def test_an_unknown_authority_is_told_with_the_remedy(
    shell: str, served: Pair, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "stranger", "Somebody else")
    with tls_door(served) as door:
        told = refused(shell, door.address(), ClientTls(ca_file=stranger.certificate))
        assert "authority that is not known here" in told
        assert "HALFHITCH_CLIENT_CA_FILE" in told
        assert door.service.transactions == {}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_certificate_for_another_name_is_told_and_turned_away(
    shell: str, authority: Authority, trusted: ClientTls
) -> None:
    elsewhere = authority.issue(f"elsewhere-{shell}", "DNS:sidecar.shop.svc")
    with tls_door(elsewhere) as door:
        told = refused(shell, door.address(), trusted)
        assert "not for '127.0.0.1'" in told
        assert "server_name" in told
        named = trusted._replace(server_name="sidecar.shop.svc")
        with driven(shell, "shop", door.address(), tls=named) as it:
            assert it.prepare(ONE).handle


@pytest.mark.parametrize("shell", SHELLS)
def test_a_certificate_that_has_expired_is_told(
    shell: str, authority: Authority, served: Pair, trusted: ClientTls
) -> None:
    """No door offers one; a proxy in front may."""
    old = authority.issue(f"old-{shell}", valid=LONG_AGO)
    with tls_door(served) as door:
        assert door.tls is not None
        door.tls.context.load_cert_chain(*old.paths)
        told = refused(shell, door.address(), trusted)
    assert "certificate has expired" in told
    assert "tls_cert needs a new one" in told


@pytest.mark.parametrize("shell", SHELLS)
def test_a_chain_that_lacks_its_middle_is_told(
    shell: str, authority: Authority, trusted: ClientTls
) -> None:
    """The authority is the right one, and giving its file once more would not help."""
    between = authority.below(f"between-{shell}")
    pair = between.issue("leaf")
    with tls_door(pair) as door:
        told = refused(shell, door.address(), trusted)
    assert "chain in the door's tls_cert is incomplete" in told
    assert str(authority.certificate) in told
    pair.certificate.write_bytes(pair.certificate.read_bytes() + between.certificate.read_bytes())
    with tls_door(pair) as door, driven(shell, "shop", door.address(), tls=trusted) as it:
        assert it.prepare(ONE).handle


@pytest.mark.parametrize("shell", SHELLS)
def test_a_server_that_turns_our_certificate_away_is_told_with_its_file(
    shell: str, authority: Authority, served: Pair
) -> None:
    ours = authority.issue(f"over-{shell}", use="client", valid=LONG_AGO)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*served.paths)
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    with strict_server(context) as address:
        told = refused(shell, address, ClientTls(authority.certificate, *ours.paths))
    assert str(ours.certificate) in told
    assert "must be valid now" in told


@pytest.mark.parametrize("shell", SHELLS)
def test_https_to_a_plain_door_is_told(shell: str, trusted: ClientTls) -> None:
    with tls_door(None) as door:
        assert "does not speak TLS" in refused(shell, door.address(), trusted)


@pytest.mark.parametrize("shell", SHELLS)
def test_http_to_a_door_that_speaks_tls_is_told(shell: str, served: Pair) -> None:
    with (
        tls_door(served) as door,
        driven(shell, "shop", door.address(scheme="http")) as it,
        pytest.raises(RequestError, match="https://"),
    ):
        it.prepare(ONE)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_missing_client_certificate_is_told(
    shell: str, authority: Authority, served: Pair, orders: Pair, trusted: ClientTls
) -> None:
    asked = {
        "client_ca": authority.certificate,
        "clients": "required",
        "tells_without_certificate": True,
    }
    with tls_door(served, **asked) as door:
        with (
            driven(shell, "shop", door.address(), tls=trusted) as it,
            pytest.raises(RequestError, match="asks for a client certificate"),
        ):
            it.prepare(ONE)
        assert door.service.transactions == {}
        known = ClientTls(authority.certificate, orders.certificate, orders.key)
        with driven(shell, "shop", door.address(), tls=known) as it:
            assert it.prepare(ONE).handle


@contextmanager
def strict_server(context: ssl.SSLContext) -> Iterator[str]:
    """Shakes hands and nothing more, with alerts: what a proxy in front does. Its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    accepted, _ = listener.accept()
                except OSError:
                    return
                shaking = context.wrap_socket(
                    accepted, server_side=True, do_handshake_on_connect=False
                )
                with shaking:
                    try:
                        shaking.do_handshake()
                    except OSError:
                        while os.read(shaking.fileno(), 65536):
                            pass  # else a reset may overtake the alert

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        serving.join(20)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_proxy_that_misses_the_client_certificate_is_understood(
    shell: str, version: str, authority: Authority, served: Pair, trusted: ClientTls
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion[version]
    context.load_cert_chain(*served.paths)
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    with strict_server(context) as address:
        told = refused(shell, address, trusted)
    assert "asks for a client certificate" in told
    assert "HALFHITCH_CLIENT_CERT_FILE" in told


@pytest.mark.parametrize("shell", SHELLS)
def test_a_decision_that_may_have_been_taken_stays_unknown_when_trust_is_lost(
    shell: str, authority: Authority, trusted: ClientTls, tmp_path: Path
) -> None:
    """What was sent over a connection before is not made undone by a certificate."""
    first = authority.issue(f"first-{shell}")
    pair = Pair(tmp_path / "tls.pem", tmp_path / "tls.key")
    pair.replace(first)
    other = Authority(tmp_path / "other", "Another authority").issue(f"other-{shell}")
    with tls_door(pair) as door, driven(shell, "shop", door.address(), tls=trusted) as it:
        handle = it.prepare(ONE).handle
        assert door.tls is not None
        door.service.hold()
        pair.replace(other)
        door.tls.renew()
        door.tls.renew()
        result: list[BaseException] = []

        def commit() -> None:
            try:
                it.commit(handle)
            except BaseException as error:  # noqa: BLE001 - looked at below
                result.append(error)

        committing = threading.Thread(target=commit)
        committing.start()
        door.run(door.service.until_waiting(1))
        for connection in list(door.door._load.connections):
            door._loop.call_soon_threadsafe(connection.abort)
        committing.join(20)
        door._loop.call_soon_threadsafe(door.service.release)
        assert [type(error) for error in result] == [DecisionUnknown]
        assert "authority that is not known here" in str(result[0])


# -- addresses and files -------------------------------------------------------------------------


def test_tls_for_an_address_without_it_is_refused(trusted: ClientTls) -> None:
    for address in ("http://127.0.0.1:1", "unix:/run/x.sock"):
        with pytest.raises(ConfigurationError, match="https:// alone"):
            parse_address(address, trusted)


def test_files_that_are_none_are_refused_when_the_producer_is_made(
    authority: Authority, served: Pair, tmp_path: Path
) -> None:
    missing = tmp_path / "missing.pem"
    for tls, words in (
        (ClientTls(ca_file=missing), "no such file"),
        (ClientTls(ca_file=served.key), "ca_file"),
        (ClientTls(cert_file=missing), "no such file"),
        (ClientTls(key_file=served.key), "without the cert_file"),
        (ClientTls(cert_file=served.certificate, key_file=authority._key), "mismatch"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            parse_address("https://127.0.0.1:1", tls)


def test_a_client_certificate_that_is_replaced_is_used_for_the_next_connection(
    authority: Authority, orders: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair = Pair(tmp_path / "client.pem", tmp_path / "client.key")
    pair.replace(orders)
    trust = Trust(ClientTls(authority.certificate, *pair.paths), "localhost")
    before = trust.context()
    assert trust.context() is before
    pair.replace(authority.issue("orders-renewed", use="client"))
    after = trust.context()
    assert after is not before
    os.truncate(pair.certificate, 10)
    assert trust.context() is after
    assert trust.context() is after
    assert [line.levelname for line in caplog.records] == ["WARNING"]


def test_nothing_turns_verification_off(trusted: ClientTls) -> None:
    context = Trust(trusted._replace(server_name="x"), "localhost").context()
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
