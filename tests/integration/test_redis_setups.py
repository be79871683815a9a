"""The doubt index over Sentinel, Cluster, TLS and a unix socket, all with a password."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from redis.cluster import key_slot

from halfhitch.adapters.redis.index import RedisIndex
from harness.redis_servers import RedisServers, TlsRelay, certificate, wait_until
from harness.redis_worlds import OFFSETS, SeenByObserver, doubt, eventually, identity

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

PASSWORD = "pass/w@rd"
QUOTED = "pass%2Fw%40rd"
SECURED = (f"requirepass {PASSWORD}", f"masterauth {PASSWORD}", 'save ""', "appendonly no")


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[RedisServers]:
    with RedisServers(tmp_path) as made:
        yield made


class Pair:
    """Two instances on one Redis: the first owns partition 0."""

    def __init__(self, url: str) -> None:
        self.seen = SeenByObserver()
        self.inbox: list[tuple[str, bytes]] = []
        self.first = self._made(url, "a", self.seen)
        self.second = self._made(url, "b", SeenByObserver())

    def _made(self, url: str, instance: str, seen: Any) -> RedisIndex:
        return RedisIndex(
            url,
            instance=instance,
            observer=seen,
            on_post=lambda kind, body, _: self.inbox.append((kind, body)),
        )

    async def stop(self) -> None:
        await asyncio.gather(self.first.stop(), self.second.stop())

    async def is_listed(self, *names: str) -> bool:
        try:
            found = await self.second.list(0, count_max=1_000)
        except Exception:  # noqa: BLE001 - not there yet
            return False
        return [d.identity[1] for d in found] == list(names)

    async def works(self, within_s: float = 5.0) -> None:
        """Everything there is, once."""
        self.first.owns(0, is_owned=True)
        self.first.announce(["orders"])
        await eventually(lambda: self.first.wants_all(0), within_s)
        names = [f"t{number}" for number in range(1_000, 1_020)]
        for number, name in enumerate(names):
            self.first.doubtful(0, [doubt(name, due_ms=number, check_count=1, delivered=1)])
        await eventually(lambda: self.is_listed(*names))
        assert await self.second.delivered(0, identity("t1000"), OFFSETS) == 1
        self.first.settled(0, [identity(name) for name in names[1:]])
        await eventually(lambda: self.is_listed("t1000"))
        await eventually(lambda: "a" in self.second.instances("orders"))
        await eventually(lambda: self.second.owner(0))
        await eventually(lambda: self.first.post("b", "check", b"x"))
        await eventually(lambda: self.inbox)
        assert self.inbox == [("check", b"x")]
        self.inbox.clear()


@pytest.fixture
async def pairs() -> AsyncIterator[list[Pair]]:
    made: list[Pair] = []
    yield made
    for pair in made:
        await pair.stop()


def started(pairs: list[Pair], url: str) -> Pair:
    pair = Pair(url)
    pairs.append(pair)
    pair.first.start("test")
    pair.second.start("test")
    return pair


async def test_a_unix_socket(servers: RedisServers, tmp_path: Path, pairs: list[Pair]) -> None:
    path = tmp_path / "redis.sock"
    servers.start(f"unixsocket {path}", *SECURED, socket_only=True)
    wait_until(path.exists)
    await started(pairs, f"unix://:{QUOTED}@{path}?db=3").works()


async def test_tls_with_a_certificate_that_is_named(
    servers: RedisServers, tmp_path: Path, pairs: list[Pair]
) -> None:
    port = servers.start(*SECURED)
    wait_until(lambda: servers.client(port, password=PASSWORD).ping())
    cert, key = certificate(tmp_path)
    relay = TlsRelay(port, cert, key)
    try:
        await started(pairs, f"rediss://:{QUOTED}@127.0.0.1:{relay.port}/0?ca={cert}").works()
        doubtful = started(pairs, f"rediss://:{QUOTED}@127.0.0.1:{relay.port}/0")
        await eventually(lambda: "not trusted" in (doubtful.first.trouble or ""))
        plain = started(pairs, f"rediss://:{QUOTED}@127.0.0.1:{port}/0?ca={cert}")
        await eventually(lambda: "TLS" in (plain.first.trouble or ""))
        for pair in pairs:
            await pair.stop()
    finally:
        relay.close()


async def test_sentinels_name_the_new_primary_after_the_old_one_died(
    servers: RedisServers, pairs: list[Pair]
) -> None:
    primary = servers.start(*SECURED)
    wait_until(lambda: servers.client(primary, password=PASSWORD).ping())
    replica = servers.start(
        *SECURED, f"replicaof 127.0.0.1 {primary}", "repl-diskless-sync-delay 0"
    )
    client = servers.client(replica, password=PASSWORD)
    wait_until(lambda: client.info("replication")["master_link_status"] == "up")
    monitor = (
        f"sentinel monitor shop 127.0.0.1 {primary} 1",
        f"sentinel auth-pass shop {PASSWORD}",
        "sentinel down-after-milliseconds shop 500",
        "sentinel failover-timeout shop 2000",
        "requirepass sentinel-pass",
    )
    sentinel = servers.start(*monitor, arguments=("--sentinel",))
    asked = servers.client(sentinel, password="sentinel-pass")
    wait_until(lambda: asked.sentinel_master("shop")["num-slaves"] == 1, 15)
    # The first Sentinel of the list is not there at all.
    hosts = f"127.0.0.1:1,127.0.0.1:{sentinel}"
    url = f"redis+sentinel://:{QUOTED}@{hosts}/shop/0?sentinel_password=sentinel-pass"
    pair = started(pairs, url)
    await pair.works()
    servers.kill(primary)
    await eventually(lambda: not pair.first.healthy, 5)
    await eventually(lambda: pair.first.healthy, 15)
    pair.first.doubtful(0, [doubt("t9", due_ms=9)])

    async def is_complete() -> bool:
        # Whether the replica had seen everything decides whether it is asked for again.
        if pair.first.wants_all(0):
            pair.first.doubtful(0, [doubt("t1000", due_ms=0), doubt("t9", due_ms=9)])
        return await pair.is_listed("t1000", "t9")

    await eventually(is_complete)
    await eventually(lambda: pair.second.healthy, 5)
    await eventually(lambda: pair.second.post("a", "check", b"y"))
    await eventually(lambda: ("check", b"y") in pair.inbox)


async def test_a_cluster_and_one_of_its_servers_wiped(
    servers: RedisServers, pairs: list[Pair]
) -> None:
    ports = [servers.start(*SECURED, "cluster-enabled yes") for _ in range(3)]
    clients = [servers.client(port, password=PASSWORD) for port in ports]
    bounds = (0, 5_461, 10_922, 16_384)
    for client, low, high in zip(clients, bounds, bounds[1:], strict=False):
        wait_until(client.ping)
        client.execute_command("CLUSTER", "ADDSLOTS", *range(low, high))
    for number, client in enumerate(clients):
        client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
    for port in ports[1:]:
        clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", port)
    for client in clients:
        wait_until(lambda client=client: b"cluster_state:ok" in raw_info(client))
    pair = started(pairs, f"redis+cluster://:{QUOTED}@127.0.0.1:1,127.0.0.1:{ports[0]}")
    await pair.works(10)
    assert pair.seen.rebuilt == []
    # A server that holds none of the list, only some of the hashes.
    listed = key_slot(b"hh:test:due:0")
    other = next(n for n, low in enumerate(bounds[:3]) if not low <= listed < bounds[n + 1])
    clients[other].flushall()
    await eventually(lambda: pair.first.wants_all(0), 4)
    assert pair.seen.rebuilt == ["wiped"]
    pair.first.doubtful(0, [doubt("t9"), doubt("u9")])
    await eventually(lambda: pair.is_listed("t9", "u9"))
    servers.kill(ports[other])
    await eventually(lambda: not pair.first.healthy, 10)
    assert pair.first.trouble is not None


def raw_info(client: Any) -> bytes:
    return str(client.execute_command("CLUSTER", "INFO")).encode()
