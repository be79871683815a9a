"""One request as the door holds it: the head sorted into what matters here.

Owns `Request` and the reading of its headers and query. Header values stay bytes as they were
sent; only the blanks around them are no part of them.

A head that makes no sense does not raise here: `head_error` is answered in the request's turn,
after the guard has looked at it and its body has been read, and the connection stays usable.
"""

from halfhitch.access import EVERYBODY, Caller
from halfhitch.doors.http.errors import MalformedRequest
from halfhitch.doors.http.load import Share
from halfhitch.doors.http.router import HALF_HEADERS, Route, decode_percent
from halfhitch.errors import HalfHitchError, InvalidRequest
from halfhitch.service.api import UserHeaders

#: Headers the door acts upon; each may be sent once, but for lists. All others are passed over.
_FIELDS = frozenset(
    {
        b"accept",
        b"authorization",
        b"connection",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"expect",
        b"half-token",
        b"host",
        b"origin",
        b"sec-fetch-site",
        b"transfer-encoding",
        b"upgrade",
    }
)
#: May be in several lines; the last one counts.
_LISTS = frozenset({b"accept", b"connection"})
_USER_HEADER = b"half-header-"
#: What tracing adds; see trace_context.py.
_TRACE_NAMES = frozenset({b"traceparent", b"tracestate"})
#: Those of a request, by lower-case name, as they came.
Trace = tuple[tuple[bytes, bytes], ...]
_NO_TRACE: Trace = ()
#: Enough for any partition and any immunity; more digits are a mistake, not a number.
_DIGITS_MAX = 9
_NO_OPTIONS: frozenset[str] = frozenset()

_NOBODYS = Share()

# What a header is to us.
_PASSED_OVER = 0
_FIELD = 1
_HALF = 2
_USER = 3
_UNKNOWN = 4
_TRACE = 5

#: Header names seen, as spelled, and what they are: callers send the same few again and again.
_seen: dict[bytes, tuple[int, bytes, str]] = {}
_SEEN_MAX = 512
#: Strangers choose them: longer ones are looked at each time.
_SEEN_BYTES_MAX = 128


def _sort_name(name: bytes) -> tuple[int, bytes, str]:
    """What a header of this name is, its name in lower case, and its name as a user header."""
    key = name.lower()
    user_name = ""
    if key in _FIELDS:
        kind = _FIELD
    elif key in HALF_HEADERS:
        kind = _HALF
    elif key.startswith(_USER_HEADER):
        kind = _USER
        user_name = name[len(_USER_HEADER) :].decode("ascii")
    elif key in _TRACE_NAMES:
        kind = _TRACE
    else:
        kind = _UNKNOWN if key.startswith(b"half-") else _PASSED_OVER
    if len(name) <= _SEEN_BYTES_MAX:
        if len(_seen) >= _SEEN_MAX:
            _seen.clear()
        _seen[name] = kind, key, user_name
    return kind, key, user_name


