"""The HTTP data door under any input, over a real unix socket, on both event loops.

Hypothesis prints how to repeat a failing example.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from typing import TYPE_CHECKING, Any

import h11
import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from halfhitch.doors.http import HttpDoor
from halfhitch.doors.http.errors import ERROR_CODES, STATUS_OF
from halfhitch.service.api import OutgoingMessage
from harness.defaults import http_limits
from harness.fake_transactions import FakeTransactions
from harness.identities import access_with
from harness.raw_http import DEADLINE_S, json_post, raw_half, request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
_STATUSES = {200, 201, 204, *STATUS_OF.values()}
_SETTINGS = settings(max_examples=120, deadline=None, print_blob=True)


class Stage:
    """A door on a loop of its own, and the means to talk to it from a test that is not async."""

    def __init__(self, runner: asyncio.Runner, path: Path) -> None:
        self.service = FakeTransactions()
        self.failures: list[dict[str, Any]] = []
        self._run = runner.run
        runner.get_loop().set_exception_handler(lambda _, context: self.failures.append(context))
        self.door = HttpDoor(
            self.service, host=None, unix_path=path, access=access_with(), limits=http_limits()
        )
        self._path = str(path)
        self._run(self.door.start())

    def close(self) -> None:
        self._run(self.door.stop(drain_s=0))

    def exchange(self, *pieces: bytes) -> bytes:
        """Send the pieces one after the other, then no more; all that came back."""
        self.service.transactions.clear()
        answered = self._run(self._exchange(pieces))
        assert self.failures == []
        load = self.door._load
        assert (load.buffered_bytes, len(load.tasks), len(load.connections)) == (0, 0, 0)
        return answered

    async def _exchange(self, pieces: Sequence[bytes]) -> bytes:
        async with asyncio.timeout(DEADLINE_S):
            reader, writer = await asyncio.open_unix_connection(self._path)
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0)  # let the door read it on its own
                await asyncio.sleep(0)
            writer.write_eof()
            answered = await reader.read()
            writer.close()
            await writer.wait_closed()
            while self.door.connection_count:
                await asyncio.sleep(0)
            return answered


@pytest.fixture(scope="module", params=list(_LOOPS))
def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    with asyncio.Runner(loop_factory=_LOOPS[request.param]) as runner:
        opened = Stage(runner, tmp_path_factory.mktemp("door") / "door.sock")
        yield opened
        opened.close()


def answers_in(stream: bytes) -> list[tuple[int, bytes]]:
    """Status and body of each answer; fails unless the whole stream is well-formed answers."""
    answers = []
    while stream:
        parser = h11.Connection(h11.CLIENT)
        parser.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
        parser.send(h11.EndOfMessage())
        parser.receive_data(stream)
        head = parser.next_event()
        while isinstance(head, h11.InformationalResponse):
            assert head.status_code == 100
            head = parser.next_event()
            if head is h11.NEED_DATA:
                return answers  # told to go on, it did not
        assert isinstance(head, h11.Response), head
        body = b""
        while isinstance(event := parser.next_event(), h11.Data):
            body += bytes(event.data)
        assert isinstance(event, h11.EndOfMessage), event
        answers.append((head.status_code, body))
        stream = parser.trailing_data[0]
    return answers


def check_answers(stream: bytes) -> list[int]:
    """The statuses, each one the door is known to give, each error with a known code."""
    answers = answers_in(stream)
    for status, body in answers:
        assert status in _STATUSES
        if status >= 400:
            error = json.loads(body)["error"]
            assert error["code"] in ERROR_CODES
            assert error["message"]
    return [status for status, _ in answers]


def same_whenever_it_ended(stream: bytes) -> bytes:
    """Whether an answer is marked as the last depends on whether the end was seen before it."""
    return re.sub(rb"Connection: (close|keep-alive)\r\n", b"", stream)


_CHUNKED = (
    b"POST /v1/topics/t/half HTTP/1.1\r\nHost: x\r\nHalf-Producer-Group: g\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n3;e=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
)
_UPGRADE = (("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"))
_BODY = {"producer_group": "g", "messages": [{"topic": "t", "value": {"a": "é"}}]}
VALID = [
    raw_half(b"v", ("Half-Key", "k"), ("Half-Header-a", b"\xff")),
    raw_half(b"x" * 3000),
    raw_half(b"", *_UPGRADE),
    raw_half(b"hello", *_UPGRADE),
    json_post("/v1/transactions", _BODY),
    json_post("/v1/transactions/h.0/messages", {"messages": [{"topic": "t", "value": None}]}),
    request("POST", "/v1/transactions/h.0/commit?wait=visible"),
    request("POST", "/v1/transactions/h.0/rollback"),
    request("GET", "/v1/transactions/h.0"),
    request("GET", "/nowhere"),
    request("OPTIONS", "*"),
    request("PATCH", "/v1/transactions"),
    json_post("/v1/transactions", b"[1"),
    _CHUNKED,
    b"GET /v1/transactions/h.0 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
]
_LAST = [
    raw_half(b"v", ("Connection", "close")),
    b"GET /v1/transactions/h.0 HTTP/1.0\r\n\r\n",
    b"\x00",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    raw_half(b"v", ("Content-Length", "1"), ("Transfer-Encoding", "chunked")),
    raw_half(b"v", ("X", "x" * 40_000)),
]

#: What HTTP is made of; put together at random it goes further into the door than plain bytes.
_FRAGMENTS = st.sampled_from(
    [
        *VALID,
        b"POST ",
        b"GET ",
        b"/v1/topics/t/half",
        b" HTTP/1.1\r\n",
        b" HTTP/1.0\r\n",
        b" HTTP/2.0\r\n",
        b"\r\n",
        b"\r\n\r\n",
        b"Host: x\r\n",
        b"Content-Length: 3\r\n",
        b"Content-Length: 99999999\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"Connection: upgrade\r\nUpgrade: websocket\r\n",
        b"Expect: 100-continue\r\n",
        b"Half-Producer-Group: g\r\n",
        b"Half-Header-: x\r\n",
        b"Half-Key: \xff\r\n",
        b"Origin: null\r\n",
        b"5\r\nhello\r\n",
        b"0\r\n\r\n",
        b"%",
        b"?",
        b": ",
        b"\x00",
        b"\xff",
    ]
)
_ANYTHING = st.one_of(
    st.binary(max_size=200),
    st.lists(st.one_of(_FRAGMENTS, st.binary(max_size=8)), max_size=12).map(b"".join),
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Valid requests with some bytes changed, left out or put in."""
    stream = bytearray(b"".join(draw(st.lists(st.sampled_from(VALID), min_size=1, max_size=4))))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(stream)))
        stream[start : start + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(stream)


@_SETTINGS
@given(stream=st.one_of(_ANYTHING, damaged()))
def test_any_bytes_give_well_formed_answers_or_a_close(stage: Stage, stream: bytes) -> None:
    if re.search(rb"HEAD ", stream):
        return  # h11 would have to be told, and the answers to HEAD have tests of their own
    check_answers(stage.exchange(stream))
    # And the door is as good as before.
    assert check_answers(stage.exchange(raw_half())) == [201]


@_SETTINGS
@given(data=st.data())
def test_how_valid_requests_are_cut_never_changes_the_answers(
    stage: Stage, data: st.DataObject
) -> None:
    requests = data.draw(st.lists(st.sampled_from(VALID), min_size=1, max_size=6))
    ends = data.draw(st.sampled_from([[], *([last] for last in _LAST)]))
    stream = b"".join([*requests, *ends])
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=40)))
    pieces = [stream[i:j] for i, j in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    whole = stage.exchange(stream)
    assert len(check_answers(whole)) == len(requests) + len(ends)
    assert same_whenever_it_ended(stage.exchange(*pieces)) == same_whenever_it_ended(whole)


@pytest.mark.parametrize("number", range(len(VALID)))
def test_a_valid_request_may_come_byte_by_byte(stage: Stage, number: int) -> None:
    stream = raw_half() + VALID[number] + raw_half()
    whole = stage.exchange(stream)
    assert len(check_answers(whole)) == 3
    bytewise = stage.exchange(*(bytes([byte]) for byte in stream))
    assert same_whenever_it_ended(bytewise) == same_whenever_it_ended(whole)


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)
_OPTIONAL_BYTES = st.none() | st.binary(max_size=40)
_MESSAGES = st.lists(
    st.tuples(
        _OPTIONAL_BYTES,
        _OPTIONAL_BYTES,
        st.lists(st.tuples(_TEXT, _OPTIONAL_BYTES), max_size=4),
        st.none() | st.integers(0, 2**31 - 1),
    ),
    min_size=1,
    max_size=4,
)


