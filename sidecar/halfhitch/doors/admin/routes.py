"""The admin door's routes and who may use them, as an ASGI application.

Owns `build_app`. Invariants: what is not exempt by being the very route object of a probe needs the
token, unknown paths included (comparing paths as text is how such checks get bypassed); every
answer but a probe's 204 and the metrics is JSON; errors look as they do at the data door. What
stands here only shows things; what operators can change is in operations.py, behind the same guard.

The System is asked on the event loop, the rendering of metrics runs in a thread.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from halfhitch.doors.admin.answers import Json, error_answer, internal_answer
from halfhitch.doors.admin.operations import operation_routes
from halfhitch.doors.http.errors import MethodNotAllowed, RouteNotFound
from halfhitch.doors.http.guard import Guard
from halfhitch.doors.http.requests import Request as DataRequest
from halfhitch.errors import HalfHitchError
from halfhitch.service.api import Operations, PartitionState, System

_RETRY = {"Retry-After": "1"}
_BEARER = b"bearer "


class Instruments(Protocol):
    """What the door needs of the metrics."""

    content_type: str

    def render(self, partitions: Sequence[PartitionState] = ()) -> bytes:
        """All metrics as text; blocks for milliseconds."""
        ...


def build_app(
    *,
    system: System,
    metrics: Instruments,
    settings_view: Sequence[Mapping[str, object]],
    guard: Guard,
    death_reasons: Callable[[], list[str]],
    operations: Operations | None = None,
) -> ASGIApp:
    """The application; `death_reasons` tells why only a restart can help (empty: alive).

    Without `operations` there are no routes for operators.
    """

    async def livez(_: Request) -> Response:
        reasons = death_reasons()
        return Json({"alive": False, "reasons": reasons}, 503) if reasons else Response(None, 204)

    async def readyz(_: Request) -> Response:
        reasons = system.unready_reasons()
        if not reasons:
            degraded = system.degraded_reasons()
            if degraded:  # ready all the same: whoever takes it out of service makes things worse
                return Json({"ready": True, "degraded": degraded})
            return Response(None, 204)
        return Json({"ready": False, "reasons": reasons}, 503, headers=_RETRY)

    async def show_metrics(_: Request) -> Response:
        text = await asyncio.to_thread(metrics.render, system.partitions())
        return Response(text, headers={"content-type": metrics.content_type})

    async def status(_: Request) -> Response:
        reasons = system.unready_reasons()
        return Json(
            {
                "ready": not reasons,
                "reasons": reasons,
                "degraded": system.degraded_reasons(),
                "info": system.info(),
                "partitions": system.partitions(),
            }
        )

    async def partitions(_: Request) -> Response:
        return Json({"partitions": system.partitions()})

    async def config(_: Request) -> Response:
        return Json({"settings": settings_view})

    probes = [Route("/livez", livez), Route("/readyz", readyz)]
    app = Starlette(
        routes=[
            *probes,
            Route("/metrics", show_metrics),
            Route("/v1/status", status),
            Route("/v1/partitions", partitions),
            Route("/v1/config", config),
            *([] if operations is None else operation_routes(operations)),
        ],
        exception_handlers={404: _not_found, 405: _not_allowed, Exception: internal_answer},
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
                await error_answer(error)(scope, receive, send)
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


def _not_found(_: Request, __: Exception) -> Response:
    return error_answer(
        RouteNotFound(
            "There is no such route; there are /livez, /readyz, /metrics, /v1/status, "
            "/v1/partitions, /v1/config, /v1/transactions and /v1/parked."
        )
    )


def _not_allowed(request: Request, error: Exception) -> Response:
    headers = getattr(error, "headers", None) or {}
    allowed = ", ".join(sorted(str(headers.get("Allow", "GET, HEAD")).split(", ")))
    return error_answer(
        MethodNotAllowed(f"This route does not take {request.method}.", allowed=allowed)
    )
