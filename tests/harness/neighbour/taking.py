"""Attacks that would replace what is another one's, or take its names before it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.neighbour.attack import Attacker, row, word

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


@row("replace: prepare its id again, with other content", "HTTP", "403 forbidden")
async def prepare_again(attacker: Attacker) -> AsyncGenerator[str]:
    known = attacker.known
    while True:
        for topic in (known.topic, known.own_topic):
            told, _ = await attacker.prepare(
                group=known.group, transaction_id=known.transaction_id, topic=topic
            )
            yield told


@row("replace: add to its transaction", "HTTP", "403 forbidden")
async def add_to_it(attacker: Attacker) -> AsyncGenerator[str]:
    path = f"/v1/transactions/{attacker.known.handle}/messages"
    while True:
        for topic in (attacker.known.topic, attacker.known.own_topic):
            yield await attacker.ask("POST", path, {"messages": [{"topic": topic, "value": "x"}]})


@row("replace: send its half message again, with other content", "RocketMQ", "NO_PERMISSION")
async def half_again(attacker: Attacker) -> AsyncGenerator[str]:
    known = attacker.known
    unique = known.sent["fields"]["transactionId"]
    while True:
        for topic in (known.topic, known.own_topic):
            yield word((await attacker.half(known.group, topic, b"theirs", unique=unique)).code)


@row("replace: an id of its own, with other content", "HTTP", "201", "409 transaction_id_reused")
async def replace_its_own(attacker: Attacker) -> AsyncGenerator[str]:
    """Its own trouble, and nobody else's."""
    while True:
        name = attacker.name("own")
        for value in ("first", "second"):
            yield (await attacker.prepare(transaction_id=name, value=value))[0]


@row("squat: its next id", "HTTP", "201", "403 forbidden")
async def take_the_next_id(attacker: Attacker) -> AsyncGenerator[str]:
    """Ids are each group's own: in its own group it may have it."""
    known = attacker.known
    while True:
        for group, topic in ((known.group, known.own_topic), ("bank", known.own_topic)):
            told, _ = await attacker.prepare(
                group=group, transaction_id=known.next_id, topic=topic, value="theirs"
            )
            yield told


@row("squat: its group's place among producers", "RocketMQ", "NO_PERMISSION", "SUCCESS")
async def take_its_place(attacker: Attacker) -> AsyncGenerator[str]:
    """It may say that it answers no more: of its own connection, which never did."""
    client = await attacker.remoting()
    while True:
        yield word((await client.heartbeat(attacker.known.group)).code)
        yield word((await client.heartbeat("bank", attacker.known.group)).code)
        yield word((await client.unregister(attacker.known.group)).code)


@row("squat: its topic", "HTTP", "403 forbidden")
async def write_to_its_topic(attacker: Attacker) -> AsyncGenerator[str]:
    while True:
        yield (await attacker.prepare(topic=attacker.known.topic))[0]


@row("squat: its topic, without a transaction", "RocketMQ", "NO_PERMISSION")
async def send_to_its_topic(attacker: Attacker) -> AsyncGenerator[str]:
    client = await attacker.remoting()
    while True:
        yield word((await client.put("bank", attacker.known.topic, b"theirs")).code)
        yield word((await client.half("bank", attacker.known.topic, b"theirs")).code)


ATTACKS = (
    prepare_again,
    add_to_it,
    half_again,
    replace_its_own,
    take_the_next_id,
    take_its_place,
    write_to_its_topic,
    send_to_its_topic,
)
