"""Checks: one-way, in JSON, with all that a client echoes in its answer."""

from __future__ import annotations

from halfhitch.wire.remoting.checking import Check, check_request, read_check
from halfhitch.wire.remoting.frame import Frames, request
from halfhitch.wire.remoting.requests import Form


def test_a_check_carries_what_its_answer_echoes() -> None:
    check = Check(5, 3 << 48 | 5, "FD01", "FD01", "7F00000100002A9F000000011F7C722C", "t", "hh")
    (seen,) = Frames().feed(check_request(9, check, b"encoded"))
    assert (seen.code, seen.opaque, seen.form, seen.body) == (39, 9, Form.JSON, b"encoded")
    assert seen.is_one_way
    assert seen.fields == {
        "tranStateTableOffset": "5",
        "commitLogOffset": "844424930131973",
        "msgId": "FD01",
        "transactionId": "FD01",
        "offsetMsgId": "7F00000100002A9F000000011F7C722C",
        "topic": "t",
        "bname": "hh",
    }
    assert read_check(seen) == check


def test_an_older_servers_check_says_less() -> None:
    asked = request(39, 1, {"tranStateTableOffset": "5", "commitLogOffset": "6"})
    assert read_check(asked) == Check(5, 6, "", "", "", "", "")
