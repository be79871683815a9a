"""The reader alone, without sockets: what it hands on, refuses and counts."""

from __future__ import annotations

import logging

import pytest

from halfhitch.doors.http.errors import RequestTooSlow
from halfhitch.doors.http.load import Load
from halfhitch.doors.http.reader import BETWEEN, RequestReader
from halfhitch.doors.http.replies import reply_status
from halfhitch.doors.http.requests import Request
from harness.defaults import http_limits

ASKED = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"


class Taken:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.refusal: bytes | None = None
        self.stranger: bytes | None = None
        self.announced_count = 0
        self.failure: BaseException | None = None
        self.asked_count = 0

    def request_received(self, request: Request) -> None:
        self.requests.append(request)
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def body_announced(self, request: Request) -> bytes | None:
        self.announced_count += 1
        return self.stranger

    def body_wanted(self, request: Request) -> bytes | None:
        self.asked_count += 1
        return self.refusal


def new_reader(**limits: int) -> tuple[RequestReader, Taken, Load]:
    sink, load = Taken(), Load()
    return RequestReader(sink, limits=http_limits(**limits), load=load), sink, load


def test_a_request_is_handed_on_complete_and_its_bytes_are_counted() -> None:
    reader, sink, load = new_reader()
    reader.feed(ASKED[:-1])
    assert (sink.requests, reader.phase == BETWEEN) == ([], False)
    assert load.buffered_bytes == 4
    reader.feed(ASKED[-1:])
    (request,) = sink.requests
    assert (request.method, request.target, request.body) == (b"POST", b"/x", b"hello")
    assert request.fields[b"host"] == b"h"
    assert (request.keep_alive, request.ready) == (True, None)
    assert (reader.phase, reader.is_ended) == (BETWEEN, False)
    # The bytes stay counted until whoever took the request lets go of it.
    assert load.buffered_bytes == 5


def test_a_byte_of_the_next_request_is_seen_although_nothing_of_it_can_be_told() -> None:
    """Whoever read on from there would take the rest of it for a request."""
    reader, sink, _ = new_reader()
    assert reader.is_clean
    reader.feed(ASKED)
    assert reader.is_clean
    reader.feed(ASKED + b"P")
    assert (reader.phase, reader.is_clean) == (BETWEEN, False)
    reader.feed(ASKED[1:])
    assert reader.is_clean
    reader.feed(b"\r\n")
    assert reader.is_clean
    assert len(sink.requests) == 3
    reader.end()
    assert not reader.is_clean


def test_blank_lines_between_requests_are_nothing() -> None:
    reader, sink, _ = new_reader()
    reader.feed(b"\r\n\r\n" + ASKED + b"\r\n\n" + ASKED + b"\r\n")
    assert len(sink.requests) == 2
    assert reader.phase == BETWEEN


def test_after_a_refusal_the_reader_has_ended() -> None:
    reader, sink, load = new_reader(body_bytes_max=4)
    reader.feed(ASKED + ASKED)
    (refused,) = sink.requests
    assert refused.ready is not None
    assert (reply_status(refused.ready), refused.keep_alive) == (413, False)
    assert (reader.is_ended, reader.phase, load.buffered_bytes) == (True, BETWEEN, 0)


def test_a_body_that_grows_too_large_is_let_go_of() -> None:
    reader, sink, load = new_reader(body_bytes_max=4)
    head = b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    reader.feed(head + b"2\r\nab\r\n2\r\ncd\r\n")
    assert (sink.requests, load.buffered_bytes) == ([], 4)
    reader.feed(b"1\r\ne\r\n")
    assert reply_status(sink.requests[0].ready or b"") == 413
    assert load.buffered_bytes == 0


def test_a_request_can_be_given_up_from_outside() -> None:
    reader, sink, load = new_reader()
    reader.feed(ASKED[:-1])
    reader.refuse(RequestTooSlow("Too slow; send it faster."))
    (refused,) = sink.requests
    assert refused.method == b"POST"
    assert reply_status(refused.ready or b"") == 408
    assert load.buffered_bytes == 0


def test_the_method_of_a_refused_head_is_known() -> None:
    """The answer to HEAD must have no body even if it is a refusal."""
    reader, sink, _ = new_reader(header_count_max=1)
    reader.feed(b"HEAD /x HTTP/1.1\r\nA: 1\r\nB: 2\r\n\r\n")
    assert sink.requests[0].method == b"HEAD"


def test_a_caller_that_waits_is_asked_about_once() -> None:
    reader, sink, _ = new_reader()
    head = ASKED[:-7] + b"Expect: 100-Continue\r\n\r\n"
    reader.feed(head)
    assert (sink.asked_count, sink.requests) == (1, [])
    reader.feed(b"hello")
    assert sink.requests[0].body == b"hello"
    sink.refusal = b"HTTP/1.1 404 Not Found\r\n\r\n"
    reader.feed(head)
    assert sink.requests[1].ready == sink.refusal
    assert reader.is_ended


@pytest.mark.parametrize("framing", [b"Content-Length: 5", b"Transfer-Encoding: chunked"])
def test_who_is_not_let_in_brings_no_byte_of_his_body(framing: bytes) -> None:
    reader, sink, load = new_reader()
    sink.stranger = b"HTTP/1.1 401 Unauthorized\r\n\r\n"
    reader.feed(b"POST /x HTTP/1.1\r\nHost: h\r\n" + framing + b"\r\n\r\n5\r\nhello")
    (refused,) = sink.requests
    assert (refused.ready, refused.body, refused.keep_alive) == (sink.stranger, b"", False)
    assert (reader.is_ended, load.buffered_bytes, sink.announced_count) == (True, 0, 1)


def test_a_request_without_a_body_is_not_asked_about_before_its_turn() -> None:
    reader, sink, _ = new_reader()
    reader.feed(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n" + b"POST /x HTTP/1.1\r\nHost: h\r\n")
    reader.feed(b"Content-Length: 0\r\n\r\n")
    assert (len(sink.requests), sink.announced_count) == (2, 0)


def test_a_fault_of_ours_while_reading_is_logged_and_admitted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reader, sink, _ = new_reader()
    sink.failure = RuntimeError("secret")
    with caplog.at_level(logging.ERROR):
        reader.feed(ASKED)
    assert reply_status(sink.requests[1].ready or b"") == 500
    assert b"secret" not in (sink.requests[1].ready or b"")
    assert "secret" in caplog.text
    assert reader.is_ended


def test_an_interruption_is_not_swallowed() -> None:
    reader, sink, _ = new_reader()
    sink.failure = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        reader.feed(ASKED)


def test_ending_lets_go_of_what_was_read() -> None:
    reader, sink, load = new_reader()
    reader.feed(ASKED[:-1])
    reader.end()
    reader.feed(ASKED)
    reader.end()
    assert (sink.requests, load.buffered_bytes) == ([], 0)
