"""The admin door's routes for operators: what is undecided or parked, and what can be done with it.

    GET   /v1/transactions                          undecided; filters as query parameters, skip=N
                                                    and limit=N for one page of many
    GET   /v1/names                                 the names of all that are undecided and match
    POST  /v1/many/commit                           also /rollback and /check
    GET   /v1/parked                                parked; the same filters
    GET   /v1/parked/{group}/{id}                   one of them with its content
    POST  /v1/transactions/{group}/{id}/commit      also /rollback and /check
    POST  /v1/parked/{group}/{id}/resume

Group and id are percent-encoded: they may contain slashes. A POST carries {"reason", "operator"}
and must say that it is JSON: no form of a browser can.

A POST about many names them in its body: {"transactions": {"group": ["id", ...]}, ...}. The answer
has for each id, in its order, {"state": ...} or {"error": ...}; one fails without the others.

The guard and the bounds of door.py stand before all of this. Who has no right for a group is
refused before anything is looked up, and lists leave out what he may not observe. Where identities
are configured the operator is the identity; what the body says he is called is a remark.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from halfhitch.access import Right
from halfhitch.core.model import Identity, ProducerGroup, Resolution, TransactionId
from halfhitch.doors.admin.contents import shown_content
from halfhitch.doors.http.errors import status_of
from halfhitch.doors.http.handlers import Handler
from halfhitch.doors.http.replies import json_reply
from halfhitch.doors.http.requests import Request
from halfhitch.doors.http.router import Route
from halfhitch.errors import HalfHitchError, InvalidJson, InvalidRequest, UnsupportedMediaType
from halfhitch.service.api import Filter, ManyOutcome, Operations, ParkedMessage
from halfhitch.service.reasons import REASON_CHARS_MAX, kept_reason

_log = logging.getLogger(__name__)

_LIMIT_MAX: Final = 10_000
_LIMIT: Final = 1_000
#: A name is a few dozen bytes, and looked up without its payload.
_NAMES_MAX: Final = 200_000
#: All that the store keeps in mind, in one answer: pages would be of different moments.
_PARKED_MAX: Final = 100_000
#: Within the largest body there is, ids are bounded by it; groups alone are not worth a body.
_MANY_MAX: Final = 1_000

_TRANSACTION: Final = "/v1/transactions/{group}/{id}"
_PARKED: Final = "/v1/parked/{group}/{id}"
_ENDS: Final = ("commit", "rollback")
OPERATED: Final[tuple[Route, ...]] = (
    Route(
        method="GET", pattern="/v1/transactions", name="undecided", may_wait=True, reads_query=True
    ),
    Route(method="GET", pattern="/v1/names", name="names", may_wait=True, reads_query=True),
    *(
        Route(
            method="POST",
            pattern=f"/v1/many/{name}",
            name=f"{name}_many",
            may_wait=True,
            has_body=True,
            reads_query=True,
        )
        for name in ("commit", "rollback", "check")
    ),
    Route(method="GET", pattern="/v1/parked", name="parked", may_wait=True, reads_query=True),
    Route(method="GET", pattern=_PARKED, name="parked_one", may_wait=True, reads_query=True),
    *(
        Route(
            method="POST",
            pattern=f"{pattern}/{name}",
            name=name,
            may_wait=True,
            is_always_taken=name in _ENDS,
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

    operator: str | None = None
    reason: str = ""


class _OrderForMany(_Order, forbid_unknown_fields=True, kw_only=True):
    """The same, and whom it is about."""

    transactions: dict[str, list[str]]


@dataclass(slots=True)
class _Command:
    """Who wants it, and why."""

    operator: str
    reason: str


_decode_order_for_many = msgspec.json.Decoder(_OrderForMany).decode
_decode_order = msgspec.json.Decoder(_Order).decode
_encode = msgspec.json.Encoder().encode


def operating_handlers(operations: Operations) -> dict[str, Handler]:
    """By route name."""
    handlers = _Handlers(operations)
    return {
        "undecided": handlers.undecided,
        "names": handlers.names,
        "commit_many": handlers.commit_many,
        "rollback_many": handlers.rollback_many,
        "check_many": handlers.check_many,
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
        wanted = _filter(request)
        page = await self._operations.undecided(wanted)
        del page.transactions[: wanted.skip_count]
        return _answer(page)

    async def names(self, request: Request) -> bytes:
        wanted = _filter(request, limit_max=_NAMES_MAX)
        page = await self._operations.names(wanted)
        names: dict[str, list[str]] = {}
        for group, transaction_id in page.names[wanted.skip_count :]:
            names.setdefault(group, []).append(transaction_id)
        return _answer(
            {
                "names": names,
                "total_count": page.total_count,
                "missing_partitions": page.missing_partitions,
            }
        )

    async def commit_many(self, request: Request) -> bytes:
        return await self._decide_many(request, Resolution.COMMIT)

    async def rollback_many(self, request: Request) -> bytes:
        return await self._decide_many(request, Resolution.ROLLBACK)

    async def _decide_many(self, request: Request, resolution: Resolution) -> bytes:
        order, wanted = _order_for_many(request)
        identities = _identities(wanted)
        outcomes = await self._operations.decide_many(
            identities, resolution, reason=order.reason, operator=order.operator
        )
        return _answer({"results": _results(wanted, identities, outcomes)})

    async def check_many(self, request: Request) -> bytes:
        order, wanted = _order_for_many(request)
        identities = _identities(wanted)
        outcomes = await self._operations.check_many(identities)
        _log.info(
            "%s asked for a check of %d transactions at once",
            order.operator,
            len(identities),
            extra={"action": "operator"},
        )
        return _answer({"results": _results(wanted, identities, outcomes)})

    async def parked(self, request: Request) -> bytes:
        wanted = _filter(request, limit_max=_PARKED_MAX)
        page = await self._operations.parked(wanted)
        del page.transactions[: wanted.skip_count]
        return _answer(page)

    async def parked_one(self, request: Request) -> bytes:
        group, transaction_id = _named(request)
        found, messages = await self._operations.parked_messages(group, transaction_id)
        return _answer({"transaction": found, "messages": [_message(m) for m in messages]})

    async def commit(self, request: Request) -> bytes:
        return await self._decide(request, Resolution.COMMIT)

    async def rollback(self, request: Request) -> bytes:
        return await self._decide(request, Resolution.ROLLBACK)

    async def _decide(self, request: Request, resolution: Resolution) -> bytes:
        group, transaction_id = _named(request)
        order = _order(request)
        ended = await self._operations.decide(
            group, transaction_id, resolution, reason=order.reason, operator=order.operator
        )
        return _answer({"transaction_id": ended.transaction_id, "state": ended.state})

    async def check(self, request: Request) -> bytes:
        group, transaction_id = _named(request)
        order = _order(request)
        await self._operations.check(group, transaction_id)
        _log.info(
            "%s asked for a check of transaction %s of group %s",
            order.operator,
            transaction_id,
            group,
            extra={"action": "operator"},
        )
        return _answer({"transaction_id": transaction_id, "state": "pending"}, 202)

    async def resume(self, request: Request) -> bytes:
        group, transaction_id = _named(request)
        order = _order(request)
        resumed = await self._operations.resume(
            group, transaction_id, reason=order.reason, operator=order.operator
        )
        return _answer({"transaction": resumed})


# -- what is asked -------------------------------------------------------------------------------


def _named(request: Request) -> tuple[str, str]:
    """Group and id that a path names. Raises Forbidden, whether there is such a one or not."""
    group, transaction_id = request.arguments
    request.caller.require(Right.OPERATE, group)
    return group, transaction_id


def _filter(request: Request, *, limit_max: int = _LIMIT_MAX) -> Filter:
    """What is asked for, as far as the caller may see it. Raises Forbidden for one group's."""
    caller = request.caller
    wanted = read_filter(request.query.decode(), limit_max=limit_max)
    if not caller.is_free:
        if wanted.producer_group is not None:
            caller.require(Right.OBSERVE, wanted.producer_group)
        caller.require_somewhere(Right.OBSERVE)
        wanted.may_see = partial(caller.may, Right.OBSERVE)
    return wanted


