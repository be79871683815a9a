"""An identity asks too often: what is refused at the RocketMQ door, and what never is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.access import Access
from halfhitch.doors.rocketmq import dispatch
from halfhitch.wire.remoting import codes, ending
from harness.identities import everybody

if TYPE_CHECKING:
    from conftest import Stage

SECRETS = {"shop-key": "shop-secret", "bank-key": "bank-secret"}


@pytest.fixture(autouse=True)
def _one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it happens within a second, however slow the machine is."""
    for module in (dispatch,):
        monkeypatch.setattr(module, "perf_counter", lambda: 5.0)


async def opened(stage: Stage, requests_s_max: int = 1) -> Any:
    access = Access(identities=everybody(), requests_s_max=requests_s_max)
    return await stage.open(access_secrets=SECRETS, access=access)


async def client_of(stage: Stage, door: Any, team: str = "shop") -> Any:
    key = f"{team}-key"
    return await stage.client(door, access_key=key, secret_key=SECRETS[key])


async def test_messages_and_questions_are_told_that_it_is_busy(stage: Stage) -> None:
    door = await opened(stage)
    client = await client_of(stage, door)
    assert (await client.half("shop", "orders", b"x", unique="U1")).code == codes.SUCCESS
    for put in (client.half, client.put):
        sent = await put("shop", "orders", b"y", unique="U2")
        assert sent.code == codes.SYSTEM_BUSY
        assert sent.remark.startswith("[OVERLOAD] too_many_requests: identity 'shop'")
    code, _ = await client.route("orders")
    assert code == codes.SYSTEM_BUSY
    again = await client_of(stage, door)
    assert (await again.put("shop", "orders", b"z", unique="U3")).code == codes.SYSTEM_BUSY
    bank = await client_of(stage, door, "bank")
    stage.kafka.create_topic("payments", 4)
    assert (await bank.put("bank", "payments", b"z", unique="U4")).code == codes.SUCCESS
    assert len(stage.stored("orders")) == 0


@pytest.mark.parametrize("decision", [ending.COMMIT, ending.ROLLBACK])
async def test_ends_and_heartbeats_are_never_refused(stage: Stage, decision: int) -> None:
    client = await client_of(stage, await opened(stage))
    sent = await client.half("shop", "orders", b"x", unique="U1")
    assert (await client.put("shop", "orders", b"y", unique="U2")).code == codes.SYSTEM_BUSY
    for _ in range(5):
        assert (await client.heartbeat("shop")).code == codes.SUCCESS
        ended = await client.end_sync("shop", sent, decision)
        assert ended.code == codes.SUCCESS, ended.remark
    assert (await client.unregister("shop")).code == codes.SUCCESS


async def test_of_who_does_not_wait_nothing_is_read_for_a_while(stage: Stage) -> None:
    """Its ends wait with it, a second at most, and are carried out."""
    client = await client_of(stage, await opened(stage, 10))
    sent = await client.half("shop", "orders", b"x", unique="U1")
    put = [await client.put("shop", "orders", b"y", unique=f"V{n}") for n in range(9 + 10)]
    assert [each.code for each in put] == [codes.SUCCESS] * 9 + [codes.SYSTEM_BUSY] * 10
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for number in range(4):
        busy = await client.put("shop", "orders", b"z", unique=f"W{number}")
        assert busy.code == codes.SYSTEM_BUSY
    assert (await client.end_sync("shop", sent, ending.COMMIT)).code == codes.SUCCESS
    assert loop.time() - began_s > 0.9, "0.1, 0.2, 0.3 and 0.4 s"
