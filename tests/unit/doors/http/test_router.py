"""From a path to its route."""

from __future__ import annotations

import pytest

from halfhitch.doors.http.errors import MalformedRequest, RouteNotFound
from halfhitch.doors.http.router import ROUTES, Route, Router, decode_percent


def test_every_route_is_found_by_its_own_pattern() -> None:
    router = Router()
    for route in ROUTES:
        endpoint = router.find(route.pattern.replace("{", "").replace("}", "").encode())
        assert endpoint.routes[route.method.encode()] is route


@pytest.mark.parametrize(
    ("path", "argument"),
    [
        (b"/v1/topics/orders/half", "orders"),
        (b"/v1/topics/a%20b%2Fc/half", "a b/c"),
        (b"/v1/topics/%6frders/half", "orders"),
        (b"/v1/topics/%C3%A9/half", "é"),
        (b"/v1/topics/%25/half", "%"),
        (b"/v1/topics/%252F/half", "%2F"),  # decoded once only
        (b"/v1/topics/+/half", "+"),
        (b"/v1/topics/../half", ".."),  # no dot segments: the service refuses such a topic
        (b"/v1/topics/%2e%2e%2f/half", "../"),
        (b"/v1/topics/half/half", "half"),
        (b"/v1/topics/%00/half", "\0"),
    ],
)
def test_the_parameter_is_one_segment_decoded_once(path: bytes, argument: str) -> None:
    router = Router()
    assert router.find(path).arguments == (argument,)
    assert router.find(path).arguments == (argument,)  # remembered


@pytest.mark.parametrize(
    "path",
    [
        b"/",
        b"//",
        b"/v1",
        b"/v1/",
        b"/v1/transactions/",
        b"/v1//transactions",
        b"//v1/transactions",
        b"/v1/./transactions",
        b"/v1/x/../transactions",
        b"/V1/transactions",
        b"/v1/transaction%73",  # only parameters are decoded
        b"/v1/topics//half",
        b"/v1/topics/a/b/half",
        b"/v1/topics/orders",
        b"/v1/transactions/h/commit/",
        b"/v1/transactions/h/commit/x",
        b"/v1/transactions;x=1",
        b"/v1/transactions#x",
        b"/v1/{x}/half",
    ],
)
def test_other_paths_have_no_route(path: bytes) -> None:
    with pytest.raises(RouteNotFound):
        Router().find(path)


@pytest.mark.parametrize("path", [b"*", b"v1/transactions", b"ftp://x/"])
def test_what_is_no_path_is_malformed(path: bytes) -> None:
    with pytest.raises(MalformedRequest):
        Router().find(path)


@pytest.mark.parametrize("text", [b"%", b"a%", b"%2", b"%2g", b"%%41", b"%u0041", b"%ff", b"%c3"])
def test_broken_percent_encoding_is_malformed(text: bytes) -> None:
    with pytest.raises(MalformedRequest):
        decode_percent(text)
    with pytest.raises(MalformedRequest):
        Router().find(b"/v1/topics/" + text + b"/half")


def test_a_fixed_segment_is_preferred_and_a_wrong_turn_is_no_route() -> None:
    """`/v1/openapi.yaml` is not a transaction, and nothing below it is found by accident."""
    router = Router()
    assert router.find(b"/v1/openapi.yaml").routes[b"GET"].name == "openapi"
    with pytest.raises(RouteNotFound):
        router.find(b"/v1/openapi.yaml/commit")


def test_methods_of_a_path_are_told() -> None:
    router = Router()
    assert router.find(b"/v1/transactions").allowed == "OPTIONS, POST"
    assert router.find(b"/v1/transactions/h").allowed == "GET, HEAD, OPTIONS"


def test_several_parameters_come_in_their_order_and_may_hold_slashes() -> None:
    pattern = "/v1/transactions/{group}/{id}/commit"
    router = Router(
        (Route(method="POST", pattern=pattern, name="commit"),), not_found="no such way"
    )
    endpoint = router.find(b"/v1/transactions/a%2Fb/c/commit")
    assert (endpoint.routes[b"POST"].name, endpoint.arguments) == ("commit", ("a/b", "c"))
    assert not router._remembered
    for path in (b"/v1/transactions/a/commit", b"/v1/transactions//c/commit"):
        with pytest.raises(RouteNotFound, match="no such way"):
            router.find(path)


def test_what_is_remembered_is_bounded_and_never_a_handle() -> None:
    router = Router()
    for number in range(3000):
        router.find(b"/v1/topics/t%d/half" % number)
        router.find(b"/v1/transactions/h%d/commit" % number)
    assert len(router._remembered) <= 1024
    assert not any(b"transactions/h" in path for path in router._remembered)


def test_paths_that_were_only_long_were_remembered_whole() -> None:
    """A topic's name of 30,000 characters, each time another one: 30 MB for whoever has a token."""
    router = Router()
    long = b"/v1/topics/%b/half"
    for number in range(10):
        router.find(long % (b"%d" % number + b"x" * 30_000))
        router.find(long % (b"orders-%d" % number))
    assert max(map(len, router._remembered)) < 1_000
    assert len(router._remembered) == 10
