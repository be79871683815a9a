"""The console of a shipped sidecar, on a real Kafka: what a dead producer has left is settled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch import TransactionProducer
from halfhitch.adapters.kafka.audit_topic import AuditOptions, ensure_audit
from halfhitch.adapters.kafka.topics import ensure
from halfhitch.client import Message
from halfhitch.wire.topics import InternalTopics
from harness.chromium import chromium
from harness.kafka import admin_client, create_topics, fresh_name, read_all
from harness.sidecar import Sidecar

if TYPE_CHECKING:
    from pathlib import Path

    from harness.servers import KafkaAddress

pytestmark = pytest.mark.kafka
COUNT = 200


def test_two_hundred_of_a_dead_producer_are_found_and_settled_in_the_browser(
    kafka: KafkaAddress, tmp_path: Path
) -> None:
    orders, prefix = fresh_name("orders"), fresh_name("console") + "."
    create_topics(kafka.bootstrap, {orders: 1})
    internal = InternalTopics(prefix)
    admin = admin_client(kafka.bootstrap)
    ensure(admin, internal, partition_count=1, replication_factor=1)
    ensure_audit(admin, internal, AuditOptions(retention_h=24, replication_factor=1), half_count=1)
    with (
        chromium() as browser,
        Sidecar(kafka.bootstrap, tmp_path, HALFHITCH_TOPICS_PREFIX=prefix) as sidecar,
    ):
        sidecar.wait_ready()
        with TransactionProducer("shop", sidecar.address, answers_checks=False) as producer:
            for number in range(COUNT):
                message = Message(orders, f"{number}".encode(), key=b"customer-7")
                producer.prepare([message], f"order-{number}")
        page = f"http://127.0.0.1:{sidecar.admin_port}/console"
        browser.go(f"{page}#transactions")
        browser.wait_text(f"1 to 50 of {COUNT}")
        browser.wait_text("no producer")

        browser.click("order-0")
        browser.click("Commit…")
        browser.fill("reason", "ledger 17")
        browser.fill("operator", "alice")
        browser.click("Show what would be done")
        browser.click("Commit 1")
        browser.wait_text("1 committed.", "dialog")
        browser.click("Close")
        browser.wait_text("forwarded")
        browser.wait_text("alice: ledger 17")
        browser.click("Show its messages on their topics")
        browser.wait_text(f"{orders}/0@0", ".message")
        browser.wait_text("customer-7", ".message")

        browser.go(f"{page}#transactions?group=shop")
        browser.click(f"Roll back all {COUNT - 1}…")
        browser.fill("reason", "the producer is gone")
        browser.click("Show what would be done")
        browser.click(f"Roll back {COUNT - 1}")
        browser.wait_text(f"{COUNT - 1} rolled back.", "dialog")
        browser.click("Close")
        browser.wait_text("Nothing that matches is undecided")
        browser.go(f"{page}#trace?id=order-{COUNT - 1}&group=shop")
        browser.wait_text("alice: the producer is gone")
        browser.wait_text("dropped", ".timeline")
        browser.go(f"{page}#partitions")
        browser.wait_text("working")
        browser.go(f"{page}#overview")
        browser.wait_text("kafka", "dl")
        assert browser.complaints() == []
        assert sidecar.terminate() == 0
    assert [record.value for record in read_all(kafka.bootstrap, orders)] == [b"0"]
