"""Answers as bytes."""

from __future__ import annotations

import h11
import pytest

from halfhitch.doors.http.replies import (
    allow_reply,
    closing,
    json_reply,
    reply_status,
    staying_open,
    stored_reply,
    text_reply,
    without_body,
)

REPLIES = [
    json_reply(200, b"{}"),
    json_reply(429, b'{"a":"\r\n\r\n"}', b"Retry-After: 1\r\n"),
    json_reply(505, b"{}"),
    text_reply("application/yaml", b"a: 1\n"),
    stored_reply("h", "é"),
    allow_reply("GET"),
]


def parsed(reply: bytes, method: str = "GET") -> tuple[h11.Response, bytes]:
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
    parser.send(h11.EndOfMessage())
    parser.receive_data(reply)
    head = parser.next_event()
    assert isinstance(head, h11.Response)
    body = b""
    while isinstance(event := parser.next_event(), h11.Data):
        body += bytes(event.data)
    assert isinstance(event, h11.EndOfMessage)
    assert parser.trailing_data[0] == b""
    return head, body


@pytest.mark.parametrize("reply", REPLIES)
def test_every_answer_is_well_formed(reply: bytes) -> None:
    head, body = parsed(reply)
    assert head.status_code == reply_status(reply)
    assert reply.endswith(body)


@pytest.mark.parametrize("reply", REPLIES)
def test_an_adapted_answer_differs_in_one_header(reply: bytes) -> None:
    head, body = parsed(reply)
    last, last_body = parsed(closing(reply))
    assert list(last.headers) == [(b"connection", b"close"), *head.headers]
    kept, kept_body = parsed(staying_open(reply))
    assert list(kept.headers) == [(b"connection", b"keep-alive"), *head.headers]
    assert last_body == kept_body == body


@pytest.mark.parametrize("reply", REPLIES)
def test_without_its_body_an_answer_has_the_same_head(reply: bytes) -> None:
    head, _ = parsed(reply)
    alone, body = parsed(without_body(reply), "HEAD")
    assert list(alone.headers) == list(head.headers)
    assert body == b""
