"""What is answered without any work: methods, heads, options, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch.doors.http.router import ROUTES
from harness.raw_http import Client, json_post, raw_half, request

if TYPE_CHECKING:
    from conftest import OpenDoors


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "GET", "HEAD"])
async def test_a_method_the_path_does_not_take_is_refused(
    doors: OpenDoors, client: Client, method: str
) -> None:
    answer = await client.ask(request(method, "/v1/transactions"))
    assert answer.status == 405
    assert answer.header("allow") == "OPTIONS, POST"
    if method != "HEAD":
        assert answer.code == "method_not_allowed"
    assert (await client.ask(request("POST", "/v1/openapi.yaml"))).status == 405
    assert doors.service.calls == []


async def test_the_command_line_at_the_data_door_was_not_told_that_there_is_another(
    client: Client,
) -> None:
    """`tx list --admin-port 8340`: the path is one that both doors have."""
    for path in ("/v1/transactions?limit=100", "/v1/status", "/v1/parked", "/v1/transactions/g/i"):
        answer = await client.ask(request("GET", path))
        assert answer.status in (404, 405)
        message = answer.json()["error"]["message"]
        assert "This is the data door" in message
        assert "admin.port, 8341 unless set" in message


async def test_head_is_get_without_the_body(client: Client) -> None:
    whole = await client.ask(request("GET", "/v1/openapi.yaml"))
    head = await client.ask(request("HEAD", "/v1/openapi.yaml"))
    assert (head.status, head.body) == (200, b"")
    assert head.headers == whole.headers
    missing = await client.ask(request("HEAD", "/nowhere"))
    assert (missing.status, missing.body) == (404, b"")
    assert (await client.ask(raw_half())).status == 201  # and the connection is in step


async def test_options_tells_the_methods_of_each_path(client: Client) -> None:
    for route in ROUTES:
        path = route.pattern.replace("{", "").replace("}", "")
        answer = await client.ask(request("OPTIONS", path))
        assert (answer.status, answer.body) == (204, b"")
        assert route.method in (answer.header("allow") or "").split(", ")
    everything = await client.ask(request("OPTIONS", "*"))
    assert everything.header("allow") == "GET, HEAD, OPTIONS, POST"
    assert (await client.ask(request("OPTIONS", "/nowhere"))).status == 404


async def test_a_star_is_for_options_alone(client: Client) -> None:
    answer = await client.ask(request("GET", "*"))
    assert (answer.status, answer.code) == (400, "malformed_request")


async def test_a_target_in_url_form_is_understood(client: Client) -> None:
    assert (await client.ask(request("GET", "http://localhost/v1/openapi.yaml"))).status == 200
    assert (await client.ask(request("GET", "HTTP://localhost:80/v1/openapi.yaml"))).status == 200
    assert (await client.ask(request("GET", "http://localhost"))).status == 404
    assert (await client.ask(request("GET", "https://localhost/v1/openapi.yaml"))).status == 400
    old = b"GET http://evil.example/v1/openapi.yaml HTTP/1.0\r\n\r\n"
    assert (await client.ask(old)).status == 403


async def test_an_unknown_route_says_where_the_routes_are(client: Client) -> None:
    answer = await client.ask(request("GET", "/v1/"))
    assert (answer.status, answer.code) == (404, "route_not_found")
    assert "/v1/openapi.yaml" in answer.json()["error"]["message"]


async def test_what_a_route_would_not_act_upon_is_refused(doors: OpenDoors, client: Client) -> None:
    body = {"producer_group": "g", "messages": []}
    refused = [
        json_post("/v1/transactions", body, ("Half-Key", "k")),
        json_post("/v1/transactions", body, ("Half-Header-a", "1")),
        json_post("/v1/transactions?wait=visible", body),
        request("GET", "/v1/transactions/h.0?verbose"),
        request("GET", "/v1/transactions/h.0", body=b"x"),
        request("POST", "/v1/transactions/h.0/commit", [("Half-Transaction-Id", "x")]),
        request("POST", "/v1/transactions/h.0/commit?wait=durable"),
        raw_half(b"v", ("Half-Colour", "red")),
        raw_half(b"v", ("Half-Key", "a"), ("half-key", "b")),
    ]
    for asked in refused:
        answer = await client.ask(asked)
        assert answer.status == 400, asked
        assert answer.header("connection") is None  # the body was read: the connection stays
    assert doors.service.calls == []


async def test_good_queries_are_remembered_within_bounds(doors: OpenDoors, client: Client) -> None:
    await client.ask(raw_half())
    variants = [f"%{ord('w'):0{2}x}ait=visible", "wait=visible", "wait=visible&source=check"]
    for query in [*variants, *variants]:
        asked = request("POST", f"/v1/transactions/h.0/commit?{query}")
        assert (await client.ask(asked)).json()["visible"] is True


async def test_nothing_else_is_refused_to_a_caller_that_waits_with_its_body(client: Client) -> None:
    asked = request("OPTIONS", "*", [("Expect", "100-continue"), ("Content-Length", "1")])
    await client.send(asked)
    assert (await client.continue_then_answer_after(b"x")).status == 204
