"""The admin door's routes for operators: what is undecided or parked, and what can be done with it.

    GET   /v1/transactions                          undecided; filters as query parameters
    GET   /v1/parked                                parked; the same filters
    GET   /v1/parked/{group}/{id}                   one of them with its content
    POST  /v1/transactions/{group}/{id}/commit      also /rollback and /check
    POST  /v1/parked/{group}/{id}/resume

Group and id are percent-encoded: they may contain slashes, so the path is cut before it is decoded.
A POST carries {"reason", "operator"} and must say that it is JSON: no form of a browser can.

The guard of routes.py stands before all of this.
"""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from halfhitch.core.model import Resolution
from halfhitch.doors.admin.answers import Json, error_answer
from halfhitch.doors.http.errors import MethodNotAllowed, RequestTooSlow, RouteNotFound
from halfhitch.errors import (
    HalfHitchError,
    InvalidJson,
    InvalidRequest,
    MessageTooLarge,
    UnsupportedMediaType,
)
from halfhitch.service.api import Filter, Operations, ParkedMessage

_Handler = Callable[[Request], Awaitable[Response]]

_BODY_BYTES_MAX: Final = 16_384
_RECEIVE_S: Final = 10
_LIMIT_MAX: Final = 10_000
_LIMIT: Final = 1_000
_RESOLUTIONS: Final = {"commit": Resolution.COMMIT, "rollback": Resolution.ROLLBACK}


class _Order(msgspec.Struct, forbid_unknown_fields=True):
    """The body of everything that changes something. A check needs no reason."""

    operator: str
    reason: str = ""


_decode_order = msgspec.json.Decoder(_Order).decode


def operation_routes(operations: Operations) -> list[Route]:
    """The routes above."""
    handlers = _Handlers(operations)
    return [
        Route("/v1/transactions", _answered(handlers.transactions)),
        Route("/v1/parked", _answered(handlers.parked)),
        Route(
            "/v1/transactions/{rest:path}",
            _answered(handlers.on_transaction),
            methods=["GET", "POST"],
        ),
        Route("/v1/parked/{rest:path}", _answered(handlers.on_parked), methods=["GET", "POST"]),
    ]


def _answered(handler: _Handler) -> _Handler:
    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except HalfHitchError as error:
            return error_answer(error)

    return answered


class _Handlers:
    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def transactions(self, request: Request) -> Response:
        return Json(await self._operations.undecided(read_filter(request.url.query)))

    async def parked(self, request: Request) -> Response:
        return Json(await self._operations.parked(read_filter(request.url.query)))

    async def on_transaction(self, request: Request) -> Response:
        group, transaction_id, action = _segments(request, "transactions", 3)
        if action not in (*_RESOLUTIONS, "check"):
            raise _no_route()
        order = await _order(request)
        if action == "check":
            await self._operations.check(group, transaction_id)
            return Json({"transaction_id": transaction_id, "state": "pending"}, 202)
        ended = await self._operations.decide(
            group,
            transaction_id,
            _RESOLUTIONS[action],
            reason=order.reason,
            operator=order.operator,
        )
        return Json({"transaction_id": ended.transaction_id, "state": ended.state})

    async def on_parked(self, request: Request) -> Response:
        if request.method == "POST":
            group, transaction_id, action = _segments(request, "parked", 3)
            if action != "resume":
                raise _no_route()
            order = await _order(request)
            resumed = await self._operations.resume(
                group, transaction_id, reason=order.reason, operator=order.operator
            )
            return Json({"transaction": resumed})
        group, transaction_id = _segments(request, "parked", 2)
        found, messages = await self._operations.parked_messages(group, transaction_id)
        return Json({"transaction": found, "messages": [_message(m) for m in messages]})


# -- what is asked -------------------------------------------------------------------------------


