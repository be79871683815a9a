"""What is under way: bounded in number and bytes, and no identity has more than half of either."""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.doors.rocketmq import flight as flight_module
from halfhitch.doors.rocketmq.flight import Flight, Job, bytes_of
from halfhitch.doors.rocketmq.stats import Stats
from halfhitch.errors import Overloaded
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.frame import Frames, encode, request
from halfhitch.wire.remoting.requests import Form
from harness.defaults import rocketmq_limits
from harness.identities import access
from harness.remoting_client import DEADLINE_S, Sent

if TYPE_CHECKING:
    from conftest import Stage

SECRETS = {"shop-key": "shop-secret", "bank-key": "bank-secret"}
COMPRESSED, TRANSACTION = 1, 4


async def nothing() -> bytes:
    return b""


def job(name: str | None, held_bytes: int = 0, *, asks_kafka: bool = False) -> Job:
    made = Job(nothing(), name, held_bytes, asks_kafka=asks_kafka)
    made.work.close()
    return made


def flight(count_max: int = 100, bytes_max: int = 1_000) -> tuple[Flight, Stats]:
    stats = Stats()
    return Flight(stats, rocketmq_limits(in_flight_count_max=count_max), bytes_max), stats


def test_an_identity_has_half_in_number_and_in_bytes_and_the_others_theirs() -> None:
    under_way, stats = flight(count_max=4)
    few, large = [job("few") for _ in range(2)], job("large", 500)
    for one in (*few, large):
        under_way.begun(one)
    for name in ("few", "large"):
        with pytest.raises(Overloaded, match=f"identity '{name}' has .* its half"):
            under_way.refuse_when_full(name)
    under_way.refuse_when_full("others")
    under_way.refuse_when_full(None)
    assert stats.busy_answers == {"identity": 2}
    for one in (*few, large):
        under_way.done(one)
    under_way.refuse_when_full("few")
    assert not under_way._of
    assert stats.in_flight_bytes == 0


def test_all_together_are_bounded_where_nobody_is_told_apart() -> None:
    under_way, stats = flight(count_max=4)
    large = job(None, 1_000)
    under_way.begun(large)
    with pytest.raises(Overloaded, match="hold 1000 bytes; try again"):
        under_way.refuse_when_full(None)
    under_way.done(large)
    stats.in_flight_count = 4
    with pytest.raises(Overloaded, match="4 requests are under way; try again"):
        under_way.refuse_when_full(None)
    assert stats.busy_answers == {"bytes": 1, "requests": 1}


def test_who_sends_far_too_many_ends_is_not_read_and_others_are() -> None:
    under_way, stats = flight(count_max=4)
    for name in ("ends",) * 4:
        under_way.begun(job(name))
        stats.in_flight_count += 1
    assert under_way.is_past("ends")
    assert not under_way.is_past("others")
    assert not under_way.is_past(None)
    stats.in_flight_count = 8  # twice what messages may be
    assert under_way.is_past("others")
    assert under_way.is_past(None)


def test_a_frame_counts_with_its_fields_in_either_form() -> None:
    fields, body = {"name": "value" * 100}, b"body"
    for form in (Form.BINARY, Form.JSON):
        (frame,) = Frames().feed(encode(request(1, 1, fields, body, form=form, remark="why")))
        assert 504 + 4 <= bytes_of(frame) <= 504 + 4 + 20


