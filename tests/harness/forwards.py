"""Forwarded records on a real Kafka, written as an owner of a half partition writes them.

The headers come from `halfhitch.wire`, so a test that reads them proves the reader against the
writer's own form. The test decides whether a Kafka transaction is committed,
aborted or left open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from halfhitch.wire.count import with_count
from halfhitch.wire.half import Forward, HalfRecord, read_forward, system_headers
from harness.kafka import fresh_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halfhitch.wire.half import Headers

ANSWER_S = 30.0


@dataclass(frozen=True, slots=True)
class Record:
    """One record to produce."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = field(default_factory=list)
    partition: int = 0


def forwarded_headers(
    transaction_id: str,
    *,
    index: int = 0,
    user: Sequence[tuple[str, bytes | None]] = (),
    producer_group: str = "orders",
    born_ms: int = 1_700_000_000_123,
    instance: str = "instance-1",
    count: int | None = None,
) -> Headers:
    """The headers of a forwarded record, by way of its half record.

    `count`: how many messages its transaction has; None: an earlier release forwarded it.
    """
    half = HalfRecord(transaction_id, producer_group, index, born_ms, instance, "anywhere")
    forward = read_forward(0, [*system_headers(half), *user])
    assert isinstance(forward, Forward), forward
    if count is not None:
        *others, (name, marker) = forward.headers
        return [*others, (name, with_count(marker or b"", count))]
    return forward.headers


def half_hitch_record(
    transaction_id: str,
    value: bytes,
    *,
    index: int = 0,
    partition: int = 0,
    count: int | None = 1,
) -> Record:
    """A forwarded record without key and user headers."""
    headers = forwarded_headers(transaction_id, index=index, count=count)
    return Record(value, headers=headers, partition=partition)


def _producer(bootstrap: str, name: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "linger.ms": 0,
            "log_level": 0,
            # A slow machine is no reason for Kafka to abort what a test has open.
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(ANSWER_S)
    return producer


def store_undecided(
    bootstrap: str, topic: str, records: Sequence[Record], *, name: str | None = None
) -> Producer:
    """Records of an open Kafka transaction, surely stored. The caller ends it."""
    producer = _producer(bootstrap, name or fresh_name("forwards"))
    problems: list[object] = []

    def delivered(problem: object, _: object) -> None:
        if problem is not None:
            problems.append(problem)

    producer.begin_transaction()
    for record in records:
        producer.produce(
            topic,
            value=record.value,
            key=record.key,
            partition=record.partition,
            headers=list(record.headers),
            on_delivery=delivered,
        )
    left = producer.flush(ANSWER_S)
    assert left == 0, f"{left} records of {topic} were not stored"
    assert not problems, problems
    return producer


def commit_records(bootstrap: str, topic: str, records: Sequence[Record]) -> None:
    """One committed Kafka transaction, whose records can be read."""
    name = fresh_name("forwards")
    store_undecided(bootstrap, topic, records, name=name).commit_transaction(ANSWER_S)
    _until_marked(bootstrap, name)


def abort_records(bootstrap: str, topic: str, records: Sequence[Record]) -> None:
    """One aborted Kafka transaction, which holds no reader up."""
    name = fresh_name("forwards")
    store_undecided(bootstrap, topic, records, name=name).abort_transaction(ANSWER_S)
    _until_marked(bootstrap, name)


def _until_marked(bootstrap: str, name: str) -> None:
    """Kafka answers an end before its markers lie in the partitions; the next producer of the name
    is let in when they do."""
    _producer(bootstrap, name)
