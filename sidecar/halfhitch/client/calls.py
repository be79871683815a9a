"""What is asked of the data door, as bytes, and what its answers mean. No I/O.

Every call may be sent any number of times: the transaction id is part of it from the first try, and
an add is tied to the handle it was made with. So a shell may repeat a call's bytes as they are.

A single message takes the raw route (no base64, no JSON on either side) when HTTP can carry all
of it; everything else takes the JSON route. The choice is made here and shows nowhere else.
"""

import os
from binascii import b2a_base64
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar

from halfhitch import errors
from halfhitch.client import given
from halfhitch.client.address import Address
from halfhitch.client.errors import BadAnswer
from halfhitch.client.given import PlainMessage, is_text
from halfhitch.client.protocol import Response
from halfhitch.client.trace_context import end_line, traced
from halfhitch.client.values import (
    Ended,
    LocalTransactionState,
    Message,
    Prepared,
    TransactionView,
)

T = TypeVar("T")

#: What the raw route carries besides the body: beyond this, JSON (doors limit their heads).
RAW_HEAD_BYTES_MAX = 8 * 1024
RAW_HEADER_COUNT_MAX = 64

#: The door takes no longer ones; the end, with the process, says more than the beginning.
PRODUCER_NAME_CHARACTERS_MAX = 100

# Sets of characters for `strip`: what remains of a good text is nothing. Compiling the
# equal regular expressions took a quarter of the import time.
_ALPHANUMERIC = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_IN_TOPIC = _ALPHANUMERIC + "._-"
_IN_HANDLE = _ALPHANUMERIC + "_.~-"
# HTTP's names have no case, so a name with capitals takes the JSON route.
_IN_FIELD_NAME = "0123456789abcdefghijklmnopqrstuvwxyz!#$%&'*+-.^_`|~"


class Operation(Enum):
    """What a call does; the value is the word for it in messages and paths."""

    PREPARE = "prepare"
    ADD = "add"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    VIEW = "view"
    CHECKS = "checks"
    CANNOT_SAY = "unknown"  # the answer to a check that is no decision


class Call(NamedTuple, Generic[T]):
    """One request, and how its answer is read."""

    operation: Operation
    request: bytes
    read: Callable[[Response], T]
    transaction_id: str | None
    handle: str | None


def new_transaction_id() -> str:
    """A random UUID (version 4) in hex; `uuid` itself would double the import time."""
    bits = int.from_bytes(os.urandom(16), "big")
    bits = bits & ~(0xF << 76) | 0x4 << 76
    bits = bits & ~(0x3 << 62) | 0x2 << 62
    return f"{bits:032x}"


