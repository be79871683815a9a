"""Who is let in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch.access import Access, Identity, Right
from halfhitch.access.identities import token_digest
from halfhitch.doors.http.errors import HostNotAllowed, MalformedRequest, OriginNotAllowed
from halfhitch.doors.http.guard import Guard, hosts_allowed
from halfhitch.doors.http.requests import Request
from halfhitch.doors.http.router import ROUTES
from halfhitch.errors import Unauthorized
from harness.identities import access_with
from harness.raw_http import request

if TYPE_CHECKING:
    from conftest import OpenDoors

LOOPBACK = hosts_allowed("127.0.0.1", ["Sidecar.Example", "fd00::7"])


def guard_of(
    *tokens: str, hosts: frozenset[bytes] | None = LOOPBACK, takes_bearer: bool = False
) -> Guard:
    return Guard(access=access_with(*tokens), door="http", hosts=hosts, takes_bearer=takes_bearer)


def with_host(host: bytes | None, **fields: bytes) -> Request:
    headers = [] if host is None else [(b"Host", host)]
    headers += [(name.replace("_", "-").encode(), value) for name, value in fields.items()]
    return Request(b"GET", b"/", headers, keep_alive=True)


@pytest.mark.parametrize(
    "host",
    [
        b"localhost",
        b"LocalHost",
        b"localhost:8340",
        b"127.0.0.1:1",
        b"[::1]",
        b"[::1]:8340",
        b"sidecar.example",
        b"sidecar.example:80",
        b"[fd00::7]:80",
    ],
)
def test_the_doors_own_names_are_let_in(host: bytes) -> None:
    guard = guard_of()
    guard.check(with_host(host))
    guard.check(with_host(host))  # the second time from memory


def test_a_door_without_pages_takes_no_origin_not_even_its_own() -> None:
    with pytest.raises(OriginNotAllowed):
        guard_of().check(with_host(b"localhost:8340", Origin=b"http://localhost:8340"))


@pytest.mark.parametrize(
    "host",
    [
        b"",
        b"evil.example",
        b"localhost.evil.example",
        b"localhost.",
        b"evil.example:localhost",
        b"localhost@evil.example",
        b"localhost:80:80",
        b"localhost/evil",
        b"::1",
        b"127.0.0.1 evil",
        b"127.0.0.2",
        b"[localhost]",
        b"\xff",
    ],
)
def test_other_names_are_kept_out(host: bytes) -> None:
    guard = guard_of()
    for _ in range(2):
        with pytest.raises(HostNotAllowed):
            guard.check(with_host(host))


def test_what_is_remembered_of_hosts_is_bounded() -> None:
    guard = guard_of()
    for port in range(1000):
        guard.check(with_host(b"localhost:%d" % port))
    assert len(guard._good_hosts) <= 64


def test_a_missing_host_is_a_fault_in_http_11_only() -> None:
    guard = guard_of()
    request_10 = with_host(None)
    request_10.is_http_11 = False
    guard.check(request_10)
    with pytest.raises(MalformedRequest):
        guard.check(with_host(None))


def test_a_listener_for_other_machines_takes_any_host_unless_names_are_set() -> None:
    assert hosts_allowed("0.0.0.0", []) is None
    assert hosts_allowed("0.0.0.0", ["a.example"]) == {b"a.example"}
    assert hosts_allowed("127.0.0.9", []) == {
        b"localhost",
        b"127.0.0.1",
        b"[::1]",
        b"127.0.0.9",
    }
    assert b"[::1]" in (hosts_allowed("::1", []) or ())


def test_either_of_two_tokens_lets_in_and_nothing_else() -> None:
    guard = guard_of("old", "new", hosts=None)
    guard.check(with_host(b"x", half_token=b"old"))
    guard.check(with_host(b"x", half_token=b"new"))
    for wrong in (b"", b"ol", b"oldx", b"OLD", b"old,new", b"\xff"):
        with pytest.raises(Unauthorized):
            guard.check(with_host(b"x", half_token=wrong))
    with pytest.raises(Unauthorized):
        guard.check(with_host(b"x"))


def test_wrong_tokens_are_told_in_the_log_and_do_not_fill_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Thousands of guesses a second left no trace at all."""
    guard = guard_of("s3cret", hosts=None)
    for token in (b"guess", b""):
        for _ in range(50):
            with pytest.raises(Unauthorized):
                guard.check(with_host(b"x", half_token=token))
    assert caplog.messages == ["a request with a wrong token was refused"] * 10
    assert "guess" not in caplog.text


def test_a_bearer_token_counts_only_where_it_is_taken() -> None:
    bearer = with_host(b"x", authorization=b"Bearer s3cret")
    guard_of("s3cret", hosts=None, takes_bearer=True).check(bearer)
    with pytest.raises(Unauthorized):
        guard_of("s3cret", hosts=None).check(bearer)


