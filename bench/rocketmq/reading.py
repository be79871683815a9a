"""Reads what one run has left in Kafka, once it is over, and hands it to its account."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bench.rocketmq.account import Account, Told
from halfhitch.wire.headers import UNIQ_KEY
from harness.kafka import bounds, fresh_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from bench.rocketmq.account import Forwarded
    from bench.rocketmq.sides import HalfHitchSide

_READ_S = 300.0
_READ_MAX = 2_000
_COMMITTED = "read_committed"


class RunReader:
    """Made before a run, so that it knows where the run begins."""

    def __init__(self, side: HalfHitchSide, topic: str) -> None:
        self._side = side
        self._bootstrap = side.kafka.bootstrap
        self._topic = topic
        self._begins = self._ends(topic, _COMMITTED)
        self._left_count = side.wait_settled()

    def account(self, batch: int, *, unended_count_max: int, commits_all: bool) -> Forwarded:
        """When the load is gone: waits until all is carried out, then reads what is visible."""
        pending_count = self._side.wait_settled()
        account = Account(batch)
        for message in self._read(self._topic, _COMMITTED, self._begins):
            account.seen(message.value(), _id(message))
        told = Told(
            prepared_count=self._side.count_of("halfhitch_prepared_messages_total"),
            rolled_back_count=self._side.count_of("halfhitch_rollback_messages_total"),
            pending_count=pending_count,
            left_count=self._left_count,
        )
        return account.close(told, unended_count_max=unended_count_max, commits_all=commits_all)

    def _ends(self, topic: str, isolation: str) -> Mapping[int, int]:
        return bounds(self._bootstrap, topic, isolation)[1]

    def _read(self, topic: str, isolation: str, begins: Mapping[int, int]) -> Iterator[Any]:
        ends = self._ends(topic, isolation)
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": fresh_name("bench-account"),
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
            }
        )
        try:
            yield from _read_between(consumer, topic, begins, ends)
        finally:
            consumer.close()


def _read_between(
    consumer: Consumer, topic: str, begins: Mapping[int, int], ends: Mapping[int, int]
) -> Iterator[Any]:
    unfinished = {partition for partition in ends if ends[partition] > begins[partition]}
    consumer.assign([TopicPartition(topic, p, begins[p]) for p in unfinished])
    give_up_s = time.monotonic() + _READ_S
    while unfinished:
        if time.monotonic() > give_up_s:
            raise TimeoutError(f"the end of {topic} was not reached within {_READ_S:g} s")
        for message in consumer.consume(_READ_MAX, 1.0):
            error = message.error()
            if error is None:
                if message.offset() < ends[message.partition()]:
                    yield message
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
        # The position passes over control records, a record's offset does not.
        for place in consumer.position([TopicPartition(topic, p) for p in unfinished]):
            if place.offset >= ends[place.partition]:
                unfinished.discard(place.partition)


def _id(message: Any) -> bytes:
    headers = message.headers() or ()
    found = next((value for name, value in headers if name == UNIQ_KEY), None)
    return found or b""
