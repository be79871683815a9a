"""Inbox messages: what goes in comes out, and anything else is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from halfhitch.core.model import ProducerGroup, TransactionId
from halfhitch.service.checking import inbox
from halfhitch.service.checking.api import CheckOutcome, CheckReport
from halfhitch.wire.check import CheckMessage
from harness.desks import GROUP, check

IDENTITY = (GROUP, TransactionId("T1"))


def test_a_question_keeps_everything_but_messages_and_handle() -> None:
    asked = replace(
        check(number=3, instance="instance-9", is_repeat=True),
        half_offsets=(17, 18, 25),
        born_ms=1_785_412_800_000,
    )
    bare = replace(asked, messages=(), handle="")
    assert inbox.read_question(inbox.question_body("instance-1", asked)) == ("instance-1", bare)


def test_no_message_and_no_handle_lies_in_redis() -> None:
    secret = CheckMessage("orders", b"card-4111", b"SECRET", [("h", b"HIDDEN")], 3)
    body = inbox.question_body("instance-1", replace(check(), handle="hh1.x", messages=[secret]))
    assert not any(
        word in body for word in (b"4111", b"SECRET", b"HIDDEN", b"hh1.x", b'orders","key')
    )


@pytest.mark.parametrize("outcome", list(CheckOutcome))
@pytest.mark.parametrize("has_producers", [True, False])
def test_a_report_says_by_whom_and_whether_anybody_is_there(
    outcome: CheckOutcome, has_producers: bool
) -> None:
    report = CheckReport(IDENTITY, 7, outcome, "producer 1", reason="RuntimeError: db down")
    body = inbox.report_body("instance-2", report, has_producers=has_producers)
    assert inbox.read_report(body) == inbox.RemoteReport("instance-2", report, has_producers)


def test_forget_and_check_now_name_their_transaction() -> None:
    identity = (ProducerGroup('"quoted" group'), TransactionId("ünïcode"))
    assert inbox.read_forget(inbox.forget_body("i", identity)) == ("i", identity)
    assert inbox.read_check_now(inbox.check_now_body(4, identity)) == (4, identity)


_QUESTION = inbox.question_body("instance-1", check())


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"{}", b"\xff\xfe", _QUESTION[:-1], b"1" * 10_000,
        _QUESTION.replace(b'"asker":"instance-1"', b'"asker":""'),
        _QUESTION.replace(b'"half_partition":0,', b""),
        _QUESTION.replace(b'"number":1', b'"number":"1"'),
        _QUESTION.replace(b"[7]", b"[]"),
        _QUESTION.replace(b"[7]", b"[" + b"7," * 1_000 + b"7]"),
        b'{"asker":"a","check":[]}',
        b'{"instance":"i","group":"g","id":"t","number":1,"outcome":"maybe"}',
        b'{"instance":"i","group":"g","id":"t","number":1.5,"outcome":"commit"}',
        b'{"group":"g","id":"t","partition":"0"}',
    ],
)  # fmt: skip
def test_garbage_is_a_value_error_for_every_reader(body: bytes) -> None:
    for read in (inbox.read_question, inbox.read_report, inbox.read_forget, inbox.read_check_now):
        with pytest.raises(ValueError):
            read(body)
