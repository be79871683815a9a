"""Records of strangers: a header's name is bytes, and need not be text. kcat writes them."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer

from halfhitch.adapters.kafka.scan import LogScan
from harness.kafka import bounds, create_topics, fresh_name
from harness.odd_records import produce_odd

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic(kafka: Any) -> str:
    """With the second of three records by such a stranger."""
    name = fresh_name("odd")
    create_topics(kafka.bootstrap, {name: 1})
    produce_odd(kafka.bootstrap, name, b"one", b"color=blue")
    produce_odd(kafka.bootstrap, name, b"two", b"\xff=1")
    produce_odd(kafka.bootstrap, name, b"three", b"color=red")
    return name


def test_who_scans_a_log_reads_past_a_header_name_that_is_no_text(kafka: Any, topic: str) -> None:
    """`halfhitch tail` and `verify` ended with a SystemError, or by a signal."""
    ends = bounds(kafka.bootstrap, topic, "read_committed")[1]
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": fresh_name("scan")})
    scan = LogScan(consumer)
    scan.begin({(topic, 0): 0})
    found: list[Any] = []
    while scan.below({(topic, 0): ends[0]}):
        found += scan.some()
    consumer.close()
    assert [record.value() for record in found] == [b"one", b"two", b"three"]
    assert [record.headers() or [] for record in found] == [
        [("color", b"blue")], [], [("color", b"red")],
    ]  # fmt: skip
