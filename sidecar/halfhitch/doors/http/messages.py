"""From bodies and headers to messages.

Owns the JSON bodies the door takes (typed, unknown fields refused by name) and their translation
to `OutgoingMessage`. What a message may be (topic, sizes, reserved headers) is the service's to
say; the door answers for JSON, base64 and numbers that are none.

A value is bytes in the end:

| JSON                    | bytes of the Kafka record           |
|-------------------------|-------------------------------------|
| a string                | its UTF-8                           |
| null                    | none (a tombstone)                  |
| anything else           | its JSON text exactly as it was sent |
| `value_base64`          | the decoded bytes                   |

Of a key that stands twice in one JSON object the last one counts, as in most readers of JSON.
"""

from binascii import a2b_base64
from typing import Annotated, TypeVar

import msgspec

from halfhitch.doors.http.requests import Request
from halfhitch.errors import (
    InvalidBase64,
    InvalidJson,
    InvalidRequest,
    UnsupportedMediaType,
)
from halfhitch.service.api import OutgoingMessage, UserHeaders

_Number = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class Base64Value(msgspec.Struct, forbid_unknown_fields=True):
    """A user header's value that is not text."""

    base64: str


_HeaderValue = str | None | Base64Value


class MessageBody(msgspec.Struct, forbid_unknown_fields=True):
    """One message."""

    topic: str
    key: str | None = None
    key_base64: str | None = None
    value: msgspec.Raw = msgspec.Raw()
    value_base64: str | None = None
    headers: dict[str, _HeaderValue] | list[tuple[str, _HeaderValue]] | None = None
    partition: _Number | None = None


class PrepareBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /v1/transactions."""

    producer_group: str
    messages: list[MessageBody]
    transaction_id: str | None = None
    immunity_seconds: _Number | None = None


class AddBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /v1/transactions/{handle}/messages."""

    messages: list[MessageBody]


_Body = TypeVar("_Body")

_prepare_decoder = msgspec.json.Decoder(PrepareBody)
_add_decoder = msgspec.json.Decoder(AddBody)
_text_decoder = msgspec.json.Decoder(str)

#: What the reader has to say may quote the body; that much of it helps, more does not.
_QUOTED_MAX = 200


def read_prepare(request: Request) -> PrepareBody:
    """The body of a prepare. Raises InvalidJson, InvalidRequest, UnsupportedMediaType."""
    return _read(_prepare_decoder, request)


def read_add(request: Request) -> AddBody:
    """The body of an add. Raises InvalidJson, InvalidRequest, UnsupportedMediaType."""
    return _read(_add_decoder, request)


def messages_of(bodies: list[MessageBody]) -> list[OutgoingMessage]:
    """Translate. Raises InvalidRequest, InvalidBase64; the text says which message."""
    return [_message_of(body, index) for index, body in enumerate(bodies)]


def raw_message_of(request: Request) -> OutgoingMessage:
    """The one message of the raw route: its body as it is, its parts in headers.

    Names of user headers keep the bytes they arrived with. HTTP does not promise that: its
    header names have no case, and some clients and proxies change it. Where the case of a name
    matters, the JSON route is the safe one.
    """
    if b"content-encoding" in request.fields:
        check_encoding(request)
    half = request.half
    key = half.get(b"half-key")
    if b"half-key-base64" in half:
        if key is not None:
            raise InvalidRequest(
                "Send either Half-Key or Half-Key-Base64, not both: a message has one key."
            )
        key = _decode_base64(half[b"half-key-base64"], "Half-Key-Base64")
    partition = request.number(b"half-partition") if b"half-partition" in half else None
    return OutgoingMessage(request.argument, key, request.body, request.user_headers, partition)


def check_encoding(request: Request) -> None:
    """Refuse compressed bodies: nothing here unpacks them, so nothing can be a bomb."""
    encoding = request.fields.get(b"content-encoding")
    if encoding is not None and encoding.lower() != b"identity":
        raise UnsupportedMediaType(
            "Compressed bodies are not taken; send the body without Content-Encoding. To store "
            "compressed bytes as the message's value, say so in a user header of your own."
        )


def _read(decoder: "msgspec.json.Decoder[_Body]", request: Request) -> _Body:
    check_encoding(request)
    content_type = request.fields.get(b"content-type")
    if content_type is not None and content_type != b"application/json":
        _check_json_type(content_type)
    body = request.body
    try:
        if not body.isascii():
            body.decode()  # values are passed on as sent, the reader does not look into them
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise InvalidRequest(
            f"The body does not have the form this route takes: {str(error)[:_QUOTED_MAX]}. "
            "GET /v1/openapi.yaml shows the form."
        ) from None
    except RecursionError:
        raise InvalidJson(
            "The body is nested too deeply; send such a value as a string or as value_base64."
        ) from None
    except UnicodeDecodeError:
        raise InvalidJson("The body is not UTF-8, as JSON must be.") from None
    except msgspec.DecodeError as error:
        trouble = str(error).removeprefix("JSON is malformed: ")[:_QUOTED_MAX]
        raise InvalidJson(f"The body is not JSON: {trouble}. Send one JSON object.") from None


def _check_json_type(content_type: bytes) -> None:
    media_type, _, parameters = content_type.lower().partition(b";")
    charset = parameters.strip().removeprefix(b"charset=").strip(b'"')
    if media_type.strip() != b"application/json" or charset not in (b"", b"utf-8"):
        raise UnsupportedMediaType(
            "This route takes JSON in UTF-8: send Content-Type: application/json. Raw bytes go "
            "to POST /v1/topics/{topic}/half."
        )


def _message_of(body: MessageBody, index: int) -> OutgoingMessage:
    key = None if body.key is None else body.key.encode()
    if body.key_base64 is not None:
        if key is not None:
            raise InvalidRequest(f"messages[{index}] has both key and key_base64; send one.")
        key = _decode_base64(body.key_base64, f"messages[{index}].key_base64")
    headers = [] if body.headers is None else _headers_of(body.headers, index)
    return OutgoingMessage(body.topic, key, _value_of(body, index), headers, body.partition)


def _value_of(body: MessageBody, index: int) -> bytes | None:
    text = bytes(body.value)
    if body.value_base64 is not None:
        if text:
            raise InvalidRequest(f"messages[{index}] has both value and value_base64; send one.")
        return _decode_base64(body.value_base64, f"messages[{index}].value_base64")
    if not text:
        raise InvalidRequest(
            f"messages[{index}] has neither value nor value_base64; send one, or "
            '"value": null for a tombstone.'
        )
    if text == b"null":
        return None
    if text.startswith(b'"'):
        # Without escapes the text between the quotes is the string; it is known to be UTF-8.
        return text[1:-1] if b"\\" not in text else _text_decoder.decode(text).encode()
    return text


def _headers_of(
    headers: dict[str, _HeaderValue] | list[tuple[str, _HeaderValue]], index: int
) -> UserHeaders:
    pairs = headers.items() if isinstance(headers, dict) else headers
    return [(name, _header_value(value, name, index)) for name, value in pairs]


def _header_value(value: _HeaderValue, name: str, index: int) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    return _decode_base64(value.base64, f"messages[{index}].headers, {name[:60]!r}")


def _decode_base64(text: str | bytes, where: str) -> bytes:
    try:
        return a2b_base64(text, strict_mode=True)
    except ValueError as error:  # binascii.Error is one; non-ASCII text raises the plain kind
        raise InvalidBase64(
            f"{where} is not base64: {error}. Use the standard alphabet (+ and /) with padding."
        ) from None