def as_base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


@_SETTINGS
@given(messages=_MESSAGES)
def test_any_message_passes_the_json_route_unchanged(
    stage: Stage, messages: list[tuple[Any, ...]]
) -> None:
    expected = [OutgoingMessage("t", k, v, list(h), p) for k, v, h, p in messages]
    body = [
        {
            "topic": message.topic,
            **({} if message.key is None else {"key_base64": as_base64(message.key)}),
            **(
                {"value": None}
                if message.value is None
                else {"value_base64": as_base64(message.value)}
            ),
            "headers": [
                [name, None if value is None else {"base64": as_base64(value)}]
                for name, value in message.headers
            ],
            "partition": message.partition,
        }
        for message in expected
    ]
    asked = json_post("/v1/transactions", {"producer_group": "g", "messages": body})
    assert check_answers(stage.exchange(asked)) == [201]
    (stored,) = stage.service.transactions.values()
    assert stored.messages == expected


@_SETTINGS
@given(value=_JSON, indent=st.sampled_from([None, 0, 2]), is_ascii=st.booleans())
def test_any_json_value_is_passed_on_as_sent(
    stage: Stage, value: object, indent: int | None, is_ascii: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii).encode()
    body = b'{"producer_group":"g","messages":[{"topic":"t","value":%b}]}' % text
    assert check_answers(stage.exchange(json_post("/v1/transactions", body))) == [201]
    (stored,) = stage.service.transactions.values()
    if value is None:
        assert stored.messages[0].value is None
    elif isinstance(value, str):
        assert stored.messages[0].value == value.encode()
    else:
        assert stored.messages[0].value == text


