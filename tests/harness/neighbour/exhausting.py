"""Attacks that would take all there is of something that both share."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from contextlib import aclosing
from typing import TYPE_CHECKING

from harness.neighbour.attack import (
    ADDRESSES,
    BANK,
    CLOSED,
    SENT,
    SILENT,
    Attacker,
    row,
    word,
)
from harness.raw_http import json_post, request

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from harness.raw_http import Client

#: How long it waits before it says that it was told nothing.
_MOMENT_S = 0.02
#: Connections that it prepares over.
_AT_ONCE = 6
#: An unfinished frame of RocketMQ's protocol says how long it is.
_FRAME_BYTES = 15_000_000


async def heard(client: Client, wait_s: float = _MOMENT_S) -> str:
    """What a connection is told within a moment."""
    try:
        async with asyncio.timeout(wait_s):
            found = await client.answer()
    except TimeoutError:
        return SILENT
    except (AssertionError, OSError):
        return CLOSED
    return f"{found.status} {found.code}" if found.status >= 400 else str(found.status)


async def undecided(
    attacker: Attacker, group_of: Callable[[int], str], burst: int
) -> AsyncGenerator[str]:
    """Prepares and ends nothing: many at once, and then more; in the end it lets go of all."""
    handles: list[str] = []
    numbers = itertools.count()
    token = ("Half-Token", BANK)

    async def some() -> None:
        """Over a connection of its own."""
        client = await attacker.dial(attacker.http_port)
        for number in numbers:
            if number >= burst:
                return
            asked = attacker.transaction(group=group_of(number), immunity_seconds=3_600)
            answer = await client.ask(json_post("/v1/transactions", asked, token))
            handles.extend([answer.json()["handle"]] if answer.status == 201 else [])

    async def let_go() -> None:
        client = await attacker.dial(attacker.http_port)
        while handles:
            path = f"/v1/transactions/{handles.pop()}/rollback"
            await client.ask(request("POST", path, (token,)))

    await asyncio.gather(*(some() for _ in range(_AT_ONCE)))
    try:
        for number in numbers:
            told, made = await attacker.prepare(group=group_of(number), immunity_seconds=3_600)
            handles.extend([] if made is None else [made["handle"]])
            yield told
    finally:
        await asyncio.gather(*(let_go() for _ in range(_AT_ONCE)))


@row("exhaust: undecided transactions", "HTTP", "429 too_many_undecided", also=("201",))
async def undecided_of_a_group(attacker: Attacker) -> AsyncGenerator[str]:
    async with aclosing(undecided(attacker, lambda _: "bank-one", 210)) as answers:
        async for told in answers:
            yield told


@row(
    "exhaust: undecided transactions of many groups",
    "HTTP",
    "429 too_many_undecided",
    also=("201",),
)
async def undecided_of_many_groups(attacker: Attacker) -> AsyncGenerator[str]:
    """Never the same: it has a pattern of them."""
    async with aclosing(undecided(attacker, lambda number: f"bank-many-{number}", 510)) as answers:
        async for told in answers:
            yield told


@row(
    "exhaust: bodies that are never sent to their end",
    "HTTP",
    SILENT,
    "429 overloaded",
    also=(CLOSED,),
)
async def bodies(attacker: Attacker) -> AsyncGenerator[str]:
    content = b"x" * 1_390_000
    head = request(
        "POST",
        f"/v1/topics/{attacker.known.own_topic}/half",
        (
            ("Half-Token", BANK),
            ("Half-Producer-Group", "bank"),
            ("Content-Length", str(len(content))),
        ),
    )
    while True:
        client = await attacker.dial(attacker.http_port)
        try:
            await client.send(head + content[:-1])
        except OSError:
            pass  # it was refused before all was sent
        yield await heard(client)


@row("exhaust: connections that say nothing", "HTTP", SILENT, also=(CLOSED,))
async def silent_connections(attacker: Attacker) -> AsyncGenerator[str]:
    """The oldest of them make room."""
    for address in itertools.cycle(ADDRESSES):
        yield await heard(await attacker.dial(attacker.http_port, address), 0.001)


@row("exhaust: requests without an end", "HTTP", SILENT, also=(CLOSED,))
async def half_sent(attacker: Attacker) -> AsyncGenerator[str]:
    for address in itertools.cycle(ADDRESSES):
        client = await attacker.dial(attacker.http_port, address)
        await client.send(b"POST /v1/transactions HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 999)
        yield await heard(client, 0.001)


@row(
    "exhaust: connections with its token", "HTTP", "200", "503 too_many_connections", also=(CLOSED,)
)
async def proven_connections(attacker: Attacker) -> AsyncGenerator[str]:
    for address in itertools.cycle(ADDRESSES):
        client = await attacker.dial(attacker.http_port, address)
        await client.send(request("GET", "/v1/openapi.yaml", (("Half-Token", BANK),)))
        yield await heard(client, 5)


@row("exhaust: check streams", "HTTP", "200", "503 too_many_connections", also=(CLOSED,))
async def streams(attacker: Attacker) -> AsyncGenerator[str]:
    for number in itertools.count():
        client = await attacker.dial(attacker.http_port)
        named = (("Half-Token", BANK), ("Half-Producer-Name", "bank-1"))
        path = f"/v1/checks?producer_group=bank-{number}"
        await client.send(request("GET", path, named))
        line = b""
        with contextlib.suppress(ConnectionError):  # closed with the request unread: a reset
            async with asyncio.timeout(5):
                line = await client.reader.readline()
        status = line.split(b" ")[1].decode() if line else CLOSED
        yield "503 too_many_connections" if status == "503" else status


@row("exhaust: connections that say nothing", "RocketMQ", SILENT, also=(CLOSED,))
async def silent_remoting(attacker: Attacker) -> AsyncGenerator[str]:
    for address in itertools.cycle(ADDRESSES):
        client = await attacker.dial(attacker.rocketmq_port, address)
        try:
            async with asyncio.timeout(_MOMENT_S):
                yield CLOSED if await client.reader.read(1) == b"" else "an answer"
        except TimeoutError:
            yield SILENT
        except OSError:
            yield CLOSED


@row("exhaust: connections with its key", "RocketMQ", "SUCCESS", "SYSTEM_BUSY", also=(CLOSED,))
async def proven_remoting(attacker: Attacker) -> AsyncGenerator[str]:
    for address in itertools.cycle(ADDRESSES):
        try:
            client = await attacker.remoting(local=address)
            yield word((await client.heartbeat("bank")).code)
        except OSError:
            yield CLOSED


@row("exhaust: places of producers", "RocketMQ", "SUCCESS", "SYSTEM_BUSY")
async def places(attacker: Attacker) -> AsyncGenerator[str]:
    client = await attacker.remoting()
    for number in itertools.count():
        groups = [f"bank-{number}-{n}" for n in range(30)]
        yield word((await client.heartbeat(*groups)).code)


@row("exhaust: frames that are never sent to their end", "RocketMQ", SENT, also=(CLOSED,))
async def unfinished_frames(attacker: Attacker) -> AsyncGenerator[str]:
    begun = _FRAME_BYTES.to_bytes(4, "big") + b"\0\0\0\xff" + b"{" * 300_000
    while True:
        client = await attacker.dial(attacker.rocketmq_port)
        try:
            await client.send(begun)
            yield SENT
        except OSError:
            yield CLOSED


@row("exhaust: large messages", "RocketMQ", "SUCCESS", also=("SYSTEM_BUSY",))
async def large_messages(attacker: Attacker) -> AsyncGenerator[str]:
    """One after the other; it rolls them back."""
    content = b"x" * 100_000
    client = await attacker.remoting(is_kept=True)
    while True:
        sent = await client.half(
            "bank", attacker.known.own_topic, content, unique=attacker.name("L")
        )
        if sent.code == 0:
            client.end("bank", sent, 12)
        yield word(sent.code)


@row("exhaust: requests of all kinds", "admin", "204", "401 unauthorized", "403 forbidden")
async def admin_flood(attacker: Attacker) -> AsyncGenerator[str]:
    while True:
        yield await attacker.ask("GET", "/livez", admin=True)
        yield await attacker.ask("GET", "/v1/partitions", admin=True)
        yield await attacker.ask("GET", "/v1/transactions", admin=True, token="x" * 40)


@row(
    "exhaust: long names",
    "HTTP",
    "400 invalid_request",
    "403 forbidden",
    "431 headers_too_large",
    also=(CLOSED,),
)
async def long_names(attacker: Attacker) -> AsyncGenerator[str]:
    known = attacker.known
    while True:
        name = attacker.name("n") + "n" * 60_000
        yield (await attacker.prepare(group=name))[0]
        yield (await attacker.prepare(transaction_id=name))[0]
        yield await attacker.ask("GET", f"/v1/transactions/{known.handle}/{name}")


@row("exhaust: long names", "RocketMQ", "NO_PERMISSION", "MESSAGE_ILLEGAL")
async def long_names_remoting(attacker: Attacker) -> AsyncGenerator[str]:
    client = await attacker.remoting()
    while True:
        name = attacker.name("n") + "n" * 60_000
        yield word((await client.heartbeat(name)).code)
        yield word((await client.half(name, attacker.known.own_topic, b"x")).code)
        yield word((await client.route(name))[0])


@row("exhaust: the log, with wrong tokens", "HTTP", "401 unauthorized")
async def wrong_tokens(attacker: Attacker) -> AsyncGenerator[str]:
    for number in itertools.count():
        client = await attacker.dial(attacker.http_port)
        await client.send(
            json_post("/v1/transactions", {}, ("Half-Token", f"token number {number:020}"))
        )
        yield await heard(client, 5)
        await client.close()


ATTACKS = (
    undecided_of_a_group,
    bodies,
    silent_connections,
    half_sent,
    proven_connections,
    streams,
    silent_remoting,
    proven_remoting,
    places,
    unfinished_frames,
    large_messages,
    admin_flood,
    long_names,
    long_names_remoting,
    wrong_tokens,
)