def _order(request: Request) -> _Command:
    return _command(request, _decoded(request, _decode_order))


def _order_for_many(request: Request) -> tuple[_Command, dict[str, list[str]]]:
    """Who wants it, why, and ids by group. Raises Forbidden for any group without the right."""
    order = _decoded(request, _decode_order_for_many)
    for group in order.transactions:
        request.caller.require(Right.OPERATE, group)
    if not 1 <= sum(map(len, order.transactions.values())) <= _MANY_MAX:
        raise InvalidRequest(f"Name 1 to {_MANY_MAX} transactions in one request.")
    return _command(request, order), order.transactions


def _identities(wanted: dict[str, list[str]]) -> list[Identity]:
    """Each once, also one that is named twice."""
    return [
        (ProducerGroup(group), TransactionId(transaction_id))
        for group, ids in wanted.items()
        for transaction_id in dict.fromkeys(ids)
    ]


_AnyOrder = TypeVar("_AnyOrder", bound=_Order)


def _decoded(request: Request, decode: Callable[[bytes], _AnyOrder]) -> _AnyOrder:
    media_type = request.fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media_type != b"application/json":
        raise UnsupportedMediaType("Send the body as application/json.")
    try:
        return decode(request.body)
    except (ValueError, RecursionError) as error:
        raise InvalidJson(
            f'The body must be {{"reason": "...", "operator": "..."}}: {str(error)[:200]}'
        ) from None


