"""A Redis that is away, paused, full, read-only, wiped, or full of garbage.

Nobody is held up, somebody is told, and in the end Redis holds what it should.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

import pytest

from halfhitch.adapters.redis import writer
from halfhitch.embedded import EmbeddedRedis
from halfhitch.errors import RedisUnavailable
from harness.redis_worlds import OFFSETS, RealRedis, SeenByObserver, doubt, eventually, identity

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path
    from typing import Any

    from halfhitch.ports import Doubt

QUICK_S = 0.4  # whoever waited for an answer would wait half a second at least


PULSE = "halfhitch.adapters.redis.writer.PULSE_S"
REAL_PULSE_S = writer.PULSE_S


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis() as server:
        yield server


@pytest.fixture
async def redis(
    own_server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RealRedis]:
    monkeypatch.setattr(PULSE, 0.2)  # what waits for a pulse is not what most tests are about
    made = RealRedis(own_server)
    yield made
    await made.close()


class Owner:
    """What an owner does: tells changes, and everything when it is asked for."""

    def __init__(self, index: Any, partition: int = 0) -> None:
        self.index = index
        self.partition = partition
        self.pending: dict[str, Doubt] = {}
        self.slowest_s = 0.0
        index.owns(partition, is_owned=True)

    def turn(self, doubtful: tuple[str, ...] = (), settled: tuple[str, ...] = ()) -> None:
        begin_s = time.monotonic()
        new = [doubt(name, due_ms=1_000 + len(self.pending) + n) for n, name in enumerate(doubtful)]
        self.pending.update((d.identity[1], d) for d in new)
        if new:
            self.index.doubtful(self.partition, new)
        for name in settled:
            del self.pending[name]
        if settled:
            self.index.settled(self.partition, [identity(name) for name in settled])
        if self.index.wants_all(self.partition):
            self.index.doubtful(self.partition, list(self.pending.values()))
        self.slowest_s = max(self.slowest_s, time.monotonic() - begin_s)

    async def is_written(self) -> bool:
        self.turn()
        try:
            found = await self.index.list(self.partition, count_max=10_000)
        except RedisUnavailable:
            return False
        return {d.identity[1] for d in found} == set(self.pending)


async def owning(redis: RealRedis, **options: Any) -> Owner:
    owner = Owner(await redis.index("a", **options))
    owner.turn(("first", "second"))
    await eventually(owner.is_written)
    return owner


def seen(redis: RealRedis) -> SeenByObserver:
    return redis.seen["a"]


# -- away ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["paused", "killed"])
async def test_three_seconds_away_hold_nobody_up_and_end_in_a_rebuild(
    redis: RealRedis, way: str
) -> None:
    owner = await owning(redis)
    owner.index.announce(["orders"])
    redis.go_away() if way == "paused" else redis.server.kill()
    end_s = time.monotonic() + 3.2
    number = 0
    while time.monotonic() < end_s:
        owner.turn((f"t{number}",), (f"t{number - 1}",) if number else ())
        number += 1
        begin_s = time.monotonic()
        assert owner.index.instances("orders") == ()
        owner.index.post("b", "check", b"x")
        owner.slowest_s = max(owner.slowest_s, time.monotonic() - begin_s)
        await asyncio.sleep(0.01)
    assert not owner.index.healthy
    assert "does not answer" in owner.index.trouble
    assert owner.slowest_s < QUICK_S
    redis.come_back() if way == "paused" else redis.server.start()
    await eventually(owner.is_written)
    assert owner.index.healthy
    assert seen(redis).rebuilt[0] == ("away" if way == "paused" else "wiped")
    assert seen(redis).health == [True, False, True]


async def test_a_short_pause_loses_nothing_and_rebuilds_nothing(redis: RealRedis) -> None:
    owner = await owning(redis)
    redis.go_away()
    owner.turn(("third",), ("first",))
    await eventually(lambda: not owner.index.healthy)
    owner.turn(("fourth",), ("second",))
    redis.come_back()
    await eventually(owner.is_written)
    assert seen(redis).rebuilt == []


async def test_a_question_to_a_paused_redis_is_given_up_soon_and_the_next_at_once(
    redis: RealRedis,
) -> None:
    owner = await owning(redis)
    redis.go_away()
    begin_s = time.monotonic()
    assert await owner.index.delivered(0, identity("first"), OFFSETS) == 0
    assert time.monotonic() - begin_s < 10, "it would wait as long as Redis is paused"
    begin_s = time.monotonic()
    for _ in range(1_000):
        assert await owner.index.delivered(0, identity("first"), OFFSETS) == 0
    assert time.monotonic() - begin_s < 50, "half a second each, if each waited"


async def test_thousands_of_questions_at_once_are_all_answered(
    redis: RealRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How fast this machine is does not matter here: none of them runs out of time.
    monkeypatch.setattr("halfhitch.adapters.redis.asker.ASK_S", 10.0)
    owner = Owner(await redis.index("a"))
    owner.index.doubtful(0, [doubt("t", check_count=1, delivered=1)])
    await eventually(lambda: owner.index.delivered(0, identity("t"), OFFSETS))
    answers = await asyncio.gather(
        *[owner.index.delivered(0, identity("t" if n % 2 else "u"), OFFSETS) for n in range(4_000)]
    )
    assert answers == [0, 1] * 2_000


async def test_without_a_redis_a_stop_takes_a_second(redis: RealRedis) -> None:
    owner = await owning(redis)
    redis.go_away()
    owner.turn(("third",))
    await asyncio.sleep(0)
    begin_s = time.monotonic()
    await owner.index.stop()
    assert time.monotonic() - begin_s < 10, "it would wait as long as Redis is paused"
    redis.come_back()


async def test_a_redis_that_comes_later_is_used_then(redis: RealRedis) -> None:
    redis.server.kill()
    owner = Owner(await redis.index("a"))
    owner.turn(("first",))
    await eventually(lambda: "does not answer" in owner.index.trouble)
    assert not owner.index.wants_all(0)
    redis.server.start()
    await eventually(owner.is_written)
    assert seen(redis).health == [False, True]
    assert seen(redis).rebuilt == []  # it held nothing of this process


async def test_more_than_fits_into_the_queue_is_asked_for_again(
    redis: RealRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halfhitch.adapters.redis.outbox._REBUILD_PAUSE_S", 0.1)
    owner = await owning(redis, entries_max=100)
    for number in range(150):
        owner.turn((f"t{number}",), ("first",) if number == 100 else ())
    await eventually(lambda: seen(redis).rebuilt == ["overflow"])

    async def is_written() -> bool:
        # As an owner that goes by has_room; all at once would not fit either.
        if owner.index.wants_all(0):
            waiting = list(owner.pending.values())
            while waiting:
                if owner.index.has_room(40):
                    owner.index.doubtful(0, waiting[:40])
                    del waiting[:40]
                await asyncio.sleep(0.005)
        found = await owner.index.list(0, count_max=1_000)
        return {d.identity[1] for d in found} == set(owner.pending)

    await eventually(is_written, within_s=6)


# -- wiped ---------------------------------------------------------------------------------------


async def test_a_wipe_is_noticed_within_two_seconds(
    redis: RealRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PULSE, REAL_PULSE_S)
    owner = await owning(redis)
    redis.flush()
    await eventually(lambda: owner.index.wants_all(0), within_s=2.0)


async def test_wiped_at_random_moments_redis_holds_the_truth_in_the_end(
    redis: RealRedis, rng: random.Random
) -> None:
    owner = await owning(redis)
    owner.index.announce(["orders"])
    number = 0
    for _ in range(6):
        for _ in range(rng.randrange(3, 25)):
            names = tuple(f"t{number + n}" for n in range(rng.randrange(1, 30)))
            number += len(names)
            gone = tuple(rng.sample(sorted(owner.pending), min(len(owner.pending), len(names))))
            owner.turn(names, gone)
            await asyncio.sleep(rng.random() * 0.01)
        redis.flush()
    await eventually(lambda: seen(redis).rebuilt)
    await eventually(owner.is_written)
    assert set(seen(redis).rebuilt) == {"wiped"}
    await eventually(lambda: "hh:test:owner:0" in redis.names())
    assert "hh:test:producers:orders" in redis.names()


@pytest.mark.parametrize("presence_s", [60.0, 0.5])
async def test_an_owner_that_had_lost_its_partition_called_its_successors_list_whole(
    redis: RealRedis, monkeypatch: pytest.MonkeyPatch, presence_s: float
) -> None:
    """It did not know of it yet, and its next pulse wrote the mark again that was taken away.

    An owner that is one after all, since nobody tells it otherwise, writes everything anew.
    """
    monkeypatch.setattr("halfhitch.adapters.redis.writer.PRESENCE_S", presence_s)
    owner = await owning(redis)
    owner.index.told_all(0)
    await eventually(lambda: "hh:test:whole:0" in redis.names())

    async def pulse() -> None:
        redis.client.delete("hh:test:owner:0")
        await eventually(lambda: "hh:test:owner:0" in redis.names())

    await pulse()
    assert "hh:test:whole:0" in redis.names()
    redis.client.delete("hh:test:whole:0")  # as another owner does before it writes a list
    for _ in range(3):
        await pulse()
        assert "hh:test:whole:0" not in redis.names()
    if presence_s == 60.0:
        assert not owner.index.wants_all(0)
        assert seen(redis).rebuilt == []
        return
    await eventually(lambda: seen(redis).rebuilt == ["unmarked"])
    await eventually(owner.is_written)
    owner.index.told_all(0)
    await eventually(lambda: "hh:test:whole:0" in redis.names())


# -- refused -------------------------------------------------------------------------------------


async def test_a_full_redis_is_told_apart_and_what_is_settled_still_leaves_it(
    redis: RealRedis,
) -> None:
    owner = await owning(redis)
    redis.client.config_set("maxmemory-policy", "noeviction")
    redis.client.config_set("maxmemory", "1")
    owner.turn(("third",))
    await eventually(lambda: not owner.index.healthy)
    assert "maxmemory" in owner.index.trouble
    owner.turn((), ("first",))
    key = "hh:test:tx:0:orders:first"
    await eventually(lambda: redis.client.exists(key) == 0)
    redis.client.config_set("maxmemory", "0")
    await eventually(owner.is_written)
    assert owner.index.trouble is None


async def test_a_replica_is_told_apart(redis: RealRedis) -> None:
    owner = await owning(redis)
    redis.client.replicaof("127.0.0.1", 1)
    owner.turn(("third",))
    await eventually(lambda: not owner.index.healthy)
    assert "replica" in owner.index.trouble
    redis.client.replicaof("no", "one")
    await eventually(owner.is_written)


async def test_a_wrong_password_is_told_and_never_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = EmbeddedRedis(tmp_path, password="right/p@ss word")
    redis = RealRedis(server.start())
    try:
        good = await redis.index("a")
        assert good.trouble is None
        owner = Owner(good)
        owner.turn(("first",))
        await eventually(owner.is_written)
        wrong = f"redis://:wrong%2Fsecret@127.0.0.1:{redis.server.port}/0"
        bad = await asyncio.wait_for(_started(redis, "b", url=wrong), 5)
        await eventually(lambda: "refuses the login" in bad.trouble)
        none = await asyncio.wait_for(
            _started(redis, "c", url=f"redis://127.0.0.1:{redis.server.port}"), 5
        )
        await eventually(lambda: "refuses the login" in none.trouble)
        with pytest.raises(RedisUnavailable) as caught:
            await bad.list(0, count_max=1)
        shown = caplog.text + str(caught.value) + bad.trouble + repr(bad)
        assert "secret" not in shown
        assert "p@ss" not in shown
    finally:
        await redis.close()
        server.stop()


async def _started(redis: RealRedis, instance: str, **options: Any) -> Any:
    """Without waiting until it is healthy."""
    from halfhitch.adapters.redis.index import RedisIndex

    seen_by: Any = redis.seen.setdefault(instance, SeenByObserver())
    index = RedisIndex(
        options["url"],
        instance=instance,
        observer=seen_by,
        on_post=lambda kind, body: None,
    )
    return await redis.started(instance, index, "test")


async def test_missing_rights_are_told_and_the_named_ones_suffice(redis: RealRedis) -> None:
    port = redis.server.port
    redis.client.execute_command(
        *("ACL", "SETUSER", "some", "on", ">pw", "~hh:*", "+@read", "+@connection")
    )
    index = await _started(redis, "a", url=f"redis://some:pw@127.0.0.1:{port}/0")
    await eventually(lambda: "does not permit" in (index.trouble or ""))
    redis.client.execute_command(
        *("ACL", "SETUSER", "some", "reset", "on", ">pw", "~hh:*", "-@all"),
        *("+@read", "+@write", "+@connection", "+time", "-@scripting", "-@admin"),
    )
    owner = Owner(index)
    owner.turn(("first",))
    index.announce(["orders"])
    await eventually(owner.is_written)
    await eventually(lambda: not index.instances("orders") and index.healthy)


# -- garbage -------------------------------------------------------------------------------------


def canary_of(redis: RealRedis, instance: str) -> str:
    (key,) = redis.client.keys(f"hh:test:canary:{instance}:*")
    return key.decode()


LAST_ID = f"{2**64 - 1}-{2**64 - 1}"
WRONG = {
    "string": lambda client, key: client.set(key, b"\xff garbage"),
    "list": lambda client, key: client.rpush(key, "garbage"),
    "hash": lambda client, key: client.hset(key, "garbage", "garbage"),
    "zset": lambda client, key: client.zadd(key, {b"\xff garbage": 1, "%": 2, "a:%zz": 3}),
    "stream": lambda client, key: client.xadd(key, {"x": "y"}, id=LAST_ID),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
async def test_garbage_under_every_key_is_replaced(redis: RealRedis, kind: str) -> None:
    inbox: list[tuple[str, bytes]] = []
    index = await redis.index("a", inbox)
    other = await redis.index("b")
    owner = Owner(index)
    owner.turn(("first", "second"))
    index.announce(["orders"])
    await eventually(owner.is_written)
    await eventually(lambda: "a" in other.instances("orders"))
    keys = [
        *("hh:test:due:0", "hh:test:tx:0:orders:first", "hh:test:producers:orders"),
        *("hh:test:inbox:a", "hh:test:owner:0", canary_of(redis, "a")),
    ]
    pipeline = redis.client.pipeline()
    for key in keys:
        pipeline.delete(key)
        WRONG[kind](pipeline, key)
    pipeline.execute()
    owner.turn(("third",), ("second",))
    owner.index.doubtful(0, [owner.pending["first"]])
    await index.list(0, count_max=10)
    await eventually(owner.is_written)
    await eventually(lambda: "a" in other.instances("orders"))
    await eventually(lambda: other.owner(0))
    await eventually(lambda: other.post("a", "check", b"x") and ("check", b"x") in inbox)
    assert await eventually(lambda: index.healthy)
    types = ["zset", "hash", "zset", "stream", "string", "string"]
    await eventually(lambda: [redis.client.type(key).decode() for key in keys] == types)


async def test_garbage_values_count_as_absent(redis: RealRedis, rng: random.Random) -> None:
    owner = await owning(redis)
    fields = [field.decode() for field in redis.client.hkeys("hh:test:tx:0:orders:first")]
    assert len(fields) == 14
    texts = [
        b"",
        b"-1x",
        b"\xff\xfe",
        b"9" * 40,
        b"[1]",
        b"{}",
        b"1e3",
        b"\xd9\xa1",
        b" 1",
        b"nan",
    ]
    for field in fields:
        before = redis.client.hget("hh:test:tx:0:orders:first", field)
        for text in [*texts, rng.randbytes(20)]:
            redis.client.hset("hh:test:tx:0:orders:first", field, text)
            listed = await owner.index.list(0, count_max=10)
            assert {d.identity[1] for d in listed} <= {"first", "second"}
            assert await owner.index.delivered(0, identity("first"), OFFSETS) == 0
        redis.client.hset("hh:test:tx:0:orders:first", field, before)
    redis.client.hset("hh:test:tx:0:orders:first", "delivered", "7")
    assert (
        await owner.index.delivered(0, identity("first"), OFFSETS) == 0
    )  # more than were ever written
    redis.client.set("hh:test:owner:0", b"\xff")
    assert await owner.index.owner(0) in (None, "a")


# -- what is left there ----------------------------------------------------------------------------


async def test_every_key_expires_and_a_stop_takes_its_own_away(
    redis: RealRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, other = await redis.index("a{b}:%"), await redis.index("b")
    index.owns(0, is_owned=True)
    index.doubtful(0, [doubt("t{1}", group="orders/ü")])
    index.announce(["orders/ü"])
    other.post("a{b}:%", "check", b"x")
    other.post("nobody", "check", b"x")
    expected = {
        "hh:test:due:0",
        "hh:test:tx:0:orders%2F%C3%BC:t%7B1%7D",
        "hh:test:producers:orders%2F%C3%BC",
        "hh:test:owner:0",
        "hh:test:name:a%7Bb%7D%3A%25",
        "hh:test:inbox:nobody",
    }
    await eventually(lambda: expected <= set(redis.names()))
    lives = {key: redis.client.pttl(key) for key in redis.client.keys("*")}
    assert all(0 < life <= 73 * 3_600_000 for life in lives.values()), lives
    monkeypatch.setattr("halfhitch.adapters.redis.index._STOP_S", 60.0)
    begin_s = time.monotonic()
    await index.stop()
    assert time.monotonic() - begin_s < 30, "it waited to its deadline"
    left = {key.decode() for key in redis.client.keys("*")}
    assert left == {
        "hh:test:due:0",
        "hh:test:tx:0:orders%2F%C3%BC:t%7B1%7D",
        "hh:test:inbox:nobody",
        "hh:test:name:b",
        canary_of(redis, "b"),
    }


async def test_a_transaction_settled_at_once_leaves_nothing_and_costs_two_commands(
    redis: RealRedis,
) -> None:
    owner = await owning(redis)
    before = redis.client.info("commandstats").get("cmdstat_hset", {}).get("calls", 0)
    owner.turn(tuple(f"t{n}" for n in range(500)))
    owner.turn((), tuple(f"t{n}" for n in range(500)))
    owner.turn(("last",))
    await eventually(owner.is_written)
    after = redis.client.info("commandstats")["cmdstat_hset"]["calls"]
    assert after - before == 1


# -- inboxes -------------------------------------------------------------------------------------


async def test_an_inbox_skips_what_came_before_and_what_is_not_ours(redis: RealRedis) -> None:
    key = "hh:test:inbox:b"
    redis.client.xadd(key, {"k": "check", "b": "before the start"})
    inbox: list[tuple[str, bytes]] = []
    sender = await redis.index("a", body_bytes_max=1_000)
    await redis.index("b", inbox, body_bytes_max=1_000)
    await asyncio.sleep(0.1)
    redis.client.xadd(key, {"k": "check", "b": "too old"}, id="1000-1")
    redis.client.xadd(key, {"x": "not ours"})
    redis.client.xadd(key, {"k": b"\xff", "b": "no kind"})
    redis.client.xadd(key, {"k": "check", "b": b"y" * 1_001})
    assert not sender.post("b", "check", b"z" * 1_001)
    assert sender.post("b", "check", b"good")
    await eventually(lambda: inbox)
    assert inbox == [("check", b"good")]
    await eventually(lambda: redis.client.xlen(key) == 0)


async def test_an_inbox_that_nobody_reads_stays_bounded(redis: RealRedis) -> None:
    index = await redis.index("a")
    for _ in range(12_000):
        assert index.post("nobody", "check", b"x")
    assert not index.post("nobody", "check", b"x" * 5_000_000)
    index.post("last", "check", b"x")
    await eventually(lambda: redis.client.exists("hh:test:inbox:last"))
    assert 10_000 <= redis.client.xlen("hh:test:inbox:nobody") <= 10_200


async def test_a_receiver_that_raises_still_gets_the_next_one(
    redis: RealRedis, caplog: pytest.LogCaptureFixture
) -> None:
    class Picky(list[tuple[str, bytes]]):
        def append(self, item: tuple[str, bytes]) -> None:
            if item[1] == b"bad":
                raise ValueError("cannot handle this")
            super().append(item)

    inbox = Picky()
    sender = await redis.index("a")
    await redis.index("b", inbox)
    for body in (b"one", b"bad", b"two"):
        sender.post("b", "check", body)
    await eventually(lambda: len(inbox) == 2)
    assert "cannot handle this" in caplog.text


async def test_what_has_lain_in_an_inbox_tells_its_age(redis: RealRedis) -> None:
    """A check that a stopped instance finds when it goes on may be decided by then."""
    ages: dict[bytes, float] = {}
    await redis.index("a", on_post=lambda _, body, age_s: ages.__setitem__(body, age_s))
    seconds, _ = redis.client.time()
    for age_s in (60, 7, 0):
        body = f"{age_s} s".encode()
        redis.client.xadd("hh:test:inbox:a", {"k": "check", "b": body}, f"{seconds - age_s}000-0")
    await eventually(lambda: b"0 s" in ages)
    assert set(ages) == {b"7 s", b"0 s"}, "of a minute ago: nobody waits for it"
    assert 7.0 <= ages[b"7 s"] < 12.0


# -- two of one name -----------------------------------------------------------------------------


async def test_two_processes_of_one_name_did_not_say_so(
    redis: RealRedis, own_server: EmbeddedRedis, caplog: pytest.LogCaptureFixture
) -> None:
    """As two sidecars of one host have, whose instance.id is left to be the host's name."""
    caplog.set_level(logging.WARNING)
    first = await redis.index("host")
    second = await redis.index("host")

    def both_say_so() -> bool:
        return all("instance.id" in (one.trouble or "") for one in (first, second))

    def said() -> int:
        actions = [getattr(one, "action", "") for one in caplog.records]
        return actions.count("instance_name_taken")

    await eventually(both_say_so)
    await eventually(lambda: said() == 2)
    await second.stop()
    await eventually(lambda: first.trouble is None)
