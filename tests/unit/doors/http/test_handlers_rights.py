"""Who may do what on the data door: each route, asked by its team, by another, by nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.doors.http.router import ROUTES
from halfhitch.service.checking.api import CheckOutcome
from harness.fake_desk import FakeDesk
from harness.identities import BANK, KEEPER, ROOT, SHOP, WATCHER, access
from harness.raw_http import Answer, Client, json_post, raw_half, request

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import OpenDoors

ONE = {"topic": "orders", "value": "v"}
HANDLE = "/v1/transactions/h.0"
Token = tuple[str, str]


def prepare(*token: Token, group: str = "shop", topics: tuple[str, ...] = ("orders",)) -> bytes:
    messages = [{"topic": topic, "value": "v"} for topic in topics]
    body = {"producer_group": group, "messages": messages}
    return json_post("/v1/transactions", body, *token)


#: Route -> a request about group shop (whose transaction h.0 is).
REQUESTS: dict[str, Callable[..., bytes]] = {
    "prepare": prepare,
    "half": lambda *token: request(
        "POST", "/v1/topics/orders/half", (("Half-Producer-Group", "shop"), *token), b"v"
    ),
    "add": lambda *token: json_post(f"{HANDLE}/messages", {"messages": [ONE]}, *token),
    "commit": lambda *token: request("POST", f"{HANDLE}/commit", token),
    "rollback": lambda *token: request("POST", f"{HANDLE}/rollback", token),
    "unknown": lambda *token: request("POST", f"{HANDLE}/unknown", token),
    "view": lambda *token: request("GET", HANDLE, token),
    "checks": lambda *token: request("HEAD", "/v1/checks?producer_group=shop", token),
    "openapi": lambda *token: request("GET", "/v1/openapi.yaml", token),
}
#: Route -> who is let through. The contract is for whoever is known.
ALLOWED = {
    "prepare": {SHOP, ROOT},
    "half": {SHOP, ROOT},
    "add": {SHOP, ROOT},
    "commit": {SHOP, ROOT},
    "rollback": {SHOP, ROOT},
    "unknown": {SHOP, ROOT},
    "view": {SHOP, KEEPER, WATCHER, ROOT},
    "checks": {SHOP, ROOT},
    "openapi": {SHOP, BANK, KEEPER, WATCHER, ROOT},
}


class Asking:
    """A door with identities, a transaction of group shop, and a client."""

    def __init__(self, doors: OpenDoors) -> None:
        self.doors = doors
        self.desk = FakeDesk()
        self.client: Any = None
        self.door: Any = None

    async def open(self) -> None:
        self.door = await self.doors.open(access=access(), checks=self.desk)
        self.client = await self.doors.client(self.door)
        assert (await self.client.ask(prepare(("Half-Token", SHOP)))).status == 201
        self.doors.service.calls.clear()

    async def ask(self, asked: bytes) -> Answer:
        answer: Answer = await self.client.ask(asked)
        if answer.header("connection") == "close":  # a stranger's body is not taken
            self.client = await self.doors.client(self.door)
        return answer


@pytest.fixture
async def asking(doors: OpenDoors) -> Asking:
    found = Asking(doors)
    await found.open()
    return found


def test_every_route_is_asked_for() -> None:
    assert set(REQUESTS) == set(ALLOWED) == {route.name for route in ROUTES}


@pytest.mark.parametrize("route", sorted(REQUESTS))
async def test_who_has_the_right_is_let_through_and_nobody_else(asking: Asking, route: str) -> None:
    for token in (BANK, KEEPER, WATCHER, SHOP, ROOT):
        if token in ALLOWED[route] and route == "rollback":
            continue  # after the others' refusals: see below
        answer = await asking.ask(REQUESTS[route](("Half-Token", token)))
        if token in ALLOWED[route]:
            assert answer.status < 300, (token, answer)
            continue
        assert answer.status == 403, (token, answer)
        assert set(asking.doors.service.calls) <= {"identify"}, "nothing was looked up or changed"
        if route != "checks":  # the answer to HEAD has no body
            said = answer.json()["error"]
            assert (said["code"], said["retryable"]) == ("forbidden", False)
            assert "'shop'" in said["message"]
            assert "auth.identities_file" in said["message"]
    if route == "rollback":
        answer = await asking.ask(REQUESTS[route](("Half-Token", SHOP)))
        assert answer.status == 200


@pytest.mark.parametrize("route", sorted(REQUESTS))
async def test_without_a_token_nothing_is_open(asking: Asking, route: str) -> None:
    for token in ((), (("Half-Token", "guess"),), (("Authorization", f"Bearer {SHOP}"),)):
        answer = await asking.ask(REQUESTS[route](*token))
        assert answer.status == 401
        assert answer.header("www-authenticate") == "Half-Token"
    assert asking.doors.service.calls == []


async def test_the_unix_socket_asks_for_a_token_too(doors: OpenDoors, tmp_path: Any) -> None:
    door = await doors.open(host=None, unix_path=tmp_path / "s", access=access())
    client = await doors.client(door)
    assert (await client.ask(prepare())).status == 401
    client = await doors.client(door)
    assert (await client.ask(prepare(("Half-Token", BANK)))).status == 403
    assert (await client.ask(prepare(("Half-Token", SHOP)))).status == 201


async def test_one_topic_that_is_not_allowed_refuses_all_messages(asking: Asking) -> None:
    asked = prepare(("Half-Token", SHOP), topics=("orders", "payments"))
    answer = await asking.ask(asked)
    assert (answer.status, answer.code) == (403, "forbidden")
    assert "topic 'payments'" in answer.json()["error"]["message"]
    body = {"messages": [ONE, {"topic": "payments", "value": "v"}]}
    answer = await asking.ask(json_post(f"{HANDLE}/messages", body, ("Half-Token", SHOP)))
    assert answer.status == 403
    half = raw_half(b"v", ("Half-Token", SHOP), topic="payments").replace(b": g\r\n", b": shop\r\n")
    assert (await asking.ask(half)).status == 403
    assert set(asking.doors.service.calls) <= {"identify"}


async def test_to_end_is_not_to_answer_a_check(doors: OpenDoors) -> None:
    """Each of the two ways to end a transaction has a right of its own."""
    from halfhitch.access import Access, Right
    from harness.identities import identity

    def of(name: str, right: Right, *topics: str) -> Any:
        return identity(name, name * 20, right, groups=("shop",), topics=topics)

    found = Access(identities=[of("a", Right.PRODUCE, "orders"), of("b", Right.CHECK)])
    door = await doors.open(access=found, checks=FakeDesk())
    client = await doors.client(door)
    producer, checker = ("Half-Token", "a" * 20), ("Half-Token", "b" * 20)
    assert (await client.ask(prepare(producer))).status == 201
    assert (await client.ask(prepare(checker))).status == 403
    answering = f"{HANDLE}/commit?source=check"
    assert (await client.ask(request("POST", answering, [producer]))).status == 403
    assert (await client.ask(request("POST", f"{HANDLE}/commit", [checker]))).status == 403
    assert (await client.ask(request("POST", f"{HANDLE}/unknown", [producer]))).status == 403
    assert (await client.ask(request("POST", answering, [checker]))).status == 200


async def test_an_answer_of_another_team_settles_no_check(asking: Asking) -> None:
    assert (await asking.ask(REQUESTS["unknown"](("Half-Token", BANK)))).status == 403
    assert asking.desk.settled == []
    assert (await asking.ask(REQUESTS["unknown"](("Half-Token", SHOP)))).status == 200
    assert [outcome for _, outcome in asking.desk.settled] == [CheckOutcome.UNKNOWN]


async def test_a_refusal_says_the_same_whether_the_transaction_exists_or_not(
    doors: OpenDoors,
) -> None:
    """Else a neighbour finds out the ids of others by trying them."""
    door = await doors.open(access=access(), checks=FakeDesk())
    client = await doors.client(door)

    async def refusal() -> bytes:
        asked = {"producer_group": "shop", "transaction_id": "order-1", "messages": [ONE]}
        answer = await client.ask(json_post("/v1/transactions", asked, ("Half-Token", BANK)))
        assert answer.status == 403
        return answer.body

    before = await refusal()
    asked = {"producer_group": "shop", "transaction_id": "order-1", "messages": [ONE]}
    mine = await client.ask(json_post("/v1/transactions", asked, ("Half-Token", SHOP)))
    assert mine.status == 201
    assert await refusal() == before


async def test_identities_that_change_count_for_the_next_request(doors: OpenDoors) -> None:
    from harness.identities import bank, shop

    found = access()
    door = await doors.open(access=found)
    client: Client = await doors.client(door)
    asked = prepare(("Half-Token", SHOP), topics=("points",))
    assert (await client.ask(asked)).status == 403
    found.replace([shop(topics=("orders", "points"))])
    assert (await client.ask(asked)).status == 201
    found.replace([bank()])
    assert (await client.ask(asked)).status == 401
