"""A hostile neighbour: another team with its own token and key, at both doors of one coordinator.

It knows all ids, keys and handles of the first team, and tries to read, to end, to replace and to
squat what is the first team's. The first team loses nothing and is told nothing wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.doors.http import HttpDoor
from halfhitch.wire.remoting import codes
from harness.defaults import http_limits
from harness.identities import BANK, SHOP, access
from harness.raw_http import Answer, Client, json_post, request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from conftest import Stage

SECRETS = {"shop-key": "shop-secret", "bank-key": "bank-secret"}
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
MINE, THEIRS = "mine", "theirs"


class Neighbours:
    """Team shop, and team bank that means it no good."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    async def open(self) -> None:
        self.stage.kafka.create_topic("payments", 3)
        found = access()
        self.http = HttpDoor(
            self.stage.it.service, checks=self.stage.desk, port=0, limits=http_limits(),
            access=found,
        )  # fmt: skip
        await self.http.start()
        assert self.http.port is not None
        self.client = await Client.tcp(self.http.port)
        door = await self.stage.open(access_secrets=SECRETS, access=found)
        self.shop, self.bank = [
            await self.stage.client(door, access_key=key, secret_key=SECRETS[key])
            for key in ("shop-key", "bank-key")
        ]

    async def close(self) -> None:
        await self.client.close()
        await self.http.stop(drain_s=0)

    async def prepare(self, token: str, group: str, unique: str, value: str, topic: str) -> Answer:
        message = {"topic": topic, "value": value, "key": "k"}
        asked = {"producer_group": group, "transaction_id": unique, "messages": [message]}
        return await self.client.ask(json_post("/v1/transactions", asked, ("Half-Token", token)))

    async def ask(self, token: str, method: str, path: str, body: Any = None) -> Answer:
        if body is not None:
            return await self.client.ask(json_post(path, body, ("Half-Token", token)))
        return await self.client.ask(request(method, path, [("Half-Token", token)]))

    async def attack(self, handle: str, sent: Any, unique: str) -> None:
        """All that the neighbour can ask about one transaction, knowing all there is to know."""
        path = f"/v1/transactions/{handle}"
        more = {"messages": [{"topic": "payments", "value": THEIRS}]}
        for answer in (
            await self.ask(BANK, "GET", path),
            await self.ask(BANK, "POST", f"{path}/rollback"),
            await self.ask(BANK, "POST", f"{path}/commit"),
            await self.ask(BANK, "POST", f"{path}/rollback?source=check"),
            await self.ask(BANK, "POST", f"{path}/unknown"),
            await self.ask(BANK, "POST", f"{path}/messages", more),
            await self.ask(BANK, "GET", "/v1/checks?producer_group=shop"),
            await self.prepare(BANK, "shop", unique, MINE, "orders"),
            await self.prepare(BANK, "shop", unique, THEIRS, "payments"),
        ):
            assert (answer.status, answer.code) == (403, "forbidden")
            assert b"handle" not in answer.body.replace(b"Half-Handle", b"")
        for group in ("shop", "bank"):
            for decision in (ROLLBACK, COMMIT, UNKNOWN):
                for asked in ("true", "false"):
                    named = {"fromTransactionCheck": asked}
                    answer = await self.bank.end_sync(group, sent, decision, **named)
                    if group == "shop":
                        assert answer.code == codes.NO_PERMISSION
                    self.bank.end(group, sent, decision, **named)
        assert (await self.bank.half("shop", "orders", b"x", unique=unique)).code != 0
        assert (await self.bank.half("bank", "orders", b"x", unique=unique)).code != 0
        assert (await self.bank.heartbeat("shop")).code == codes.NO_PERMISSION
        assert (await self.bank.unregister("shop")).code == codes.SUCCESS, "of its own connection"


@pytest.fixture
async def neighbours(stage: Stage) -> AsyncIterator[Neighbours]:
    found = Neighbours(stage)
    await found.open()
    yield found
    await found.close()


async def test_a_neighbour_takes_nothing_from_what_was_prepared_over_http(
    neighbours: Neighbours,
) -> None:
    prepared = await neighbours.prepare(SHOP, "shop", "order-1", MINE, "orders")
    known = prepared.json()
    of_it = neighbours.stage.it.handles.decode(known["handle"])
    own = await neighbours.shop.half("shop", "orders", b"other", unique="U9")
    forged = own  # with the numbers of the other half
    forged.fields["queueOffset"] = str(of_it.half_offsets[0])
    forged.fields["transactionId"] = "order-1"
    await neighbours.attack(known["handle"], forged, "order-1")
    ended = await neighbours.ask(SHOP, "POST", f"/v1/transactions/{known['handle']}/commit")
    assert (ended.status, ended.json()["state"]) == (200, "committed")
    neighbours.stage.it.carry_out()
    assert [record.value() for record in neighbours.stage.stored()] == [b"mine"]
    assert neighbours.stage.stored("payments") == []


async def test_a_neighbour_takes_nothing_from_what_was_prepared_over_rocketmq(
    neighbours: Neighbours,
) -> None:
    await neighbours.shop.heartbeat("shop")
    sent = await neighbours.shop.half("shop", "orders", b"mine", unique="U1")
    assert sent.code == codes.SUCCESS
    other = (await neighbours.prepare(SHOP, "shop", "order-1", "x", "orders")).json()
    await neighbours.attack(other["handle"], sent, "U1")
    assert [link.producer_group for link in neighbours.stage.desk.links] == ["shop"]
    assert (await neighbours.shop.end_sync("shop", sent, COMMIT)).code == codes.SUCCESS
    neighbours.stage.it.carry_out()
    assert [record.value() for record in neighbours.stage.stored()] == [b"mine"]


async def test_a_neighbour_that_comes_first_squats_no_id(neighbours: Neighbours) -> None:
    """It prepared `order-900` before its owner did: the owner's message was dropped in silence."""
    squatted = await neighbours.prepare(BANK, "shop", "order-900", THEIRS, "payments")
    assert squatted.status == 403
    in_its_own = await neighbours.prepare(BANK, "bank", "order-900", THEIRS, "payments")
    assert in_its_own.status == 201, "ids are each group's own"
    prepared = await neighbours.prepare(SHOP, "shop", "order-900", MINE, "orders")
    again = await neighbours.prepare(SHOP, "shop", "order-900", MINE, "orders")
    assert (prepared.status, again.status) == (201, 201), "an equal repeat is harmless"
    handle = again.json()["handle"]
    assert (await neighbours.ask(SHOP, "POST", f"/v1/transactions/{handle}/commit")).status == 200
    neighbours.stage.it.carry_out()
    assert [record.value() for record in neighbours.stage.stored()] == [b"mine"]
    assert neighbours.stage.stored("payments") == []


async def test_nothing_that_a_neighbour_does_keeps_the_group_from_being_asked(
    neighbours: Neighbours,
) -> None:
    await neighbours.shop.heartbeat("shop")
    sent = await neighbours.shop.half("shop", "orders", b"mine", unique="U1")
    for _ in range(3):
        await neighbours.bank.heartbeat("shop", "bank")
        await neighbours.bank.unregister("shop")
        asked = {"fromTransactionCheck": "true"}
        await neighbours.bank.end_sync("shop", sent, UNKNOWN, **asked)
    links = neighbours.stage.desk.links
    assert [link.producer_group for link in links if link.producer_group == "shop"] == ["shop"]
    assert all(identity[0] != "shop" for identity, _ in neighbours.stage.desk.settled)
