"""From a request to the work it asks for.

Owns the order of the checks: the guard first (unknown paths included, and all but the very routes
that need none), then the head's own trouble, the route, what the route takes, and last the load. A
request that fails one has its answer at once and costs no task. The guard is asked about a request
with a body before the body is taken, and again only if identities have changed meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter

from halfhitch.doors.http.errors import MethodNotAllowed, error_reply
from halfhitch.doors.http.guard import Guard
from halfhitch.doors.http.handlers import Handler
from halfhitch.doors.http.limits import Limits
from halfhitch.doors.http.load import Load
from halfhitch.doors.http.replies import allow_reply
from halfhitch.doors.http.requests import Request
from halfhitch.doors.http.router import Endpoint, Route, Router
from halfhitch.doors.http.stream import Opening
from halfhitch.errors import (
    HalfHitchError,
    InvalidRequest,
    Overloaded,
    ShuttingDown,
    TooManyRequests,
)

_SLASH = ord("/")
_ALL_METHODS = "GET, HEAD, OPTIONS, POST"
#: Queries seen and found good; a handful, unless somebody tries every spelling.
_GOOD_QUERY_COUNT_MAX = 64


class Dispatcher:
    """Admits the requests of one listener."""

    def __init__(
        self,
        *,
        router: Router,
        handler_of: Callable[[str], Handler],
        guard: Guard,
        load: Load,
        limits: Limits,
    ) -> None:
        """`handler_of`: by the name of a route; asked for all of them now."""
        self._guard = guard
        self._access = guard.access
        self._load = load
        self._in_flight_count_max = limits.in_flight_count_max
        self._retry_after_s = limits.retry_after_s
        self._router = router
        self._work = {route.name: handler_of(route.name) for route in router.routes}
        # Found by their whole path, as it was sent: no spelling of another path is one of them.
        self._open = {
            route.pattern.encode(): router.find(route.pattern.encode())
            for route in router.routes
            if route.is_open
        }
        self._good_queries: dict[tuple[str, bytes], frozenset[str]] = {}

    def admit(self, request: Request) -> bytes | Awaitable[bytes] | Opening:
        """The answer, where no work is needed for it; else what gives it: work, or a stream."""
        try:
            route = self._route_of(request)
        except HalfHitchError as error:
            route = error_reply(error)
        try:
            allowance = request.caller.allowance
            if allowance is not None:
                if isinstance(route, Route) and route.is_always_taken:
                    allowance.spend(request.started_s)
                else:
                    allowance.take(request.started_s)
            if not isinstance(route, Route):
                return route
            self._check(request, route)
        except TooManyRequests as error:
            reply = error_reply(error)
            return self._kept_back(reply, error.hold_back_s) if error.hold_back_s else reply
        except HalfHitchError as error:
            return error_reply(error)
        return self._work[route.name](request)

    async def _kept_back(self, reply: bytes, seconds: float) -> bytes:
        """A refusal whose turn has not come: its connection is answered, and read, no sooner."""
        load = self._load
        load.held_back_count += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            load.held_back_count -= 1
        return reply

    def stranger(self, request: Request) -> bytes | None:
        """The answer to whoever is not let in, by the head alone; None: he is."""
        try:
            if request.target[0] != _SLASH:
                _path_of(request)  # the host may stand there
            self._guard.check(request)
        except HalfHitchError as error:
            return error_reply(error)
        return None

    def refusal(self, request: Request) -> bytes | None:
        """The answer that is already clear before the body has been sent, if there is one."""
        try:
            route = self._route_of(request)
            if isinstance(route, Route):
                allowance = request.caller.allowance
                if allowance is not None and not route.is_always_taken:
                    allowance.take(perf_counter(), only_look=True)
                self._check(request, route)
        except HalfHitchError as error:
            return error_reply(error)
        finally:
            self._load.changed()  # it was only a look
        return None

    def _route_of(self, request: Request) -> Route | bytes:
        target = request.target
        if target[0] != _SLASH:
            target = _path_of(request)
        path, _, request.query = target.partition(b"?")
        if path in self._open:
            route = self._open[path].routes.get(request.method)
            if route is not None and route.is_open:
                request.route_name = route.name
                return route
        if request.let_in_by != self._access.generation:
            self._guard.check(request)
        if request.head_error is not None:
            raise request.head_error
        if target == b"*" and request.method == b"OPTIONS":
            return allow_reply(_ALL_METHODS)
        endpoint = self._router.find(path)
        route = endpoint.routes.get(request.method)
        if route is None:
            return _other_method(request, endpoint, self._router.this_door)
        request.route_name = route.name
        request.arguments = endpoint.arguments
        return route

    def _check(self, request: Request, route: Route) -> None:
        if request.half or request.user_headers:
            request.check_allowed(route)
        if request.query and route.parameter is None and not route.reads_query:
            request.options = self._options(request, route)
        if request.body and not route.has_body and request.body != b"{}":
            raise InvalidRequest("This route takes no body; options go into the query.")
        if not route.may_wait:
            return
        if self._load.is_leaving:
            raise ShuttingDown(
                "This instance is stopping and takes no new messages; nothing was stored. Repeat "
                "the request over another connection, which may lead to another instance."
            )
        if not self._load.admit(self._in_flight_count_max):
            raise Overloaded(
                "Too many requests are in flight; this one was not begun. Repeat it after the time "
                "in Retry-After.",
                retry_after_s=self._retry_after_s,
            )

    def _options(self, request: Request, route: Route) -> frozenset[str]:
        key = (route.name, request.query)
        options = self._good_queries.get(key)
        if options is None:
            options = request.read_options(route)
            if len(self._good_queries) < _GOOD_QUERY_COUNT_MAX:
                self._good_queries[key] = options
        return options


def _path_of(request: Request) -> bytes:
    """The path of a target in URL form, whose host then replaces the Host header.

    Any other target is left as it is: "*" is for OPTIONS, the rest the router refuses.
    """
    scheme, separator, rest = request.target.partition(b"://")
    if not separator or scheme.lower() != b"http":
        return request.target
    host, slash, path = rest.partition(b"/")
    if b"host" in request.fields or not request.is_http_11:
        request.fields[b"host"] = host
    return slash + path if slash else b"/"


def _other_method(request: Request, endpoint: Endpoint, this_door: str) -> bytes:
    if request.method == b"OPTIONS":
        return allow_reply(endpoint.allowed)
    raise MethodNotAllowed(
        f"This path does not take {request.method.decode('ascii')}; it takes {endpoint.allowed}. "
        f"{this_door}",
        allowed=endpoint.allowed,
    )
