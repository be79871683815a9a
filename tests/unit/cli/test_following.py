"""Topics as commands read them."""

from __future__ import annotations

import pytest

from halfhitch.errors import KafkaUnavailable
from halfhitch_cli import following
from harness.played_topics import AT_MS, PlayedTopics


@pytest.fixture
def topics() -> PlayedTopics:
    topics = PlayedTopics(orders=2, points=1)
    for number in range(6):
        topics.append("orders", number % 2, value=b"%d" % number, at_ms=AT_MS + number)
    return topics


def test_what_is_there_is_read_and_the_reading_ends(topics: PlayedTopics) -> None:
    consumer = topics.consumer()
    assert following.all_topics(consumer)["orders"] == 2
    ends = following.bounds(consumer, following.logs_of({"orders": 2, "points": 1}))
    assert ends == {("orders", 0): (0, 3), ("orders", 1): (0, 3), ("points", 0): (0, 0)}
    starts = dict.fromkeys(ends, 1)
    found = following.read_between(consumer, starts, ends)
    assert sorted(record.value() for record in found) == [b"2", b"3", b"4", b"5"]
    assert list(following.read_between(consumer, dict.fromkeys(ends, 9), ends)) == []


def test_since_a_time_is_an_offset_of_each_log(topics: PlayedTopics) -> None:
    consumer = topics.consumer()
    ends = following.bounds(consumer, following.logs_of({"orders": 2, "points": 1}))
    found = following.starts_since(consumer, ends, AT_MS + 3)
    assert found == {("orders", 0): 2, ("orders", 1): 1, ("points", 0): 0}
    assert following.starts_since(consumer, {}, 0) == {}


def test_what_comes_while_it_is_read_is_not_waited_for(topics: PlayedTopics) -> None:
    consumer = topics.consumer()
    ends = following.bounds(consumer, [("orders", 0)])
    topics.append("orders", 0, value=b"later")
    found = following.read_between(consumer, {("orders", 0): 0}, ends)
    assert [record.value() for record in found] == [b"0", b"2", b"4"]


def test_kafka_away_is_one_sentence(topics: PlayedTopics) -> None:
    consumer = topics.consumer()
    topics.away = True
    ends = {("orders", 0): (0, 3)}
    for ask in (
        lambda: following.all_topics(consumer),
        lambda: following.bounds(consumer, ends),
        lambda: following.starts_since(consumer, ends, 0),
    ):
        with pytest.raises(KafkaUnavailable, match=r"^[^\n]*\.$"):
            ask()