def _segments(request: Request, what: str, count: int) -> list[str]:
    """What follows /v1/{what}/ in the path as it was sent. Raises RouteNotFound."""
    raw_path: bytes = request.scope["raw_path"]
    segments = raw_path.partition(b"?")[0].removeprefix(b"/v1/%s/" % what.encode()).split(b"/")
    if len(segments) != count or not all(segments):
        raise _no_route()
    try:
        return [unquote_to_bytes(segment).decode() for segment in segments]
    except UnicodeDecodeError:
        raise InvalidRequest("the group and the id in the path must be UTF-8") from None


def _no_route() -> RouteNotFound:
    return RouteNotFound(
        "There is no such route; there are /v1/transactions and /v1/parked, POST "
        "/v1/transactions/{group}/{id}/commit, /rollback and /check, GET /v1/parked/{group}/{id} "
        "and POST /v1/parked/{group}/{id}/resume. Percent-encode group and id."
    )


async def _order(request: Request) -> _Order:
    if request.method != "POST":
        raise MethodNotAllowed("This route changes something: use POST.", allowed="POST")
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise UnsupportedMediaType("Send the body as application/json.")
    body = b""
    try:
        async with asyncio.timeout(_RECEIVE_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > _BODY_BYTES_MAX:
                    raise MessageTooLarge(f"The body may have at most {_BODY_BYTES_MAX} bytes.")
    except ClientDisconnect:
        raise InvalidJson("The body did not arrive completely.") from None
    except TimeoutError:
        raise RequestTooSlow(f"The body did not arrive within {_RECEIVE_S} s.") from None
    try:
        return _decode_order(body)
    except (ValueError, RecursionError) as error:
        raise InvalidJson(
            f'The body must be {{"reason": "...", "operator": "..."}}: {str(error)[:200]}'
        ) from None


def read_filter(query: str) -> Filter:
    """Query parameters as a filter. Raises InvalidRequest for what is not known or given twice."""
    readers: dict[str, tuple[str, Callable[[str], Any]]] = {
        "group": ("producer_group", str),
        "topic": ("topic", str),
        "id": ("transaction_id", str),
        "older_than_s": ("older_than_s", _seconds),
        "min_checks": ("check_count_min", _count),
        "limit": ("count_max", _count),
    }
    values: dict[str, Any] = {"count_max": _LIMIT}
    given: set[str] = set()
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=20)
        for name, text in pairs:
            if name not in readers or name in given or not text:
                trouble = "has no value" if name in readers and not text else "is given twice"
                raise InvalidRequest(
                    f"The query parameter {name[:40]!r} "
                    f"{trouble if name in readers else 'is not known'}; allowed, once each: "
                    f"{', '.join(readers)}."
                )
            given.add(name)
            field, read = readers[name]
            values[field] = read(text)
    except ValueError:  # of parse_qsl and the readers
        raise InvalidRequest(
            "older_than_s is a number of seconds, min_checks and limit are whole numbers (limit at "
            f"most {_LIMIT_MAX}), all of them not negative; texts are UTF-8."
        ) from None
    return Filter(**values)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < 1e10:
        raise ValueError(text)
    return seconds


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) > _LIMIT_MAX:
        raise ValueError(text)
    return int(text)


# -- what is answered ----------------------------------------------------------------------------


def _message(message: ParkedMessage) -> dict[str, Any]:
    """As in a prepare: text where it is UTF-8, base64 otherwise; null where nothing was."""
    shown: dict[str, Any] = {"topic": message.topic}
    if message.partition is not None:
        shown["partition"] = message.partition
    for name, raw in (("key", message.key), ("value", message.value)):
        text, encoded = _split(raw)
        if encoded is None:
            shown[name] = text
        else:
            shown[f"{name}_base64"] = encoded
    shown["headers"] = [[name, _header(raw)] for name, raw in message.headers]
    return shown


def _header(raw: bytes | None) -> str | dict[str, str] | None:
    text, encoded = _split(raw)
    return text if encoded is None else {"base64": encoded}


def _split(raw: bytes | None) -> tuple[str | None, str | None]:
    if raw is None:
        return None, None
    try:
        return raw.decode(), None
    except UnicodeDecodeError:
        return None, b64encode(raw).decode()
