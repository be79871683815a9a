"""Owners' producers that fence each other while requests of theirs are under way; by hand.

A double free in librdkafka ended a sidecar in one of some thirty such fences (see
adapters/kafka/letting_go.py). What is looked for ends this process:

    python tests/fuzz/fencing.py --seconds 300 --seed 7

With `--careless` producers are dropped as they were before, purged only.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from halfhitch.adapters.kafka.clients import OwnerProducer, base, owner_producer
from halfhitch.adapters.kafka.letting_go import let_go
from halfhitch.embedded import EmbeddedKafka
from harness.kafka import create_topics, fresh_name

PARTITION_COUNT = 3
STEPS_MAX = 60


@dataclass
class Count:
    """What came of it, over all threads."""

    fenced: int = 0
    steps: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def hijack(
    bootstrap: str, transactional_id: str, over: threading.Event, rng: random.Random
) -> None:
    """Somebody else takes the id again and again."""
    while not over.wait(rng.uniform(0.0, 0.5)):
        stranger = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0}
        )
        try:
            stranger.init_transactions(5.0)
        except KafkaException:
            pass  # it was fenced itself


def step(producer: Producer, topics: list[str], rng: random.Random, metadata: Any) -> None:
    """One Kafka transaction, over all brokers."""
    producer.begin_transaction()
    for _ in range(rng.randrange(1, 40)):
        value = b"v" * rng.randrange(1, 300)
        producer.produce(rng.choice(topics), value, partition=rng.randrange(PARTITION_COUNT))
    producer.send_offsets_to_transaction([TopicPartition(topics[0], 0, 1)], metadata, 10.0)
    producer.commit_transaction(10.0)


def own(
    bootstrap: str, topics: list[str], rng: random.Random, until_s: float, count: Count
) -> None:
    """One producer after the other, until each is fenced."""
    transactional_id = fresh_name("id")
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": transactional_id})
    metadata = member.consumer_group_metadata()
    over = threading.Event()
    stranger = threading.Thread(
        target=hijack, args=(bootstrap, transactional_id, over, random.Random(rng.random()))
    )
    stranger.start()
    try:
        while time.monotonic() < until_s:
            producer = owner_producer(
                base(bootstrap, "owner", {}),
                transactional_id=transactional_id,
                transaction_timeout_ms=15_000,
            )
            try:
                producer.init_transactions(10.0)
                for _ in range(STEPS_MAX):
                    step(producer, topics, rng, metadata)
                    count.steps += 1
            except KafkaException:
                with count.lock:
                    count.fenced += 1
            end(producer)
            del producer
    finally:
        over.set()
        stranger.join()
        member.close()


def end(producer: OwnerProducer) -> None:
    """As an owner does."""
    if ARGUMENTS.careless:
        producer.purge()
    else:
        let_go(producer)


def main() -> None:
    rng = random.Random(ARGUMENTS.seed)
    print(f"seed {ARGUMENTS.seed}")
    count = Count()
    with EmbeddedKafka(brokers=3, short_lived=True, heap_mib=320) as cluster:
        topics = [fresh_name("orders") for _ in range(3)]
        create_topics(cluster.bootstrap, dict.fromkeys(topics, PARTITION_COUNT))
        until_s = time.monotonic() + ARGUMENTS.seconds
        owners = [
            threading.Thread(
                target=own,
                args=(cluster.bootstrap, topics, random.Random(rng.random()), until_s, count),
            )
            for _ in range(3)
        ]
        for owner in owners:
            owner.start()
        for owner in owners:
            owner.join()
    print(f"{count.fenced} producers fenced, {count.steps} Kafka transactions: still alive")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--careless", action="store_true")
    ARGUMENTS = parser.parse_args()
    main()
