"""The admin door's route for what became of transactions: GET /v1/stories.

Query parameters: `id`, or `topic` with `key` (or `key_base64`), or `since_s` for all that have
ended since; `group`, `topic` and `limit` besides. Lists leave out what the caller may not observe.

`look=offsets` looks for forwarded messages on their topics; `look=values` tells their keys, values
and headers too, in base64, of groups that the caller may operate on.
"""

from base64 import b64decode
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

import msgspec

from halfhitch.access import Right
from halfhitch.doors.admin.contents import shown_content
from halfhitch.doors.http.handlers import Handler
from halfhitch.doors.http.replies import json_reply
from halfhitch.doors.http.requests import Request
from halfhitch.doors.http.router import Route
from halfhitch.errors import InvalidRequest
from halfhitch.service.operators.stories import StoriesPage, StoryQuery

#: The route has places of its own (places.py).
STORIES: Final = "stories"
TOLD: Final[tuple[Route, ...]] = (
    Route(method="GET", pattern="/v1/stories", name=STORIES, may_wait=True, reads_query=True),
)
_LIMIT_MAX: Final = 10_000
_SECONDS_MAX: Final = 1e9
_encode = msgspec.json.Encoder().encode
_NAMES: Final = ("id", "group", "topic", "key", "key_base64", "since_s", "limit", "look")
_LOOKS: Final = ("", "offsets", "values")
_VALUES: Final = "values"


class Stories(Protocol):
    """What knows them."""

    async def stories(self, query: StoryQuery) -> StoriesPage:
        """Raises BackendError."""
        ...


def telling_handlers(stories: Stories) -> dict[str, Handler]:
    """By route name."""

    async def told(request: Request) -> bytes:
        query, look = read_query(request.query.decode())
        caller = request.caller
        if look == _VALUES:
            if query.producer_group is not None:
                caller.require(Right.OPERATE, query.producer_group)
            caller.require_somewhere(Right.OPERATE)
            query = replace(query, may_read=partial(caller.may, Right.OPERATE))
        if not caller.is_free:
            if query.producer_group is not None:
                caller.require(Right.OBSERVE, query.producer_group)
            caller.require_somewhere(Right.OBSERVE)
            may_see = partial(caller.may, Right.OBSERVE)
            query = replace(query, may_see=may_see)
        return json_reply(200, _encode(_shown(await stories.stories(query))))

    return {STORIES: told}


def _shown(page: StoriesPage) -> Any:
    """The page, with what messages say as people can read it."""
    plain = msgspec.to_builtins(page, builtin_types=(bytes,))
    for story in plain["stories"]:
        for event in story["events"]:
            for message in event["landed"] or ():
                content = message["content"]
                if content is not None:
                    texts = shown_content(content["key"], content["value"], content["headers"])
                    sizes = {name: content[name] for name in ("key_bytes", "value_bytes", "is_cut")}
                    message["content"] = texts | sizes
    return plain


def read_query(text: str) -> tuple[StoryQuery, str]:
    """Query parameters as what is looked for, and what with. Raises InvalidRequest."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=20)
        given = dict(pairs)
        if len(given) != len(pairs) or not given.keys() <= set(_NAMES):
            raise InvalidRequest(f"The query parameters are, once each: {', '.join(_NAMES)}.")
        values: dict[str, Any] = {
            "transaction_id": given.get("id"),
            "producer_group": given.get("group"),
            "topic": given.get("topic"),
            "count_max": min(_LIMIT_MAX, max(1, int(given.get("limit", "100")))),
        }
        look = given.get("look", "")
        if look not in _LOOKS:
            raise InvalidRequest("look is offsets or values.")
        values["with_offsets"] = bool(look)
        if "since_s" in given:
            since_s = float(given["since_s"])
            if not 0 <= since_s <= _SECONDS_MAX:
                raise ValueError(since_s)
            values["since_s"] = since_s
        if "key_base64" in given:
            values["key"] = b64decode(given["key_base64"], validate=True)
        elif "key" in given:
            values["key"] = given["key"].encode()
    except ValueError:
        raise InvalidRequest(
            "since_s is a number of seconds, limit a whole number, key_base64 is base64; texts are "
            "UTF-8."
        ) from None
    if "key" in values and values["topic"] is None:
        raise InvalidRequest("A key is looked for with its topic: name both.")
    if values["transaction_id"] is None and "key" not in values and "since_s" not in given:
        raise InvalidRequest("Name an id, a key with its topic, or since_s.")
    return StoryQuery(**values), look
