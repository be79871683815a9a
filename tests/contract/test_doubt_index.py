"""What every DoubtIndex and every Presence promises: the real Redis and its twin in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch.embedded import EmbeddedRedis
from halfhitch.errors import RedisUnavailable
from harness.redis_worlds import OFFSETS, RealRedis, TwinRedis, doubt, eventually, identity

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from typing import Any

    from harness.redis_worlds import World


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis() as server:
        yield server


@pytest.fixture(params=["memory", "redis"])
async def redis_world(
    request: pytest.FixtureRequest, own_server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    monkeypatch.setattr("halfhitch.adapters.redis.writer.PULSE_S", 0.2)
    made: World = TwinRedis() if request.param == "memory" else RealRedis(own_server)
    yield made
    await made.close()


async def owning(redis_world: World, instance: str, partition: int = 0) -> Any:
    """An index that owns the partition and has been asked for everything."""
    index = await redis_world.index(instance)
    index.owns(partition, is_owned=True)
    await eventually(lambda: index.wants_all(partition))
    return index


async def ids(index: Any, partition: int = 0) -> list[str]:
    return [found.identity[1] for found in await index.list(partition, count_max=100)]


async def eventually_listed(index: Any, expected: list[str], partition: int = 0) -> None:
    async def is_listed() -> bool:
        return await ids(index, partition) == expected

    await eventually(is_listed)


async def test_doubts_come_back_as_they_were_written_soonest_due_first(redis_world: World) -> None:
    index = await owning(redis_world, "a")
    late = doubt("late", due_ms=3_000)
    checked = doubt(
        "checked",
        due_ms=2_000,
        check_count=3,
        delivered=3,
        last_check_ms=1_700_000_060_000,
        last_answer="unknown",
        last_instance="b",
    )
    index.doubtful(0, [late, checked])
    index.doubtful(0, [doubt("soon", due_ms=1_000, topics=("ünusual",))])
    await eventually_listed(index, ["soon", "checked", "late"])
    assert (await index.list(0, count_max=100))[1:] == [checked, late]
    assert [d.identity[1] for d in await index.list(0, count_max=2)] == ["soon", "checked"]
    assert await index.list(0, count_max=0) == []
    assert await index.list(1, count_max=100) == []


async def test_the_last_word_about_a_transaction_counts(redis_world: World) -> None:
    index = await owning(redis_world, "a")
    index.doubtful(0, [doubt("one", due_ms=1_000), doubt("two", due_ms=2_000)])
    index.doubtful(0, [doubt("one", due_ms=5_000, check_count=1, last_answer="silent")])
    await eventually_listed(index, ["two", "one"])
    assert (await index.list(0, count_max=9))[1].last_answer == "silent"


async def test_what_is_settled_is_gone(redis_world: World) -> None:
    index = await owning(redis_world, "a")
    index.doubtful(0, [doubt("stays"), doubt("goes")])
    await eventually_listed(index, ["goes", "stays"])
    index.settled(0, [identity("goes"), identity("never known")])
    await eventually_listed(index, ["stays"])
    assert await index.delivered(0, identity("goes"), OFFSETS) == 0


async def test_two_groups_may_use_the_same_id(redis_world: World) -> None:
    index = await owning(redis_world, "a")
    both = [doubt("same", group="g:1", due_ms=1), doubt("1:same", group="g", due_ms=2)]
    index.doubtful(0, both)
    await eventually_listed(index, ["same", "1:same"])
    index.settled(0, [identity("same", "g:1")])
    await eventually_listed(index, ["1:same"])


async def test_what_was_delivered_outlives_an_owner_that_did_not_know(redis_world: World) -> None:
    first = await owning(redis_world, "a")
    first.doubtful(
        0, [doubt("t", check_count=2, delivered=2), doubt("u", check_count=4, delivered=3)]
    )
    await eventually_listed(first, ["t", "u"])
    second = await owning(redis_world, "b")
    second.doubtful(0, [doubt("t", check_count=2, delivered=1, last_answer="second's")])

    async def is_rewritten() -> bool:
        found = await second.list(0, count_max=9)
        return [(d.identity[1], d.last_answer) for d in found] == [("t", "second's")]

    await eventually(is_rewritten)
    assert await second.delivered(0, identity("t"), OFFSETS) == 2
    assert await second.delivered(0, identity("nobody's"), OFFSETS) == 0


async def test_what_was_answered_outlives_an_owner_that_did_not_know(redis_world: World) -> None:
    first = await owning(redis_world, "a")
    answered = {"check_count": 2, "delivered": 2, "last_answer": "silent", "last_instance": "x"}
    answered["last_reason"] = "RuntimeError: db down"
    first.doubtful(0, [doubt("t", **answered), doubt("u", **answered)])
    await eventually_listed(first, ["t", "u"])
    second = await owning(redis_world, "b")
    second.doubtful(
        0,
        [
            doubt("t", due_ms=9_000, check_count=2, delivered=1),
            doubt("u", due_ms=9_000, check_count=0),
            doubt("v", due_ms=9_000, check_count=3, delivered=3),
        ],
    )
    await eventually_listed(second, ["t", "u", "v"])
    names = [identity(name) for name in ("v", "t", "u", "nobody's")]
    found = {
        d.identity[1]: (d.last_answer, d.last_instance, d.last_reason)
        for d in await second.find(0, names)
    }
    nothing = (None, None, None)
    assert found == {"t": ("silent", "x", "RuntimeError: db down"), "u": nothing, "v": nothing}
    assert await second.find(0, []) == []


async def test_a_resumed_transaction_begins_with_nothing_delivered(redis_world: World) -> None:
    index = await owning(redis_world, "a")
    index.doubtful(0, [doubt("t", check_count=3, delivered=3)])
    await eventually_listed(index, ["t"])
    index.doubtful(0, [doubt("t", check_count=0, delivered=0, last_answer="resumed")])

    async def is_rewritten() -> bool:
        return bool((await index.list(0, count_max=9))[0].last_answer == "resumed")

    await eventually(is_rewritten)
    index.doubtful(0, [doubt("t", check_count=1, delivered=0)])
    assert await index.delivered(0, identity("t"), OFFSETS) == 0


async def test_everything_is_wanted_once_by_each_new_owner(redis_world: World) -> None:
    index = await redis_world.index("a")
    assert not index.wants_all(0)
    index.owns(0, is_owned=True)
    await eventually(lambda: index.wants_all(0))
    index.owns(0, is_owned=True)  # said again, nothing has changed
    assert not index.wants_all(0)
    assert not index.wants_all(1)
    index.owns(0, is_owned=False)
    assert not index.wants_all(0)
    index.owns(0, is_owned=True)
    await eventually(lambda: index.wants_all(0))


async def test_an_owner_left_behind_gave_up_what_its_successor_has(redis_world: World) -> None:
    """Of one instance: a worker that hung, and the one that took its half partition over again."""
    index = await redis_world.index("a")
    left_behind, successor = object(), object()
    index.owns(0, is_owned=True, by=left_behind)
    await eventually(lambda: index.wants_all(0))
    index.owns(0, is_owned=True, by=successor)
    await eventually(lambda: index.wants_all(0))
    index.owns(0, is_owned=False, by=left_behind)
    index.doubtful(0, [doubt("t", check_count=1, delivered=1)])
    index.told_all(0)

    await eventually_listed(index, ["t"])
    index.owns(0, is_owned=False, by=successor)
    assert not index.wants_all(0)


async def test_a_new_owner_starts_with_an_empty_list(redis_world: World) -> None:
    first = await owning(redis_world, "a")
    first.doubtful(0, [doubt("settled meanwhile"), doubt("still there")])
    await eventually_listed(first, ["settled meanwhile", "still there"])
    second = await owning(redis_world, "b")
    second.doubtful(0, [doubt("still there")])
    await eventually_listed(second, ["still there"])


async def marked(index: Any, partition: int = 0) -> str:
    """The mark of the list that is whole by and by."""
    found: list[str] = []

    async def is_whole() -> bool:
        mark = await index.whole(partition)
        found.extend([mark] if mark is not None else [])
        return mark is not None

    await eventually(is_whole)
    return found[-1]


async def test_a_list_is_whole_from_when_all_was_told_until_another_one_begins(
    redis_world: World,
) -> None:
    """Half a list that a new owner was writing was taken for all that is undecided."""
    first = await owning(redis_world, "a")
    first.doubtful(0, [doubt("t1"), doubt("t2")])
    await eventually_listed(first, ["t1", "t2"])
    assert await first.whole(0) is None
    first.told_all(0)
    mark = await marked(first)
    first.doubtful(0, [doubt("t3")])
    await eventually_listed(first, ["t1", "t2", "t3"])
    assert await first.whole(0) == mark
    second = await owning(redis_world, "b")
    await eventually_listed(second, [])
    assert await second.whole(0) is None
    first.owns(0, is_owned=False)
    second.told_all(0)
    assert await marked(second) != mark


async def test_no_list_is_whole_that_was_lost_or_has_no_owner_any_more(redis_world: World) -> None:
    index = await owning(redis_world, "a")
    index.told_all(0)
    mark = await marked(index)
    redis_world.flush()
    await eventually(lambda: index.wants_all(0), within_s=2.5)
    assert await index.whole(0) is None
    index.doubtful(0, [doubt("t")])
    index.told_all(0)
    assert await marked(index) != mark
    index.owns(0, is_owned=False)

    async def is_gone() -> bool:
        return await index.whole(0) is None

    await eventually(is_gone)
    assert await index.whole(7) is None


async def test_after_a_wipe_everything_is_wanted_again_once(redis_world: World) -> None:
    index = await owning(redis_world, "a", 0)
    index.owns(1, is_owned=True)
    await eventually(lambda: index.wants_all(1))
    index.doubtful(0, [doubt("t")])
    await eventually_listed(index, ["t"])
    redis_world.flush()
    await eventually(lambda: index.wants_all(0), within_s=2.5)
    await eventually(lambda: index.wants_all(1), within_s=0.5)
    assert not index.wants_all(0)
    index.doubtful(0, [doubt("t")])
    await eventually_listed(index, ["t"])
    assert redis_world.seen["a"].rebuilt == ["wiped"]


async def test_an_old_dump_is_noticed_and_what_it_says_is_removed(redis_world: World) -> None:
    index = await owning(redis_world, "a")
    index.doubtful(0, [doubt("old", check_count=5, delivered=5)])
    await eventually_listed(index, ["old"])
    redis_world.dump()
    index.settled(0, [identity("old")])
    index.doubtful(0, [doubt("new")])
    await eventually_listed(index, ["new"])
    redis_world.restore()
    await eventually(lambda: index.wants_all(0), within_s=4.0)
    index.doubtful(0, [doubt("new")])
    await eventually_listed(index, ["new"])
    assert await index.delivered(0, identity("old"), OFFSETS) == 0
    assert redis_world.seen["a"].rebuilt == ["old"]


async def test_without_redis_nothing_is_known_and_nobody_is_held_up(redis_world: World) -> None:
    index = await owning(redis_world, "a")
    index.doubtful(0, [doubt("t", check_count=1, delivered=1)])
    await eventually_listed(index, ["t"])
    assert await index.delivered(0, identity("t"), OFFSETS) == 1
    redis_world.go_away()
    await eventually(lambda: not index.healthy)
    assert index.trouble.startswith("Redis")
    assert await index.delivered(0, identity("t"), OFFSETS) == 0
    with pytest.raises(RedisUnavailable):
        await index.list(0, count_max=1)
    with pytest.raises(RedisUnavailable):
        await index.owner(0)
    assert not index.post("b", "check", b"x")
    assert not index.wants_all(0)
    assert index.instances("orders") in ((), [])
    index.doubtful(0, [doubt("u")])
    index.settled(0, [identity("t")])
    redis_world.come_back()
    await eventually(lambda: index.healthy and index.trouble is None)
    assert redis_world.seen["a"].health[-2:] == [False, True]


async def test_the_owner_is_named_until_it_gives_up_the_partition(redis_world: World) -> None:
    index, other = await redis_world.index("a"), await redis_world.index("b")

    async def names(expected: str | None) -> bool:
        return await other.owner(0) == expected

    assert await names(None)
    index.owns(0, is_owned=True)
    await eventually(lambda: names("a"))
    index.owns(0, is_owned=False)
    await eventually(lambda: names(None))


async def test_others_learn_who_has_producers_of_a_group(redis_world: World) -> None:
    a, b, c = (
        await redis_world.index("a"),
        await redis_world.index("b"),
        await redis_world.index("c"),
    )
    a.announce(["orders", "points"])
    b.announce(["orders"])
    await eventually(lambda: list(c.instances("orders")) == ["a", "b"])
    await eventually(lambda: list(a.instances("orders")) == ["b"])
    assert list(c.instances("nobody's")) == []
    a.announce(["points"])
    await eventually(lambda: list(c.instances("orders")) == ["b"])
    await eventually(lambda: list(c.instances("points")) == ["a"])
    await b.stop()
    await eventually(lambda: list(c.instances("orders")) == [])


async def test_a_post_arrives_as_it_was_sent(redis_world: World) -> None:
    inbox: list[tuple[str, bytes]] = []
    a = await redis_world.index("a")
    await redis_world.index("b", inbox)
    bodies = [b"", b'{"type":"check"}', bytes(range(256)) * 400]
    for body in bodies:
        assert a.post("b", "check", body)
    assert a.post("b", "other", b"1")
    await eventually(lambda: len(inbox) == 4)
    assert inbox == [("check", body) for body in bodies] + [("other", b"1")]
    assert a.post("nobody", "check", b"lost")
