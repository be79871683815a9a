"""From a line of the stream of checks to a `Check`. No I/O.

A check is read whole or not at all: whoever decides over a transaction must not be shown half of
it. Fields that this version does not know are passed over.
"""

from binascii import a2b_base64
from math import isfinite
from typing import Any, NoReturn

from halfhitch.client.values import Check, Message


def read_check(line: dict[str, Any]) -> Check:
    """Raises ValueError, TypeError, KeyError, OverflowError."""
    transaction_id = _text(line, "transaction_id")
    messages = line["messages"]
    if not isinstance(messages, list) or not messages:
        raise TypeError("it has no messages")
    return Check(
        transaction_id,
        _text(line, "producer_group"),
        _text(line, "handle"),
        _count(line, "check_number"),
        _count(line, "check_max"),
        _age_s(line["age_ms"]),
        tuple(_read_message(message, transaction_id) for message in messages),
        _born_ms(line.get("born_ms")),
    )


def _read_message(fields: Any, transaction_id: str) -> Message:
    if not isinstance(fields, dict):
        raise TypeError("a message is no object")
    headers = fields.get("headers") or []
    if not isinstance(headers, list):
        raise TypeError("headers are no list")
    partition = fields.get("partition")
    if partition is not None and type(partition) is not int:
        raise TypeError("a partition is no number")
    return Message(
        _text(fields, "topic"),
        _bytes(fields.get("value"), fields.get("value_base64")),
        _bytes(fields.get("key"), fields.get("key_base64")),
        [_read_header(pair) for pair in headers] or None,
        partition,
        transaction_id,
    )


def _read_header(pair: Any) -> tuple[str, bytes | None]:
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
        raise TypeError("a header is no pair of a name and a value")
    name, value = pair
    if isinstance(value, dict):
        return name, _bytes(None, value["base64"])
    return name, _bytes(value, None)


def _bytes(text: Any, encoded: Any) -> bytes | None:
    for given in (text, encoded):
        if given is not None and not isinstance(given, str):
            raise TypeError("a key, value or header is no text")
    if encoded is not None:
        return a2b_base64(encoded, strict_mode=True)
    return None if text is None else text.encode()


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str) or not value:
        _refuse(name)
    return value


def _count(fields: dict[str, Any], name: str) -> int:
    value = fields[name]
    if type(value) is not int:
        _refuse(name)
    return value


def _age_s(value: Any) -> float:
    if type(value) not in (int, float) or not isfinite(value):
        _refuse("age_ms")
    return float(value) / 1000


def _born_ms(value: Any) -> int | None:
    if value is not None and type(value) is not int:
        _refuse("born_ms")
    return value


def _refuse(name: str) -> NoReturn:
    raise TypeError(f"its {name} is missing or of another type")
