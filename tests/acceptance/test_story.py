"""The story that the command line and the console are for, acted on the shipped commands.

A producer dies with 200 transactions open. The alert fires on a Prometheus that scrapes the
sidecar; the operator looks, traces one, rolls back most and commits some, of which the target's
topic takes none; what is parked for that is put back, and arrives. Console and command line tell
the same all the while, and what was done is kept when the logs that said so are deleted.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from halfhitch.wire.topics import InternalTopics
from harness.kafka import admin_client, create_topics, fresh_name, read_all, wait_until
from harness.places import ROOT
from harness.prometheus import EmbeddedPrometheus
from harness.sidecar import Sidecar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.servers import KafkaAddress

pytestmark = pytest.mark.kafka

COUNT, SMALL_COUNT = 200, 20
WAIT_S = 60.0
#: The last twenty are of a topic that takes no message of their size.
PRODUCER = """
import os, sys
from halfhitch import Message, TransactionProducer
address, orders, small = sys.argv[1:]
producer = TransactionProducer("shop", address, check=lambda message: None)
for number in range(200):
    topic, value = (small, os.urandom(5_000)) if number >= 180 else (orders, b"%d" % number)
    producer.prepare([Message(topic, value, key=b"%d" % number)], f"order-{number}")
print("open", flush=True)
os.kill(os.getpid(), 9)
"""


class Operator:
    """Somebody at a terminal, and in a browser."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar

    def run(self, *words: str, code: int = 0) -> Any:
        """A command, as JSON."""
        port = str(self._sidecar.admin_port)
        done = subprocess.run(
            [sys.executable, "-m", "halfhitch_cli", *words, "--admin-port", port, "-o", "json"],
            env=self._sidecar.environment | {"HALFHITCH_ADMIN_PORT": port},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def asks(self, path: str) -> Any:
        """What the console asks for the same."""
        status, answer = self._sidecar.ask(path)
        assert status == 200, answer
        return answer

    def until(self, path: str, holds: Callable[[Any], object]) -> Any:
        wait_until(lambda: holds(self.asks(path)), WAIT_S, interval_s=0.1, what=path)
        return self.asks(path)


def quick_rules(folder: Path) -> Path:
    """Those that are shipped, but nobody waits for minutes until they fire."""
    text = (ROOT / "dashboards" / "rules.yaml").read_text()
    lines = [line for line in text.splitlines() if not line.strip().startswith("for:")]
    path = folder / "rules.yaml"
    path.write_text("\n".join(lines))
    return path


def until_it_fires(prometheus: EmbeddedPrometheus, alert: str, says: str) -> None:
    def fires() -> bool:
        return any(
            one["labels"]["alertname"] == alert
            and one["state"] == "firing"
            and says in one["annotations"]["summary"]
            for one in prometheus.ask("alerts")["alerts"]
        )

    wait_until(fires, WAIT_S, interval_s=0.2, what=f"{alert}: {says}")


def die_with_open_transactions(sidecar: Sidecar, orders: str, small: str) -> None:
    died = subprocess.run(
        [sys.executable, "-c", PRODUCER, sidecar.address, orders, small],
        env=sidecar.environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (died.returncode, died.stdout) == (-9, "open\n"), died.stderr


def take_larger_messages(bootstrap: str, topic: str) -> None:
    entry = ConfigEntry(
        "max.message.bytes", "100000", ConfigSource.DYNAMIC_TOPIC_CONFIG,
        incremental_operation=AlterConfigOpType.SET,
    )  # fmt: skip
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = admin_client(bootstrap)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(20)


def delete_all_records(bootstrap: str, topic: str) -> None:
    admin = admin_client(bootstrap)
    for future in admin.delete_records([TopicPartition(topic, 0, -1)]).values():
        assert future.result(20).low_watermark > 0


@pytest.mark.long
def test_two_hundred_of_a_dead_producer_are_found_by_an_alert_settled_and_accounted_for(
    kafka: KafkaAddress, tmp_path: Path
) -> None:
    orders, small = fresh_name("orders"), fresh_name("small")
    create_topics(kafka.bootstrap, {orders: 1})
    create_topics(kafka.bootstrap, {small: 1}, {"max.message.bytes": "1000"})
    prefix = fresh_name("story") + "."
    settings = {"HALFHITCH_TOPICS_PREFIX": prefix, "HALFHITCH_TOPICS_CREATE": "true"}
    with Sidecar(kafka.bootstrap, tmp_path, **settings) as sidecar:
        sidecar.wait_ready(90.0)
        operator = Operator(sidecar)
        with EmbeddedPrometheus([sidecar.admin_port], quick_rules(tmp_path)) as prometheus:
            die_with_open_transactions(sidecar, orders, small)
            said = f"{COUNT} undecided transactions of group shop"
            until_it_fires(prometheus, "HalfHitchNobodyToAsk", said)
            settle(operator, prometheus, kafka.bootstrap, orders, small)

        sidecar.wait_settled()
        internal = InternalTopics(prefix)
        for topic in (internal.op, internal.half, internal.parked):
            delete_all_records(kafka.bootstrap, topic)
        kept_is_told(operator)
        assert sidecar.terminate() == 0
    assert read_all(kafka.bootstrap, orders) == []
    arrived = {record.key for record in read_all(kafka.bootstrap, small)}
    assert arrived == {b"%d" % number for number in range(COUNT - SMALL_COUNT, COUNT)}


def settle(
    operator: Operator, prometheus: EmbeddedPrometheus, bootstrap: str, orders: str, small: str
) -> None:
    listed = operator.run("tx", "list", "--group", "shop", "--limit", "1000")
    page = operator.asks("/v1/transactions?group=shop&limit=1000")
    names = [row["transaction_id"] for row in listed["transactions"]]
    assert names == [row["transaction_id"] for row in page["transactions"]]
    assert (sorted(names), page["total_count"]) == (
        sorted(f"order-{number}" for number in range(COUNT)), COUNT,
    )  # fmt: skip
    (group,) = operator.run("producers")["groups"]
    assert operator.asks("/v1/producers")["groups"] == [group]
    assert (group["producer_group"], group["link_count"], group["undecided_count"]) == (
        "shop", 0, COUNT,
    )  # fmt: skip
    (story,) = operator.run("tx", "trace", "order-0")["stories"]
    assert (story["state"], story["topics"]) == ("pending", [orders])

    why = ("--operator", "alice", "--all-matching", "--yes")
    done = operator.run("tx", "rollback", "--reason", "the shop is gone", "--topic", orders, *why)
    assert (done["done_count"], done["failed_count"]) == (COUNT - SMALL_COUNT, 0)
    done = operator.run("tx", "commit", "--reason", "ledger 17 has them", "--topic", small, *why)
    assert (done["done_count"], done["failed_count"]) == (SMALL_COUNT, 0)

    operator.until("/v1/parked", lambda page: page["total_count"] == SMALL_COUNT)
    until_it_fires(prometheus, "HalfHitchParks", "Transactions were parked")
    parked = operator.run("parked", "list")["transactions"]
    assert {(row["decision"], row["reason"]) for row in parked} == {("commit", "undeliverable")}
    take_larger_messages(bootstrap, small)
    done = operator.run("parked", "resume", "--reason", "the topic takes them now", *why)
    assert (done["done_count"], done["failed_count"]) == (SMALL_COUNT, 0)
    ended = f"/v1/stories?since_s=3600&limit=1000&topic={small}"
    operator.until(
        ended, lambda page: sum(s["state"] == "committed" for s in page["stories"]) == SMALL_COUNT
    )
    for path in ("/v1/transactions", "/v1/parked"):
        operator.until(path, lambda page: page["total_count"] == 0)


def kept_is_told(operator: Operator) -> None:
    """By the audit topic alone: nothing else has it any more."""
    page = operator.asks("/v1/stories?since_s=3600&limit=1000")
    kept = {story["transaction_id"]: story for story in page["stories"]}
    assert sorted(kept) == sorted(f"order-{number}" for number in range(COUNT))
    rolled_back = [story for story in kept.values() if story["state"] == "rolled_back"]
    assert len(rolled_back) == COUNT - SMALL_COUNT
    assert {story["reason"] for story in rolled_back} == {"alice: the shop is gone"}
    chosen = random.Random(7).sample(range(COUNT - SMALL_COUNT), 5)
    for number in chosen:
        (story,) = operator.run("tx", "trace", f"order-{number}")["stories"]
        assert story["events"][0]["what"] == "prepared"
        assert (story["state"], story["events"][-1]["what"]) == ("rolled_back", "dropped")
    for number in range(COUNT - SMALL_COUNT, COUNT):
        (story,) = operator.asks(f"/v1/stories?id=order-{number}&group=shop")["stories"]
        words = [event["what"] for event in story["events"]]
        assert {"prepared", "decided", "parked", "lives_again", "forwarded"} <= set(words), words
        assert (story["state"], story["decided_by"], story["reason"]) == (
            "committed", "operator", "alice: ledger 17 has them",
        )  # fmt: skip
