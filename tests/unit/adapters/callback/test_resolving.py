"""Names are looked up, and their addresses judged."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pytest

from halfhitch.service.checking.api import CheckOutcome
from harness.callback_world import SHORT_S, World
from harness.raw_http import until

if TYPE_CHECKING:
    pass


async def test_a_name_is_looked_up_once_and_its_checked_address_called(world: World) -> None:
    """A second look-up could give another address than the one that was checked (rebinding)."""
    asked_for: list[tuple[str, int]] = []

    def resolve(host: str, port: int) -> list[str]:
        asked_for.append((host, port))
        return ["127.0.0.1"] if len(asked_for) == 1 else ["169.254.169.254"]

    await world.start(url="http://app.invalid:0/x", resolve=resolve)
    for _ in range(3):
        assert await world.ask() is CheckOutcome.COMMIT
    assert asked_for == [("app.invalid", world.server.port)]
    assert ("Host", f"app.invalid:{world.server.port}") in world.server.asked[0].headers


@pytest.mark.parametrize(
    "addresses",
    [
        ["10.0.0.1"],
        ["127.0.0.1", "10.0.0.1"],
        ["127.0.0.1", "169.254.169.254"],
        ["127.0.0.1", "::ffff:169.254.169.254"],
        ["fe80::1%lo"],
        ["not an address"],
        [],
    ],
)
async def test_a_name_with_one_bad_address_is_not_called_at_all(
    world: World, addresses: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    await world.start(url="http://app.invalid:0/x", resolve=lambda *_: addresses)
    assert await world.ask() is CheckOutcome.UNDELIVERED
    assert world.server.connection_count == 0
    assert "gave no answer" in caplog.text


async def test_each_address_is_tried(world: World) -> None:
    addresses = ["127.0.0.2", "127.0.0.1"]  # nobody listens on the first
    await world.start(url="http://app.invalid:0/x", resolve=lambda *_: addresses)
    assert await world.ask() is CheckOutcome.COMMIT


@pytest.mark.parametrize("error", [socket.gaierror(-2, "unknown"), UnicodeError("label too long")])
async def test_a_name_that_cannot_be_looked_up_is_not_delivered(
    world: World, error: Exception
) -> None:
    def resolve(host: str, port: int) -> list[str]:
        raise error

    await world.start(url="http://app.invalid:0/x", resolve=resolve)
    for _ in range(2):
        assert await world.ask() is CheckOutcome.UNDELIVERED


async def test_a_slow_look_up_is_not_delivered_and_serves_those_after_it(world: World) -> None:
    asked_count = 0
    is_free = False

    def resolve(host: str, port: int) -> list[str]:
        nonlocal asked_count
        asked_count += 1
        while not is_free:
            time.sleep(0.005)
        return ["127.0.0.1"]

    await world.start(url="http://app.invalid:0/x", resolve=resolve, answer_s=SHORT_S)
    try:
        assert [await world.ask() for _ in range(2)] == [CheckOutcome.UNDELIVERED] * 2
    finally:
        is_free = True
    await until(lambda: world.links._client._resolver._kept)
    assert await world.ask() is CheckOutcome.COMMIT
    assert asked_count == 1


async def test_the_name_localhost_is_looked_up_by_the_system(world: World) -> None:
    await world.start(url="http://localhost:0/x")
    assert await world.ask() is CheckOutcome.COMMIT


async def test_a_name_is_looked_up_again_after_a_while(world: World) -> None:
    found = [["127.0.0.1"], ["10.0.0.1"]]
    await world.start(url="http://app.invalid:0/x", resolve=lambda *_: found.pop(0))
    world.server.closes = True
    assert await world.ask() is CheckOutcome.COMMIT
    world.links._client._resolver._kept_until_s = 0
    assert await world.ask() is CheckOutcome.UNDELIVERED
