"""One question to the admin door of a sidecar on this machine: does it live, is it ready?

Owns `probe` and `quick`, the way from the command line to it without typer and settings: Kubernetes
and Docker start this every few seconds, beside the work. Standard library only. A door that does
not answer is not called unhealthy: that is not known.
"""

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

QUESTIONS: Final = ("livez", "readyz")
OK, NO_ANSWER, USAGE, UNHEALTHY = 0, 1, 2, 3
_WAIT_S: Final = 4.0
_ANSWER_BYTES_MAX: Final = 65_536
_ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what a server binds


class Found(NamedTuple):
    """An exit code, and what a person is told; nothing when all is well."""

    code: int
    text: str


def quick(given: Sequence[str], environ: Mapping[str, str] | None = None) -> int | None:
    """The exit code where the environment alone says which door; None where typer has to look."""
    environ = os.environ if environ is None else environ
    asked = list(given) or ["readyz"]
    if len(asked) > 1 or asked[0] not in QUESTIONS or environ.get("HALFHITCH_CONFIG"):
        return None
    port = environ.get("HALFHITCH_ADMIN_PORT") or "8341"
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65_536):
        return tell(Found(USAGE, f"HALFHITCH_ADMIN_PORT must be a port, not {port!r}."))
    return tell(
        probe(
            asked[0],
            environ.get("HALFHITCH_ADMIN_HOST") or "127.0.0.1",
            int(port),
            is_encrypted=bool(environ.get("HALFHITCH_ADMIN_TLS_CERT")),
        )
    )


def tell(found: Found) -> int:
    """What a person reads goes to stderr; the rest is the exit code."""
    if found.text:
        sys.stderr.write(f"halfhitch: {found.text}\n")
    return found.code


def probe(question: str, host: str, port: int, *, is_encrypted: bool) -> Found:
    """Ask. No token is sent: probes need none, and the certificate is not verified."""
    host = _ANY_ADDRESS.get(host, host).strip("[]")
    where = f"{host}:{port}"
    try:
        connected = socket.create_connection((host, port), _WAIT_S)
        with _encrypted(connected) if is_encrypted else connected as connection:
            # Without a Host, which HTTP/1.0 allows: http.hosts may not have this one.
            connection.sendall(f"GET /{question} HTTP/1.0\r\n\r\n".encode())
            answer = _received(connection)
    except OSError as error:
        return Found(NO_ANSWER, f"No sidecar answers on {where} ({error}).")
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if not words[0].startswith(b"HTTP/1.") or len(words) < 2:
        return Found(NO_ANSWER, f"What listens on {where} is no sidecar's admin door.")
    if words[1] in (b"200", b"204"):
        return Found(OK, "")
    shown = body.decode("utf-8", "replace").strip()
    said = "".join(letter if letter.isprintable() else "?" for letter in shown)
    return Found(
        UNHEALTHY, f"/{question} on {where} answers {words[1].decode('ascii', 'replace')}: {said}"
    )


def _encrypted(connection: socket.socket) -> socket.socket:
    import ssl

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        return context.wrap_socket(connection)
    except OSError:
        connection.close()
        raise


def _received(connection: socket.socket) -> bytes:
    answer = b""
    while len(answer) < _ANSWER_BYTES_MAX and (part := connection.recv(4_096)):
        answer += part
    return answer
