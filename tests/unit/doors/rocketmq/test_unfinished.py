"""Unfinished frames: strangers never take all the room, nor cost anybody else a connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from halfhitch.doors.rocketmq.unfinished import Taker, Unfinished
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.frame import encode, request
from halfhitch.wire.remoting.requests import Form
from harness.identities import access
from harness.remoting_client import DEADLINE_S

if TYPE_CHECKING:
    from conftest import Stage

SECRETS = {"shop-key": "shop-secret", "bank-key": "bank-secret"}
SHOP, BANK = Taker(is_stranger=False, name="shop"), Taker(is_stranger=False, name="bank")
NEAR, FAR = (Taker(is_stranger=True, name=name) for name in ("10.0.0.1", "10.0.0.2"))


class Cut:
    """A connection that may be cut off."""

    def __init__(self, room: Unfinished, taker: Taker, held_bytes: int) -> None:
        self.reason: str | None = None
        self._room, self._taker = room, taker
        self.grow(held_bytes)

    def grow(self, held_bytes: int) -> None:
        self._room.hold(self, self._taker, held_bytes)

    def cut_off(self, reason: str) -> None:
        self.reason = reason


def test_strangers_have_half_of_the_room_and_the_largest_of_who_has_most_goes_first() -> None:
    room = Unfinished(1_000)
    many = [Cut(room, NEAR, 90) for _ in range(4)]
    largest = Cut(room, NEAR, 100)
    lone = Cut(room, FAR, 130)
    assert [one.reason is None for one in (*many, largest, lone)] == [True] * 4 + [False, True]
    assert largest.reason is not None
    assert largest.reason.endswith("most of them for 10.0.0.1")
    assert room.held_bytes == 490


def test_who_is_known_has_all_that_strangers_do_not_use_and_is_not_cut_for_them() -> None:
    room = Unfinished(1_000)
    stranger, shop = Cut(room, FAR, 400), Cut(room, SHOP, 600)
    assert stranger.reason is shop.reason is None
    shop.grow(601)
    assert stranger.reason is not None
    assert shop.reason is None
    shop.grow(1_000)
    bank = Cut(room, BANK, 100)  # of those who are known, who holds most gives way
    assert shop.reason is not None
    assert bank.reason is None


def test_what_has_ended_leaves_nothing_behind() -> None:
    room = Unfinished(1_000)
    shop, stranger = Cut(room, SHOP, 10), Cut(room, NEAR, 20)
    shop.grow(0)
    stranger.grow(0)
    stranger.grow(0)
    assert room.held_bytes == room._strangers_bytes == 0
    assert not room._of_taker
    assert not room._held


def test_one_frame_that_is_larger_than_all_the_room_is_cut_off_itself() -> None:
    room = Unfinished(1_000)
    stranger = Cut(room, NEAR, 501)
    assert stranger.reason is not None
    assert Cut(room, SHOP, 1_001).reason is not None
    assert room.held_bytes == 0


def begun(size: int) -> bytes:
    """The beginning of a frame that is longer."""
    return (2 * size).to_bytes(4, "big") + bytes(size - 4)


async def test_strangers_with_unfinished_frames_cut_nobody_off_who_has_signed(
    stage: Stage,
) -> None:
    """They filled the bound, and the next larger frame of whoever it was was the one too many."""
    door = await stage.open(
        access_secrets=SECRETS, access=access(), limits={"held_bytes_max": 400_000}
    )
    shop = await stage.client(door, access_key="shop-key", secret_key=SECRETS["shop-key"])
    assert (await shop.heartbeat("shop")).code == 0
    strangers = [await stage.client(door) for _ in range(4)]
    for stranger in strangers:
        stranger.raw(begun(90_000))
    await stage.until(
        lambda: sum(each.closed.is_set() for each in strangers) == 2, "half of them to be cut off"
    )
    held = door._load.unfinished
    frame = encode(request(codes.HEART_BEAT, 77, {}, bytes(250_000), form=Form.BINARY))
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    shop._waiting[77] = answer
    shop.raw(frame[:240_000])
    await stage.until(lambda: held.held_bytes >= 240_000, "most of the frame")
    shop.raw(frame[240_000:])
    assert (await asyncio.wait_for(answer, DEADLINE_S)).code == codes.NO_PERMISSION
    assert not shop.closed.is_set()
    await stage.until(lambda: held.held_bytes <= 180_000, "what strangers hold to be left")


async def test_a_signature_that_counts_no_more_makes_a_stranger_again(stage: Stage) -> None:
    door = await stage.open(access_secrets=SECRETS, access=access())
    shop = await stage.client(door, access_key="shop-key", secret_key=SECRETS["shop-key"])
    (connection,) = door._load.connections
    assert connection._taker == Taker(True, "127.0.0.1")
    assert (await shop.heartbeat("shop")).code == 0
    assert connection._taker == SHOP
    shop.secret_key = "another"
    assert (await shop.heartbeat("shop")).code == codes.NO_PERMISSION
    assert connection._taker == Taker(True, "127.0.0.1")


async def test_where_nobody_signs_nobody_is_a_stranger(stage: Stage) -> None:
    client = await stage.client(await stage.open(limits={"held_bytes_max": 100_000}))
    client.raw(begun(90_000))
    held = stage.doors[0]._load.unfinished
    await stage.until(lambda: held.held_bytes == 90_000, "all of it is held")
    assert not client.closed.is_set()
