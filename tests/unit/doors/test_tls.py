"""Certificates of a door: what is refused at the start, and what is taken later."""

from __future__ import annotations

import logging
import ssl
import subprocess
from typing import TYPE_CHECKING

import pytest

from halfhitch.doors import tls as module
from halfhitch.doors.tls import ServerTls, TlsFiles, peer_certificate_names
from halfhitch.errors import ConfigurationError
from harness.certificates import LONG_AGO, Pair

if TYPE_CHECKING:
    from pathlib import Path

    from harness.certificates import Authority

TODAY_MS = 1_800_000_000_000


def wall_ms() -> int:
    return TODAY_MS


def shaken(tls: ServerTls, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both sides of a handshake in memory, the server's first. Raises SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = tls.context.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    for _ in range(6):
        for side in (theirs, ours):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
    return ours, theirs


def trusting(authority: Authority, pair: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if pair is not None:
        context.load_cert_chain(*pair.paths)
    return context


@pytest.fixture(scope="session")
def good(authority: Authority) -> Pair:
    return authority.issue("good")


@pytest.fixture
def moved(authority: Authority, good: Pair, tmp_path: Path) -> Pair:
    """A good pair in files that may be replaced."""
    pair = Pair(tmp_path / "tls.pem", tmp_path / "tls.key")
    pair.replace(good)
    return pair


def common_name(tls: ServerTls, authority: Authority) -> str:
    """Whose certificate new connections get."""
    (name, *_) = peer_certificate_names(shaken(tls, trusting(authority))[1])
    return name


# -- at the start --------------------------------------------------------------------------------


def test_an_expired_certificate_stops_the_start(authority: Authority) -> None:
    old = authority.issue("old", valid=LONG_AGO)
    with pytest.raises(ConfigurationError, match=r"http\.tls_cert .*old\.pem.*has expired"):
        ServerTls(old.files(), wall_ms)


def test_a_certificate_of_tomorrow_stops_the_start(authority: Authority) -> None:
    early = authority.issue("early", valid=("20900101000000Z", "20910101000000Z"))
    with pytest.raises(ConfigurationError, match="not yet valid"):
        ServerTls(early.files(), wall_ms)


def test_the_key_of_another_certificate_stops_the_start(authority: Authority, good: Pair) -> None:
    other = authority.issue("other")
    with pytest.raises(ConfigurationError, match=r"key values mismatch.*unencrypted"):
        ServerTls(Pair(good.certificate, other.key).files(), wall_ms)


def test_a_certificate_for_clients_stops_the_start(authority: Authority) -> None:
    """Every client would turn it away, and only their logs would say why."""
    with pytest.raises(ConfigurationError, match="purpose"):
        ServerTls(authority.issue("for-clients", use="client").files(), wall_ms)


@pytest.mark.parametrize("door", ["http", "admin", "rocketmq"])
def test_files_that_are_none_stop_the_start_with_the_settings_name(
    door: str, good: Pair, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=rf"{door}\.tls_cert .*no such file"):
        ServerTls(TlsFiles(door=door, certificate=tmp_path / "missing.pem"), wall_ms)
    with pytest.raises(ConfigurationError, match=rf"{door}\.tls_cert .*not PEM"):
        ServerTls(TlsFiles(door=door, certificate=good.key), wall_ms)


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_a_password(
    good: Pair, tmp_path: Path
) -> None:
    """OpenSSL would ask on the terminal, and a start in a container would hang for ever."""
    locked = tmp_path / "locked.key"
    asked = ("ec", "-in", str(good.key), "-aes256", "-passout", "pass:x", "-out", str(locked))
    subprocess.run(["openssl", *asked], check=True, capture_output=True)
    with pytest.raises(ConfigurationError, match="its key is encrypted"):
        ServerTls(Pair(good.certificate, locked).files(), wall_ms)


def test_client_authorities_that_are_none_stop_the_start(good: Pair, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").touch()
    for path in (tmp_path / "missing.pem", tmp_path / "empty.pem"):
        with pytest.raises(ConfigurationError, match=r"http\.tls_client_ca .*authorities, PEM"):
            ServerTls(good.files(client_ca=path, clients="required"), wall_ms)


def test_chain_and_key_may_be_in_one_file(authority: Authority, good: Pair, tmp_path: Path) -> None:
    whole = tmp_path / "whole.pem"
    parts = (good.key, good.certificate, authority.certificate)
    whole.write_bytes(b"".join(path.read_bytes() for path in parts))
    tls = ServerTls(TlsFiles(door="http", certificate=whole), wall_ms)
    assert common_name(tls, authority) == "CN:good"
    assert tls.expires_at_s == ssl.cert_time_to_seconds("Dec 31 00:00:00 2099 GMT")


# -- what is spoken ------------------------------------------------------------------------------


def test_what_is_older_than_the_minimum_is_turned_away(authority: Authority, good: Pair) -> None:
    older = trusting(authority)
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    assert shaken(ServerTls(good.files(), wall_ms), older)[0].version() == "TLSv1.2"
    with pytest.raises(ssl.SSLError, match=r"UNSUPPORTED_PROTOCOL|PROTOCOL_VERSION"):
        shaken(ServerTls(good.files(minimum="1.3"), wall_ms), older)


def test_of_the_protocols_offered_only_ours_is_chosen(authority: Authority, good: Pair) -> None:
    tls = ServerTls(good.files(protocols=("http/1.1",)), wall_ms)
    client = trusting(authority)
    client.set_alpn_protocols(["h2", "http/1.1"])
    assert shaken(tls, client)[1].selected_alpn_protocol() == "http/1.1"
    client.set_alpn_protocols(["h2"])
    assert shaken(tls, client)[1].selected_alpn_protocol() is None


# -- clients' certificates -----------------------------------------------------------------------


@pytest.fixture(scope="session")
def orders(authority: Authority) -> Pair:
    names = "DNS:orders.shop.svc,URI:spiffe://shop/orders,IP:10.0.0.7,email:shop@example.com"
    return authority.issue("orders", names, use="client")


def test_the_names_of_a_client_say_of_which_kind_they_are(
    authority: Authority, good: Pair, orders: Pair
) -> None:
    tls = ServerTls(good.files(client_ca=authority.certificate, clients="wanted"), wall_ms)
    assert peer_certificate_names(shaken(tls, trusting(authority, orders))[0]) == (
        "CN:orders",
        "DNS:orders.shop.svc",
        "URI:spiffe://shop/orders",
        "IP:10.0.0.7",
        "EMAIL:shop@example.com",
    )
    assert peer_certificate_names(shaken(tls, trusting(authority))[0]) == ()
    assert peer_certificate_names(None) == ()


def test_a_client_that_nobody_asked_has_no_names(
    authority: Authority, good: Pair, orders: Pair
) -> None:
    tls = ServerTls(good.files(), wall_ms)
    assert peer_certificate_names(shaken(tls, trusting(authority, orders))[0]) == ()


# -- replaced while it runs ----------------------------------------------------------------------


def settle(tls: ServerTls) -> None:
    """Two looks: the first sees that something has changed, the second that it is the same."""
    tls.renew()
    tls.renew()


def test_a_new_pair_is_taken_without_a_restart(
    authority: Authority, moved: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tls = ServerTls(moved.files(), wall_ms)
    moved.replace(authority.issue("renewed"))
    assert common_name(tls, authority) == "CN:good"
    settle(tls)
    assert common_name(tls, authority) == "CN:renewed"
    assert "was replaced" in caplog.text


def test_half_of_a_pair_is_waited_out(
    authority: Authority, moved: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody replaces two files at once."""
    tls = ServerTls(moved.files(), wall_ms)
    renewed = authority.issue("renewed-by-halves")
    moved.certificate.write_bytes(renewed.certificate.read_bytes())
    tls.renew()
    moved.key.write_bytes(renewed.key.read_bytes())
    settle(tls)
    assert common_name(tls, authority) == "CN:renewed-by-halves"
    assert "cannot be used" not in caplog.text


@pytest.mark.parametrize("trouble", ["expired", "garbage", "missing", "another's key"])
def test_what_cannot_be_used_is_told_once_and_the_old_one_stays(
    authority: Authority, moved: Pair, caplog: pytest.LogCaptureFixture, trouble: str
) -> None:
    tls = ServerTls(moved.files(), wall_ms)
    if trouble == "expired":
        moved.replace(authority.issue("old-one", valid=LONG_AGO))
    elif trouble == "garbage":
        moved.certificate.write_bytes(b"-----BEGIN CERTIFICATE-----\n????")
    elif trouble == "missing":
        moved.certificate.unlink()
    else:
        moved.key.write_bytes(authority.issue("anothers").key.read_bytes())
    for _ in range(3):
        settle(tls)
    assert common_name(tls, authority) == "CN:good"
    (told,) = [line for line in caplog.records if line.levelno == logging.WARNING]
    assert "http.tls_cert" in told.getMessage()
    moved.replace(authority.issue(f"after-{trouble[:4]}"))
    settle(tls)
    assert common_name(tls, authority) == f"CN:after-{trouble[:4]}"


def test_files_that_came_with_wrong_rights_are_taken_once_they_are_right(
    authority: Authority, moved: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of them has changed then, if the rights are those of a folder above."""
    tls = ServerTls(moved.files(), wall_ms)
    moved.replace(authority.issue("given-late"))

    def refused(_: object) -> None:
        raise ConfigurationError("Permission denied")

    with monkeypatch.context() as closed:
        closed.setattr(module, "_made", refused)
        settle(tls)
    assert common_name(tls, authority) == "CN:good"
    settle(tls)
    assert common_name(tls, authority) == "CN:given-late"


def test_rights_of_a_file_that_are_changed_are_a_change(moved: Pair) -> None:
    before, changed_ns = module.state_of(moved.key), moved.key.stat().st_ctime_ns
    while moved.key.stat().st_ctime_ns == changed_ns:  # the clock of files is coarse
        moved.key.chmod(0o640)
    assert module.state_of(moved.key) != before


def test_client_authorities_are_read_again_too(
    authority: Authority, moved: Pair, orders: Pair, tmp_path: Path
) -> None:
    clients = tmp_path / "clients.pem"
    clients.write_bytes(authority.certificate.read_bytes())
    tls = ServerTls(moved.files(client_ca=clients, clients="required"), wall_ms)
    shaken(tls, trusting(authority, orders))
    clients.write_bytes(moved.certificate.read_bytes())
    settle(tls)
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shaken(tls, trusting(authority, orders))


def test_a_certificate_that_expires_in_use_is_told_once_a_day(
    moved: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    now_ms = TODAY_MS
    tls = ServerTls(moved.files(), lambda: now_ms)
    settle(tls)
    assert caplog.records == []
    now_ms = int(tls.expires_at_s * 1000) + 1_000
    settle(tls)
    assert [line.levelname for line in caplog.records] == ["ERROR"]
    now_ms += 86_401_000
    settle(tls)
    assert len(caplog.records) == 2


def resumed(
    tls: ServerTls, client: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[bool, ssl.SSLSession | None]:
    """Whether the handshake went without a verification; and the session to go on with."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = tls.context.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname="localhost", session=session)
    for _ in range(6):
        for side in (theirs, ours):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
    ours.write(b"x")  # what the client keeps for later comes before it
    theirs.read(1)
    return bool(ours.session_reused), theirs.session


def test_where_certificates_are_asked_for_no_session_is_resumed_unverified(
    authority: Authority, good: Pair, orders: Pair
) -> None:
    """A ticket was worth a certificate for two hours, whatever had become of that."""
    client = trusting(authority, orders)
    client.minimum_version = ssl.TLSVersion.TLSv1_3
    asking = ServerTls(good.files(client_ca=authority.certificate, clients="wanted"), wall_ms)
    _, session = resumed(asking, client, None)
    assert resumed(asking, client, session)[0] is False
    bare = ServerTls(good.files(), wall_ms)
    _, session = resumed(bare, client, None)
    assert resumed(bare, client, session)[0] is True, "where none are, it saves time and costs none"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_no_session_outlives_the_authorities_that_its_client_was_verified_by(
    authority: Authority,
    good: Pair,
    orders: Pair,
    tmp_path: Path,
    version: ssl.TLSVersion,
) -> None:
    client = trusting(authority, orders)
    client.minimum_version = client.maximum_version = version
    authorities = tmp_path / "ca.pem"
    authorities.write_bytes(authority.certificate.read_bytes())
    tls = ServerTls(good.files(client_ca=authorities, clients="wanted"), wall_ms)
    _, session = resumed(tls, client, None)
    authorities.write_bytes(authority.certificate.read_bytes() * 2)
    tls.renew()
    tls.renew()
    assert resumed(tls, client, session)[0] is False


def test_a_client_that_begins_its_handshake_anew_is_refused(good: Pair) -> None:
    """Each time costs a handshake; OpenSSL refuses it by itself only since version 3."""
    assert ServerTls(good.files(), wall_ms).context.options & ssl.OP_NO_RENEGOTIATION
