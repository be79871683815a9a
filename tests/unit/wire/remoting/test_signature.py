"""Signatures: RocketMQ's, in constant time, also those of older clients."""

from __future__ import annotations

import pytest

from halfhitch.wire.remoting import codes, signature
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.frame import request
from halfhitch.wire.remoting.requests import Frame


def signed(fields: dict[str, str], *, skipped: str = "", secret: str = "secret") -> Frame:
    right = signature.sign(fields, b"body", secret, skipped=skipped)
    return request(310, 1, fields | {"Signature": right}, b"body")


def test_it_is_the_one_that_rocketmq_computes() -> None:
    # Java's signer over the text "content é", here as two fields and a body.
    fields = {"b": "ent ", "a": "cont", "Signature": "whatever"}
    assert signature.sign(fields, "é".encode(), "secret") == "I5Ow8s44AyIfAhgvquPFhgDhp+Y="


def test_the_right_secret_is_known() -> None:
    asked = signed({"AccessKey": "me", "b": "topic"})
    assert signature.access_key(asked) == "me"
    signature.verify(asked, "secret")


def test_older_clients_leave_a_field_out() -> None:
    fields = {"AccessKey": "me", "_UNIQUE_KEY_QUERY": "true"}
    signature.verify(signed(fields), "secret")
    signature.verify(signed(fields, skipped="_UNIQUE_KEY_QUERY"), "secret")
    with pytest.raises(RemotingError):
        signature.verify(signed(fields, skipped="AccessKey"), "secret")


@pytest.mark.parametrize(
    "asked",
    [
        signed({"AccessKey": "me"}, secret="other"),
        request(310, 1, {"AccessKey": "me"}, b"body"),
        request(310, 1, signed({"a": "b"}).fields, b"another body"),
        request(310, 1, signed({"a": "b"}).fields | {"a": "c"}, b"body"),
        request(310, 1, {"Signature": "é"}, b"body"),
    ],
)
def test_everything_else_is_refused(asked: Frame) -> None:
    with pytest.raises(RemotingError, match="the signature is wrong") as caught:
        signature.verify(asked, "secret")
    assert caught.value.response_code == codes.NO_PERMISSION


def test_nobody_signed() -> None:
    assert signature.access_key(request(34, 1)) is None