@pytest.mark.parametrize("site", [b"cross-site", b"same-site", b"Cross-Site", b"", b"\xff"])
def test_a_page_of_another_site_is_refused_though_its_plain_get_has_no_origin(site: bytes) -> None:
    """`fetch(url, {mode: "no-cors"})` opened check streams: a page became a live producer."""
    guard = guard_of()
    with pytest.raises(OriginNotAllowed):
        guard.check(with_host(b"localhost", sec_fetch_site=site))
    guard.check(with_host(b"localhost", sec_fetch_site=b"none"))
    guard.check(with_host(b"localhost", sec_fetch_site=b"same-origin"))


async def test_with_tokens_every_route_is_closed_by_default(doors: OpenDoors) -> None:
    client = await doors.client(await doors.open(access=access_with("s3cret")))
    targets = [
        (route.method, route.pattern.replace("{topic}", "orders").replace("{handle}", "h.0"))
        for route in ROUTES
    ]
    targets += [
        ("GET", "/"),
        ("GET", "/nowhere"),
        ("DELETE", "/v1/transactions"),
        ("OPTIONS", "/v1/transactions"),
        ("OPTIONS", "*"),
        ("HEAD", "/v1/openapi.yaml"),
        ("GET", "//v1/openapi.yaml"),
        ("GET", "http://localhost/v1/openapi.yaml"),
        ("GET", "ftp://localhost/v1/openapi.yaml"),
    ]
    for method, target in targets:
        answer = await client.ask(request(method, target, [("Half-Token", "wrong")]))
        assert answer.status == 401, (method, target)
        assert answer.header("www-authenticate") == "Half-Token"
        if method != "HEAD":
            assert answer.code == "unauthorized"
            assert b"s3cret" not in answer.body
    assert doors.service.calls == []
    for method, target in targets:
        answer = await client.ask(request(method, target, [("half-token", "s3cret")]))
        assert answer.status != 401, (method, target)


async def test_pages_in_a_browser_are_refused(doors: OpenDoors) -> None:
    client = await doors.client(await doors.open())
    for origin in ("https://evil.example", "null", "http://localhost:8340"):
        answer = await client.ask(request("GET", "/v1/openapi.yaml", [("Origin", origin)]))
        assert (answer.status, answer.code) == (403, "origin_not_allowed")
        assert answer.header("access-control-allow-origin") is None


async def test_a_rebound_name_is_refused(doors: OpenDoors) -> None:
    client = await doors.client(await doors.open(allowed_hosts=["sidecar.example"]))
    rebound = request("GET", "/v1/openapi.yaml", host="evil.example:8340")
    answer = await client.ask(rebound)
    assert (answer.status, answer.code) == (403, "host_not_allowed")
    good = request("GET", "/v1/openapi.yaml", host="sidecar.example:8340")
    assert (await client.ask(good)).status == 200
    # In a target of URL form the host in it counts, whatever the header says.
    hidden = request("GET", "http://evil.example/v1/openapi.yaml", host="localhost")
    assert (await client.ask(hidden)).status == 403
    shown = request("GET", "http://localhost/v1/openapi.yaml", host="evil.example")
    assert (await client.ask(shown)).status == 200


async def test_the_host_header_must_be_there_once(doors: OpenDoors) -> None:
    client = await doors.client(await doors.open())
    missing = await client.ask(request("GET", "/v1/openapi.yaml", host=None))
    assert (missing.status, missing.code) == (400, "malformed_request")
    twice = request("GET", "/v1/openapi.yaml", [("host", "localhost")])
    assert (await client.ask(twice)).code == "malformed_request"
    url_form = request("GET", "http://localhost/v1/openapi.yaml", host=None)
    assert (await client.ask(url_form)).code == "malformed_request"


def test_a_client_certificate_says_who_it_is_unless_a_token_says_otherwise() -> None:
    known = Identity(
        name="shop",
        rights=frozenset({Right.CHECK}),
        groups=("shop",),
        token_hashes=(token_digest(b"s3cret"),),
        certificates=("DNS:orders.svc",),
    )
    guard = Guard(access=Access(identities=[known]), door="http", hosts=None)

    def asked(*names: str, **fields: bytes) -> Request:
        request = with_host(b"x", **fields)
        request.peer_certificate_names = names
        guard.check(request)
        return request

    assert asked("CN:orders", "DNS:orders.svc").caller.name == "shop"
    assert asked("DNS:stranger", half_token=b"s3cret").caller.name == "shop"
    for names, fields in (
        (("DNS:stranger",), {}),
        ((), {}),
        (("DNS:orders.svc",), {"half_token": b"guess"}),
        (("DNS:orders.svc",), {"half_token": b""}),
    ):
        with pytest.raises(Unauthorized):
            asked(*names, **fields)


async def test_a_wrong_token_was_told_to_send_one(doors: OpenDoors) -> None:
    client = await doors.client(await doors.open(access=access_with("s3cret")))
    wrong = await client.ask(request("GET", "/v1/openapi.yaml", [("Half-Token", "wrong")]))
    none = await client.ask(request("GET", "/v1/openapi.yaml"))
    assert b"This token is not valid here" in wrong.body
    assert b"This door asks for a token" in none.body
    assert all(b"token=... of the Python producers" in found.body for found in (wrong, none))
