"""What a response says, if it says anything."""

from __future__ import annotations

import json

import pytest

from halfhitch.adapters.callback.answer import NoAnswer, read
from halfhitch.core.model import TransactionId
from halfhitch.service.checking.api import CheckOutcome

ID = TransactionId("order-1")


@pytest.mark.parametrize("state", ["COMMIT", "ROLLBACK", "UNKNOWN"])
def test_the_three_states_are_answers(state: str) -> None:
    assert read(200, json.dumps({"state": state}).encode(), ID) == (CheckOutcome[state], None)
    named = {"transaction_id": "order-1", "state": state, "reason": " db\n down "}
    told = read(200, json.dumps(named, indent=2).encode() + b"\n", ID)
    assert told == (CheckOutcome[state], "db down")
    assert read(200, json.dumps({"state": state, "reason": None}).encode(), ID)[1] is None


@pytest.mark.parametrize(
    "status", [100, 201, 202, 204, 206, 301, 302, 303, 307, 308, 400, 401, 404, 409, 429, 500, 503]
)
def test_any_other_status_is_none_whatever_the_body_says(status: int) -> None:
    with pytest.raises(NoAnswer, match=str(status)):
        read(status, b'{"state":"COMMIT"}', ID)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"COMMIT",
        b'"COMMIT"',
        b"null",
        b"[]",
        b'[{"state":"COMMIT"}]',
        b"{}",
        b'{"state":"commit"}',
        b'{"state":"Commit"}',
        b'{"state":" COMMIT"}',
        b'{"state":"COMMITTED"}',
        b'{"state":"COMMIT_MESSAGE"}',
        b'{"state":"COMMIT\\u0000"}',
        b'{"state":null}',
        b'{"state":true}',
        b'{"state":1}',
        b'{"state":["COMMIT"]}',
        b'{"state":["COMMIT","ROLLBACK"]}',
        b'{"state":{"state":"COMMIT"}}',
        b'{"STATE":"COMMIT"}',
        b'{"state":"COMMIT","state":"ROLLBACK"}',
        b'{"state":"COMMIT","state":"COMMIT"}',
        b'{"state":"COMMIT","error":"timeout"}',
        b'{"state":"COMMIT","State":"ROLLBACK"}',
        b'{"state":"COMMIT"}{"state":"ROLLBACK"}',
        b'{"state":"COMMIT"} trailing',
        b'{"state":"COMMIT",}',
        b'{"state":"COMMIT"',
        b"{'state':'COMMIT'}",
        b'\xef\xbb\xbf{"state":"COMMIT"}',
        b'{"state":"COMMIT"}'.decode().encode("utf-16"),
        b'{"state":"COMMIT\xff"}',
        b'{"state":"COMMIT","transaction_id":"order-2"}',
        b'{"state":"COMMIT","transaction_id":"ORDER-1"}',
        b'{"state":"COMMIT","transaction_id":null}',
        b'{"state":"COMMIT","transaction_id":1}',
        b'{"state":"COMMIT","transaction_id":["order-1"]}',
        b'{"state":"COMMIT","transaction_id":""}',
        b'{"state":' * 10_000,
        b"[" * 60_000,
        b"1" * 60_000,
        b'{"state":NaN}',
        b"<html>COMMIT</html>",
        b"\0" * 100,
    ],
    ids=lambda body: repr(body[:60]),
)
def test_anything_unclear_is_none(body: bytes) -> None:
    with pytest.raises(NoAnswer) as caught:
        read(200, body, ID)
    assert "error" not in str(caught.value)  # nothing of the body gets into logs


def test_a_redirect_says_that_it_is_not_followed() -> None:
    with pytest.raises(NoAnswer, match="not followed"):
        read(302, b"", ID)
