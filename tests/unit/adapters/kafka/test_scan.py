"""Reading logs from one offset to another: over markers, open Kafka transactions and trimming."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from halfhitch.adapters.kafka.scan import LogScan, LogTrimmed, NotInTime, pick, records
from halfhitch.errors import KafkaUnavailable

LOG, OTHER = ("orders", 0), ("orders", 1)
PAST_S = float("-inf")
#: The played client tells what happens without waiting for it.
WAIT_S = 0.0


@dataclass
class Message:
    log: tuple[str, int]
    at: int
    failure: Any = None

    def topic(self) -> str:
        return self.log[0]

    def partition(self) -> int:
        return self.log[1]

    def offset(self) -> int:
        return self.at

    def error(self) -> Any:
        return self.failure

    def headers(self) -> Any:
        return None


@dataclass
class PlayedLog:
    """`records` are readable below `stable`; what lies between them is markers."""

    records: set[int]
    stable: int
    start: int = 0


@dataclass
class PlayedConsumer:
    """As librdkafka: an end is told each time it is reached, the position passes over markers."""

    logs: dict[tuple[str, int], PlayedLog]
    chunk: int = 3
    position_of: dict[tuple[str, int], int] = field(default_factory=dict)
    told_end: dict[tuple[str, int], int] = field(default_factory=dict)
    coming: list[Message] = field(default_factory=list)
    polls: int = 0
    on_poll: Any = lambda _: None
    failure: Exception | None = None

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        for where in places:
            log = where.topic, where.partition
            assert log not in self.position_of
            self.position_of[log] = where.offset

    def incremental_unassign(self, places: list[TopicPartition]) -> None:
        for where in places:
            del self.position_of[where.topic, where.partition]
            self.told_end.pop((where.topic, where.partition), None)

    def unassign(self) -> None:
        self.position_of.clear()
        self.told_end.clear()

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        return [
            TopicPartition(w.topic, w.partition, self.position_of[w.topic, w.partition])
            for w in places
        ]

    def get_watermark_offsets(self, where: TopicPartition, _: float) -> tuple[int, int]:
        log = self.logs[where.topic, where.partition]
        return log.start, log.stable

    def poll(self, wait_s: float) -> Message | None:
        self.polls += 1
        self.on_poll(self)
        if self.failure is not None:
            raise self.failure
        return self._next()

    def consume(self, count: int, wait_s: float) -> list[Message]:
        assert wait_s == 0
        found = [self._next() for _ in range(min(count, self.chunk))]
        return [message for message in found if message is not None]

    def _next(self) -> Message | None:
        if self.coming:
            return self.coming.pop(0)
        for log, position in self.position_of.items():
            played, at = self.logs[log], position
            if at < played.start:
                if self.told_end.get(log) != -1:
                    self.told_end[log] = -1
                    return Message(log, at, KafkaError(KafkaError._AUTO_OFFSET_RESET))
                continue
            while at < played.stable and at not in played.records:
                at += 1
            if at < played.stable:
                self.position_of[log] = at + 1
                return Message(log, at)
            self.position_of[log] = at
            if self.told_end.get(log) != at:
                self.told_end[log] = at
                return Message(log, at, KafkaError(KafkaError._PARTITION_EOF))
        return None


def consumer_of(**logs: PlayedLog) -> Any:
    names = {"log": LOG, "other": OTHER}
    return PlayedConsumer({names[name]: log for name, log in logs.items()})


def offsets(
    consumer: Any, start: int, end: int, give_up_s: float = PAST_S, **more: Any
) -> list[int]:
    return [message.offset() for message in records(consumer, LOG, start, end, give_up_s, **more)]


def later_s() -> float:
    return time.monotonic() + 60


# -- one log -------------------------------------------------------------------------------------


def test_an_end_behind_a_marker_is_reached() -> None:
    consumer = consumer_of(log=PlayedLog({0, 1, 4}, stable=8))
    assert offsets(consumer, 0, 8, later_s()) == [0, 1, 4]


def test_what_was_appended_since_the_end_was_asked_for_is_not_given() -> None:
    consumer = consumer_of(log=PlayedLog(set(range(20)), stable=20))
    assert offsets(consumer, 2, 6, later_s()) == [2, 3, 4, 5]


def test_an_empty_stretch_asks_nothing() -> None:
    consumer = consumer_of(log=PlayedLog({0, 1}, stable=2))
    assert offsets(consumer, 2, 2) == []
    assert consumer.polls == 0


def test_an_open_kafka_transaction_is_waited_for_and_then_named() -> None:
    consumer = consumer_of(log=PlayedLog({0, 1, 2, 3}, stable=2))
    with pytest.raises(NotInTime, match="orders-0 can be read up to 2 of 4: a Kafka tran") as held:
        offsets(consumer, 0, 4, time.monotonic() + 0.05)
    assert held.value.is_held

    def ends(played: PlayedConsumer) -> None:
        if played.polls > 3:
            played.logs[LOG].stable = 4

    consumer = consumer_of(log=PlayedLog({0, 1, 2, 3}, stable=2))
    consumer.on_poll = ends
    assert offsets(consumer, 0, 4, later_s()) == [0, 1, 2, 3]


def test_what_can_be_read_is_enough_for_who_says_so() -> None:
    consumer = consumer_of(log=PlayedLog({0, 1, 2, 3}, stable=2))
    assert offsets(consumer, 0, 4, later_s(), readable_only=True) == [0, 1]


def test_a_reader_that_was_slow_is_not_said_to_be_held_and_repeats_what_kafka_says() -> None:
    consumer = consumer_of(log=PlayedLog(set(range(100)), stable=100))
    consumer.coming = [Message(LOG, 0, KafkaError(KafkaError._TRANSPORT, "connection refused"))]
    with pytest.raises(NotInTime, match="up to 3 of 100: connection refused; ask again") as late:
        offsets(consumer, 0, 100)
    assert not late.value.is_held


def test_a_log_that_is_trimmed_under_its_reader_is_told_and_not_jumped_over() -> None:
    consumer = consumer_of(log=PlayedLog({7, 8}, stable=9, start=7))
    with pytest.raises(LogTrimmed, match="orders-0 was trimmed while it was read"):
        offsets(consumer, 3, 9, later_s())


def test_what_came_before_an_error_is_handed_on_before_it_is_raised() -> None:
    consumer = consumer_of(log=PlayedLog(set(), stable=0))
    gone = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    consumer.coming = [Message(LOG, 0), Message(LOG, 1), Message(LOG, 2, gone)]
    coming = records(consumer, LOG, 0, 9, later_s())
    assert [next(coming).offset(), next(coming).offset()] == [0, 1]
    with pytest.raises(KafkaUnavailable, match="orders was deleted while it was read"):
        next(coming)


def test_a_client_that_is_broken_ends_the_reading() -> None:
    consumer = consumer_of(log=PlayedLog({0}, stable=1))
    consumer.coming = [Message(LOG, 0, KafkaError(KafkaError._FATAL, "fenced", True))]
    with pytest.raises(KafkaUnavailable, match="cannot be read: fenced"):
        offsets(consumer, 0, 5, later_s())
    consumer = consumer_of(log=PlayedLog({0}, stable=1))
    consumer.failure = KafkaException(KafkaError(KafkaError._STATE, "closed"))
    with pytest.raises(KafkaUnavailable, match="cannot be read: closed"):
        offsets(consumer, 0, 5, later_s())


def test_whatever_the_log_looks_like_all_records_come_once_and_in_order() -> None:
    seed = random.randrange(10**9)
    print("seed", seed)
    dice = random.Random(seed)
    for _ in range(300):
        size = dice.randrange(1, 40)
        there = {at for at in range(size) if dice.random() < 0.7}
        start, end = sorted((dice.randrange(size + 1), dice.randrange(size + 1)))
        consumer = consumer_of(log=PlayedLog(there, stable=size))
        consumer.chunk = dice.randrange(5)
        assert offsets(consumer, start, end, later_s()) == sorted(
            at for at in there if start <= at < end
        )


# -- single records ------------------------------------------------------------------------------


def test_records_are_picked_wherever_they_lie_and_those_that_are_gone_are_missing() -> None:
    consumer = consumer_of(log=PlayedLog({3, 4, 5, 2_000, 9_000}, stable=9_001, start=3))
    found = pick(consumer, LOG, [9_000, 4, 1, 2_000, 6, 9_500], later_s())
    assert sorted(found) == [4, 2_000, 9_000]
    assert {at: message.offset() for at, message in found.items()} == {at: at for at in found}
    assert consumer.polls < 60, "what lies far between is not read"


def test_a_run_that_was_trimmed_does_not_hide_those_behind_it() -> None:
    consumer = consumer_of(log=PlayedLog({700, 5_000}, stable=6_000, start=700))
    assert sorted(pick(consumer, LOG, [10, 20, 5_000], later_s())) == [5_000]


def test_a_picked_record_that_is_hidden_is_not_waited_for() -> None:
    consumer = consumer_of(log=PlayedLog({0, 1}, stable=1))
    assert sorted(pick(consumer, LOG, [0, 1], later_s())) == [0]


# -- several logs --------------------------------------------------------------------------------


def read_all(scan: LogScan, ends: dict[Any, int]) -> list[tuple[str, int, int]]:
    got = []
    while scan.below(ends):
        got += [(m.topic(), m.partition(), m.offset()) for m in scan.some(WAIT_S)]
    return got


def test_logs_side_by_side_are_left_and_begun_again_where_they_were_left() -> None:
    consumer = consumer_of(log=PlayedLog({0, 1}, stable=2), other=PlayedLog({0, 2}, stable=4))
    scan = LogScan(consumer)
    scan.begin({LOG: 0, OTHER: 0})
    got = read_all(scan, {LOG: 2, OTHER: 4})
    assert sorted(got) == [("orders", 0, 0), ("orders", 0, 1), ("orders", 1, 0), ("orders", 1, 2)]
    scan.leave([LOG])
    assert scan.followed == {OTHER}
    consumer.logs[LOG].records.add(2)
    consumer.logs[LOG].stable = 3
    scan.begin({LOG: scan.read_to[LOG]})
    assert read_all(scan, {LOG: 3}) == [("orders", 0, 2)]


def test_a_topic_that_may_not_be_read_is_named_at_once() -> None:
    consumer = consumer_of(log=PlayedLog(set(), stable=9))
    refused = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not authorized")
    consumer.coming = [Message(LOG, -1, refused)]
    scan = LogScan(consumer)
    scan.begin({LOG: 0})
    assert scan.some() == []
    assert (scan.refused, scan.trouble) == ({LOG[0]}, "not authorized")


def test_how_far_it_is_outlives_the_consumer() -> None:
    kept: dict[Any, int] = {LOG: 0}
    for end in (2, 4):
        consumer = consumer_of(log=PlayedLog({0, 1, 2, 3}, stable=end))
        scan = LogScan(consumer, kept)
        scan.begin({LOG: kept[LOG]})
        read_all(scan, {LOG: end})
    assert kept == {LOG: 4}


def test_who_knows_better_than_to_give_up_goes_on_where_a_trimmed_log_begins() -> None:
    consumer = consumer_of(log=PlayedLog({8, 9}, stable=10, start=8))

    def trimmed(log: Any) -> None:
        scan.leave([log])
        scan.begin({log: 8})

    scan = LogScan(consumer, on_trimmed=trimmed)
    scan.begin({LOG: 1})
    assert read_all(scan, {LOG: 10}) == [("orders", 0, 8), ("orders", 0, 9)]
