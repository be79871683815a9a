"""Redis URLs: every form that is taken, and a sentence without secrets for everything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from halfhitch.adapters.redis.address import RedisAddress, parse
from halfhitch.adapters.redis.connect import sentence
from halfhitch.errors import ConfigurationError

GOOD = {
    "redis://redis": RedisAddress("server", (("redis", 6379),)),
    "REDIS://127.0.0.1:1/": RedisAddress("server", (("127.0.0.1", 1),)),
    "redis://[::1]:7/12": RedisAddress("server", (("::1", 7),), database=12),
    "redis://:p%40ss@h": RedisAddress("server", (("h", 6379),), password="p@ss"),
    "redis://us%3Aer:pa:ss@h": RedisAddress(
        "server", (("h", 6379),), username="us:er", password="pa:ss"
    ),
    "rediss://h/0?ca=/ca.pem&cert=/c.pem&key=/k.pem": RedisAddress(
        "server", (("h", 6379),), is_tls=True, ca="/ca.pem", cert="/c.pem", key="/k.pem"
    ),
    "unix:///run/redis.sock": RedisAddress("socket", path="/run/redis.sock"),
    "unix://u:p@/run/a%20b.sock?db=4": RedisAddress(
        "socket", path="/run/a b.sock", database=4, username="u", password="p"
    ),
    "redis+sentinel://:p@one,two:5/shop": RedisAddress(
        "sentinel", (("one", 26379), ("two", 5)), service="shop", password="p"
    ),
    "rediss+sentinel://one/my-master/3?sentinel_user=s&sentinel_password=q%26": RedisAddress(
        "sentinel",
        (("one", 26379),),
        service="my-master",
        database=3,
        is_tls=True,
        sentinel_username="s",
        sentinel_password="q&",
    ),
    "redis+cluster://u:p@a:1,[::1]:2,c": RedisAddress(
        "cluster", (("a", 1), ("::1", 2), ("c", 6379)), username="u", password="p"
    ),
    "rediss+cluster://a/0": RedisAddress("cluster", (("a", 6379),), is_tls=True),
}

BAD = {
    "": "begin with",
    "redis": "begin with",
    "redis:6379": "begin with",
    "http://h": "begin with",
    "redis+sentinels://h/s": "begin with",
    "redis://": "host",
    "redis://h:0": "host",
    "redis://h:65536": "host",
    "redis://h:x": "host",
    "redis://a b": "host",
    "redis://:sec@ret/x@h": "database",
    "redis://a,b": "several hosts",
    "redis://h/x": "database",
    "redis://h/-1": "database",
    "redis://h/0/1": "path",
    "redis://h/0#secret": "%23",
    "redis://[h": "no readable host",
    "redis://h?ssl_cert_reqs=none": "takes none",
    "rediss://h?ssl_cert_reqs=none": "possible are: ca, cert, key",
    "rediss://h?ca=/a&ca=/b": "possible are",
    "rediss://h?cert=/a": "together",
    "rediss://h?ca": "unreadable",
    "unix://host/path": "absolute path",
    "unix://": "absolute path",
    "unix:///": "absolute path",
    "unix:///a?db=x": "database",
    "redis+sentinel://h": "service",
    "redis+sentinel://h/": "service",
    "redis+sentinel://h/my master": "service",
    "redis+sentinel://h/s/0?ca=/x": "possible are: sentinel_password, sentinel_user",
    "redis+cluster://h/1": "only one",
}


@pytest.mark.parametrize("url", GOOD)
def test_every_form_is_understood(url: str) -> None:
    assert parse(url) == GOOD[url]


@pytest.mark.parametrize("url", BAD)
def test_what_is_wrong_is_said_with_a_way_to_mend_it(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(url)
    assert BAD[url] in caught.value.message
    assert "redis.url" in caught.value.message
    assert caught.value.message.endswith(".")
    assert "sec" not in caught.value.message


@given(st.text(max_size=40), st.sampled_from(["", "redis://", "rediss://", "unix://"]))
def test_any_text_is_taken_or_refused_and_nothing_else(text: str, start: str) -> None:
    try:
        assert parse(start + text).label
    except ConfigurationError:
        pass


@pytest.mark.parametrize("url", GOOD)
def test_no_secret_is_shown(url: str) -> None:
    address = parse(url)
    shown = repr(address) + address.label
    assert "p@ss" not in shown
    assert "pa:ss" not in shown
    assert "q&" not in shown
    assert address.label


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (RedisConnectionError("Error 111 connecting to h. secret"), "does not answer"),
        (RedisTimeoutError("Timeout reading secret"), "does not answer"),
        (OSError("secret"), "does not answer"),
        (AuthenticationError("secret"), "login"),
        (ResponseError("WRONGPASS secret"), "login"),
        (OutOfMemoryError("secret"), "maxmemory"),
        (ReadOnlyError("secret"), "primary"),
        (BusyLoadingError("secret"), "reading its data"),
        (ResponseError("MISCONF secret"), "cannot save"),
        (ResponseError("NOREPLICAS secret"), "replicas"),
        (ResponseError("max number of clients reached secret"), "maxclients"),
        (ResponseError("NEWCODE secret"), "(NEWCODE)"),
        (ResponseError("secret"), "(ResponseError)"),
        (KeyError("secret"), "(KeyError)"),
    ],
)
def test_an_error_becomes_a_sentence_that_repeats_nothing(error: Exception, part: str) -> None:
    found = sentence(error, parse("redis://:secret@somewhere/0"))
    assert found.startswith("Redis at somewhere:6379 ")
    assert part in found
    assert found.endswith(".")
    assert "secret" not in found
