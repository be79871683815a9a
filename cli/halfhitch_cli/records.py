"""Records of targets and of the half topic as people and programs see them. Pure.

Owns `Seen`: one message of a topic, whoever wrote it, with what Half Hitch's headers say decoded.
Invariants: nothing of a record is lost in `as_json` (bytes that are no UTF-8 become base64); a
record of another producer is shown as it is; no record raises.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from halfhitch.wire.forwarded import producer_headers, read_forwarded
from halfhitch.wire.half import Garbage, HalfRecord, read_record, user_headers
from halfhitch.wire.plain import shown

Headers = Sequence[tuple[str, bytes | None]]

VISIBLE: Final = "visible"
INVISIBLE: Final = "invisible"

#: Of a key, a value or a header in a line; JSON has all of it.
_SHOWN_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Seen:
    """One message. `group` is empty for a record that Half Hitch has not forwarded."""

    topic: str
    partition: int | None  # of the topic; None: not chosen yet
    position: int  # in its log: the topic's, or the half partition's
    stored_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers  # the user's
    group: str = ""
    transaction_id: str = ""
    index: int = 0
    born_ms: int | None = None
    half_partition: int | None = None  # it lies there, invisible
    count: int = 0  # messages of its transaction; 0: not known (yet)

    @property
    def state(self) -> str:
        """Whether readers of committed messages see it."""
        return VISIBLE if self.half_partition is None else INVISIBLE

    @property
    def place(self) -> str:
        """orders/2@17; of an invisible one, where it waits."""
        if self.half_partition is None:
            return f"{self.topic}/{self.partition}@{self.position}"
        return f"{self.topic} (half {self.half_partition}@{self.position})"


def seen(
    topic: str,
    partition: int,
    position: int,
    stored_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers | None,
) -> Seen:
    """A record of an ordinary topic."""
    given = list(headers or ())
    found = read_forwarded(given)
    if found is None:
        return Seen(topic, partition, position, stored_ms, key, value, given)
    return Seen(
        topic, partition, position, stored_ms, key, value, producer_headers(given),
        found.producer_group, found.transaction_id, found.message_index, found.born_ms, None,
        found.message_count,
    )  # fmt: skip


def half_of(
    partition: int,
    position: int,
    stored_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers | None,
) -> tuple[Seen, HalfRecord] | None:
    """A record of the half topic as the message that it will be; None: it is no such record."""
    given = list(headers or ())
    record = read_record(position, given)
    if isinstance(record, Garbage):
        return None
    message = Seen(
        record.target_topic, record.target_partition, position, stored_ms, key, value,
        user_headers(given), record.producer_group, record.transaction_id, record.index,
        record.born_ms, partition,
    )  # fmt: skip
    return message, record


def as_line(message: Seen, *, with_state: bool) -> str:
    """For people: one line, whatever it holds. The id is never cut."""
    moment = datetime.fromtimestamp(message.stored_ms / 1000, UTC)
    words = [f"{moment:%Y-%m-%dT%H:%M:%SZ}", message.place]
    if with_state:
        words.insert(1, f"{message.state:<9}")
    words.append(f"key={as_text(message.key)}")
    words.append(f"value={as_text(message.value)}")
    words += [f"{shown(name)}={as_text(raw)}" for name, raw in message.headers]
    if message.group:
        nth = f", {message.index + 1} of {message.count} messages" if message.count > 1 else ""
        words.append(f"({shown(message.transaction_id)} of {shown(message.group)}{nth})")
    return "  ".join(words)


def as_text(raw: bytes | None) -> str:
    """What people see of bytes: text in one line, cut."""
    if raw is None:
        return "null"
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = f"base64:{b64encode(raw).decode()}"
    told = shown(text[:_SHOWN_CHARS_MAX])
    return told if len(text) <= _SHOWN_CHARS_MAX else f"{told}… ({len(raw)} bytes)"


def as_json(message: Seen) -> dict[str, Any]:
    """For programs: everything."""
    half = message.half_partition
    return {
        "state": message.state,
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.position if half is None else None,
        "half_partition": half,
        "half_offset": None if half is None else message.position,
        "timestamp_ms": message.stored_ms,
        "transaction_id": message.transaction_id or None,
        "producer_group": message.group or None,
        "message_index": message.index if message.group else None,
        "message_count": message.count or None,
        "born_ms": message.born_ms,
        **_raw("key", message.key),
        **_raw("value", message.value),
        "headers": [[name, _header(raw)] for name, raw in message.headers],
    }


def _raw(name: str, raw: bytes | None) -> dict[str, str | None]:
    if raw is None:
        return {name: None}
    try:
        return {name: raw.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(raw).decode()}


def _header(raw: bytes | None) -> str | dict[str, str] | None:
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(raw).decode()}
