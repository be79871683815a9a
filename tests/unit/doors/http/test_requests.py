"""The head of a request, sorted."""

from __future__ import annotations

import pytest

from halfhitch.doors.http import requests
from halfhitch.doors.http.errors import MalformedRequest
from halfhitch.doors.http.requests import Request
from halfhitch.doors.http.router import ROUTES
from halfhitch.errors import InvalidRequest

ROUTE = {route.name: route for route in ROUTES}


def make(*headers: tuple[bytes, bytes], query: bytes = b"") -> Request:
    request = Request(b"POST", b"/", list(headers), keep_alive=True)
    request.query = query
    return request


@pytest.mark.parametrize("name", [b"Half-Key", b"half-key", b"HALF-KEY", b"hAlF-kEy"])
def test_names_of_headers_have_no_case(name: bytes) -> None:
    for _ in range(2):  # the second time from memory
        assert make((name, b"k")).half == {b"half-key": b"k"}


def test_values_are_the_bytes_sent_without_blanks_around() -> None:
    request = make((b"Half-Key", b"a b \xc3\xa9\xff \t"), (b"Half-Header-x", b" y "))
    assert request.half[b"half-key"] == b"a b \xc3\xa9\xff"
    assert request.user_headers == [("x", b"y")]
    assert make((b"Half-Key", b"")).half == {b"half-key": b""}


def test_user_headers_keep_order_duplicates_and_the_bytes_of_their_names() -> None:
    request = make(
        (b"Half-Header-TraceId", b"1"), (b"half-header-b", b"2"), (b"HALF-HEADER-TraceId", b"3")
    )
    assert request.user_headers == [("TraceId", b"1"), ("b", b"2"), ("TraceId", b"3")]
    assert request.head_error is None


def test_other_headers_are_passed_over() -> None:
    request = make((b"User-Agent", b"x"), (b"Cookie", b"a=b"))
    assert (request.fields, request.half, request.user_headers) == ({}, {}, [])
    assert request.head_error is None


@pytest.mark.parametrize(
    "name", [b"Host", b"Content-Type", b"Half-Token", b"Half-Key", b"Half-Transaction-Id"]
)
def test_a_header_that_counts_may_be_sent_once(name: bytes) -> None:
    request = make((name, b"a"), (name.lower(), b"a"))
    assert isinstance(request.head_error, MalformedRequest)
    assert name.decode().lower() in str(request.head_error).lower()


def test_connection_is_a_list_and_may_be_sent_in_several_lines() -> None:
    assert make((b"Connection", b"a"), (b"Connection", b"b")).head_error is None


@pytest.mark.parametrize("name", [b"Half-Colour", b"half-", b"Half-Header", b"Half-Keys"])
def test_an_unknown_half_header_is_named_and_the_known_listed(name: bytes) -> None:
    error = make((name, b"x")).head_error
    assert isinstance(error, InvalidRequest)
    assert name.decode() in str(error)
    assert "Half-Producer-Group" in str(error)


def test_a_user_header_needs_a_name() -> None:
    assert isinstance(make((b"Half-Header-", b"x")).head_error, InvalidRequest)


def test_what_is_remembered_of_names_is_bounded() -> None:
    for number in range(2000):
        make((b"Half-Header-%d" % number, b"x"))
    assert len(requests._seen) <= 512


def test_half_headers_are_refused_where_they_mean_nothing() -> None:
    make((b"Half-Key", b"k"), (b"Half-Header-x", b"1")).check_allowed(ROUTE["half"])
    make((b"Half-Producer-Group", b"g")).check_allowed(ROUTE["commit"])
    with pytest.raises(InvalidRequest, match="Half-Producer-Group has no meaning on this route"):
        make((b"Half-Producer-Group", b"g")).check_allowed(ROUTE["prepare"])
    with pytest.raises(InvalidRequest, match=r"Half-Key has no .* takes Half-Producer-Group"):
        make((b"Half-Key", b"k")).check_allowed(ROUTE["rollback"])
    with pytest.raises(InvalidRequest, match="Half-Header"):
        make((b"Half-Header-x", b"k")).check_allowed(ROUTE["commit"])


def test_text_is_utf_8() -> None:
    assert make((b"Half-Key", b"\xc3\xa9")).text(b"half-key") == "é"
    assert make().text(b"half-key") is None
    with pytest.raises(InvalidRequest, match="Half-Key must be UTF-8"):
        make((b"Half-Key", b"\xe9")).text(b"half-key")


@pytest.mark.parametrize("value", [b"0", b"7", b"007", b"999999999"])
def test_numbers_are_whole(value: bytes) -> None:
    assert make((b"Half-Partition", value)).number(b"half-partition") == int(value)
    assert make().number(b"half-partition") is None


@pytest.mark.parametrize(
    "value",
    [b"", b"-1", b"+1", b"1.0", b"1e3", b"0x1", b"1_0", b"\xd9\xa1", b"1" * 10, b"9" * 100_000],
)
def test_other_numbers_are_refused(value: bytes) -> None:
    with pytest.raises(InvalidRequest, match="Half-Partition must be a whole number"):
        make((b"Half-Partition", value)).number(b"half-partition")


@pytest.mark.parametrize(
    ("query", "options"),
    [
        (b"wait=visible", {"wait"}),
        (b"source=check", {"source"}),
        (b"wait=visible&source=check", {"wait", "source"}),
        (b"source=check&wait=visible", {"wait", "source"}),
        (b"w%61it=%76isible", {"wait"}),
    ],
)
def test_options_are_read(query: bytes, options: set[str]) -> None:
    assert make(query=query).read_options(ROUTE["commit"]) == options


@pytest.mark.parametrize(
    "query",
    [
        b"wait",
        b"wait=",
        b"wait=true",
        b"wait=Visible",
        b"wait=visible&",
        b"&wait=visible",
        b"wait=visible&wait=visible",
        b"source=operator",
        b"x=1",
        b"wait=visible&x=1",
        b"wait==visible",
        b"wait=visible;source=check",
        b"?wait=visible",
    ],
)
def test_unknown_options_are_refused_and_the_known_named(query: bytes) -> None:
    with pytest.raises(InvalidRequest, match="wait=visible and source=check"):
        make(query=query).read_options(ROUTE["rollback"])


def test_a_route_without_options_says_so() -> None:
    with pytest.raises(InvalidRequest, match="takes no query parameters"):
        make(query=b"wait=visible").read_options(ROUTE["view"])


def test_broken_percent_encoding_in_a_query_is_malformed() -> None:
    with pytest.raises(MalformedRequest):
        make(query=b"wait=%zz").read_options(ROUTE["commit"])


def test_header_names_that_were_only_long_were_remembered_whole() -> None:
    """A stranger filled 30 MB with them, three times over, before any token was asked for."""
    requests._seen.clear()
    for number in range(10):
        Request(b"GET", b"/", [(b"X-%d" % number + b"x" * 30_000, b"v")], keep_alive=True)
    Request(b"GET", b"/", [(b"X-Short", b"v")], keep_alive=True)
    assert list(requests._seen) == [b"X-Short"]
