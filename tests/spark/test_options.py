"""Which options are refused, and where reading begins and ends; Spark is not asked."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from halfhitch.errors import ConfigurationError
from halfhitch_spark.kafka_topics import Topic
from halfhitch_spark.options import begin_options, end_options, safe_options, topic_names

FOUND = {"orders": Topic("a", 2), "points": Topic("b", 1)}
MOMENT = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kafka.isolation.level", "read_uncommitted"),
        ("KAFKA.Isolation.Level", "read_uncommitted"),
        ("includeheaders", False),
        ("failOnDataLoss", "false"),
        ("FAILONDATALOSS", False),
    ],
)
def test_an_option_that_would_undo_the_promise_is_refused_with_the_reason(
    name: str, value: str | bool
) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name}={value}: it must be .*, because .*"):
        safe_options({name: value})


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("kafka.bootstrap.servers", "bootstrap"),
        ("subscribePattern", "topics or pattern"),
        ("startingTimestamp", "starting"),
        ("startingOffsetsByTimestamp", "starting"),
        ("endingOffsets", "ending"),
    ],
)
def test_an_option_that_an_argument_would_contradict_is_refused(name: str, argument: str) -> None:
    with pytest.raises(ConfigurationError, match=f"use the argument '{argument}'"):
        safe_options({name: "x"})


def test_other_options_and_the_required_values_go_through() -> None:
    given: dict[str, Any] = {"failOnDataLoss": True, "kafka.security.protocol": "SSL"}
    assert safe_options(given) == given
    assert safe_options(None) == {}


@pytest.mark.parametrize("topics", [[], "", "orders,points", ["orders", "a b"]])
def test_names_that_no_topic_can_have_are_refused(topics: str | list[str]) -> None:
    with pytest.raises(ConfigurationError, match="topic"):
        topic_names(topics)


def test_reading_begins_where_it_is_told() -> None:
    assert begin_options("latest", FOUND) == {"startingOffsets": "latest"}
    by_time = begin_options(MOMENT, FOUND)
    assert by_time == {
        "startingTimestamp": "1767312000000", "startingOffsetsByTimestampStrategy": "latest"
    }  # fmt: skip
    filled = begin_options({"orders": {1: 7}}, FOUND)["startingOffsets"]
    assert json.loads(filled) == {"orders": {"0": -2, "1": 7}, "points": {"0": -2}}


def test_a_batch_ends_where_it_is_told() -> None:
    assert end_options("latest", FOUND) == {"endingOffsets": "latest"}
    assert end_options(MOMENT, FOUND) == {"endingTimestamp": "1767312000000"}
    filled = end_options({"points": {0: 3}}, FOUND)["endingOffsets"]
    assert json.loads(filled) == {"orders": {"0": -1, "1": -1}, "points": {"0": 3}}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (MOMENT.replace(tzinfo=None), "no time zone"),
        ({"other": {0: 1}}, "other, which is not read"),
        ({"points": {1: 1}}, "points has no partition 1: it has 1"),
    ],
)
def test_a_beginning_that_cannot_be_is_refused(given: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        begin_options(given, FOUND)
