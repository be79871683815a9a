"""Admin doors over a scripted system, and what is asked of them."""

import asyncio
import http.client
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from halfhitch.doors.admin import AdminDoor
from halfhitch.observability.metrics import Metrics
from halfhitch.service.api import PartitionPhase, PartitionState
from harness.identities import access_with

TOKEN, NEXT_TOKEN = "t" * 16, "n" * 16
SETTINGS = [{"key": "http.port", "value": 8340, "source": "default", "description": "Port."}]


class FakeSystem:
    """What the engine would say."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.trouble: Exception | None = None

    def degraded_reasons(self) -> list[str]:
        return []

    def unready_reasons(self) -> list[str]:
        if self.trouble is not None:
            raise self.trouble
        return self.reasons

    def partitions(self) -> list[PartitionState]:
        if self.trouble is not None:
            raise self.trouble
        return [PartitionState(2, PartitionPhase.WORKING, 1, 0, 0, 5, 10, 12, 20, 25, None)]

    def producers(self) -> list[Any]:
        return []

    def info(self) -> dict[str, str | int | float | bool | None]:
        return {"version": "1", "instance": "shop-1", "uptime_s": 1.5, "cluster_id": None}


Answer = tuple[int, dict[str, str], bytes]
Ask = Callable[..., Any]


@asynccontextmanager
async def opened(
    system: FakeSystem,
    *,
    tokens: Sequence[str] = (),
    host: str = "127.0.0.1",
    allowed_hosts: Sequence[str] = (),
    death_reasons: Callable[[], list[str]] = list,
) -> AsyncIterator[Ask]:
    door = AdminDoor(
        system, Metrics(), SETTINGS, host, 0,
        access=access_with(*tokens), allowed_hosts=allowed_hosts, death_reasons=death_reasons,
    )  # fmt: skip
    await door.start()

    def ask(path: str, method: str, headers: list[tuple[str, str]]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=10)
        try:
            connection.putrequest(method, path, skip_host=any(n == "Host" for n, _ in headers))
            for name, value in headers:
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return response.status, names, response.read()
        finally:
            connection.close()

    async def asked(
        path: str, method: str = "GET", *pairs: tuple[str, str], **headers: str
    ) -> Answer:
        named = [(name.replace("_", "-"), value) for name, value in headers.items()]
        return await asyncio.to_thread(ask, path, method, [*named, *pairs])

    try:
        yield asked
    finally:
        await door.stop()
