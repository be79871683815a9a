"""Whose settings `verify` takes: given ones, else those of a sidecar on the same Kafka."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.config import Purpose, Settings, load
from halfhitch.verify.bounds import Rules
from halfhitch.verify.kafka_targets import Wanted
from halfhitch_cli.scope import Scope, find_scope
from harness.admin_door import admin_door
from harness.fake_operations import FakeOperations

if TYPE_CHECKING:
    from collections.abc import Iterator

CLUSTER = "cluster-1"
THEIRS = {
    "topics.prefix": "shop.",
    "topics.allow": "orders,points.*",
    "owner.transaction_timeout_ms": 20_000,
    "ledger.horizon_s": 1_800,
}
BY_DEFAULT = Scope("", Wanted(), Rules(15_000, 900_000))


@pytest.fixture
def port() -> Iterator[int]:
    info = {"kafka_cluster_id": CLUSTER, "kafka_bootstrap": "theirs:9092"}
    with admin_door(FakeOperations(), THEIRS, info=info) as port:
        yield port


def settings(port: int, **flags: Any) -> Settings:
    given = {key.replace("__", "."): value for key, value in flags.items()}
    return load({"admin.port": str(port), "kafka.bootstrap": "k:1", **given}, purpose=Purpose.TOOL)


def test_a_sidecar_that_answers_tells_what_nobody_has_given(port: int) -> None:
    allow = ("orders", "points.*")
    assert find_scope(settings(port), CLUSTER, []) == Scope(
        "shop.",
        Wanted(allow=allow, reach=allow),
        Rules(20_000, 1_800_000),
        f"http://127.0.0.1:{port}",
    )


def test_what_is_given_is_taken_and_held_against_what_the_sidecar_says(port: int) -> None:
    """A pattern that the sidecar has too may match nothing yet; another one is misspelled then."""
    given = settings(port, topics__allow="orders,pionts", ledger__horizon_s="60")
    found = find_scope(given, CLUSTER, ["orders"])
    assert found.wanted == Wanted(
        allow=("orders", "pionts"),
        only=("orders",),
        needed=frozenset({"pionts"}),
        reach=("orders", "points.*"),
    )
    assert found.rules == Rules(20_000, 60_000)


def test_the_sidecar_of_another_installation_or_another_kafka_is_not_believed(port: int) -> None:
    found = find_scope(settings(port), "cluster-2", [])
    assert found == replace(BY_DEFAULT, trouble=found.trouble)
    assert found.trouble == (
        f"The sidecar at http://127.0.0.1:{port} works on another Kafka cluster, at theirs:9092."
    )
    found = find_scope(settings(port, topics__prefix="bank."), CLUSTER, [])
    assert (found.prefix, found.wanted, found.sidecar) == ("bank.", Wanted(), None)
    assert find_scope(settings(port, topics__prefix="shop."), CLUSTER, []).sidecar is not None


def test_a_sidecar_that_has_not_reached_its_kafka_was_said_to_work_on_another_one() -> None:
    info = {"kafka_cluster_id": None, "kafka_bootstrap": "theirs:9092"}
    with admin_door(FakeOperations(), THEIRS, info=info) as port:
        assert find_scope(settings(port), CLUSTER, []) == BY_DEFAULT


def test_without_a_sidecar_every_given_pattern_has_to_match() -> None:
    assert find_scope(settings(1), CLUSTER, []) == BY_DEFAULT
    found = find_scope(settings(1, topics__allow="ordrs"), CLUSTER, [])
    assert found.wanted == Wanted(allow=("ordrs",), needed=frozenset({"ordrs"}))


def test_a_sidecar_that_wants_a_token_is_a_trouble_that_is_told() -> None:
    with admin_door(FakeOperations(), THEIRS, tokens=["a-token-of-sixteen"]) as port:
        found = find_scope(settings(port), CLUSTER, [])
        assert found.trouble is not None
        assert "asks for a token" in found.trouble
        assert (found.prefix, found.wanted, found.sidecar) == ("", Wanted(), None)