_HEADER_VALUE = st.binary(max_size=40).map(
    lambda value: bytes(byte for byte in value if byte >= 0x20 and byte != 0x7F).strip()
)
_HEADER_NAME = st.from_regex(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,20}", fullmatch=True)


@_SETTINGS
@given(
    key=st.none() | _HEADER_VALUE,
    value=st.binary(max_size=2000),
    headers=st.lists(st.tuples(_HEADER_NAME, _HEADER_VALUE), max_size=6),
)
def test_any_message_passes_the_raw_route_unchanged(
    stage: Stage, key: bytes | None, value: bytes, headers: list[tuple[str, bytes]]
) -> None:
    sent = [(f"Half-Header-{name}", header) for name, header in headers]
    if key is not None:
        sent.append(("Half-Key", key))
    assert check_answers(stage.exchange(raw_half(value, *sent))) == [201]
    (stored,) = stage.service.transactions.values()
    assert stored.messages == [OutgoingMessage("orders", key, value, list(headers))]


@_SETTINGS
@given(body=st.one_of(st.binary(max_size=300), _JSON.map(lambda v: json.dumps(v).encode())))
def test_any_body_to_a_json_route_is_taken_or_refused_with_a_code(
    stage: Stage, body: bytes
) -> None:
    (status,) = check_answers(stage.exchange(json_post("/v1/transactions", body)))
    assert status in (201, 400)
