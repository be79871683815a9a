"""GET /v1/stories: what may be asked, who may, and what is answered."""

from __future__ import annotations

import asyncio
import http.client
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.doors.admin import AdminDoor, door
from halfhitch.doors.admin.stories import read_query
from halfhitch.errors import InvalidRequest
from halfhitch.observability.metrics import Metrics
from halfhitch.service.operators.stories import StoryQuery
from harness.admin_door import QuietSystem
from harness.fake_operations import FakeOperations
from harness.identities import BANK, KEEPER, ROOT, WATCHER, access
from harness.told import ToldLog, ended, stories_service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def opened(log: ToldLog) -> AsyncIterator[Any]:
    opening = AdminDoor(
        QuietSystem(), Metrics(), (), "127.0.0.1", 0, access=access(),
        stories=stories_service(log, FakeOperations()),
    )  # fmt: skip
    await opening.start()

    def ask(path: str, token: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", opening.port, timeout=10)
        try:
            connection.request("GET", path, headers={"Half-Token": token})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    async def asked(path: str, token: str = ROOT) -> tuple[int, Any]:
        return await asyncio.to_thread(ask, path, token)

    try:
        yield asked
    finally:
        await opening.stop()


async def test_a_story_is_answered_with_its_lines() -> None:
    async with opened(ToldLog([ended()])) as ask:
        status, answer = await ask("/v1/stories?id=E1")
    assert status == 200
    (found,) = answer["stories"]
    assert (found["transaction_id"], found["state"]) == ("E1", "committed")
    assert found["events"][-1]["targets"][0][0] == "orders"
    assert answer["kept_since_ms"]


async def test_whoever_may_observe_a_group_is_told_of_it_and_of_no_other() -> None:
    log = ToldLog([ended(), ended(group="bank")])
    async with opened(log) as ask:
        for token, groups in (
            (ROOT, ["bank", "shop"]),
            (WATCHER, ["bank", "shop"]),
            (KEEPER, ["shop"]),
        ):
            status, answer = await ask("/v1/stories?id=E1", token)
            assert status == 200
            assert sorted(each["producer_group"] for each in answer["stories"]) == groups
        assert (await ask("/v1/stories?id=E1&group=bank", KEEPER))[0] == 403
        assert (await ask("/v1/stories?id=E1&group=shop", KEEPER))[0] == 200
        assert (await ask("/v1/stories?id=E1", BANK))[0] == 403


async def test_where_messages_lie_is_looked_for_when_it_is_asked() -> None:
    log = ToldLog([ended()])
    async with opened(log) as ask:
        _, plain = await ask("/v1/stories?id=E1", KEEPER)
        assert plain["stories"][0]["events"][-1]["landed"] is None
        assert log.targets.asked == []
        status, answer = await ask("/v1/stories?id=E1&look=offsets", WATCHER)
    assert status == 200
    (found,) = answer["stories"][0]["events"][-1]["landed"]
    assert (found["topic"], found["partition"], found["log_offset"]) == ("orders", 2, 17)
    assert found["content"] is None


async def test_what_messages_say_is_for_whoever_may_operate_on_their_group() -> None:
    log = ToldLog([ended(), ended(group="bank")])
    async with opened(log) as ask:
        assert (await ask("/v1/stories?id=E1&look=values", WATCHER))[0] == 403
        assert (await ask("/v1/stories?id=E1&look=values", BANK))[0] == 403
        assert (await ask("/v1/stories?id=E1&group=bank&look=values", KEEPER))[0] == 403
        for token, groups in ((ROOT, ["bank", "shop"]), (KEEPER, ["shop"])):
            _, answer = await ask("/v1/stories?id=E1&look=values", token)
            assert sorted(each["producer_group"] for each in answer["stories"]) == groups
            contents = [each["events"][-1]["landed"][0]["content"] for each in answer["stories"]]
            assert [each["value"] for each in contents] == ["{}"] * len(groups)
            assert contents[0]["headers"] == [["kind", "order"], ["raw", {"base64": "/w=="}]]


def test_what_is_asked_is_read() -> None:
    for text, query in (
        (
            "id=a%2Fb&group=g&limit=7",
            StoryQuery(transaction_id="a/b", producer_group="g", count_max=7),
        ),
        ("topic=t&key=%C3%A4", StoryQuery(topic="t", key="\u00e4".encode())),
        ("topic=t&key_base64=AP8%3D", StoryQuery(topic="t", key=b"\x00\xff")),
        ("since_s=90.5&limit=99999999", StoryQuery(since_s=90.5, count_max=10_000)),
    ):
        assert read_query(text) == (query, "")
    wanted = StoryQuery(transaction_id="a", with_offsets=True)
    assert read_query("id=a&look=values") == (wanted, "values")


@pytest.mark.parametrize(
    "query",
    ["", "group=g", "key=k", "key_base64=AA%3D%3D", "id=a&id=b", "more=1", "since_s=x",
     "since_s=-1", "since_s=nan", "id=a&limit=x", "id=a&look=all",
     "topic=t&key_base64=%21", "id=%ff"],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_a_sentence(query: str) -> None:
    with pytest.raises(InvalidRequest):
        read_query(query)


async def test_one_identity_filled_all_the_places_of_searches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert door._STORY_SHARE_MAX < door._STORY_COUNT_MAX / 2
    monkeypatch.setattr(door, "_STORY_SHARE_MAX", 2)

    class Slow(ToldLog):
        async def find(self, search: Any) -> Any:
            asked.append(search)
            await may_answer.wait()
            return await super().find(search)

    asked: list[Any] = []
    may_answer = asyncio.Event()
    async with opened(Slow([ended()])) as ask:
        held = [asyncio.create_task(ask("/v1/stories?id=E1", KEEPER)) for _ in range(2)]
        while len(asked) < 2:
            await asyncio.sleep(0.01)
        status, answer = await ask("/v1/stories?id=E1", KEEPER)
        assert (status, answer["error"]["code"]) == (429, "overloaded")
        another = asyncio.create_task(ask("/v1/stories?id=E1", WATCHER))
        while len(asked) < 3:
            await asyncio.sleep(0.01)
        may_answer.set()
        assert [(await each)[0] for each in (*held, another)] == [200] * 3
