"""Check streams and identities: who may open one, and what ends it when that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.defaults import http_limits
from harness.fake_desk import FakeDesk, a_check
from harness.identities import BANK, SHOP, access, bank, identity, shop
from harness.raw_http import request, until

if TYPE_CHECKING:
    from conftest import OpenDoors


def stream(token: str, group: str = "shop") -> bytes:
    return request("GET", f"/v1/checks?producer_group={group}", [("Half-Token", token)])


class Streaming:
    def __init__(self, doors: OpenDoors) -> None:
        self.doors = doors
        self.desk = FakeDesk()
        self.access = access()

    async def open(self, **options: Any) -> Any:
        """The client that holds the stream of team shop."""
        self.door = await self.doors.open(access=self.access, checks=self.desk, **options)
        client = await self.doors.client(self.door)
        await client.send(stream(SHOP))
        assert b" 200 " in await client.reader.readuntil(b"\r\n\r\n")
        await until(lambda: self.desk.links)
        return client


async def test_a_neighbour_is_not_told_what_others_are_asked(doors: OpenDoors) -> None:
    """A stranger's GET /v1/checks got the messages of another group in clear, and its handles."""
    streaming = Streaming(doors)
    await streaming.open()
    neighbour = await doors.client(streaming.door)
    answer = await neighbour.ask(stream(BANK))
    assert (answer.status, answer.code) == (403, "forbidden")
    assert len(streaming.desk.links) == 1


async def test_one_identity_with_a_pattern_of_groups_cannot_take_all_streams(
    doors: OpenDoors,
) -> None:
    """Of each group it took half; two groups were all there were, and no other team was asked."""
    refused: list[str] = []
    streaming = Streaming(doors)
    streaming.access.replace([shop(groups=("shop*",)), bank()])
    limits = http_limits(stream_count_max=6, stream_group_count_max=3, stream_identity_count_max=3)
    await streaming.open(limits=limits, on_refused=refused.append)
    for group in ("shop-1", "shop-2"):
        client = await doors.client(streaming.door)
        await client.send(stream(SHOP, group))
        assert b" 200 " in await client.reader.readuntil(b"\r\n\r\n")
    answer = await (await doors.client(streaming.door)).ask(stream(SHOP, "shop-3"))
    assert (answer.status, answer.code) == (503, "too_many_connections")
    assert "Your identity has 3 check streams" in answer.body.decode()
    assert refused == ["identity"]
    neighbour = await doors.client(streaming.door)
    await neighbour.send(stream(BANK, "bank"))
    assert b" 200 " in await neighbour.reader.readuntil(b"\r\n\r\n")
    await client.close()
    await until(lambda: len(streaming.desk.links) == 3)
    again = await doors.client(streaming.door)
    await again.send(stream(SHOP, "shop-3"))
    assert b" 200 " in await again.reader.readuntil(b"\r\n\r\n")


async def test_a_stream_stays_while_its_right_does(doors: OpenDoors) -> None:
    streaming = Streaming(doors)
    client = await streaming.open()
    streaming.access.replace([shop(groups=("shop", "shop-eu")), bank()])
    [link] = streaming.desk.links
    assert link.offer(a_check())
    assert b'"type":"check"' in await client.reader.readuntil(b"order-1")


async def test_a_stream_whose_right_is_gone_gets_no_further_check_and_ends(
    doors: OpenDoors,
) -> None:
    streaming = Streaming(doors)
    client = await streaming.open()
    streaming.access.replace([shop(groups=("other",))])
    [link] = streaming.desk.links
    assert not link.offer(a_check())
    assert b"order-1" not in await client.reader.read()
    await until(lambda: streaming.desk.links == [])


async def test_a_stream_whose_token_is_gone_ends_without_a_check(doors: OpenDoors) -> None:
    from halfhitch.access import Right

    streaming = Streaming(doors)
    client = await streaming.open()
    streaming.access.replace([identity("shop", "another-token", Right.CHECK, groups=("shop",))])
    assert b"order-1" not in await client.reader.read()
    await until(lambda: streaming.desk.links == [])
