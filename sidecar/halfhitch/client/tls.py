"""What an `https://` address is spoken to with: whom we trust, and who we are.

The server's certificate is always verified, for the name that is called (or `server_name`); there
is no switch against it. Files that are replaced are read again for the next connection; what cannot
be read then is told in the log, and the ones before it are used on.
"""

import logging
import os
import socket
import ssl
from collections.abc import Mapping
from typing import NamedTuple

from halfhitch.errors import ConfigurationError
from halfhitch.pem import Encrypted, no_password, trouble_of, unreadable

log = logging.getLogger("halfhitch.client")

_Path = str | os.PathLike[str]

#: OpenSSL's codes of what is wrong with a certificate.
_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21})
#: Of those: nobody has signed it whom we know. What stands between may be missing.
_INCOMPLETE = frozenset({2, 20, 21})
_OUT_OF_DATE = frozenset({9, 10})
_OTHER_NAME = frozenset({62, 64})

_PLAIN = "it does not speak TLS: call it with http://, or give it a certificate (http.tls_cert)"
_WANTS_OURS = (
    "it asks for a client certificate: give one with tls=ClientTls(cert_file=..., key_file=...), "
    "or HALFHITCH_CLIENT_CERT_FILE and HALFHITCH_CLIENT_KEY_FILE"
)
_REFUSES_OURS = (
    "it turns our client certificate{ours} away: it must be valid now, for clients, and come from "
    "the authorities in the door's tls_client_ca"
)
#: By OpenSSL's reason.
_TROUBLES = {
    "WRONG_VERSION_NUMBER": _PLAIN,
    "RECORD_LAYER_FAILURE": _PLAIN,
    "HTTP_REQUEST": _PLAIN,
    "PACKET_LENGTH_TOO_LONG": _PLAIN,
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": _WANTS_OURS,
    "TLSV1_ALERT_UNKNOWN_CA": _REFUSES_OURS,
    "SSLV3_ALERT_BAD_CERTIFICATE": _REFUSES_OURS,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": _REFUSES_OURS,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _REFUSES_OURS,
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": _REFUSES_OURS,
    "TLSV1_ALERT_PROTOCOL_VERSION": "it speaks other versions of TLS than this client",
    "UNSUPPORTED_PROTOCOL": "it speaks other versions of TLS than this client",
}


class ClientTls(NamedTuple):
    """Files in PEM for an `https://` address; what is left out is not needed, or the system's.

    `ca_file` has the authorities that are trusted, instead of the system's. `cert_file` and
    `key_file` are for doors that ask for client certificates. `server_name` is the name that the
    server's certificate must have where it is not the one that is called, as behind a tunnel.
    """

    ca_file: _Path | None = None
    cert_file: _Path | None = None
    key_file: _Path | None = None
    server_name: str | None = None

    @classmethod
    def of_environment(cls, environ: Mapping[str, str]) -> "ClientTls":
        """HALFHITCH_CLIENT_CA_FILE, ..._CERT_FILE, ..._KEY_FILE and ..._SERVER_NAME."""
        return cls(
            *(environ.get(f"HALFHITCH_CLIENT_{name.upper()}") or None for name in cls._fields)
        )


