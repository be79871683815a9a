"""Answers as bytes: heads are rendered once, only what differs is put in per request.

Owns the form of an answer on the wire. An answer is rendered as for a connection that stays open;
`closing`, `staying_open` and `without_body` adapt it in the rare other cases, so that the common
one costs nothing.

There is no `Date`: nothing here may be cached by time, and the door has no clock of the wall.
"""

from http import HTTPStatus

#: Sent to a caller that waits with its body until it is asked for it.
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

#: Heads of the check stream: each line is a chunk, or for HTTP/1.0 the end is the connection's.
STREAM_HEAD_10 = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nCache-Control: no-store\r\n"
    b"Connection: close\r\n\r\n"
)
STREAM_HEAD = STREAM_HEAD_10[:-2] + b"Transfer-Encoding: chunked\r\n\r\n"

#: The answer to HEAD: the stream would be granted.
STREAM_PROMISE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nCache-Control: no-store\r\n\r\n"
)

#: The answer to a probe when all is well.
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_JSON = b"Content-Type: application/json\r\nContent-Length: "
_JSON_HEADS = {status: line + _JSON for status, line in _STATUS_LINES.items()}
_STATUS_DIGITS = slice(9, 12)
_AFTER_STATUS_LINE = {status: len(line) for status, line in _STATUS_LINES.items()}


def json_reply(status: int, body: bytes, extra_headers: bytes = b"") -> bytes:
    """An answer with a JSON body; `extra_headers` are complete lines."""
    return b"%b%d\r\n%b\r\n%b" % (_JSON_HEADS[status], len(body), extra_headers, body)


def text_reply(content_type: str, body: bytes) -> bytes:
    """An answer that is no JSON: a contract, metrics."""
    head = b"%bContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
    return head % (_STATUS_LINES[200], content_type.encode(), len(body)) + body


def stored_reply(handle: str, transaction_id: str) -> bytes:
    """The answer of the raw route: everything in headers, no body to parse.

    The id cannot break out of its header: it arrived in one, or the service made it.
    """
    return (
        b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\nHalf-Handle: %b\r\n"
        b"Half-Transaction-Id: %b\r\n\r\n" % (handle.encode(), transaction_id.encode())
    )


def allow_reply(allowed: str) -> bytes:
    """The answer to OPTIONS."""
    return b"HTTP/1.1 204 No Content\r\nAllow: %b\r\n\r\n" % allowed.encode()


def reply_status(reply: bytes) -> int:
    """The status of a rendered answer."""
    return int(reply[_STATUS_DIGITS])


def closing(reply: bytes) -> bytes:
    """The same answer, the last one on its connection."""
    return _with_header(reply, b"Connection: close\r\n")


def staying_open(reply: bytes) -> bytes:
    """The same answer for an HTTP/1.0 caller, which has to be told that the connection stays."""
    return _with_header(reply, b"Connection: keep-alive\r\n")


def without_body(reply: bytes) -> bytes:
    """The same head, as HEAD asks for."""
    return reply[: reply.index(b"\r\n\r\n") + 4]


def _with_header(reply: bytes, line: bytes) -> bytes:
    after_status_line = _AFTER_STATUS_LINE[reply_status(reply)]
    return reply[:after_status_line] + line + reply[after_status_line:]