class Calls:
    """Makes the calls of one producer."""

    def __init__(self, address: Address, group: str, token: str | None) -> None:
        if not (is_text(group) and group):
            raise errors.ConfigurationError("group must name the producer group, e.g. 'orders'")
        group = given.text(group, "group")
        wrong = given.why_not_whole(group, "group")
        if wrong is not None:
            raise errors.ConfigurationError(wrong)
        fixed = f"\r\nHost: {address.host_header}"
        if token is not None:
            token = given.text(token, "token")
            if not _fits_header(token):
                raise errors.ConfigurationError(
                    "token must be printable ASCII without blanks around it; is there a line"
                    " break at its end?"
                )
            fixed += f"\r\nHalf-Token: {token}"
        #: The producer group.
        self.group = group
        self._address = address.text
        self._group_fits = _fits_header(group)
        self._plain_head = f" HTTP/1.1{fixed}"
        if self._group_fits:  # else it travels in JSON bodies only
            fixed += f"\r\nHalf-Producer-Group: {group}"
        self._head = f" HTTP/1.1{fixed}"
        #: What is sent first where nothing has ever answered: it stores nothing, so a port that is
        #: no sidecar's is told as that, and not as an unknown outcome. A path is no such slip.
        self.greeting: bytes | None = None
        if address.path is None:
            self.greeting = f"OPTIONS *{self._plain_head}\r\n\r\n".encode("ascii")

    def prepare(
        self, messages: Sequence[Message], transaction_id: str, immunity_s: int | None
    ) -> Call[Prepared]:
        """Store the first messages of a transaction."""
        plain = traced(given.messages(messages))
        transaction_id = given.transaction_id(transaction_id)
        immunity_s = given.immunity_s(immunity_s)
        request = None
        if len(plain) == 1 and self._group_fits:
            request = self._raw_prepare(plain[0], transaction_id, immunity_s)
        if request is None:
            body: dict[str, Any] = {"producer_group": self.group, "transaction_id": transaction_id}
            if immunity_s is not None:
                body["immunity_seconds"] = immunity_s
            request = self._json_post("/v1/transactions", body, plain)
        return Call(Operation.PREPARE, request, self._read_prepared, transaction_id, None)

    def add(
        self, handle: str, messages: Sequence[Message], transaction_id: str | None = None
    ) -> Call[Prepared]:
        """Store further messages; the answer's handle replaces this one.

        Here and below, `transaction_id` is only for errors to tell; the handle says which.
        """
        path = f"/v1/transactions/{_in_path(handle)}/messages"
        request = self._json_post(path, {}, traced(given.messages(messages)))
        return Call(Operation.ADD, request, self._read_prepared, transaction_id, handle)

    def end(
        self,
        operation: Operation,
        handle: str,
        transaction_id: str | None = None,
        *,
        wait_visible: bool = False,
    ) -> Call[Ended]:
        """Commit or roll back."""
        query = "?wait=visible" if wait_visible else ""
        request = self._end_request(operation, handle, query)
        return Call(operation, request, self._read_ended, transaction_id, handle)

    def answer_check(
        self,
        state: LocalTransactionState,
        handle: str,
        transaction_id: str,
        reason: str | None = None,
    ) -> Call[Ended | None]:
        """Tell the coordinator what it asked for; UNKNOWN only says that somebody has answered.

        `reason`: why it is UNKNOWN, in one printable line.
        """
        if state is LocalTransactionState.UNKNOWN:
            request = self._end_request(Operation.CANNOT_SAY, handle, "", reason)
            return Call(Operation.CANNOT_SAY, request, _read_nothing, transaction_id, handle)
        operation = (
            Operation.COMMIT if state is LocalTransactionState.COMMIT else Operation.ROLLBACK
        )
        request = self._end_request(operation, handle, "?source=check")
        return Call(operation, request, self._read_ended, transaction_id, handle)

    def _end_request(
        self, operation: Operation, handle: str, query: str, reason: str | None = None
    ) -> bytes:
        path = f"/v1/transactions/{_in_path(handle)}/{operation.value}{query}"
        told = f"\r\nHalf-Reason: {reason}" if reason else ""
        head = f"{self._head}{told}{end_line()}"
        return f"POST {path}{head}\r\nContent-Length: 0\r\n\r\n".encode()

    def checks(self, producer_name: str, heartbeat_s: int, at_once: int) -> bytes:
        """Open the stream of checks. Its answer has no end, so it is no `Call`."""
        name = _percent_encoded(producer_name)[-PRODUCER_NAME_CHARACTERS_MAX:]
        return (
            f"GET /v1/checks?producer_group={_percent_encoded(self.group)}{self._plain_head}"
            f"\r\nHalf-Heartbeat: {heartbeat_s}\r\nHalf-Producer-Name: {name}"
            f"\r\nHalf-Checks-At-Once: {at_once}\r\n\r\n"
        ).encode("ascii")

    def view(self, handle: str) -> Call[TransactionView]:
        """Look a transaction up."""
        request = f"GET /v1/transactions/{_in_path(handle)}{self._plain_head}\r\n\r\n".encode()
        return Call(Operation.VIEW, request, self._read_view, None, handle)

    def _raw_prepare(
        self, message: PlainMessage, transaction_id: str, immunity_s: int | None
    ) -> bytes | None:
        """None when HTTP cannot carry this message as it is."""
        value, key = message.value, message.key
        if (
            value is None  # a body cannot be null
            or not message.topic
            or message.topic.strip(_IN_TOPIC)
            or message.topic.startswith(".")  # . and .. mean something else in a path
            or not _fits_header(transaction_id)
        ):
            return None
        lines = [
            f"POST /v1/topics/{message.topic}/half{self._head}",
            f"Half-Transaction-Id: {transaction_id}",
            f"Content-Type: application/octet-stream\r\nContent-Length: {len(value)}",
        ]
        if immunity_s is not None:
            lines.append(f"Half-Immunity-Seconds: {immunity_s}")
        if message.partition is not None:
            lines.append(f"Half-Partition: {message.partition}")
        if key is not None:
            text = key.decode("latin-1")
            if _fits_header(text):
                lines.append(f"Half-Key: {text}")
            else:
                lines.append(f"Half-Key-Base64: {_base64(key)}")
        if not _add_header_lines(lines, message.headers):
            return None
        head = "\r\n".join(lines)
        if len(head) > RAW_HEAD_BYTES_MAX:
            return None
        return f"{head}\r\n\r\n".encode("ascii") + value

    def _json_post(
        self, path: str, body: dict[str, Any], messages: Sequence[PlainMessage]
    ) -> bytes:
        from json import dumps

        if not messages:
            raise errors.InvalidRequest("there is no message to send: pass at least one")
        body["messages"] = [_json_message(message) for message in messages]
        content = dumps(body, separators=(",", ":")).encode("ascii")
        head = (
            f"POST {path}{self._plain_head}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        return head.encode("ascii") + content

    def _read_prepared(self, response: Response) -> Prepared:
        headers = response.headers
        if "half-handle" in headers:
            return Prepared(self._text(headers, "half-transaction-id"), headers["half-handle"])
        answer = self._object(response)
        return Prepared(self._text(answer, "transaction_id"), self._text(answer, "handle"))

    def _read_ended(self, response: Response) -> Ended:
        answer = self._object(response)
        return Ended(
            self._text(answer, "transaction_id"),
            self._text(answer, "state"),
            answer.get("visible") is True,
        )

    def _read_view(self, response: Response) -> TransactionView:
        answer = self._object(response)
        count = answer.get("message_count")
        return TransactionView(
            self._text(answer, "transaction_id"),
            self._text(answer, "producer_group"),
            self._text(answer, "state"),
            count if isinstance(count, int) else 0,
            answer.get("visible") is True,
            answer,
        )

    def _object(self, response: Response) -> dict[str, Any]:
        answer = _parsed(response.body)
        if not isinstance(answer, dict):
            raise BadAnswer(self._address, f"status {response.status}, a body that is no object")
        return answer

    def _text(self, answer: Mapping[str, Any], name: str) -> str:
        value = answer.get(name)
        if not isinstance(value, str):
            raise BadAnswer(self._address, f"no {name} in it")
        return value


def error_of(response: Response, address: str, operation: Operation) -> errors.HalfHitchError:
    """The error that a refusal stands for: by its code, else by its status."""
    status = response.status
    answer = _parsed(response.body)
    error = answer.get("error") if isinstance(answer, dict) else None
    if status < 400:
        return BadAnswer(address, f"status {status}")
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        reason = f"{address} answered {status} and did not say why"
        if status < 500 and status != 429:
            return errors.RequestError(f"{reason}: is this the data door of Half Hitch?")
        return errors.BackendError(reason, retry_after_s=_retry_after_s(response))
    code, message = error["code"], str(error.get("message") or error["code"])
    kind = _BY_CODE.get(code)
    if kind is errors.ContraryDecision:
        decided = str(error.get("decided") or "otherwise")
        requested = str(error.get("requested") or operation.value)
        return errors.ContraryDecision(message, decided=decided, requested=requested)
    if kind is None:
        kind = errors.BackendError if status >= 500 or status == 429 else errors.RequestError
        message = f"{message} ({code})"
    if issubclass(kind, errors.BackendError):
        return kind(message, retry_after_s=_retry_after_s(response))
    return kind(message)


def says_its_state(error: errors.HalfHitchError) -> bool:
    """True for an error of Half Hitch's own that tells surely whether anything was stored."""
    return type(error) in _SURE


def _fits_header(text: str) -> bool:
    """Blanks around a value are not part of it in HTTP, and what is not ASCII is at the mercy of
    whatever stands between.
    """
    return text != "" and text.isascii() and text.isprintable() and text == text.strip(" ")


def _in_path(handle: str) -> str:
    """A handle is the coordinator's to read: only what no path can carry is refused here."""
    if not is_text(handle) or not handle.isascii() or not handle.isprintable() or not handle:
        raise errors.InvalidHandle("this is no handle: send it exactly as prepare returned it")
    if not handle.strip(_IN_HANDLE):
        return handle
    return _percent_encoded(handle)


def _percent_encoded(text: str) -> str:
    octets = text.encode(errors="surrogatepass")
    return "".join(chr(octet) if chr(octet) in _IN_HANDLE else f"%{octet:02X}" for octet in octets)


def _add_header_lines(lines: list[str], pairs: Sequence[tuple[str, bytes | None]]) -> bool:
    """False when HTTP would lose something: nulls, odd bytes, or the order of equal names."""
    if len(pairs) > RAW_HEADER_COUNT_MAX:
        return False
    seen: set[str] = set()
    for name, value in pairs:
        if value is None or not name or name.strip(_IN_FIELD_NAME) or name in seen:
            return False
        text = value.decode("latin-1")
        if not _fits_header(text):
            return False
        seen.add(name)
        lines.append(f"Half-Header-{name}: {text}")
    return True


def _json_message(message: PlainMessage) -> dict[str, Any]:
    fields: dict[str, Any] = {"topic": message.topic}
    if message.value is None:
        fields["value"] = None
    else:
        fields["value_base64"] = _base64(message.value)
    if message.key is not None:
        fields["key_base64"] = _base64(message.key)
    if message.headers:
        fields["headers"] = [
            (name, None if value is None else {"base64": _base64(value)})
            for name, value in message.headers
        ]
    if message.partition is not None:
        fields["partition"] = message.partition
    return fields


def _read_nothing(_: Response) -> None:
    """That it was taken is all there is to know."""


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def _parsed(body: bytes) -> Any:
    """None for anything that is not JSON."""
    from json import loads

    try:
        return loads(body)
    except (ValueError, RecursionError):
        return None


def _retry_after_s(response: Response) -> int:
    """In the seconds form only; a date would trust two clocks."""
    text = response.headers.get("retry-after", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else 0


def _wire_errors() -> dict[str, type[errors.HalfHitchError]]:
    """Code -> class, for every error that a door can name; of two with one code, the narrower."""
    found: dict[str, type[errors.HalfHitchError]] = {}
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, (errors.RequestError, errors.BackendError)):
            known = found.get(kind.code)
            if known is None or issubclass(kind, known):
                found[kind.code] = kind
    return found


_BY_CODE = _wire_errors()
_BY_CODE["too_many_connections"] = errors.Overloaded  # said before anything of a request is read
_SURE = {kind for kind in _BY_CODE.values() if not issubclass(kind, errors.OutcomeUnknown)} - {
    errors.BackendError
}
