"""On which rung of the ladder the tests stand, and what they are told when it does not bear."""

from __future__ import annotations

import sys

import pytest

from harness import servers
from harness.servers import LadderError, Rung, kafka_server, redis_server, rung


def never() -> str:
    """No engine is asked where its answer would not matter."""
    raise AssertionError("asked for nothing")


def possible() -> None:
    """There can be a container."""


def in_the_way() -> str:
    return "no container engine answers: start one"


@pytest.mark.parametrize("wish", [None, "", "yes", "no"])
def test_a_given_address_comes_first_whatever_is_wished(wish):
    assert rung("kafka:9092", wish, never) is Rung.GIVEN


@pytest.mark.parametrize("given", [None, ""])
def test_containers_are_not_even_looked_for_where_they_are_not_wanted(given):
    assert rung(given, "no", never) is Rung.EMBEDDED


@pytest.mark.parametrize("wish", [None, ""])
def test_a_container_is_taken_where_there_can_be_one_else_the_embedded(wish):
    assert rung(None, wish, possible) is Rung.CONTAINER
    assert rung(None, wish, in_the_way) is Rung.EMBEDDED


def test_containers_that_were_asked_for_and_cannot_be_are_an_error_with_the_cure():
    assert rung(None, "yes", possible) is Rung.CONTAINER
    with pytest.raises(LadderError, match="no container engine answers: start one"):
        rung(None, "yes", in_the_way)


def test_a_wish_that_nobody_understands_is_told():
    with pytest.raises(LadderError, match="'perhaps': say yes or no"):
        rung("kafka:9092", "perhaps", never)


def test_given_servers_are_used_as_they_are(monkeypatch):
    monkeypatch.setattr(servers, "told", {})
    given = {servers.KAFKA_VARIABLE: "kafka:9092", servers.REDIS_VARIABLE: "redis://cache:6379/3"}
    with kafka_server(given) as kafka, redis_server(given) as redis:
        assert (kafka.bootstrap, redis.url) == ("kafka:9092", "redis://cache:6379/3")
    assert servers.told == {"Kafka": "given, kafka:9092", "Redis": "given, redis://cache:6379/3"}


def test_an_engine_that_is_not_there_is_said_with_what_to_do(monkeypatch, tmp_path):
    pytest.importorskip("testcontainers")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    wanted = {servers.WISH_VARIABLE: "yes"}
    with pytest.raises(LadderError, match="no container engine answers: start Docker"):
        redis_server(wanted).__enter__()
    assert servers.obstacle("halfhitch-test-redis:6.2").endswith("with DOCKER_HOST")


def test_testcontainers_that_are_not_installed_are_said_too(monkeypatch):
    monkeypatch.delitem(sys.modules, "harness.containers", raising=False)
    for name in ("docker", "docker.errors", "testcontainers"):
        monkeypatch.setitem(sys.modules, name, None)
    told = servers.obstacle("halfhitch-test-redis:6.2")
    assert told == "docker is not installed: `make setup` installs it"
