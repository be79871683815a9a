"""An identity asks too often: what is refused at the data door, what never is, what it is told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from halfhitch.access import Access
from halfhitch.doors.http import dispatch, protocol
from halfhitch.doors.http.router import ROUTES
from harness.defaults import http_limits
from harness.fake_desk import FakeDesk
from harness.identities import BANK, SHOP, everybody
from harness.raw_http import Client, json_post, request, until

if TYPE_CHECKING:
    from conftest import OpenDoors

BY_SHOP, BY_BANK = ("Half-Token", SHOP), ("Half-Token", BANK)
ONE = {"topic": "orders", "value": "v"}
HANDLE = "/v1/transactions/h.0"


@pytest.fixture(autouse=True)
def _one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it happens within a second, however slow the machine is."""
    for module in (dispatch, protocol):
        monkeypatch.setattr(module, "perf_counter", lambda: 5.0)


def half(topic: str) -> bytes:
    path = f"/v1/topics/{topic}/half"
    return request("POST", path, (("Half-Producer-Group", "shop"), BY_SHOP), b"v")


REQUESTS = {
    "prepare": json_post(
        "/v1/transactions", {"producer_group": "shop", "messages": [ONE]}, BY_SHOP
    ),
    "half": half("orders"),
    "add": json_post(f"{HANDLE}/messages", {"messages": [ONE]}, BY_SHOP),
    "view": request("GET", HANDLE, (BY_SHOP,)),
    "openapi": request("GET", "/v1/openapi.yaml", (BY_SHOP,)),
    "unknown": request("POST", f"{HANDLE}/unknown", (BY_SHOP,)),
    "commit": request("POST", f"{HANDLE}/commit?source=check", (BY_SHOP,)),
    "rollback": request("POST", f"{HANDLE}/rollback", (BY_SHOP,)),
    "checks": request("HEAD", "/v1/checks?producer_group=shop", (BY_SHOP,)),
}
MANY = 10
REFUSED = ("prepare", "half", "add", "view", "openapi")


async def spent(doors: OpenDoors, **settings: object) -> Client:
    """A connection of an identity that has had its requests of this second."""
    access = Access(identities=everybody(), requests_s_max=MANY)
    door = await doors.open(access=access, checks=FakeDesk(), **settings)
    client = await doors.client(door)
    caller = access.by_token(SHOP.encode())
    assert caller is not None
    assert caller.allowance is not None
    for _ in range(MANY - 1):
        caller.allowance.take(5.0)
    assert (await client.ask(REQUESTS["half"])).status == 201
    return client


def test_every_route_is_either_refused_or_always_taken() -> None:
    assert set(REQUESTS) == {route.name for route in ROUTES}
    assert {route.name for route in ROUTES if not route.is_always_taken} == set(REFUSED)


@pytest.mark.parametrize("route", REFUSED)
async def test_what_may_wait_is_refused_and_not_begun(doors: OpenDoors, route: str) -> None:
    client = await spent(doors)
    calls = list(doors.service.calls)
    for _ in range(3):
        answer = await client.ask(REQUESTS[route])
        assert (answer.status, answer.code) == (429, "too_many_requests")
        assert answer.header("retry-after") == "1"
        assert answer.json()["error"]["retryable"] is True
        assert "identity 'shop'" in answer.json()["error"]["message"]
    assert doors.service.calls == calls


@pytest.mark.parametrize("route", ["unknown", "commit", "rollback", "checks"])
async def test_ends_answers_and_streams_are_never_refused(doors: OpenDoors, route: str) -> None:
    client = await spent(doors)
    for _ in range(1 if route == "rollback" else 5):
        answer = await client.ask(REQUESTS[route])
        assert answer.status == 200, answer


async def test_one_identity_that_asks_too_often_leaves_the_others_alone(doors: OpenDoors) -> None:
    client = await spent(doors)
    assert (await client.ask(REQUESTS["view"])).status == 429
    own = request("GET", "/v1/openapi.yaml", (BY_BANK,))
    assert (await client.ask(own)).status == 200


async def test_another_connection_is_no_way_around(doors: OpenDoors) -> None:
    await spent(doors)
    client = await doors.client(doors.opened[0])
    assert (await client.ask(REQUESTS["half"])).status == 429


async def test_requests_that_are_refused_for_other_reasons_count(doors: OpenDoors) -> None:
    """Else a flood of what is forbidden, or wrong, would pass by the bound."""
    access = Access(identities=everybody(), requests_s_max=1)
    client = await doors.client(await doors.open(access=access))
    assert (await client.ask(half("payments"))).status == 403
    assert (await client.ask(REQUESTS["half"])).status == 429


async def test_a_body_that_waits_to_be_asked_for_is_not_asked_for(doors: OpenDoors) -> None:
    client = await spent(doors)
    head = REQUESTS["half"].partition(b"\r\n\r\n")[0] + b"\r\nExpect: 100-continue\r\n\r\n"
    await client.send(head)
    answer = await client.answer("POST")
    assert (answer.status, answer.code) == (429, "too_many_requests")


async def test_a_body_that_is_asked_for_counts_once(doors: OpenDoors) -> None:
    access = Access(identities=everybody(), requests_s_max=1)
    client = await doors.client(await doors.open(access=access))
    head = REQUESTS["half"].partition(b"\r\n\r\n")[0] + b"\r\nExpect: 100-continue\r\n\r\n"
    await client.send(head)
    assert (await client.continue_then_answer_after(b"v")).status == 201


@pytest.mark.parametrize("path", ["/nowhere", "/v1/transactions"])
async def test_a_flood_of_what_has_no_route_passed_by_the_bound(
    doors: OpenDoors, path: str
) -> None:
    client = await spent(doors)
    answer = await client.ask(request("GET", path, (BY_SHOP,)))
    assert (answer.status, answer.code) == (429, "too_many_requests")


async def test_who_does_not_wait_is_kept_waiting_and_nobody_with_him(doors: OpenDoors) -> None:
    """More refusals in a second than requests may be: each has its turn, and takes no place."""
    client = await spent(doors, limits=http_limits(in_flight_count_max=1))
    for _ in range(MANY):
        assert (await client.ask(REQUESTS["view"])).status == 429
    loop, door = asyncio.get_running_loop(), doors.opened[0]
    began_s = loop.time()
    await client.send(REQUESTS["view"] * 3)
    await until(lambda: door._load.held_back_count == 1)
    other = await doors.client(door)
    own = (("Half-Producer-Group", "bank"), BY_BANK)
    assert (await other.ask(request("POST", "/v1/topics/payments/half", own, b"v"))).status == 201
    assert [(await client.answer()).status for _ in range(3)] == [429] * 3
    assert loop.time() - began_s > 0.55, "0.1, 0.2 and 0.3 s"
    assert door._load.held_back_count == 0
