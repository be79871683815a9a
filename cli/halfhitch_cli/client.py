"""Asking the admin door of a running sidecar.

Owns `AdminClient`: a GET and what its failures mean to a person. A door that does not answer is
BackendError; it says nothing about the transactions. Standard library only.
"""

import http.client
import json
from typing import Any

from halfhitch.config import Settings
from halfhitch.errors import BackendError, RequestError

_WAIT_S = 5.0
_BODY_BYTES_MAX = 16 * 1_048_576
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what a server binds


class AdminClient:
    """One admin door."""

    def __init__(self, host: str, port: int, token: str | None = None) -> None:
        # A server binds "every address"; nobody can connect to that.
        self._host = _ANY_ADDRESS.get(host, host)
        self._port = port
        self._headers = {"Half-Token": token} if token is not None else {}

    @classmethod
    def of(cls, settings: Settings) -> "AdminClient":
        """The door of the sidecar that has these settings."""
        tokens = settings.auth.tokens
        token = tokens[0].reveal() if tokens else None
        return cls(settings.admin.host, settings.admin.port, token)

    @property
    def address(self) -> str:
        """http://host:port"""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    def get(self, path: str) -> tuple[int, Any]:
        """Status and decoded body (None when empty). Raises BackendError, RequestError."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_WAIT_S)
        try:
            connection.request("GET", path, headers=self._headers)
            response = connection.getresponse()
            body = response.read(_BODY_BYTES_MAX)
        except (OSError, http.client.HTTPException) as error:
            raise BackendError(
                f"No sidecar answers on {self.address} ({error}): start one with `halfhitch serve` "
                "or `halfhitch dev`, or name its door with --admin-host and --admin-port."
            ) from error
        finally:
            connection.close()
        if response.status == http.client.UNAUTHORIZED:
            raise RequestError(
                f"The sidecar on {self.address} asks for a token: set HALFHITCH_AUTH_TOKENS or "
                "--auth-token-file to one it accepts."
            )
        try:
            decoded = json.loads(body) if body else None
        except ValueError:
            raise BackendError(
                f"What answers on {self.address} is no sidecar's admin door: "
                "check --admin-host and --admin-port."
            ) from None
        if response.status >= http.client.BAD_REQUEST and path not in ("/readyz", "/livez"):
            detail = decoded.get("error", {}) if isinstance(decoded, dict) else {}
            raise RequestError(
                f"The sidecar on {self.address} answers {response.status} to {path}: "
                f"{detail.get('message', 'no reason given')}"
            )
        return response.status, decoded
