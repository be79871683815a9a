"""Asking the admin door of a running sidecar.

Owns `AdminClient`: one request and what its failures mean to a person. A door that does not answer
is BackendError; it says nothing about the transactions. Standard library only.
"""

import http.client
import json
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from halfhitch.config import Settings
from halfhitch.config.loopback import is_loopback
from halfhitch.errors import BackendError, ConfigurationError, OutcomeUnknown, RequestError
from halfhitch_cli.answers import Answer, without_strange

if TYPE_CHECKING:
    from halfhitch.client.tls import ClientTls, Trust

_WAIT_S = 5.0
#: For what the sidecar has to ask Kafka for, and perhaps read a whole topic.
SLOW_S = 90.0
#: 32 MiB of payload as base64 in JSON, and some more.
_BODY_BYTES_MAX = 64 * 1_048_576
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what a server binds


class TokenAsked(RequestError):
    """The sidecar knows none of our tokens, or was given none."""


class Refusal(RequestError):
    """The sidecar has answered with an error; `reason` is its own sentence."""

    def __init__(self, message: str, *, status: int, reason: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class _Encrypted(http.client.HTTPConnection):
    """Verifies the certificate for the name that is expected, not for the one that is called."""

    def __init__(self, host: str, port: int, *, wait_s: float, trust: "Trust") -> None:
        super().__init__(host, port, timeout=wait_s)
        self._trust = trust

    def connect(self) -> None:
        connected = socket.create_connection((self.host, self.port), self.timeout)
        self.sock = self._trust.encrypted(connected)


class AdminClient:
    """One admin door. Several threads may use it."""

    def __init__(
        self,
        host: str,
        port: int,
        token: str | None = None,
        tls: "ClientTls | None" = None,
        *,
        encrypted_in_front: bool = False,
    ) -> None:
        """Raises ConfigurationError where others could read the token on its way."""
        # A server binds "every address"; nobody can connect to that.
        self._host = _ANY_ADDRESS.get(host, host).strip("[]")
        self._port = port
        self._trust = None if tls is None else _trust(tls, self._host)
        if token is not None and tls is None and not encrypted_in_front:
            _require_loopback(self._host)
        self._headers = {"Half-Token": token} if token is not None else {}

    @classmethod
    def of(cls, settings: Settings) -> "AdminClient":
        """The door of the sidecar that has these settings."""
        tokens = settings.auth.tokens
        token = tokens[0].reveal() if tokens else None
        return cls(
            settings.admin.host,
            settings.admin.port,
            token,
            _tls_of(settings),
            encrypted_in_front=(
                settings.client.encrypted_in_front or settings.admin.encrypted_in_front
            ),
        )

    @property
    def address(self) -> str:
        """http://host:port, or https://"""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'http' if self._trust is None else 'https'}://{host}:{self._port}"

    def get(self, path: str, *, wait_s: float = _WAIT_S) -> tuple[int, Any]:
        """Status and decoded body (None when empty). Raises BackendError, Refusal."""
        return self._ask("GET", path, None, wait_s)

    def find(self, path: str, filters: Mapping[str, object], *, wait_s: float = SLOW_S) -> Any:
        """The decoded answer to a question with filters; those that are None are left out."""
        given = {name: value for name, value in filters.items() if value is not None}
        query = f"?{urlencode(given, doseq=True)}" if given else ""
        return self._ask("GET", path + query, None, wait_s)[1]

    def text(self, path: str, *, wait_s: float = _WAIT_S) -> str:
        """An answer that is not JSON, of /metrics. Raises BackendError, Refusal."""
        status, raw = self._raw("GET", path, None, wait_s)
        if status >= http.client.BAD_REQUEST:
            self._decoded(path, status, raw)
        return raw.decode("utf-8", "replace")

    def post(self, path: str, body: Mapping[str, object]) -> Any:
        """The decoded answer. Raises OutcomeUnknown when none came."""
        return self._ask("POST", path, body, SLOW_S)[1]

    def _ask(
        self, method: str, path: str, body: Mapping[str, object] | None, wait_s: float
    ) -> tuple[int, Any]:
        status, raw = self._raw(method, path, body, wait_s)
        return status, self._decoded(path, status, raw)

    def _raw(
        self, method: str, path: str, body: Mapping[str, object] | None, wait_s: float
    ) -> tuple[int, bytes]:
        connection = self._connection(wait_s)
        try:
            self._connect(connection)
            headers, encoded = dict(self._headers), None
            if body is not None:
                encoded = json.dumps(body).encode()
                headers["Content-Type"] = "application/json"
            connection.request(method, path, encoded, headers)
            response = connection.getresponse()
            raw = response.read(_BODY_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException) as error:
            self._explain(error)
            raise self._no_answer(method, error) from error
        finally:
            connection.close()
        return response.status, raw

    def _connection(self, wait_s: float) -> http.client.HTTPConnection:
        if self._trust is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=wait_s)
        return _Encrypted(self._host, self._port, wait_s=wait_s, trust=self._trust)

    def _explain(self, error: Exception) -> None:
        """Raise BackendError if the encryption is at fault: then nothing of ours was read."""
        trouble = None if self._trust is None else self._trust.trouble_with(error)
        if trouble is not None:
            raise BackendError(f"The sidecar on {self.address}: {trouble}.") from error

    def _connect(self, connection: http.client.HTTPConnection) -> None:
        try:
            connection.connect()
        except OSError as error:
            self._explain(error)
            raise BackendError(
                f"No sidecar answers on {self.address} ({error}): start one with `halfhitch serve` "
                "or `halfhitch dev`, or name its door with --admin-host and --admin-port."
            ) from error

    def _no_answer(self, method: str, error: Exception) -> BackendError:
        if method == "GET" and isinstance(error, TimeoutError):
            return BackendError(
                f"The sidecar on {self.address} did not answer ({error}): see its log, try again."
            )
        if method == "GET":
            return BackendError(
                f"What listens on {self.address} gave no HTTP answer ({error}): it may be no "
                "sidecar (Kafka and Redis answer so). The admin port is 8341 unless set; "
                "`halfhitch dev` and `serve` say theirs."
            )
        return OutcomeUnknown(
            f"The sidecar on {self.address} did not answer ({error}): whether it was done is not "
            "known. Look before you repeat it; to repeat is safe."
        )

    def _decoded(self, path: str, status: int, raw: bytes) -> Any:
        if status == http.client.UNAUTHORIZED:
            raise TokenAsked(
                f"The sidecar on {self.address} asks for a token: set HALFHITCH_AUTH_TOKENS or "
                "--auth-token-file to one it accepts."
            )
        if len(raw) > _BODY_BYTES_MAX:
            raise BackendError(
                f"The answer of {self.address} is larger than {_BODY_BYTES_MAX} bytes; ask for "
                "less, with filters or --limit."
            )
        try:
            decoded = without_strange(json.loads(raw, object_hook=Answer)) if raw else None
        except (ValueError, RecursionError):
            raise self._no_sidecar() from None
        detail = decoded.get("error") if isinstance(decoded, dict) else None
        if isinstance(detail, dict) and detail.get("code") == "tls_expected":
            raise BackendError(
                f"The sidecar on {self.address} speaks TLS: give --client-tls true, and "
                "--client-ca-file with its authority (HALFHITCH_CLIENT_TLS, ..._CA_FILE)."
            )
        if status >= http.client.BAD_REQUEST and path not in ("/readyz", "/livez"):
            found = detail.get("message") if isinstance(detail, dict) else None
            reason = str(found or "no reason given")
            raise Refusal(
                f"The sidecar on {self.address} answers {status} to "
                f"{path.partition('?')[0]}: {reason}",
                status=status,
                reason=reason,
            )
        if not isinstance(decoded, dict) and (decoded is not None or path.startswith("/v1/")):
            raise self._no_sidecar()
        return decoded

    def _no_sidecar(self) -> BackendError:
        return BackendError(
            f"What answers on {self.address} is no sidecar's admin door: check --admin-host and "
            "--admin-port."
        )


