"""Checks by callback, against servers that answer well, badly, or not at all."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters.callback import links as links_module
from halfhitch.core.model import Resolution
from halfhitch.errors import (
    ContraryDecision,
    InvalidHandle,
    KafkaUnavailable,
    OutcomeUnknown,
    TransactionGone,
    TransactionParked,
)
from halfhitch.service.checking.api import CheckOutcome
from halfhitch.wire.check import encode
from harness.callback_server import Asked, ok
from harness.callback_world import CHUNKED, COMMIT, SHORT_S, World
from harness.fake_desk import a_check
from harness.raw_http import until

if TYPE_CHECKING:
    pass


# -- a good server -------------------------------------------------------------------------------


async def test_a_check_is_one_post_with_fixed_headers(world: World) -> None:
    await world.start(token="s3cret")
    check = a_check(3)
    assert await world.ask(check) is CheckOutcome.COMMIT
    (asked,) = world.server.asked
    assert asked.target == "/checks?of=me"
    assert asked.body == encode(check)
    assert asked.check["check_number"] == 3
    assert [(name, value) for name, value in asked.headers if name.lower() != "content-length"] == [
        ("Host", f"127.0.0.1:{world.server.port}"),
        ("User-Agent", "halfhitch"),
        ("Accept", "application/json"),
        ("Content-Type", "application/json"),
        ("Half-Token", "s3cret"),
    ]


async def test_without_a_token_none_is_sent(world: World) -> None:
    await world.start()
    await world.ask()
    assert "half-token" not in {name.lower() for name, _ in world.server.asked[0].headers}


@pytest.mark.parametrize(
    ("state", "ended"),
    [
        ("COMMIT", [("h.order-1", Resolution.COMMIT)]),
        ("ROLLBACK", [("h.order-1", Resolution.ROLLBACK)]),
        ("UNKNOWN", []),
    ],
)
async def test_each_answer_is_carried_out_and_settled(
    world: World, state: str, ended: list[tuple[str, Resolution]]
) -> None:
    await world.start()
    world.server.answer = ok({"state": state, "transaction_id": "order-1"})
    assert await world.ask() is CheckOutcome[state]
    assert world.ended == ended


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (KafkaUnavailable("Try again."), CheckOutcome.NO_ANSWER),
        (OutcomeUnknown("Perhaps."), CheckOutcome.NO_ANSWER),
        (
            ContraryDecision("No.", decided="rolled_back", requested="committed"),
            CheckOutcome.DECIDED,
        ),
        (TransactionGone("Long ago."), CheckOutcome.DECIDED),
        (TransactionParked("Look."), CheckOutcome.DECIDED),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_decision_that_cannot_be_stored_is_no_answer(
    world: World, error: Exception, outcome: CheckOutcome
) -> None:
    await world.start()
    world.end_fails = error
    assert await world.ask() is outcome


@pytest.mark.parametrize("error", [InvalidHandle("What?"), RuntimeError("a bug")])
async def test_a_bug_does_not_leave_the_desk_waiting(
    world: World, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    await world.start()
    world.end_fails = error
    assert await world.ask() is CheckOutcome.NO_ANSWER
    assert "asking by callback failed" in caplog.text


async def test_large_checks_arrive_whole(world: World) -> None:
    await world.start()
    check = a_check(value=b"\xff" * 3_000_000)
    assert await world.ask(check) is CheckOutcome.COMMIT
    assert world.server.asked[0].body == encode(check)


# -- answers that are none -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        ok({"state": "COMMIT"}, status=b"404 Not Found"),
        ok({"state": "COMMIT"}, status=b"500 Internal Server Error"),
        ok({"state": "COMMIT"}, status=b"202 Accepted"),
        ok({"state": "COMMIT", "transaction_id": "order-2"}),
        ok({"state": "commit"}),
        ok(b'{"state":"COMMIT","state":"ROLLBACK"}'),
        ok(b"garbage"),
        ok(b""),
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n" + COMMIT,
        b"garbage that is no HTTP at all\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 999999999999 OK\r\n\r\n",
        COMMIT + ok({"state": "ROLLBACK"}),
        COMMIT + b"\x00trailing garbage",
        b'HTTP/1.1 200 OK\r\nContent-Length: 18\r\nContent-Length: 5\r\n\r\n{"state":"COMMIT"}',
        b'HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{"state":"COMMIT"}',
        b"HTTP/1.1 200 OK\r\nContent-Length: 18\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        CHUNKED + b'zz\r\n{"state":"COMMIT"}\r\n0\r\n\r\n',
        b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"state":"COMMIT"}',
        CHUNKED + b'12\r\n{"state":"COMMIT"}\r\n',
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
    ids=lambda answer: repr(answer[:70]),
)
async def test_a_bad_answer_decides_nothing_and_counts(world: World, answer: bytes) -> None:
    world.server.closes = True
    world.server.answer = answer
    await world.start()
    assert await world.ask() is CheckOutcome.NO_ANSWER
    assert world.desk.reasons[-1]
    assert world.ended == []
    # And nothing of it is left for the next.
    world.server.answer = COMMIT
    assert await world.ask() is CheckOutcome.COMMIT


async def test_why_there_is_no_decision_is_handed_on(world: World) -> None:
    world.server.answer = ok({"state": "UNKNOWN", "reason": "RuntimeError: db down"})
    await world.start()
    assert await world.ask() is CheckOutcome.UNKNOWN
    world.server.answer = ok({"state": "COMMIT"}, status=b"500 Oh")
    assert await world.ask() is CheckOutcome.NO_ANSWER
    assert world.desk.reasons == ["RuntimeError: db down", "status 500 instead of 200"]


async def test_a_server_that_says_nothing_is_silent(world: World) -> None:
    async def answer(_: Asked, __: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    world.server.answer = answer
    await world.start(answer_s=SHORT_S)
    assert await world.ask() is CheckOutcome.SILENT


async def test_what_is_wrong_is_logged_once_in_a_while_and_without_the_body(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.server.answer = ok({"state": "no-such-s3cret"})
    await world.start()
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            await world.ask()
    (record,) = caplog.records
    assert "a state other than COMMIT" in record.getMessage()
    assert "no-such-s3cret" not in caplog.text
    assert "of=me" not in caplog.text


# -- links and groups ----------------------------------------------------------------------------


async def test_a_group_is_live_once_it_has_been_heard_of(world: World) -> None:
    await world.start(groups=["orders", "shop-*"])
    for group in ("orders", "orders", "shop-1", "orders-2", "ORDERS", "shop-1"):
        world.links.notice(group)
    assert [link.producer_group for link in world.desk.links] == ["orders", "shop-1"]
    assert world.links.for_group("orders") is world.desk.links[0]
    assert world.links.for_group("billing") is None
    assert world.desk.links[0].name == f"callback http://127.0.0.1:{world.server.port}/checks"


async def test_groups_are_bounded_and_come_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links_module, "GROUPS_MAX", 3)
    await world.start()
    first = world.links.for_group("g")
    assert first is not None
    first.in_flight_count = 1  # a check is on its way
    for number in range(100):
        world.links.notice(f"made-up-{number}")
    assert len(world.links._links) == len(world.desk.links) == 3
    assert world.links.for_group("g") is first
    first.in_flight_count = 0
    world.links.notice("one-more")
    assert first not in world.desk.links
    assert not first.offer(a_check())
    again = world.links.for_group("g")
    assert again is not first
    assert again in world.desk.links


async def test_a_group_that_hangs_takes_its_own_places_only(world: World) -> None:
    hanging = asyncio.Event()

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.check["transaction_id"].startswith("hung"):
            await hanging.wait()
        writer.write(COMMIT)

    world.server.answer = answer
    await world.start()
    link = world.links.for_group("hung")
    assert link is not None
    taken_count = sum(link.offer(a_check(transaction_id=f"hung-{n}")) for n in range(500))
    assert taken_count == 64
    assert await world.ask() is CheckOutcome.COMMIT  # another group
    assert not link.offer(a_check())
    hanging.set()
    await until(lambda: len(world.desk.settled) == 65)
    assert link.in_flight_count == 0
    assert link.offer(a_check())
    assert len(world.links._client._idle) <= 64


async def test_a_place_is_free_when_the_desk_hears_of_the_answer(world: World) -> None:
    """It then offers the next check at once, from within settle."""
    await world.start()
    link = world.links.for_group("g")
    assert link is not None
    seen: list[int] = []
    settle = world.desk.settle

    def settled(*arguments: Any) -> bool:
        seen.append(link.in_flight_count)
        return settle(*arguments)

    world.desk.settle = settled  # type: ignore[method-assign]
    await world.ask()
    assert seen == [0]


async def test_stopping_gives_up_what_is_under_way_and_takes_nothing_more(world: World) -> None:
    async def answer(_: Asked, __: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    world.server.answer = answer
    await world.start()
    link = world.links.for_group("g")
    assert link is not None
    assert link.offer(a_check())
    await until(lambda: world.server.asked)
    async with asyncio.timeout(5):
        await world.links.stop()
    assert world.desk.links == []
    assert world.desk.disconnected_count == world.desk.connected_count == 1
    assert world.desk.settled == []  # disconnecting has told the desk
    assert not link.offer(a_check())
    world.links.notice("late")
    assert world.desk.links == []
    await world.links.stop()  # twice is harmless