class Held:
    """A door whose service does nothing until it is let go."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.go_on = asyncio.Event()
        self._prepare = stage.it.service.prepare
        stage.it.service.prepare = self._waits  # type: ignore[method-assign]

    async def open(self, **limits: Any) -> None:
        self.stage.kafka.create_topic("payments", 3)
        options = {"access_secrets": SECRETS, "access": access(), "limits": limits}
        self.door = await self.stage.open(**options)
        self.shop, self.bank = [
            await self.stage.client(self.door, access_key=key, secret_key=SECRETS[key])
            for key in ("shop-key", "bank-key")
        ]
        for client in (self.shop, self.bank):  # else their topics are to be asked for first
            for topic in ("orders", "payments"):
                await client.route(topic)

    async def _waits(self, **options: Any) -> Any:
        await self.go_on.wait()
        return await self._prepare(**options)

    def begin(self, count: int, body: bytes, **fields: str) -> list[asyncio.Task[Sent]]:
        """Messages of team shop."""
        loop = asyncio.get_running_loop()
        halves = [
            self.shop.half("shop", "orders", body, unique=f"U{n}", **fields) for n in range(count)
        ]
        return [loop.create_task(half) for half in halves]

    async def until_under_way(self, count: int) -> None:
        await self.stage.until(
            lambda: self.door.snapshot().in_flight_count == count, f"{count} under way"
        )


async def test_one_team_with_much_under_way_leaves_room_for_another(stage: Stage) -> None:
    """Ten thousand messages of a megabyte each were taken, of whoever came first."""
    held = Held(stage)
    await held.open(in_flight_bytes_max=100_000)
    begun = held.begin(6, bytes(9_000))
    await held.until_under_way(6)
    assert held.door.snapshot().in_flight_bytes > 54_000
    refused = await held.shop.half("shop", "orders", b"x", unique="U9")
    assert refused.code == codes.SYSTEM_BUSY
    assert refused.remark is not None
    assert refused.remark.startswith("[OVERLOAD] overloaded: identity 'shop' has 6 requests of ")
    theirs = asyncio.create_task(held.bank.half("bank", "payments", b"x", unique="U1"))
    await held.until_under_way(7)
    held.go_on.set()
    assert [(await one).code for one in (*begun, theirs)] == [0] * 7
    assert held.door.snapshot().in_flight_bytes == 0
    assert held.door.snapshot().busy_answers == {"identity": 1}
    assert (await held.shop.half("shop", "orders", b"x", unique="U9")).code == 0


async def test_what_was_compressed_counts_as_it_is_held(stage: Stage) -> None:
    held = Held(stage)
    await held.open(in_flight_bytes_max=16_000)
    (begun,) = held.begin(1, zlib.compress(bytes(9_000)), f=str(COMPRESSED | TRANSACTION))
    await held.until_under_way(1)
    refused = await held.shop.half("shop", "orders", b"x", unique="U9")
    assert refused.code == codes.SYSTEM_BUSY
    held.go_on.set()
    assert (await begun).code == 0


async def test_ends_are_never_refused_and_too_many_of_them_are_not_read(stage: Stage) -> None:
    held = Held(stage)
    held.go_on.set()
    await held.open(in_flight_count_max=4)
    (begun,) = held.begin(1, b"x")
    sent = await begun
    ends, prompt = asyncio.Event(), stage.it.service.end_named

    async def slow(*known: Any, **options: Any) -> Any:
        await ends.wait()
        return await prompt(*known, **options)

    stage.it.service.end_named = slow  # type: ignore[method-assign]
    for _ in range(40):
        held.shop.end("shop", sent, 8)
        await held.shop._writer.drain()
    shops = [one for one in held.door._load.connections if one._name == "shop"]  # type: ignore[attr-defined]
    await stage.until(lambda: any(one._is_reading_paused for one in shops), "no more to be read")
    ends.set()
    await stage.until(lambda: not any(one._is_reading_paused for one in shops), "to be read again")
    assert (await held.shop.end_sync("shop", sent, 8)).code == 0
    assert held.door.snapshot().requests["end_transaction", codes.SUCCESS] == 41


async def test_one_team_that_asks_kafka_all_the_time_leaves_threads_for_another(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its route requests for topics that nobody knows waited in every thread there was."""
    monkeypatch.setattr(flight_module, "_POOL_THREADS", 4)
    held = Held(stage)
    await held.open()
    asking, go_on = [], asyncio.Event()
    directory = held.door._dispatcher._routes._topics

    async def slow(topic: str) -> int:
        asking.append(topic)
        await go_on.wait()
        return 1

    monkeypatch.setattr(directory, "is_known", lambda _: False)
    monkeypatch.setattr(directory, "known_count", lambda _: None)
    monkeypatch.setattr(directory, "count", slow)
    many = [asyncio.create_task(held.shop.route("orders")) for _ in range(10)]
    await held.until_under_way(10)
    other = asyncio.create_task(held.bank.route("payments"))
    await held.until_under_way(11)
    await stage.until(lambda: len(asking) == 3, "the other team's to be asked")
    assert asking == ["orders", "orders", "payments"]
    go_on.set()
    assert [(await asyncio.wait_for(one, DEADLINE_S))[0] for one in (*many, other)] == [0] * 11
