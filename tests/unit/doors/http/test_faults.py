"""Faults of ours: told to their caller each time, and to the log ten times a minute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfhitch.doors.http.faults import failure_reply, unread_reply
from halfhitch.doors.http.load import Load
from halfhitch.doors.http.replies import reply_status
from halfhitch.doors.http.requests import Request
from halfhitch.errors import Overloaded

if TYPE_CHECKING:
    import pytest

ASKED = Request(b"GET", b"/", [], keep_alive=True)


def test_a_fault_was_a_traceback_for_each_request_that_brings_it_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    load = Load()
    answers = [failure_reply(ASKED, RuntimeError("secret"), load) for _ in range(30)]
    answers += [unread_reply(RuntimeError("secret"), load) for _ in range(30)]
    assert {reply_status(answer) for answer in answers} == {500}
    assert not any(b"secret" in answer for answer in answers)
    assert len(caplog.messages) == 10


def test_what_the_service_refuses_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    refused = Overloaded("Too many; repeat it.", retry_after_s=1)
    assert reply_status(failure_reply(ASKED, refused, Load())) == 429
    assert caplog.text == ""