class Request:
    """What a caller wants.

    Not slotted: one is made for each request, and what most of them leave as it is costs nothing
    as an attribute of the class.
    """

    body = b""
    #: The parameters of the path.
    arguments: tuple[str, ...] = ()
    query = b""
    options = _NO_OPTIONS
    route_name = "unmatched"
    started_s = 0.0
    is_http_11 = True
    #: Whom the caller's verified certificate names: see doors/tls.py.
    peer_certificate_names: tuple[str, ...] = ()
    #: The answer, when it was clear before the request was complete.
    ready: bytes | None = None
    head_error: HalfHitchError | None = None
    #: Who asks; the guard finds out.
    caller: Caller = EVERYBODY
    #: The generation of identities by which the guard has let it in.
    let_in_by = -1
    #: Whose body bytes it holds.
    share = _NOBODYS
    #: It has prepared one message as JSON, under a name of ours.
    has_stored_one = False
    #: The headers of its trace context, by lower-case name, as they came.
    trace = _NO_TRACE

    def __init__(
        self,
        method: bytes,
        target: bytes,
        headers: list[tuple[bytes, bytes]],
        *,
        keep_alive: bool,
    ) -> None:
        self.method = method
        self.target = target
        self.keep_alive = keep_alive
        #: Headers of HTTP by lower-case name, and the token.
        self.fields: dict[bytes, bytes] = {}
        #: The `Half-...` headers by lower-case name.
        self.half: dict[bytes, bytes] = {}
        self.user_headers: UserHeaders = []
        for name, value in headers:
            kind, key, user_name = _seen.get(name) or _sort_name(name)
            if kind == _FIELD:
                if key in self.fields and key not in _LISTS:
                    self.head_error = _sent_twice(name)
                self.fields[key] = value.strip()
            elif kind == _HALF:
                if key in self.half:
                    self.head_error = _sent_twice(name)
                self.half[key] = value.strip()
            elif kind == _USER:
                self.user_headers.append((user_name, value.strip()))
                if not user_name:
                    self.head_error = _nameless()
            elif kind == _UNKNOWN:
                self.head_error = _unknown_header(name)
            elif kind == _TRACE:
                self.trace = (*self.trace, (key, value.strip()))

    @property
    def argument(self) -> str:
        """The parameter of a path that has one."""
        return self.arguments[0] if self.arguments else ""

    def check_allowed(self, route: Route) -> None:
        """Raise for a `Half-...` header that the route would not act upon.

        Passing over it in silence would lose what the caller meant by it.
        """
        if not self.half.keys() <= route.half_headers:
            unknown = min(self.half.keys() - route.half_headers)
            raise InvalidRequest(
                f"{_spelled(unknown)} has no meaning on this route, which takes "
                f"{_listed(route.half_headers)}. On JSON routes put it into the body."
            )
        if self.user_headers and not route.has_user_headers:
            raise InvalidRequest(
                "Half-Header-... has no meaning on this route; on JSON routes put user headers "
                'into the "headers" of a message.'
            )

    def text(self, key: bytes) -> str | None:
        """A `Half-...` header as text. Raises InvalidRequest unless it is UTF-8."""
        value = self.half.get(key)
        if value is None:
            return None
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise InvalidRequest(f"{_spelled(key)} must be UTF-8; it is not.") from None

    def number(self, key: bytes) -> int | None:
        """A `Half-...` header as a whole number, not negative. Raises InvalidRequest."""
        value = self.half.get(key)
        if value is None:
            return None
        if not value.isdigit() or len(value) > _DIGITS_MAX:
            raise InvalidRequest(
                f"{_spelled(key)} must be a whole number of at most {_DIGITS_MAX} digits."
            )
        return int(value)

    def read_options(self, route: Route) -> frozenset[str]:
        """The query parameters given, each with its one value. Raises InvalidRequest."""
        given: set[str] = set()
        for pair in self.query.split(b"&"):
            name, _, value = pair.partition(b"=")
            wanted = (decode_percent(name), decode_percent(value))
            if wanted not in route.options or wanted[0] in given:
                raise InvalidRequest(_unknown_option(wanted, route, twice=wanted[0] in given))
            given.add(wanted[0])
        return frozenset(given)

    def read_parameter(self, wanted: str) -> str:
        """The value of the only query parameter. Raises InvalidRequest, MalformedRequest."""
        pairs = [pair.partition(b"=") for pair in self.query.split(b"&") if pair]
        names = [decode_percent(name) for name, _, _ in pairs]
        if names != [wanted] or not pairs[0][2]:
            raise InvalidRequest(
                f"The query must be {wanted}=..., once, not empty, and nothing else."
            )
        if b"+" in pairs[0][2]:
            raise InvalidRequest(
                f"A plus sign in {wanted} could be a blank: write %20 for a blank and %2B for a "
                "plus sign."
            )
        return decode_percent(pairs[0][2])


def _unknown_option(wanted: tuple[str, str], route: Route, *, twice: bool) -> str:
    if not route.options:
        return "This route takes no query parameters; leave out everything from the question mark."
    allowed = " and ".join(f"{name}={value}" for name, value in route.options)
    trouble = "is given twice" if twice else "is not known"
    shown = f"{wanted[0][:40]}={wanted[1][:40]}"
    return f"The query parameter {shown!r} {trouble}; allowed here, once each: {allowed}."


def _sent_twice(name: bytes) -> MalformedRequest:
    return MalformedRequest(f"The header {name.decode('ascii')} may be sent only once.")


def _nameless() -> InvalidRequest:
    return InvalidRequest(
        "Half-Header- needs the name of the user header after it, for instance "
        "Half-Header-trace-id."
    )


def _unknown_header(name: bytes) -> InvalidRequest:
    return InvalidRequest(
        f"There is no header {name[:60].decode('ascii')}; known are {_listed(HALF_HEADERS)}, "
        "Half-Token and Half-Header-<name> for user headers."
    )


def _listed(keys: frozenset[bytes]) -> str:
    return ", ".join(_spelled(key) for key in sorted(keys)) or "none of them"


def _spelled(key: bytes) -> str:
    return key.decode("ascii").title()
