"""Attacks that would keep the coordinator waiting, and with it whoever it serves."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, cast

from halfhitch.wire.remoting import codes
from harness.neighbour.attack import BANK, CLOSED, SENT, Attacker, row, word
from harness.raw_http import request

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator

COMMIT, ROLLBACK = 8, 12
#: What it has left undecided before may fill its own bound: that is told to it, and nobody else.
_FULL = ("429 too_many_undecided",)
#: Read by nobody, at a time.
_UNREAD_COUNT = 8


@row("stall: never read an answer", "HTTP", SENT, also=(CLOSED,))
async def unread_answers(attacker: Attacker) -> AsyncGenerator[str]:
    many = request("GET", "/v1/openapi.yaml", (("Half-Token", BANK),)) * 16
    clients = [await attacker.dial(attacker.http_port) for _ in range(_UNREAD_COUNT)]
    for client in itertools.cycle(clients):
        client.writer.write(many if client.writer.transport.get_write_buffer_size() < 9 else b"")
        yield CLOSED if client.writer.is_closing() else SENT


@row("stall: never read an answer", "RocketMQ", SENT, also=(CLOSED,))
async def unread_remoting(attacker: Attacker) -> AsyncGenerator[str]:
    clients = [await attacker.remoting() for _ in range(_UNREAD_COUNT)]
    for client in clients:
        cast("asyncio.Transport", client._writer.transport).pause_reading()
    for client in itertools.cycle(clients):
        if client._writer.transport.get_write_buffer_size() < 9:
            for _ in range(20):
                client.send(codes.GET_BROKER_CLUSTER_INFO)
        yield CLOSED if client.closed.is_set() else SENT


@row("stall: send a byte at a time", "HTTP", SENT, also=(CLOSED,))
async def slow_sender(attacker: Attacker) -> AsyncGenerator[str]:
    begun = b"POST /v1/transactions HTTP/1.1\r\nHost: localhost\r\nHalf-Token: %b\r\nX: "
    clients = [await attacker.dial(attacker.http_port) for _ in range(_UNREAD_COUNT)]
    for client in clients:
        await client.send(begun % BANK.encode())
    for client in itertools.cycle(clients):
        try:
            await client.send(b"x")
        except OSError:
            yield CLOSED
        else:
            yield SENT


@row("stall: checks that nobody answers", "HTTP", "201", also=_FULL)
async def unanswered_checks(attacker: Attacker) -> AsyncGenerator[str]:
    """It says that it is there to be asked, and is silent."""
    client = await attacker.dial(attacker.http_port)
    named = (("Half-Token", BANK), ("Half-Producer-Name", "bank-1"))
    await client.send(request("GET", "/v1/checks?producer_group=bank-slow", named))
    while True:
        yield (await attacker.prepare(group="bank-slow", immunity_seconds=1))[0]


@row(
    "stall: checks that are always answered with unknown",
    "RocketMQ",
    "SUCCESS",
    also=("SYSTEM_BUSY",),
)
async def unknown_answers(attacker: Attacker) -> AsyncGenerator[str]:
    client = await attacker.remoting()
    await client.heartbeat("bank-unsure")
    while True:
        for _ in range(client.checks.qsize()):
            check, _ = client.checks.get_nowait()
            client.end("bank-unsure", check, 0)
        sent = await client.half("bank-unsure", attacker.known.own_topic, b"x")
        yield word(sent.code)


@row("stall: callbacks that hang", "HTTP", "201", also=_FULL)
async def hanging_callbacks(attacker: Attacker) -> AsyncGenerator[str]:
    """The group's callback takes every connection and answers none."""
    while True:
        yield (await attacker.prepare(group="bank-hang", immunity_seconds=1))[0]


@row("stall: ends that conflict", "HTTP", "200", "409 contrary_decision", also=_FULL)
async def conflicting_ends(attacker: Attacker) -> AsyncGenerator[str]:
    while True:
        told, made = await attacker.prepare(value="theirs, conflicting")
        if made is None:
            yield told
            continue
        for end in ("rollback", "commit", "commit?source=check", "rollback"):
            yield await attacker.ask("POST", f"/v1/transactions/{made['handle']}/{end}")


@row("stall: ends that conflict", "RocketMQ", "SUCCESS", "ILLEGAL_OPERATION")
async def conflicting_remoting(attacker: Attacker) -> AsyncGenerator[str]:
    client = await attacker.remoting()
    while True:
        sent = await client.half("bank", attacker.known.own_topic, b"x", unique=attacker.name("C"))
        for decision in (ROLLBACK, COMMIT):
            client.end("bank", sent, decision)
            yield word((await client.end_sync("bank", sent, decision)).code)


@row("stall: wait until it is visible, all the time", "HTTP", "200", also=_FULL)
async def waits(attacker: Attacker) -> AsyncGenerator[str]:
    while True:
        told, made = await attacker.prepare(value="theirs, awaited")
        if made is None:
            yield told
            continue
        yield await attacker.ask("POST", f"/v1/transactions/{made['handle']}/commit?wait=visible")


@row("stall: topics that do not exist", "HTTP", "400 unknown_topic", also=("429 overloaded",))
async def unknown_topics(attacker: Attacker) -> AsyncGenerator[str]:
    """Kafka has to be asked about each."""
    while True:
        yield (await attacker.prepare(topic=attacker.name(f"{attacker.known.own_topic}-no")))[0]


@row("stall: topics that do not exist", "RocketMQ", "TOPIC_NOT_EXIST", also=("SYSTEM_BUSY",))
async def unknown_topics_remoting(attacker: Attacker) -> AsyncGenerator[str]:
    client = await attacker.remoting()
    while True:
        topic = attacker.name(f"{attacker.known.own_topic}-no")
        yield word((await client.half("bank", topic, b"x")).code)
        yield word((await client.route(topic))[0])


ATTACKS = (
    unread_answers,
    unread_remoting,
    slow_sender,
    unanswered_checks,
    unknown_answers,
    hanging_callbacks,
    conflicting_ends,
    conflicting_remoting,
    waits,
    unknown_topics,
    unknown_topics_remoting,
)
