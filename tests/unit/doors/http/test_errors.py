"""Errors as callers see them."""

from __future__ import annotations

import json

import pytest

import halfhitch.errors
from halfhitch.doors.http import errors
from halfhitch.doors.http.errors import ERROR_CODES, STATUS_OF, error_reply, status_of
from halfhitch.errors import (
    ContraryDecision,
    HalfHitchError,
    InvalidHandle,
    KafkaUnavailable,
    TopologyError,
)


def all_errors(base: type[HalfHitchError] = HalfHitchError) -> list[type[HalfHitchError]]:
    return [base, *(found for child in base.__subclasses__() for found in all_errors(child))]


def parts(reply: bytes) -> tuple[str, dict[str, str], dict[str, object]]:
    head, _, body = reply.partition(b"\r\n\r\n")
    status_line, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert headers["Content-Length"] == str(len(body))
    return status_line, headers, json.loads(body)["error"]


def test_every_error_that_may_reach_a_caller_has_a_status() -> None:
    known = {halfhitch.errors.__name__, errors.__name__}
    missing = {found for found in all_errors() if found.__module__ in known} - set(STATUS_OF)
    assert missing == set()


def test_any_other_error_has_the_status_of_its_base() -> None:
    class Special(InvalidHandle):
        pass

    assert status_of(Special("x")) == 400
    for found in all_errors():
        assert any(base in STATUS_OF for base in found.__mro__)


def test_statuses_say_whose_fault_it_is() -> None:
    for found, status in STATUS_OF.items():
        if issubclass(found, halfhitch.errors.RequestError) and status != 505:
            assert 400 <= status < 500, found
        if issubclass(found, halfhitch.errors.ConfigurationError):
            assert status == 500, found
        if issubclass(found, halfhitch.errors.BackendError):
            assert status in (429, 503), found


def test_codes_are_one_per_meaning() -> None:
    """A code that stands for two statuses would be no code."""
    statuses: dict[str, set[int]] = {}
    for found, status in STATUS_OF.items():
        if status != 500:
            statuses.setdefault(found.code, set()).add(status)
    assert {code: found for code, found in statuses.items() if len(found) > 1} == {}
    assert set(statuses) | {"internal_error"} == ERROR_CODES


def test_an_error_is_code_message_and_whether_to_retry() -> None:
    status_line, headers, error = parts(error_reply(InvalidHandle('Broken: "x"; send it again.')))
    assert status_line == "HTTP/1.1 400 Bad Request"
    assert headers["Content-Type"] == "application/json"
    assert error == {
        "code": "invalid_handle",
        "message": 'Broken: "x"; send it again.',
        "retryable": False,
    }


def test_a_contrary_decision_tells_both() -> None:
    error = ContraryDecision("It ended.", decided="committed", requested="rolled_back")
    status_line, _, shown = parts(error_reply(error))
    assert status_line.split()[1] == "409"
    assert (shown["decided"], shown["requested"]) == ("committed", "rolled_back")


@pytest.mark.parametrize(
    "found", [found for found, status in STATUS_OF.items() if status in (429, 503)]
)
def test_429_and_503_say_when_to_come_back(found: type[halfhitch.errors.BackendError]) -> None:
    _, headers, error = parts(error_reply(found("Later.", retry_after_s=5)))
    assert headers["Retry-After"] == "5"
    assert error["retryable"] is True


def test_what_is_our_fault_is_not_shown() -> None:
    for found in (TopologyError, halfhitch.errors.InvariantViolation, HalfHitchError):
        status_line, _, error = parts(error_reply(found("secret")))
        assert status_line.split()[1] == "500"
        assert error["code"] == "internal_error"
        assert "secret" not in str(error)
        assert "not known" in str(error["message"])  # it must not read as "nothing happened"


def test_a_method_that_is_not_allowed_names_those_that_are() -> None:
    _, headers, _ = parts(error_reply(errors.MethodNotAllowed("No.", allowed="GET, HEAD")))
    assert headers["Allow"] == "GET, HEAD"


def test_a_message_is_json_and_one_printable_line_whatever_is_in_it() -> None:
    _, _, error = parts(error_reply(KafkaUnavailable('"\r\n\0é\u202e\x9b\u2028')))
    assert error["message"] == r'"\r\n\x00é\u202e\x9b\u2028'
