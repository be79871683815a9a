"""An operator asks too often: lists are refused, decisions and probes never."""

from __future__ import annotations

import pytest

from halfhitch.access import Access
from halfhitch.doors.admin import AdminDoor
from halfhitch.doors.http import protocol
from halfhitch.observability.metrics import Metrics
from harness.admin_door import QuietSystem
from harness.fake_operations import FakeOperations
from harness.identities import KEEPER, WATCHER, everybody
from harness.raw_http import Client, json_post, request

BY_KEEPER = ("Half-Token", KEEPER)


async def test_what_only_asks_is_refused_and_what_decides_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol, "perf_counter", lambda: 5.0)
    access = Access(identities=everybody(), requests_s_max=20)
    door = AdminDoor(
        QuietSystem(), Metrics(), (), "127.0.0.1", 0, access=access, operations=FakeOperations()
    )
    await door.start()
    client = await Client.tcp(door.port)
    try:
        for _ in range(20):
            assert (await client.ask(request("GET", "/v1/transactions", [BY_KEEPER]))).status == 200
        why = {"reason": "paid"}
        for path in ("/v1/transactions", "/v1/parked", "/v1/status"):
            answer = await client.ask(request("GET", path, [BY_KEEPER]))
            assert (answer.status, answer.code) == (429, "too_many_requests")
            assert answer.header("retry-after") in ("1", "2")
        for path in ("/v1/transactions/shop/T/check", "/v1/parked/shop/T/resume"):
            assert (await client.ask(json_post(path, why, BY_KEEPER))).status == 429
        for name in ("commit", "rollback"):
            path = f"/v1/transactions/shop/T/{name}"
            for _ in range(3):
                assert (await client.ask(json_post(path, why, BY_KEEPER))).status == 200
        for path in ("/livez", "/readyz"):
            assert (await client.ask(request("GET", path))).status == 204
        assert (
            await client.ask(request("GET", "/metrics", [("Half-Token", WATCHER)]))
        ).status == 200
    finally:
        await client.close()
        await door.stop()
