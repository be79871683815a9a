"""The admin door's routes for operators: what is undecided or parked, and what can be done with it.

    GET   /v1/transactions                          undecided; filters as query parameters
    GET   /v1/parked                                parked; the same filters
    GET   /v1/parked/{group}/{id}                   one of them with its content
    POST  /v1/transactions/{group}/{id}/commit      also /rollback and /check
    POST  /v1/parked/{group}/{id}/resume

Group and id are percent-encoded: they may contain slashes. A POST carries {"reason", "operator"}
and must say that it is JSON: no form of a browser can.

The guard and the bounds of door.py stand before all of this.
"""

from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from halfhitch.core.model import Resolution
from halfhitch.doors.http.handlers import Handler
from halfhitch.doors.http.replies import json_reply
from halfhitch.doors.http.requests import Request
from halfhitch.doors.http.router import Route
from halfhitch.errors import InvalidJson, InvalidRequest, UnsupportedMediaType
from halfhitch.service.api import Filter, Operations, ParkedMessage

_LIMIT_MAX: Final = 10_000
_LIMIT: Final = 1_000

_TRANSACTION: Final = "/v1/transactions/{group}/{id}"
_PARKED: Final = "/v1/parked/{group}/{id}"
OPERATED: Final[tuple[Route, ...]] = (
    Route(
        method="GET", pattern="/v1/transactions", name="undecided", may_wait=True, reads_query=True
    ),
    Route(method="GET", pattern="/v1/parked", name="parked", may_wait=True, reads_query=True),
    Route(method="GET", pattern=_PARKED, name="parked_one", may_wait=True, reads_query=True),
    *(
        Route(
            method="POST",
            pattern=f"{pattern}/{name}",
            name=name,
            may_wait=True,
            has_body=True,
            reads_query=True,
        )
        for pattern, name in (
            (_TRANSACTION, "commit"),
            (_TRANSACTION, "rollback"),
            (_TRANSACTION, "check"),
            (_PARKED, "resume"),
        )
    ),
)


class _Order(msgspec.Struct, forbid_unknown_fields=True):
    """The body of everything that changes something. A check needs no reason."""

    operator: str
    reason: str = ""


_decode_order = msgspec.json.Decoder(_Order).decode
_encode = msgspec.json.Encoder().encode


def operating_handlers(operations: Operations) -> dict[str, Handler]:
    """By route name."""
    handlers = _Handlers(operations)
    return {
        "undecided": handlers.undecided,
        "parked": handlers.parked,
        "parked_one": handlers.parked_one,
        "commit": handlers.commit,
        "rollback": handlers.rollback,
        "check": handlers.check,
        "resume": handlers.resume,
    }


class _Handlers:
    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def undecided(self, request: Request) -> bytes:
        return _answer(await self._operations.undecided(read_filter(request.query.decode())))

    async def parked(self, request: Request) -> bytes:
        return _answer(await self._operations.parked(read_filter(request.query.decode())))

    async def parked_one(self, request: Request) -> bytes:
        group, transaction_id = request.arguments
        found, messages = await self._operations.parked_messages(group, transaction_id)
        return _answer({"transaction": found, "messages": [_message(m) for m in messages]})

    async def commit(self, request: Request) -> bytes:
        return await self._decide(request, Resolution.COMMIT)

    async def rollback(self, request: Request) -> bytes:
        return await self._decide(request, Resolution.ROLLBACK)

    async def _decide(self, request: Request, resolution: Resolution) -> bytes:
        order = _order(request)
        group, transaction_id = request.arguments
        ended = await self._operations.decide(
            group, transaction_id, resolution, reason=order.reason, operator=order.operator
        )
        return _answer({"transaction_id": ended.transaction_id, "state": ended.state})

    async def check(self, request: Request) -> bytes:
        _order(request)
        group, transaction_id = request.arguments
        await self._operations.check(group, transaction_id)
        return _answer({"transaction_id": transaction_id, "state": "pending"}, 202)

    async def resume(self, request: Request) -> bytes:
        order = _order(request)
        group, transaction_id = request.arguments
        resumed = await self._operations.resume(
            group, transaction_id, reason=order.reason, operator=order.operator
        )
        return _answer({"transaction": resumed})


# -- what is asked -------------------------------------------------------------------------------


def _order(request: Request) -> _Order:
    media_type = request.fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media_type != b"application/json":
        raise UnsupportedMediaType("Send the body as application/json.")
    try:
        return _decode_order(request.body)
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


def _answer(content: object, status: int = 200) -> bytes:
    return json_reply(status, _encode(content))


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
