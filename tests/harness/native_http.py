"""What is carried out natively: what is drawn, and how the twin reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from halfhitch.doors.http.load import Load
from halfhitch.doors.http.reader import RequestReader
from halfhitch.doors.http.router import Router
from halfhitch.service.transactions.admission import (
    HEADERS_MAX,
    _check_name,
    _header_name_bytes,
)
from halfhitch.service.transactions.prepare import digest
from halfhitch.wire.digest import TRACING
from halfhitch.wire.half import HalfRecord, system_headers
from harness.defaults import http_limits

if TYPE_CHECKING:
    from halfhitch.doors.http.requests import Request
    from halfhitch.service.api import OutgoingMessage

BORN_MS, INSTANCE, NEW_ID = 1_700_000_000_123, "shop-7", "f" * 32
HEAD_MAX = 8_192
UUIDS = st.sampled_from(
    ["0123456789ab4abc9000000000000000", "0f8fad5b-d9cb-469f-a165-70867728950e",
     "0F8FAD5BD9CB469FA16570867728950E"]
)  # fmt: skip
#: Names of headers that the digest leaves out.
TRACED = st.sampled_from(sorted(TRACING))
#: Most of what is drawn should be taken, or nothing would be compared.
SELDOM = st.sampled_from([False] * 6 + [True])
TEXT = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters='"\\'),
               min_size=1, max_size=20)  # fmt: skip
ODD_TEXT = st.sampled_from(
    ["", " ", "a b", "\t", "é", '"', "\\", "x\ry", "order-17", "-1", "007", "604801", "g" * 256]
) | st.text(max_size=6)
ODD_LINES = st.sampled_from(
    ["Half-Key: again", "Half-Key-Base64: aw==", "Half-Partition: 2", "Half-Token: t",
     "Half-Reason: r", "Half-Nonsense: x", "Half-Header-: x", "Half-Header-UNIQ_KEY: x",
     "half-header-HALFHITCH_x: y", "Transfer-Encoding: chunked", "Content-Length: 3",
     "Content-Length: +3", "Expect: 100-continue", "Connection: close", "Connection: Upgrade",
     "Upgrade: h2c", "Origin: http://x", "Sec-Fetch-Site: cross-site", "Content-Encoding: gzip",
     "Host: other", "traceparent: 00-" + "a" * 32 + "-" + "b" * 16 + "-01", "tracestate: a=b",
     " folded", "no colon", "Bad Name: x", ": x", "Authorization: Bearer x", "Trailer: x",
     "Half-Immunity-Seconds: 1", "Proxy-Connection: close", "TE: trailers", "X-A: \x00",
     "Keep-Alive: 5", "Half-Producer-Group: again", "Content-Type: again"]
)  # fmt: skip


def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    bad = bytearray(content)
    for _ in range(draw(st.integers(1, 2)) if draw(SELDOM) else 0):
        bad[draw(st.integers(0, len(bad) - 1))] = draw(st.integers(0, 255))
    return bytes(bad)


class Sink:
    """Takes what the door's reader reads."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def request_received(self, request: Request) -> None:
        self.requests.append(request)

    def body_announced(self, request: Request) -> bytes | None:
        return None

    def body_wanted(self, request: Request) -> bytes | None:
        raise AssertionError("what waits to be asked for its body is the twin's")


def twin(data: bytes) -> tuple[Request, str, str]:
    """The one request that the door reads, with its route and the path's parameter."""
    sink = Sink()
    reader = RequestReader(sink, limits=http_limits(), load=Load())
    reader.feed(data)
    (request,) = sink.requests
    assert request.ready is None
    assert request.head_error is None
    assert request.keep_alive
    assert request.is_http_11
    assert not reader.is_ended
    path, _, query = request.target.partition(b"?")
    assert not query
    assert b"?" not in request.target
    endpoint = Router().find(path)
    route = endpoint.routes[request.method]
    request.check_allowed(route)
    request.arguments = endpoint.arguments
    return request, route.name, request.argument


def the_record_is_the_same(message: OutgoingMessage, taken: Any, immunity_s: int | None) -> None:
    _, _, group, topic, name, (key, value, headers, size_bytes) = taken
    if name is not None:
        _check_name("the transaction id", name)
    assert immunity_s is None or immunity_s <= 604_800
    _check_name("the group", group)
    assert message.topic == topic
    assert message.partition is None
    assert len(message.headers) <= HEADERS_MAX
    sizes = [_header_name_bytes(name) + len(text or b"") for name, text in message.headers]
    assert size_bytes == len(message.key or b"") + len(message.value or b"") + sum(sizes)
    record = HalfRecord(
        name or NEW_ID, group, 0, BORN_MS, INSTANCE, topic, None, immunity_s,
        digest=digest(message),
    )  # fmt: skip
    expected = [(name.encode(), text) for name, text in system_headers(record) + message.headers]
    assert (key, value, headers) == (message.key, message.value, expected)


def usual(*lines: str, body: bytes = b"v", target: str = "/v1/topics/orders/half") -> bytes:
    head = [f"POST {target} HTTP/1.1", "Host: x", *lines, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(head).encode() + body
