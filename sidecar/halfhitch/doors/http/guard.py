"""Who may come in: tokens, and nothing from a browser.

Owns the checks every request passes before anything else looks at it, unknown paths included:
what is not allowed by name is refused.

- A token, when any is set, or with identities a client certificate. It says who asks
  (`Request.caller`); what he may do, that is asked. Whoever sends a token is judged by it alone.
- No `Origin`, and no `Sec-Fetch-Site` of another site: only browsers send them, and no page has
  business here. The plain GET of a page (`no-cors`, an image) has the second only. A door that has
  pages itself takes the `Origin` of these: the one that the request's `Host` names.
- A `Host` from an allow-list on TCP. A page can point a name of its own at 127.0.0.1 (DNS
  rebinding), and is then of the same origin and sends no `Origin`; but its `Host` is that name.
"""

import logging
import re
from collections.abc import Sequence

from halfhitch.access import Access, Caller
from halfhitch.config.loopback import is_loopback
from halfhitch.doors.http.errors import (
    HostNotAllowed,
    MalformedRequest,
    OriginNotAllowed,
    certificate_required,
    error_reply,
)
from halfhitch.doors.http.requests import Request
from halfhitch.doors.tls import ClientCertificate
from halfhitch.errors import Unauthorized
from halfhitch.observability.lines import LineBudget

_log = logging.getLogger(__name__)

_HOST = re.compile(rb"(\[[0-9a-f:.]+\]|[^\[\]:/?#@\s]+)(?::[0-9]{0,5})?")
#: What a browser says of an address that a person has typed, and of a page of this door itself.
_SITES = frozenset({b"none", b"same-origin"})
_SCHEMES = (b"http", b"https")  # a proxy may have taken the encryption off
#: Hosts seen and found good: a handful of spellings, ports included.
_GOOD_HOST_COUNT_MAX = 64


def hosts_allowed(bound_host: str, configured: Sequence[str]) -> frozenset[bytes] | None:
    """The names a TCP listener answers to; None for any.

    A listener that other machines reach has names we cannot know: there the list is only what
    was configured, and the token keeps strangers out.
    """
    names = {_host_in_url(name) for name in configured}
    if is_loopback(bound_host):
        names |= {"localhost", "127.0.0.1", "[::1]", _host_in_url(bound_host)}
    return frozenset(name.encode() for name in names) or None


def _host_in_url(host: str) -> str:
    lowered = host.lower()
    return f"[{lowered}]" if ":" in lowered and not lowered.startswith("[") else lowered


class Guard:
    """The checks of one listener."""

    def __init__(
        self,
        *,
        access: Access,
        door: str,
        hosts: frozenset[bytes] | None,
        takes_bearer: bool = False,
        has_pages: bool = False,
    ) -> None:
        """`takes_bearer`: a token may come as `Authorization: Bearer` instead. `door`: what it is
        called where those who were not known are counted. `has_pages`: see above."""
        self.access = access
        self._door = door
        self._takes_bearer = takes_bearer
        self._has_pages = has_pages
        self._hosts = hosts
        self._good_hosts: set[bytes] = set()
        self._token_lines = LineBudget()

    def check(self, request: Request) -> None:
        """Raise unless the request may be answered; whose it is, is known then."""
        fields = request.fields
        if self.access.asks_for_tokens:
            request.caller = self._caller(fields, request.peer_certificate_names)
        is_own = b"origin" not in fields or (self._has_pages and self._is_own_page(fields))
        if not is_own or fields.get(b"sec-fetch-site", b"none").lower() not in _SITES:
            raise OriginNotAllowed(
                "Requests from pages in a browser are refused; call from the server side, "
                "without Origin and Sec-Fetch-Site headers."
            )
        host = fields.get(b"host")
        if host is None:
            if request.is_http_11:
                raise MalformedRequest("HTTP/1.1 requires exactly one Host header.")
        elif self._hosts is not None and host not in self._good_hosts:
            self._check_host(host, self._hosts)
        request.let_in_by = self.access.generation

    def _caller(self, fields: dict[bytes, bytes], certificate_names: tuple[str, ...]) -> Caller:
        presented = fields.get(b"half-token")
        if presented is None and self._takes_bearer:
            scheme, _, presented = fields.get(b"authorization", b"").partition(b" ")
            presented = presented.strip() if scheme.lower() == b"bearer" else None
        if presented is None and certificate_names:
            caller = self.access.by_certificate(certificate_names)
        else:
            caller = self.access.by_token(presented) if presented else None
        if caller is None:
            raise self._unauthorized(presented)
        return caller

    def _unauthorized(self, presented: bytes | None) -> Unauthorized:
        self.access.unauthorized(self._door)
        more = self._token_lines.take()
        if more is not None:
            _log.warning(
                "a request %s was refused%s",
                "with a wrong token" if presented else "without a token",
                more,
                extra={"action": "http_unauthorized"},
            )
        return Unauthorized(
            "This token is not valid here: give another one (Half-Token header; token=... of the "
            "Python producers)."
            if presented
            else "This door asks for a token: send one in the Half-Token header (token=... of the "
            "Python producers).",
            schemes="Half-Token, Bearer" if self._takes_bearer else "Half-Token",
        )

    def _is_own_page(self, fields: dict[bytes, bytes]) -> bool:
        """Only where a page of another name, pointed at this address, has no chance otherwise."""
        scheme, _, authority = fields[b"origin"].lower().partition(b"://")
        return (
            (self._hosts is not None or self.access.asks_for_tokens)
            and scheme in _SCHEMES
            and authority == fields.get(b"host", b"").lower() != b""
        )

    def _check_host(self, host: bytes, allowed: frozenset[bytes]) -> None:
        parsed = _HOST.fullmatch(host.lower())
        if parsed is None or parsed[1] not in allowed:
            raise HostNotAllowed(
                "The Host header names a host this door does not answer to; call it as "
                "127.0.0.1 or localhost, or add the name to the allowed hosts."
            )
        if len(self._good_hosts) < _GOOD_HOST_COUNT_MAX:
            self._good_hosts.add(host)


def show_certificate(
    request: Request, certificate: ClientCertificate | None, *, is_required: bool
) -> bytes | None:
    """The names in it are the request's; the answer where it is missed.

    Asked again for each request of a connection: it may have ended meanwhile.
    """
    if certificate is None:
        return None
    names = certificate.names()
    if names is not request.peer_certificate_names:
        request.peer_certificate_names = names
        request.let_in_by = -1
    is_missed = is_required and not certificate.counts()
    return error_reply(certificate_required()) if is_missed else None
