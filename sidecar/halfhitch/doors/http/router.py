"""Which routes there are, as data, and how a request target finds its route.

Owns ROUTES (method, pattern, name and what else a route takes) and the way from a target to an
`Endpoint`. A `{parameter}` of a pattern is one percent-decoded path segment.
Paths are compared as they are: no dot segments, doubled or trailing slashes are tidied away.

It does not know handlers; the names tie the two together. The admin door's routes stand there.
"""

from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from halfhitch.doors.http.errors import MalformedRequest, RouteNotFound

#: Headers that name a message's parts on the raw route.
_RAW_HEADERS = frozenset(
    {
        b"half-producer-group",
        b"half-transaction-id",
        b"half-immunity-seconds",
        b"half-key",
        b"half-key-base64",
        b"half-partition",
    }
)
_END_HEADERS = frozenset({b"half-producer-group", b"half-reason"})
_END_OPTIONS = {"wait": "visible", "source": "check"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One thing the door does."""

    method: str
    pattern: str
    #: The handler's name, and the label under which the route is counted.
    name: str
    #: Refused first under overload, to be repeated later.
    may_wait: bool = False
    #: Ends something, answers a check, or waits for checks: never one too many of its identity.
    is_always_taken: bool = False
    #: Needs no token and no name of this door: a probe's.
    is_open: bool = False
    #: Takes a body, of any kind.
    has_body: bool = False
    #: `Half-...` headers it understands besides the token, in lower case.
    half_headers: frozenset[bytes] = frozenset()
    #: Takes `Half-Header-<name>`.
    has_user_headers: bool = False
    #: Query parameters and the one value each may have.
    options: tuple[tuple[str, str], ...] = ()
    #: A query parameter that must be given, with a value that the handler reads.
    parameter: str | None = None
    #: The handler makes what it can of any query.
    reads_query: bool = False


ROUTES = (
    Route(method="POST", pattern="/v1/transactions", name="prepare", may_wait=True, has_body=True),
    Route(
        method="POST",
        pattern="/v1/topics/{topic}/half",
        name="half",
        may_wait=True,
        has_body=True,
        half_headers=_RAW_HEADERS,
        has_user_headers=True,
    ),
    Route(method="POST", pattern="/v1/transactions/{handle}/messages", name="add", has_body=True),
    Route(
        method="POST",
        pattern="/v1/transactions/{handle}/commit",
        name="commit",
        is_always_taken=True,
        half_headers=_END_HEADERS,
        options=tuple(_END_OPTIONS.items()),
    ),
    Route(
        method="POST",
        pattern="/v1/transactions/{handle}/rollback",
        name="rollback",
        is_always_taken=True,
        half_headers=_END_HEADERS,
        options=tuple(_END_OPTIONS.items()),
    ),
    Route(
        method="POST",
        pattern="/v1/transactions/{handle}/unknown",
        name="unknown",
        is_always_taken=True,
        half_headers=_END_HEADERS,
    ),
    Route(method="GET", pattern="/v1/transactions/{handle}", name="view"),
    Route(
        method="GET",
        pattern="/v1/checks",
        name="checks",
        is_always_taken=True,
        half_headers=frozenset({b"half-heartbeat", b"half-producer-name", b"half-checks-at-once"}),
        parameter="producer_group",
    ),
    Route(method="GET", pattern="/v1/openapi.yaml", name="openapi"),
)

#: Every `Half-...` header some route understands, besides the token.
HALF_HEADERS = frozenset[bytes]().union(*(route.half_headers for route in ROUTES))

_NOT_FOUND = (
    "There is no such route; GET /v1/openapi.yaml lists them all. A handle or topic in a path must "
    "be one segment: write a slash in it as %2F."
)
#: The two doors have paths in common, so whoever is at the wrong one is told by either refusal.
_THIS_DOOR = (
    "This is the data door: `halfhitch tx`, `parked` and `status` go to the admin door "
    "(admin.port, 8341 unless set)."
)
#: Remembered targets. Those with an id come once or twice.
_REMEMBERED_MAX = 1024
#: No topic of Kafka's is longer than 249 characters.
_REMEMBERED_BYTES_MAX = 512
_NOT_REMEMBERED = (b"{handle}", b"{id}")


@dataclass(slots=True)
class Endpoint:
    """The routes of one path, by method, and the path's parameters."""

    routes: dict[bytes, Route]
    allowed: str
    arguments: tuple[str, ...]


class _Node:
    """What the tree of patterns knows after some segments."""

    __slots__ = ("allowed", "children", "parameter", "routes")

    def __init__(self) -> None:
        self.children: dict[bytes, _Node] = {}
        self.parameter: _Node | None = None
        self.routes: dict[bytes, Route] = {}
        self.allowed = ""


class Router:
    """Finds the endpoint of a path; stateless but for what it remembers."""

    def __init__(
        self,
        routes: tuple[Route, ...] = ROUTES,
        *,
        not_found: str = _NOT_FOUND,
        this_door: str = _THIS_DOOR,
    ) -> None:
        self.routes = routes
        #: Which door it is, and who belongs to the other one: part of every refusal.
        self.this_door = this_door
        self._not_found = f"{this_door} {not_found}"
        self._root = _Node()
        self._remembered: dict[bytes, Endpoint] = {}
        for route in routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        node = self._root
        for segment in route.pattern.encode().split(b"/")[1:]:
            if segment.startswith(b"{"):
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.children.setdefault(segment, _Node())
        node.routes[route.method.encode()] = route
        if route.method == "GET":
            node.routes[b"HEAD"] = route
        methods = {method.decode() for method in node.routes} | {"OPTIONS"}
        node.allowed = ", ".join(sorted(methods))

    def find(self, path: bytes) -> Endpoint:
        """The endpoint of a path. Raises RouteNotFound, MalformedRequest."""
        endpoint = self._remembered.get(path)
        return self._search(path) if endpoint is None else endpoint

    def _search(self, path: bytes) -> Endpoint:
        node: _Node | None = self._root
        arguments: tuple[str, ...] = ()
        segments = path.split(b"/")
        if segments[0]:
            raise MalformedRequest("The request target must be a path that begins with a slash.")
        for segment in segments[1:]:
            child = node.children.get(segment) if node else None
            if child is None and node and node.parameter and segment:
                arguments += (decode_percent(segment),)
                child = node.parameter
            node = child
        if node is None or not node.routes:
            raise RouteNotFound(self._not_found)
        endpoint = Endpoint(node.routes, node.allowed, arguments)
        if len(path) > _REMEMBERED_BYTES_MAX:
            return endpoint
        patterns = [route.pattern.encode() for route in node.routes.values()]
        if not any(once in pattern for pattern in patterns for once in _NOT_REMEMBERED):
            if len(self._remembered) >= _REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[path] = endpoint
        return endpoint


def decode_percent(text: bytes) -> str:
    """Undo percent-encoding. Raises MalformedRequest where it is broken or not UTF-8."""
    if b"%" in text:
        pieces = text.split(b"%")
        if not all(_starts_with_hex(piece) for piece in pieces[1:]):
            raise MalformedRequest(
                "The request target has a percent sign without two hexadecimal digits after it; "
                "write the percent sign itself as %25."
            )
        text = unquote_to_bytes(text)
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise MalformedRequest("The request target is not UTF-8 after percent-decoding.") from None


def _starts_with_hex(piece: bytes) -> bool:
    return len(piece) >= 2 and all(byte in b"0123456789abcdefABCDEF" for byte in piece[:2])
