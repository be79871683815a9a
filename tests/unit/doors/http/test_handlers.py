"""Each route, from request to answer, over a real socket."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from halfhitch.core.model import ResolutionSource
from halfhitch.doors.http.handlers import Handlers
from halfhitch.doors.http.load import Load
from halfhitch.doors.http.router import ROUTES
from halfhitch.doors.http.stream import Streams
from halfhitch.doors.http.unended import Unended
from halfhitch.errors import (
    MessageTooLarge,
    OutcomeUnknown,
    ReservedHeader,
    ShuttingDown,
    UnknownTopic,
    VisibilityUnknown,
)
from halfhitch.service.api import OutgoingMessage
from halfhitch.service.checking.api import CheckOutcome
from harness.defaults import http_limits
from harness.fake_desk import FakeDesk
from harness.identities import access_with
from harness.raw_http import Client, json_post, raw_half, request

if TYPE_CHECKING:
    from conftest import OpenDoors

ONE = {"topic": "orders", "key": "k", "value": "v"}


async def test_prepare_translates_everything(doors: OpenDoors, client: Client) -> None:
    body = {
        "producer_group": "g",
        "transaction_id": "order-1",
        "immunity_seconds": 9,
        "messages": [ONE, {"topic": "points", "value": {"n": 25}, "headers": {"a": "1"}}],
    }
    answer = await client.ask(json_post("/v1/transactions", body))
    assert answer.status == 201
    assert answer.json() == {"transaction_id": "order-1", "handle": "h.0", "state": "pending"}
    stored = doors.service.transactions["h.0"]
    assert (stored.producer_group, stored.immunity_s) == ("g", 9)
    assert stored.messages == [
        OutgoingMessage("orders", b"k", b"v", []),
        OutgoingMessage("points", None, b'{"n": 25}', [("a", b"1")]),
    ]


async def test_what_is_left_out_is_the_services_to_choose(doors: OpenDoors, client: Client) -> None:
    body = {"producer_group": "g", "transaction_id": None, "messages": [ONE]}
    answer = await client.ask(json_post("/v1/transactions", body))
    assert answer.json()["transaction_id"] == "T0"
    assert doors.service.transactions["h.0"].immunity_s is None


async def test_the_raw_route_translates_everything(doors: OpenDoors, client: Client) -> None:
    asked = request(
        "POST",
        "/v1/topics/or%64ers/half",
        [
            ("half-producer-group", "größe"),
            ("Half-Key", b"\xff\xfe"),
            ("Half-Transaction-Id", "order-1"),
            ("Half-Immunity-Seconds", "9"),
            ("Half-Partition", "3"),
            ("Half-Header-Trace", b"\xe9"),
            ("Half-Header-Trace", ""),
        ],
        bytes(range(256)),
    )
    answer = await client.ask(asked)
    assert (answer.status, answer.body) == (201, b"")
    assert answer.header("half-handle") == "h.0"
    assert answer.header("half-transaction-id") == "order-1"
    stored = doors.service.transactions["h.0"]
    assert (stored.producer_group, stored.immunity_s) == ("größe", 9)
    headers = [("Trace", b"\xe9"), ("Trace", b"")]
    assert stored.messages == [
        OutgoingMessage("orders", b"\xff\xfe", bytes(range(256)), headers, 3)
    ]


async def test_the_raw_route_needs_a_group_and_nothing_else(
    doors: OpenDoors, client: Client
) -> None:
    answer = await client.ask(request("POST", "/v1/topics/orders/half"))
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert "Half-Producer-Group" in answer.json()["error"]["message"]
    answer = await client.ask(raw_half(b""))
    assert answer.header("half-transaction-id") == "T0"
    assert doors.service.transactions["h.0"].messages == [OutgoingMessage("orders", None, b"", [])]


async def test_add_gives_a_new_handle(doors: OpenDoors, client: Client) -> None:
    await client.ask(raw_half())
    answer = await client.ask(json_post("/v1/transactions/h.0/messages", {"messages": [ONE, ONE]}))
    assert answer.status == 201
    assert answer.json() == {"transaction_id": "T0", "handle": "h.0+", "state": "pending"}
    assert len(doors.service.transactions["h.0"].messages) == 3
    # A handle is one percent-decoded segment.
    view = await client.ask(request("GET", "/v1/transactions/h%2E0%2B"))
    assert view.json()["message_count"] == 3


@pytest.mark.parametrize(
    ("end", "state", "contrary"),
    [("commit", "committed", "rollback"), ("rollback", "rolled_back", "commit")],
)
async def test_ends_are_idempotent_and_the_first_stands(
    doors: OpenDoors, client: Client, end: str, state: str, contrary: str
) -> None:
    await client.ask(raw_half())
    for _ in range(2):
        answer = await client.ask(request("POST", f"/v1/transactions/h.0/{end}"))
        assert answer.status == 200
        assert answer.json() == {"transaction_id": "T0", "state": state}
    answer = await client.ask(request("POST", f"/v1/transactions/h.0/{contrary}"))
    assert (answer.status, answer.code) == (409, "contrary_decision")
    error = answer.json()["error"]
    assert error["decided"] == state
    assert error["requested"] != state
    answer = await client.ask(json_post("/v1/transactions/h.0/messages", {"messages": [ONE]}))
    assert answer.status == 409


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_an_end_may_say_why(doors: OpenDoors, client: Client, end: str) -> None:
    """Whatever its bytes are: an end is not refused for its reason."""
    await client.ask(raw_half())
    for reason in (b"no stock: \xc3\xa9", b"\xff", None):
        headers = [] if reason is None else [("Half-Reason", reason)]
        answer = await client.ask(request("POST", f"/v1/transactions/h.0/{end}", headers))
        assert answer.status == 200
    assert doors.service.reasons[-3:] == ["no stock: é", "\ufffd", ""]


async def test_waiting_is_asked_for_and_told(doors: OpenDoors, client: Client) -> None:
    await client.ask(raw_half())
    answer = await client.ask(request("POST", "/v1/transactions/h.0/commit?wait=visible"))
    assert answer.json() == {"transaction_id": "T0", "state": "committed", "visible": True}
    answer = await client.ask(request("POST", "/v1/transactions/h.0/commit?"))
    assert answer.json() == {"transaction_id": "T0", "state": "committed"}


async def test_an_answer_to_a_check_is_marked(doors: OpenDoors, client: Client) -> None:
    for number, (query, source) in enumerate(
        [("", ResolutionSource.PRODUCER), ("?source=check", ResolutionSource.CHECK)]
    ):
        await client.ask(raw_half())
        await client.ask(request("POST", f"/v1/transactions/h.{number}/rollback{query}"))
        assert doors.service.transactions[f"h.{number}"].source is source


async def test_an_end_may_name_its_group(doors: OpenDoors, client: Client) -> None:
    await client.ask(raw_half())
    target = "/v1/transactions/h.0/commit"
    wrong = await client.ask(request("POST", target, [("Half-Producer-Group", "other")]))
    assert (wrong.status, wrong.code) == (400, "wrong_group")
    right = await client.ask(request("POST", target, [("Half-Producer-Group", "g")]))
    assert right.status == 200


async def test_an_end_takes_no_body_but_an_empty_object(doors: OpenDoors, client: Client) -> None:
    await client.ask(raw_half())
    answer = await client.ask(json_post("/v1/transactions/h.0/commit", {"wait": "visible"}))
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert (await client.ask(json_post("/v1/transactions/h.0/commit", {}))).status == 200


async def test_a_transaction_is_shown(client: Client) -> None:
    await client.ask(raw_half())
    answer = await client.ask(request("GET", "/v1/transactions/h.0"))
    assert answer.status == 200
    assert answer.json() == {
        "transaction_id": "T0",
        "producer_group": "g",
        "state": "pending",
        "message_count": 1,
        "visible": False,
        "check_count": 0,
        "next_check_s": None,
        "last_answer": None,
    }


@pytest.mark.parametrize(
    ("handle", "status", "code"),
    [
        ("h.unknown", 404, "transaction_not_found"),
        ("h.gone", 410, "transaction_gone"),
        ("nonsense", 400, "invalid_handle"),
        ("%00", 400, "invalid_handle"),
        ("..", 400, "invalid_handle"),
        ("..%2f..%2fetc%2fpasswd", 400, "invalid_handle"),
        ("%", 400, "malformed_request"),
        ("%ff", 400, "malformed_request"),
        ("h.0%", 400, "malformed_request"),
        ("", 404, "route_not_found"),
        ("h/0", 404, "route_not_found"),
        ("x" * 30_000, 400, "invalid_handle"),
    ],
)
async def test_other_handles_have_their_error(
    client: Client, handle: str, status: int, code: str
) -> None:
    for method, tail in (("GET", ""), ("POST", "/commit"), ("POST", "/rollback")):
        answer = await client.ask(request(method, f"/v1/transactions/{handle}{tail}"))
        if (handle, tail) == ("h/0", "/commit") or answer.status == 404:
            assert status == 404
        else:
            assert (answer.status, answer.code) == (status, code)


@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", "..%2F..", "a%00b", "x" * 250, "%20", "a%0d%0aHost:%20b"]
)
async def test_topics_are_the_services_to_judge(client: Client, topic: str) -> None:
    answer = await client.ask(raw_half(topic=topic))
    assert (answer.status, answer.code) == (400, "forbidden_topic")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnknownTopic("No such topic; create it."), 400),
        (ReservedHeader("REAL_TOPIC is ours; choose another name."), 400),
        (MessageTooLarge("Too large; send less."), 413),
        (ShuttingDown("Going down; ask another instance."), 503),
        (OutcomeUnknown("Perhaps stored; repeat with the same id."), 503),
        (VisibilityUnknown("Decided; not seen yet."), 503),
    ],
)
async def test_what_the_service_says_is_passed_on(
    doors: OpenDoors, client: Client, error: Exception, status: int
) -> None:
    doors.service.fail_with = error
    answer = await client.ask(raw_half())
    assert answer.status == status
    assert answer.json()["error"]["message"] == str(error)


async def test_cannot_say_yet_settles_the_check_and_decides_nothing(doors: OpenDoors) -> None:
    client = await doors.client(await doors.open(checks=(desk := FakeDesk())))
    handle = (await client.ask(raw_half())).header("half-handle")
    for headers in ([], [("Half-Producer-Group", "g")]):
        asked = request("POST", f"/v1/transactions/{handle}/unknown", headers, b"{}")
        answer = await client.ask(asked)
        assert (answer.status, answer.json()) == (200, {"transaction_id": "T0", "state": "pending"})
    assert desk.settled == [(("g", "T0"), CheckOutcome.UNKNOWN)] * 2
    assert doors.service.transactions[handle or ""].state == "pending"


async def test_why_it_cannot_be_said_is_handed_on(doors: OpenDoors) -> None:
    client = await doors.client(await doors.open(checks=(desk := FakeDesk())))
    handle = (await client.ask(raw_half())).header("half-handle")
    said = [b"RuntimeError: db down", "é\tx".encode(), b"\xff", b"x" * 300, None]
    for reason in said:
        headers = [] if reason is None else [("Half-Reason", reason)]
        asked = request("POST", f"/v1/transactions/{handle}/unknown", headers, b"{}")
        assert (await client.ask(asked)).status == 200
    kept = ["RuntimeError: db down", "é x", "\ufffd", "x" * 197 + "...", None]
    assert desk.reasons == kept


async def test_cannot_say_yet_of_another_group_or_nothing_settles_nothing(doors: OpenDoors) -> None:
    client = await doors.client(await doors.open(checks=(desk := FakeDesk())))
    await client.ask(raw_half())
    foreign = request("POST", "/v1/transactions/h.0/unknown", [("Half-Producer-Group", "other")])
    assert (await client.ask(foreign)).code == "wrong_group"
    assert (
        await client.ask(request("POST", "/v1/transactions/x/unknown"))
    ).code == "invalid_handle"
    assert desk.settled == []


async def test_cannot_say_yet_is_taken_where_nobody_checks(client: Client) -> None:
    await client.ask(raw_half())
    answer = await client.ask(request("POST", "/v1/transactions/h.0/unknown"))
    assert answer.json()["state"] == "pending"


async def test_the_contract_is_served(client: Client) -> None:
    answer = await client.ask(request("GET", "/v1/openapi.yaml"))
    assert answer.header("content-type") == "application/yaml"
    assert answer.body.startswith(b"openapi: 3.1")


def test_every_route_has_a_handler_of_its_name() -> None:
    streams = Streams(None, limits=http_limits(), load=Load(), access=access_with())
    unended = Unended(1.0, time.monotonic)
    handlers = Handlers(None, checks=None, streams=streams, unended=unended)  # type: ignore[arg-type]
    for route in ROUTES:
        assert handlers.handler(route.name) == getattr(handlers, route.name)
    with pytest.raises(KeyError):
        handlers.handler("nothing")
