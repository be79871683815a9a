"""The admin door's routes and who may use them, as an ASGI application.

Owns `build_app`. Invariants: what is not exempt by being the very route object of a probe needs the
token, unknown paths included (comparing paths as text is how such checks get bypassed); every
answer but a probe's 204 and the metrics is JSON; errors look as they do at the data door. Nothing
here changes anything.

The System is asked on the event loop, the rendering of metrics runs in a thread.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from halfhitch.doors.http.errors import (
    INTERNAL,
    ErrorBody,
    ErrorDetail,
    MethodNotAllowed,
    RouteNotFound,
    Unauthorized,
    status_of,
)
from halfhitch.doors.http.guard import Guard
from halfhitch.doors.http.requests import Request as DataRequest
from halfhitch.errors import HalfHitchError
from halfhitch.service.api import PartitionState, System

logger = logging.getLogger("halfhitch.doors.admin")

_RETRY = {"Retry-After": "1"}
_BEARER = b"bearer "


class Instruments(Protocol):
    """What the door needs of the metrics."""

    content_type: str

    def render(self, partitions: Sequence[PartitionState] = ()) -> bytes:
        """All metrics as text; blocks for milliseconds."""
        ...


class _Json(Response):
    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return msgspec.json.encode(content)


def build_app(
    *,
    system: System,
    metrics: Instruments,
    settings_view: Sequence[Mapping[str, object]],
    guard: Guard,
    death_reasons: Callable[[], list[str]],
) -> ASGIApp:
    """The application; `death_reasons` tells why only a restart can help (empty: alive)."""

    async def livez(_: Request) -> Response:
        reasons = death_reasons()
        return _Json({"alive": False, "reasons": reasons}, 503) if reasons else Response(None, 204)

    async def readyz(_: Request) -> Response:
        reasons = system.unready_reasons()
        if not reasons:
            return Response(None, 204)
        return _Json({"ready": False, "reasons": reasons}, 503, headers=_RETRY)

    async def show_metrics(_: Request) -> Response:
        text = await asyncio.to_thread(metrics.render, system.partitions())
        return Response(text, headers={"content-type": metrics.content_type})

    async def status(_: Request) -> Response:
        reasons = system.unready_reasons()
        return _Json(
            {
                "ready": not reasons,
                "reasons": reasons,
                "info": system.info(),
                "partitions": system.partitions(),
            }
        )

    async def partitions(_: Request) -> Response:
        return _Json({"partitions": system.partitions()})

    async def config(_: Request) -> Response:
        return _Json({"settings": settings_view})

    probes = [Route("/livez", livez), Route("/readyz", readyz)]
    app = Starlette(
        routes=[
            *probes,
            Route("/metrics", show_metrics),
            Route("/v1/status", status),
            Route("/v1/partitions", partitions),
            Route("/v1/config", config),
        ],
        exception_handlers={404: _not_found, 405: _not_allowed, Exception: _internal},
    )
    app.router.redirect_slashes = False
    return _Guarded(app, probes=probes, guard=guard)


class _Guarded:
    """Lets probes through, and everything else only past the guard."""

    def __init__(self, app: ASGIApp, *, probes: Sequence[Route], guard: Guard) -> None:
        self._app = app
        self._probes = probes
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            raise RuntimeError(f"the admin door speaks HTTP only, not {scope['type']}")
        if not any(probe.matches(scope)[0] is Match.FULL for probe in self._probes):
            try:
                self._check(scope)
            except HalfHitchError as error:
                await _error(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        if not any(name == b"half-token" for name, _ in headers):
            # Scrapers can send a bearer token, while few can send a header of our own.
            headers += [
                (b"half-token", value[len(_BEARER) :])
                for name, value in scope["headers"]
                if name == b"authorization" and value.lower().startswith(_BEARER)
            ]
        request = DataRequest(
            scope["method"].encode(),
            scope["raw_path"],
            headers,
            keep_alive=True,
        )
        request.is_http_11 = scope["http_version"] == "1.1"
        if request.head_error is not None:
            raise request.head_error
        self._guard.check(request)


def _error(error: HalfHitchError) -> Response:
    headers = {"WWW-Authenticate": "Half-Token, Bearer"} if isinstance(error, Unauthorized) else {}
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = error.allowed
    detail = ErrorDetail(error.code, error.message, error.retryable)
    return _Json(ErrorBody(detail), status_of(error), headers=headers)


def _not_found(_: Request, __: Exception) -> Response:
    return _error(
        RouteNotFound(
            "There is no such route; there are /livez, /readyz, /metrics, /v1/status, "
            "/v1/partitions and /v1/config."
        )
    )


def _not_allowed(_: Request, __: Exception) -> Response:
    return _error(
        MethodNotAllowed("The admin door only shows things: use GET.", allowed="GET, HEAD")
    )


def _internal(request: Request, error: Exception) -> Response:
    logger.error(
        "the admin door failed on %s", request.url.path, extra={"action": "admin_door_failed"},
        exc_info=error,
    )  # fmt: skip
    return _error(INTERNAL)