class Trust:
    """Makes connections to one host encrypted. Threads may share it."""

    def __init__(self, files: ClientTls, host: str) -> None:
        """Raises ConfigurationError when the files cannot be used."""
        self.server_name = files.server_name or host
        self._files = files
        self._seen = _identities(files)
        self._context = _context(files)

    def context(self) -> ssl.SSLContext:
        """For the next connection."""
        found = _identities(self._files)
        if found != self._seen:
            self._seen = found
            try:
                self._context = _context(self._files)
            except ConfigurationError as error:
                log.warning(
                    "%s; the ones before it are used on",
                    error.message,
                    extra={"action": "tls_not_renewed"},
                )
        return self._context

    def encrypted(self, connected: socket.socket) -> ssl.SSLSocket:
        """Over the connection, within its timeout. Raises OSError, and the connection is closed."""
        try:
            return self.context().wrap_socket(
                connected, server_hostname=self.server_name, suppress_ragged_eofs=False
            )
        except BaseException:
            connected.close()
            raise

    @staticmethod
    def is_quiet(connected: ssl.SSLSocket) -> bool:
        """Open, with nothing to read. What there is to read is lost: it belongs to nobody."""
        try:
            connected.setblocking(False)
            connected.recv(1)
        except ssl.SSLWantReadError:
            return True
        except OSError:
            return False
        return False

    def trouble_with(self, error: BaseException) -> str | None:
        """What a person can do about it; None if it is no matter of certificates and versions.

        All of these end a handshake: nothing that was sent behind it has been read.
        """
        if isinstance(error, ssl.SSLCertVerificationError):
            return self._trouble_with_theirs(error)
        if not isinstance(error, ssl.SSLError):
            return None
        found = _TROUBLES.get(error.reason or "")
        ours = self._files.cert_file
        if error.reason == "SSLV3_ALERT_HANDSHAKE_FAILURE":
            found = _WANTS_OURS if ours is None else _REFUSES_OURS
        named = "" if ours is None else f" {str(ours)!r}"
        return None if found is None else found.replace("{ours}", named)

    def _trouble_with_theirs(self, error: ssl.SSLCertVerificationError) -> str:
        code = error.verify_code
        if code in _OTHER_NAME:
            return (
                f"its certificate is not for {self.server_name!r}: call it by a name that stands "
                "in its subjectAltName, or give that one as server_name (ClientTls, "
                "HALFHITCH_CLIENT_SERVER_NAME)"
            )
        if code in _OUT_OF_DATE:
            return (
                f"its {error.verify_message}: the door's tls_cert needs a new one, or a clock is "
                "wrong, here or where it was made"
            )
        if code in _UNKNOWN_AUTHORITY:
            trusted = (
                "" if self._files.ca_file is None else f", nor in {str(self._files.ca_file)!r}"
            )
            chain = (
                "; if that is the right one, the chain in the door's tls_cert is incomplete: the "
                "certificates of the authorities between belong there, behind its own"
            )
            return (
                "its certificate comes from an authority that is not known here "
                f"({error.verify_message}{trusted}): give the authority's file with "
                "tls=ClientTls(ca_file=...) or HALFHITCH_CLIENT_CA_FILE"
                f"{chain if code in _INCOMPLETE else ''}"
            )
        return f"its certificate cannot be trusted: {error.verify_message}"


def _context(files: ClientTls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=files.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"The authorities in {str(files.ca_file)!r} (ca_file, HALFHITCH_CLIENT_CA_FILE) cannot "
            f"be used: {_said(error, str(files.ca_file), 'give a file of certificates, PEM')}"
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.cert_file is None:
        if files.key_file is not None:
            raise ConfigurationError(
                "A key_file (HALFHITCH_CLIENT_KEY_FILE) is given without the cert_file "
                "(HALFHITCH_CLIENT_CERT_FILE) that it is the key of."
            )
        return context
    for name, path in (("cert_file", files.cert_file), ("key_file", files.key_file)):
        trouble = None if path is None else unreadable(path)
        if path is not None and trouble is not None:
            raise ConfigurationError(
                f"The {name} {str(path)!r} (HALFHITCH_CLIENT_{name.upper()}) cannot be read: "
                f"{_said(trouble, path, 'name a file that is there')}"
            ) from trouble
    try:
        context.load_cert_chain(files.cert_file, files.key_file, no_password)
    except (OSError, ssl.SSLError, Encrypted) as error:
        key = "" if files.key_file is None else f" with the key_file {str(files.key_file)!r}"
        cure = "give a chain and its unencrypted key, PEM"
        raise ConfigurationError(
            f"The client certificate {str(files.cert_file)!r}{key} (cert_file, key_file, "
            "HALFHITCH_CLIENT_CERT_FILE, HALFHITCH_CLIENT_KEY_FILE) cannot be used: "
            f"{_said(error, files.cert_file, cure, files.key_file)}"
        ) from error
    return context


def _said(error: BaseException, path: _Path, cure: str, key: _Path | None = None) -> str:
    found = trouble_of(error, path, key)
    return f"{found.what}; {found.cure or cure}."


def _identities(files: ClientTls) -> tuple[tuple[int, int, int] | None, ...]:
    paths = (files.ca_file, files.cert_file, files.key_file)
    return tuple(_identity(path) for path in paths if path is not None)


def _identity(path: _Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - a text is allowed
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
