"""The data door on an engine, by both ways: interpreted, and over sockets that are lent."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from halfhitch.composition.native import http_way
from halfhitch.doors.http import HttpDoor
from harness.defaults import http_limits
from harness.engines import GROUP, Site, until
from harness.identities import access_with
from harness.native import native
from harness.raw_http import Answer, Client, request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Served:
    """A door, and what it has counted."""

    def __init__(self, engine: Any, door: HttpDoor, lending: Any, path: str | None) -> None:
        self.engine, self.door, self.lending, self.path = engine, door, lending, path
        self.native_count = 0
        self.clients: list[Client] = []
        self.answers: list[tuple[str, int]] = []

    def count(self, route: str, status: int, elapsed_s: Any) -> None:
        count = len(elapsed_s) if isinstance(elapsed_s, list) else 1
        self.native_count += count if isinstance(elapsed_s, list) else 0
        self.answers += [(route, status)] * count

    async def client(self) -> Client:
        if self.path is not None:
            client = await Client.unix(self.path)
        else:
            assert self.door.port is not None
            client = await Client.tcp(self.door.port)
        self.clients.append(client)
        return client

    async def lent(self, site: Site) -> Client:
        """A client whose requests go the native way from now on, where there is one."""
        client = await self.client()

        async def is_lent() -> bool:
            # Nothing is lent before the door has looked what it may lend.
            made = await client.ask(half(site.orders, b"first"))
            assert made.status == 201, made
            assert (await client.ask(end(made, "rollback"))).status == 200
            return self.lending is None or bool(self.lending._loans)

        await until(is_lent, "it to be lent")
        return client


@asynccontextmanager
async def served(
    site: Site, way: str, path: str | None = None, **options: Any
) -> AsyncIterator[Served]:
    limits = http_limits(**{"unended_s": 60.0, **options.pop("limits", {})})
    async with site.engine(**options) as engine:
        found: list[Served] = []

        def count(route: str, status: int, elapsed_s: Any, *_: Any) -> None:
            found[0].count(route, status, elapsed_s)

        make = partial(native.HttpNative) if way == "native" else None
        lending = http_way(engine, site.observer, count, limits, make, transaction_bytes_max=2**26)
        door = HttpDoor(
            engine.transactions, checks=engine.desk, port=0, unix_path=path, limits=limits,
            host=None if path else "127.0.0.1", access=access_with(), on_request=count,
            lending=lending,
        )  # fmt: skip
        found.append(Served(engine, door, lending, path))
        await door.start()
        try:
            yield found[0]
        finally:
            for client in found[0].clients:
                await client.close()
            await door.stop(drain_s=0.3)


def half(topic: str, body: bytes, *headers: tuple[str, str]) -> bytes:
    named = (("Half-Producer-Group", GROUP), *headers)
    return request("POST", f"/v1/topics/{topic}/half", named, body)


def name_and_handle(made: Answer) -> tuple[str, str]:
    name, handle = made.header("half-transaction-id"), made.header("half-handle")
    if name is None or handle is None:
        answer = made.json()
        assert list(answer) == ["transaction_id", "handle", "state"]
        assert answer["state"] == "pending"
        return answer["transaction_id"], answer["handle"]
    return name, handle


def end(made: Answer, how: str) -> bytes:
    return request("POST", f"/v1/transactions/{name_and_handle(made)[1]}/{how}")
