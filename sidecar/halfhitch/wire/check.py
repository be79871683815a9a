"""A check: the question what became of a transaction, as it travels to a producer.

One JSON object, the same on the stream and in a callback's body. Keys and values are text where
they are UTF-8, base64 otherwise, as in a prepare:

    {"type": "check", "transaction_id", "producer_group", "handle", "check_number", "check_max",
     "age_ms", "born_ms"?, "messages": [{"topic", "key" or "key_base64", "value" or "value_base64",
     "headers": [[name, value or null or {"base64": ...}], ...], "partition"?}, ...]}

To another instance's inbox goes no message and no handle: see service/checking/inbox.py.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from halfhitch.core.model import Identity
from halfhitch.wire.trace_parent import sampled_trace

Headers = list[tuple[str, bytes | None]]


@dataclass(slots=True)
class CheckMessage:
    """One message of the transaction, as its producer gave it."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None = None  # fixed by the producer


@dataclass(slots=True)
class Check:
    """Ask a live producer of the group how its local transaction ended."""

    partition: int  # half partition
    identity: Identity
    number: int  # 1 for the first check
    number_max: int
    handle: str  # ends the transaction, at any instance
    age_ms: int  # since the first prepare; never lower than the wall clock says
    instance: str  # that took the prepare: its producers are asked first
    messages: Sequence[CheckMessage]
    #: The same number may have been delivered before (the owner has changed): ask the index first.
    is_repeat: bool = False
    #: How late it is: between being due and being handed over by the owner. Does not travel.
    lag_ms: int = 0
    #: Of the copies that carry this number; they tell it from the same number of a former life.
    #: To other instances, not to producers.
    half_offsets: tuple[int, ...] = ()
    #: When the first message was stored, as far as any clock says: never later than it was.
    born_ms: int | None = None

    @property
    def trace_id(self) -> str | None:
        """Of the trace that its caller records, if he does."""
        return sampled_trace(self.messages[0].headers) if self.messages else None


class _Bytes(msgspec.Struct):
    """A header value that is not UTF-8."""

    base64: str


class _Text(msgspec.Struct, omit_defaults=True):
    """A message's JSON form; `None` and absent are the same: null."""

    topic: str
    key: str | None = None
    key_base64: str | None = None
    value: str | None = None
    value_base64: str | None = None
    headers: list[tuple[str, str | _Bytes | None]] = []
    partition: int | None = None


class _Line(msgspec.Struct, omit_defaults=True, tag="check", tag_field="type"):
    """The JSON form of a check."""

    transaction_id: str
    producer_group: str
    handle: str
    check_number: int
    check_max: int
    age_ms: int
    messages: list[_Text]
    born_ms: int | None = None


_encode = msgspec.json.Encoder().encode

#: A line of the stream that only says that the coordinator is there.
HEARTBEAT_LINE: Final = b'{"type":"heartbeat"}\n'


def encode(check: Check) -> bytes:
    """The JSON object without a line feed."""
    group, transaction_id = check.identity
    line = _Line(
        transaction_id,
        group,
        check.handle,
        check.number,
        check.number_max,
        check.age_ms,
        [_text_of(message) for message in check.messages],
        born_ms=check.born_ms,
    )
    return _encode(line)


def _text_of(message: CheckMessage) -> _Text:
    key, key_base64 = _split(message.key)
    value, value_base64 = _split(message.value)
    headers = [(name, _header(raw)) for name, raw in message.headers]
    return _Text(message.topic, key, key_base64, value, value_base64, headers, message.partition)


def _split(raw: bytes | None) -> tuple[str | None, str | None]:
    if raw is None:
        return None, None
    try:
        return raw.decode(), None
    except UnicodeDecodeError:
        return None, b64encode(raw).decode()


def _header(raw: bytes | None) -> str | _Bytes | None:
    text, encoded = _split(raw)
    return text if encoded is None else _Bytes(encoded)
