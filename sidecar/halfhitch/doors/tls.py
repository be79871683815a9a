"""A door's certificate: read, tried out, and read again when its files are replaced.

Owns `ServerTls`, the same for every door. Invariants: what cannot serve a client (a key of another
certificate, one that has expired, one for other uses) is never offered: at the start it is
refused, later the one before it stays and the log says why. A pair is two files that nobody can
replace at once: they are read when they were the same at two looks in a row.

Where clients show certificates, what one has shown counts under the authorities it was verified
by: with TLS 1.3 no session is resumed, with 1.2 none that began under others (OpenSSL keeps those
of a context, which Python cannot switch off), and when the authorities change, connections that
are open end between two requests, to come back and be verified anew.
"""

import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from halfhitch.config.file_state import FileState, state_of
from halfhitch.errors import ConfigurationError
from halfhitch.pem import Encrypted, Trouble, no_password, trouble_of, unreadable

logger = logging.getLogger(__name__)

ClientCertificates = Literal["off", "wanted", "required"]
Minimum = Literal["1.2", "1.3"]

_ASKED: Final = {
    "off": ssl.CERT_NONE,
    "wanted": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
#: More than any handshake with oneself takes.
_FLIGHTS_MAX: Final = 10
#: How names of a client's certificate begin: who may have a DNS name may not have any URI.
_KINDS: Final = {"DNS": "DNS", "URI": "URI", "IP Address": "IP", "email": "EMAIL"}
_DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """What an operator decides about the TLS of one door."""

    #: The first part of the settings' keys: http, admin, rocketmq.
    door: str
    certificate: Path
    key: Path | None = None
    client_ca: Path | None = None
    clients: ClientCertificates = "off"
    minimum: Minimum = "1.2"
    #: What is spoken inside, as ALPN names it; empty: whatever the door speaks, unnamed.
    protocols: tuple[str, ...] = ()
    #: A client without the certificate that is required gets through the handshake, for the door
    #: to tell it so and nothing else: asyncio closes a failed one without an alert.
    tells_without_certificate: bool = False

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files there are."""
        return tuple(path for path in (self.certificate, self.key, self.client_ca) if path)


class DoorContext(ssl.SSLContext):
    """Knows by which authorities it verifies clients."""

    authorities = b""


class ServerTls:
    """What new connections of a door are encrypted with."""

    def __init__(self, files: TlsFiles, wall_ms: Callable[[], int]) -> None:
        """Raises ConfigurationError. Blocks for reading the files."""
        self.files = files
        self.wall_ms = wall_ms
        self._seen = self._loaded = _states(files)
        self._refused: tuple[tuple[FileState, ...], str] | None = None
        self._told_at_s = 0.0
        self._context, self.expires_at_s = _made(files)

    @property
    def context(self) -> DoorContext:
        """For the next connection; those that are open keep what they have."""
        return self._context

    def renew(self) -> None:
        """Read the files again if they were replaced, those that cannot be used each time.

        Blocks; to be called now and then.
        """
        found = _states(self.files)
        is_settled, self._seen = found == self._seen, found
        if found == self._loaded:
            self._say_expired()
        elif is_settled:
            self._load(found)

    def _load(self, found: tuple[FileState, ...]) -> None:
        door = self.files.door
        try:
            context, expires_at_s = _made(self.files)
        except ConfigurationError as error:
            refused = (found, error.message)
            if refused != self._refused:
                self._refused = refused
                logger.warning(
                    "the files of %s.tls_cert were replaced by what cannot be used; the door goes "
                    "on with the certificate it has. %s",
                    door,
                    error.message,
                    extra={"action": "tls_not_renewed", "door": door},
                )
            return
        self._context, self.expires_at_s = context, expires_at_s
        self._loaded, self._refused = found, None
        logger.info(
            "the certificate of %s.tls_cert was replaced; the new one is good for %d days",
            door,
            (expires_at_s - self.wall_ms() / 1000) // _DAY_S,
            extra={"action": "tls_renewed", "door": door},
        )

    def _say_expired(self) -> None:
        """Nobody is let in with it, and only this line says why; once a day."""
        now_s = self.wall_ms() / 1000
        if now_s > self.expires_at_s and now_s - self._told_at_s > _DAY_S:
            self._told_at_s = now_s
            logger.error(
                "the certificate in %s.tls_cert has expired, and clients turn away: put a new one "
                "in its place, which is taken without a restart",
                self.files.door,
                extra={"action": "tls_expired", "door": self.files.door},
            )


def peer_certificate_names(ssl_object: Any) -> tuple[str, ...]:
    """Whom a client's verified certificate names: `CN:orders`, `DNS:orders.shop.svc`, `URI:...`.

    Empty without a certificate, and of a connection that is not encrypted (None).
    """
    certificate = None if ssl_object is None else ssl_object.getpeercert()
    if not certificate:
        return ()
    names = [
        f"CN:{value}"
        for part in certificate.get("subject", ())
        for kind, value in part
        if kind == "commonName"
    ]
    names += [
        f"{_KINDS[kind]}:{value}"
        for kind, value in certificate.get("subjectAltName", ())
        if kind in _KINDS
    ]
    return tuple(names)


class ClientCertificate:
    """What a client has shown; nothing any more once it has ended.

    Its connection may live on, and a TLS session open others that verify nothing again.
    """

    __slots__ = ("_authorities", "_ends_at_s", "_names", "_tls", "_wall_ms")

    def __init__(self, ssl_object: Any, tls: ServerTls) -> None:
        self._tls = tls
        self._wall_ms = tls.wall_ms
        # Of the context its handshake began with, which may be older than the present one.
        self._authorities = ssl_object.context.authorities
        found = ssl_object.getpeercert()
        self._names = peer_certificate_names(ssl_object)
        self._ends_at_s = ssl.cert_time_to_seconds(str(found["notAfter"])) if found else -1

    def counts(self) -> bool:
        """Whether there is one that was verified, and is good now."""
        return self._wall_ms() / 1000 <= self._ends_at_s

    def is_outdated(self) -> bool:
        """Whether one was verified, whoever it names, by authorities that have changed since."""
        return self._ends_at_s >= 0 and self._authorities != self._tls.context.authorities

    def names(self) -> tuple[str, ...]:
        """Whom it names, while it is good."""
        return self._names if self._names and self.counts() else ()


def _states(files: TlsFiles) -> tuple[FileState, ...]:
    return tuple(state_of(path) for path in files.paths)


def _made(files: TlsFiles) -> tuple[DoorContext, float]:
    """A context and the moment its certificate ends. Raises ConfigurationError."""
    context = DoorContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[files.minimum]
    # OpenSSL before 3 let clients begin anew, on one connection, as often as they liked.
    context.options |= ssl.OP_NO_RENEGOTIATION
    if files.protocols:
        context.set_alpn_protocols(list(files.protocols))
    for setting, path in (("tls_cert", files.certificate), ("tls_key", files.key)):
        error = None if path is None else unreadable(path)
        if path is not None and error is not None:
            raise _unusable(f"{files.door}.{setting} {path}", trouble_of(error, path)) from error
    named = f"{files.door}.tls_cert {files.certificate}"
    if files.key is not None:
        named += f" with {files.door}.tls_key {files.key}"
    try:
        context.load_cert_chain(files.certificate, files.key, no_password)
        expires_at_s = _tried_out(context, files)
    except (OSError, ssl.SSLError, Encrypted) as error:
        raise _unusable(named, trouble_of(error, files.certificate, files.key)) from error
    if files.client_ca is not None:
        try:
            context.load_verify_locations(files.client_ca)
            context.authorities = files.client_ca.read_bytes()
        except (OSError, ssl.SSLError) as error:
            what, cure = trouble_of(error, files.client_ca)
            raise ConfigurationError(
                f"{files.door}.tls_client_ca names {str(files.client_ca)!r}, which cannot be used "
                f"({what}): {cure or 'give the certificates of the authorities, PEM'}."
            ) from error
    context.verify_mode = _ASKED[files.clients]
    if files.clients != "off":
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    if files.tells_without_certificate and files.clients == "required":
        context.verify_mode = ssl.CERT_OPTIONAL
    return context, expires_at_s


def _tried_out(context: ssl.SSLContext, files: TlsFiles) -> float:
    """When the certificate ends: a client that trusts it must get through. Raises SSLError.

    In memory, without a socket. It sees what a client would: the key, the dates, what for.
    """
    judge = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    judge.check_hostname = False  # no host is called; what is judged is the pair
    judge.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    judge.load_verify_locations(files.certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        judge.wrap_bio(to_client, to_server),
        context.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(_FLIGHTS_MAX):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass  # the other side's turn
    certificate = sides[0].getpeercert()
    if not certificate:
        raise ssl.SSLError("it could not be verified")
    return ssl.cert_time_to_seconds(str(certificate["notAfter"]))


def _unusable(named: str, trouble: Trouble) -> ConfigurationError:
    cure = trouble.cure or (
        "give a certificate chain that is valid now, for servers, and its unencrypted key, both PEM"
    )
    return ConfigurationError(f"{named} cannot be used ({trouble.what}): {cure}.")
