"""Attacks that would read or end what is another one's."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from halfhitch.wire.remoting import codes
from harness.neighbour.attack import SECRETS, Attacker, row, word

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
CHECK_HEADERS = (("Half-Producer-Name", "bank-1"),)


@row("read: a transaction by its handle", "HTTP", "403 forbidden")
async def look_at_a_handle(attacker: Attacker) -> AsyncGenerator[str]:
    while True:
        yield await attacker.ask("GET", f"/v1/transactions/{attacker.known.handle}")


@row("read: the checks of its group", "HTTP", "403 forbidden")
async def listen_to_checks(attacker: Attacker) -> AsyncGenerator[str]:
    while True:
        path = f"/v1/checks?producer_group={attacker.known.group}"
        yield await attacker.ask("GET", path, headers=CHECK_HEADERS)


@row("read: lists, parked messages, settings, numbers", "admin", "403 forbidden")
async def look_around(attacker: Attacker) -> AsyncGenerator[str]:
    group, transaction_id = attacker.known.group, attacker.known.transaction_id
    while True:
        for path in (
            f"/v1/transactions?group={group}",
            f"/v1/parked/{group}/{transaction_id}",
            "/v1/parked",
            "/v1/config",
            "/v1/status",
            "/metrics",
        ):
            yield await attacker.ask("GET", path, admin=True)


@row("read: routes and ends of its topics", "RocketMQ", "NO_PERMISSION", "SUCCESS")
async def look_at_topics(attacker: Attacker) -> AsyncGenerator[str]:
    """The list of topics is told, and holds its own alone."""
    topic = attacker.known.topic
    client = await attacker.remoting()
    while True:
        yield word((await client.route(topic))[0])
        fields = {"topic": topic, "queueId": "0"}
        yield word((await client.ask(codes.GET_MAX_OFFSET, fields)).code)
        answer = await client.ask(codes.GET_ALL_TOPIC_LIST_FROM_NAME_SERVER)
        yield f"it saw {topic}" if topic.encode() in answer.body else word(answer.code)


@row("end: by its handle", "HTTP", "403 forbidden")
async def end_by_handle(attacker: Attacker) -> AsyncGenerator[str]:
    path = f"/v1/transactions/{attacker.known.handle}"
    while True:
        for end in (
            "commit",
            "rollback",
            "rollback?source=check",
            "unknown",
            "commit?wait=visible",
        ):
            yield await attacker.ask("POST", f"{path}/{end}")


@row("end: by a handle that was guessed", "HTTP", "400 invalid_handle")
async def end_by_guess(attacker: Attacker) -> AsyncGenerator[str]:
    """Of its own transaction, with the victim's names and numbers in it; and any bit turned."""
    handle = attacker.known.handle
    _, own = await attacker.prepare()
    raw = base64.urlsafe_b64decode(handle + "=" * (-len(handle) % 4))
    mac = base64.urlsafe_b64decode(own["handle"] + "=" * (-len(own["handle"]) % 4))[-16:]
    for number in range(1_000_000):
        turned = bytearray(raw)
        turned[number % len(raw)] ^= 1 << number % 8
        for guessed in (bytes(turned), raw[:-16] + mac, raw[: number % len(raw)]):
            text = base64.urlsafe_b64encode(guessed).rstrip(b"=").decode() or "x"
            yield await attacker.ask("POST", f"/v1/transactions/{text}/rollback")


@row("end: as an operator", "admin", "403 forbidden")
async def end_as_operator(attacker: Attacker) -> AsyncGenerator[str]:
    path = f"/v1/transactions/{attacker.known.group}/{attacker.known.transaction_id}"
    while True:
        for end in ("commit", "rollback", "check"):
            yield await attacker.ask("POST", f"{path}/{end}", {"reason": "x"}, admin=True)


@row("end: with the numbers of its message", "RocketMQ", "NO_PERMISSION", "SYSTEM_ERROR")
async def end_with_numbers(attacker: Attacker) -> AsyncGenerator[str]:
    """In the victim's group, and as if it were of its own; with an answer, and without."""
    client, sent = await attacker.remoting(), attacker.known.rocketmq_half()
    while True:
        for group in (attacker.known.group, "bank"):
            for decision in (COMMIT, ROLLBACK, UNKNOWN):
                for asked in ("true", "false"):
                    named = {"fromTransactionCheck": asked}
                    client.end(group, sent, decision, **named)
                    yield word((await client.end_sync(group, sent, decision, **named)).code)


@row("end: with made-up and replayed numbers", "RocketMQ", "NO_PERMISSION", "SYSTEM_ERROR")
async def end_with_other_numbers(attacker: Attacker) -> AsyncGenerator[str]:
    """Those of its own message for the victim's id, and any others."""
    victims = attacker.known.rocketmq_half()
    own = await attacker.half("bank", attacker.known.own_topic, b"x", unique=attacker.name("U"))
    client = await attacker.remoting(is_kept=True)
    named = {"transactionId": victims.fields["transactionId"]}
    for number in range(1_000_000):
        yield word((await client.end_sync(attacker.known.group, own, ROLLBACK, **named)).code)
        yield word((await client.end_sync("bank", own, ROLLBACK, **named)).code)
        numbers = {"tranStateTableOffset": str(number), "commitLogOffset": str(number)}
        yield word((await client.end_sync("bank", victims, COMMIT, **numbers)).code)


@row("end: with the victim's key and a wrong secret", "RocketMQ", "NO_PERMISSION")
async def end_unsigned(attacker: Attacker) -> AsyncGenerator[str]:
    assert "shop-key" in SECRETS
    client = await attacker.remoting(access_key="shop-key")
    client.secret_key = "guessed"
    while True:
        sent = attacker.known.rocketmq_half()
        yield word((await client.end_sync(attacker.known.group, sent, ROLLBACK)).code)


ATTACKS = (
    look_at_a_handle,
    listen_to_checks,
    look_around,
    look_at_topics,
    end_by_handle,
    end_by_guess,
    end_as_operator,
    end_with_numbers,
    end_with_other_numbers,
    end_unsigned,
)