def _command(request: Request, order: _Order) -> _Command:
    name = request.caller.name
    if name is not None:
        return _Command(name, _signed(order.reason, order.operator, name))
    if order.operator is None:
        raise InvalidJson('The body must say who you are: {"reason": "...", "operator": "..."}')
    return _Command(order.operator, order.reason)


def _signed(reason: str, claimed: str | None, name: str) -> str:
    """The reason, with what the operator calls himself behind it, where that fits."""
    remark = kept_reason(claimed)
    if remark in (None, name) or not reason.strip():
        return reason
    signed = f"{reason} (signed {remark})"
    return signed if len(signed) <= REASON_CHARS_MAX else reason


def read_filter(query: str, *, limit_max: int = _LIMIT_MAX) -> Filter:
    """Query parameters as a filter. Raises InvalidRequest for what is not known or given twice."""
    readers: dict[str, tuple[str, Callable[[str], Any]]] = {
        "group": ("producer_group", str),
        "topic": ("topic", str),
        "id": ("transaction_id", str),
        "older_than_s": ("older_than_s", _seconds),
        "min_checks": ("check_count_min", _count),
        "limit": ("count_max", partial(_count, count_max=limit_max)),
        "skip": ("skip_count", partial(_count, count_max=limit_max)),
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
        skip_count = values.get("skip_count", 0)
        values["count_max"] = min(limit_max, values["count_max"] + skip_count)
    except ValueError:  # of parse_qsl and the readers
        raise InvalidRequest(
            "older_than_s is a number of seconds, min_checks, limit and skip are whole numbers "
            f"(limit and skip at most {limit_max}), all of them not negative; texts are UTF-8."
        ) from None
    return Filter(**values)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < 1e10:
        raise ValueError(text)
    return seconds


def _count(text: str, count_max: int = _LIMIT_MAX) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) > count_max:
        raise ValueError(text)
    return int(text)


# -- what is answered ----------------------------------------------------------------------------


def _answer(content: object, status: int = 200) -> bytes:
    return json_reply(status, _encode(content))


def _results(
    wanted: dict[str, list[str]], identities: Sequence[Identity], outcomes: Sequence[ManyOutcome]
) -> dict[str, list[dict[str, Any]]]:
    """One for each name, in the order of the request: one that comes twice gets it twice."""
    known: dict[tuple[str, str], dict[str, Any]] = {
        identity: _shown(outcome) for identity, outcome in zip(identities, outcomes, strict=True)
    }
    return {group: [known[group, each] for each in ids] for group, ids in wanted.items() if ids}


def _shown(outcome: ManyOutcome) -> dict[str, Any]:
    if not isinstance(outcome, HalfHitchError):
        return {"state": outcome}
    error = {"code": outcome.code, "message": outcome.message, "status": status_of(outcome)}
    return {"error": error}


def _message(message: ParkedMessage) -> dict[str, Any]:
    shown: dict[str, Any] = {"topic": message.topic}
    if message.partition is not None:
        shown["partition"] = message.partition
    return shown | shown_content(message.key, message.value, message.headers)