def _tls_of(settings: Settings) -> "ClientTls | None":
    given = settings.client
    if not (given.tls or settings.admin.tls_cert is not None or given.ca_file is not None):
        return None
    from halfhitch.client.tls import ClientTls

    return ClientTls(given.ca_file, given.cert_file, given.key_file, given.server_name)


def _require_loopback(host: str) -> None:
    """A name counts as another machine, for what it leads to may change."""
    if not is_loopback(host):
        raise ConfigurationError(
            f"admin.host is {host}, another machine, and what travels there is not encrypted: the "
            "token could be read on the way. Give --client-tls true, and --client-ca-file with its "
            "authority; or, if a mesh or a proxy in front of it encrypts, "
            "--client-encrypted-in-front true (HALFHITCH_CLIENT_ENCRYPTED_IN_FRONT)."
        )


def _trust(tls: "ClientTls", host: str) -> "Trust":
    from halfhitch.client.tls import Trust

    return Trust(tls, host)


def path_of(kind: str, group: str, transaction_id: str, action: str = "") -> str:
    """The path of one transaction: /v1/{kind}/{group}/{id}[/{action}]."""
    path = f"/v1/{kind}/{quote(group, safe='')}/{quote(transaction_id, safe='')}"
    return f"{path}/{action}" if action else path
