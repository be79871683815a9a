"""The index before Kafka has been reached: a Redis that is away, and asks nothing of anybody."""

from __future__ import annotations

from typing import Any

import pytest

from halfhitch.adapters.redis.index import RedisIndex
from halfhitch.errors import ConfigurationError, RedisUnavailable


def new_index(url: str = "redis://127.0.0.1:1/0") -> RedisIndex:
    nobody: Any = None
    return RedisIndex(url, instance="a", observer=nobody, on_post=lambda *_: None)


async def test_what_is_asked_before_the_start_is_answered_by_what_to_wait_for() -> None:
    index = new_index()
    identity: Any = ("shop", "T1")
    with pytest.raises(RedisUnavailable, match="once Kafka has been reached"):
        await index.owner(0)
    with pytest.raises(RedisUnavailable, match="once Kafka has been reached"):
        await index.list(0, count_max=10)
    with pytest.raises(RedisUnavailable, match="once Kafka has been reached"):
        await index.find(0, [identity])
    assert await index.delivered(0, identity, (1,)) == 0


async def test_before_the_start_nothing_is_wrong_nothing_is_sent_and_nobody_is_known() -> None:
    index = new_index()
    index.announce(["shop"])
    assert index.trouble is None
    assert not index.healthy
    assert index.has_room(1_000)
    assert not index.wants_all(0)
    assert not index.post("b", "check", b"{}")
    assert list(index.instances("shop")) == []


async def test_an_index_that_was_never_started_stops_at_once() -> None:
    await new_index().stop()


def test_a_url_that_is_none_is_refused_when_the_index_is_made() -> None:
    with pytest.raises(ConfigurationError):
        new_index("http://redis")
