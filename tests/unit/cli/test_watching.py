"""The thread behind the events of `halfhitch dev`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from halfhitch.engine import told
from halfhitch.wire.topics import InternalTopics
from halfhitch_cli import watching
from harness.kafka import wait_until
from harness.played_topics import PlayedTopics

if TYPE_CHECKING:
    from collections.abc import Iterator

SOON_S = 20.0


@pytest.fixture
def topics() -> PlayedTopics:
    return PlayedTopics(orders=3)


@pytest.fixture
def lines(topics: PlayedTopics, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    monkeypatch.setattr(watching, "Consumer", topics.consumer)
    monkeypatch.setattr(watching, "_PAUSE_S", 1.0)
    monkeypatch.setattr(watching, "_NEW_TOPICS_S", 0.05)
    topics.prepare("before")
    lines: list[str] = []
    events = watching.Watching("127.0.0.1:1", InternalTopics(""), lines.append, horizon_s=900)
    level = told.logger.level
    events.start()
    yield lines
    events.stop()
    told.logger.setLevel(level)
    assert not any(isinstance(one, watching.Watching) for one in told.logger.handlers)
    assert told.logger.propagate


def until(lines: list[str], text: str) -> None:
    wait_until(lambda: any(text in line for line in lines), SOON_S, what=text)


def test_nobody_saw_how_a_message_became_visible(topics: PlayedTopics, lines: list[str]) -> None:
    half = topics.prepare("one")
    until(lines, "one  stored, invisible: orders, key k")
    topics.decide(half)
    until(lines, "one  committed by its producer")
    topics.forward(half, 2)
    until(lines, "one  visible on orders/2@0")
    assert not any("before" in line for line in lines)


def test_a_line_about_a_check_is_shown_once(topics: PlayedTopics, lines: list[str]) -> None:
    extra = {"producer_group": "shop", "transaction_id": "one", "took_s": 0.1}
    told.logger.info("asked %s about %s (check 1 of 5): COMMIT", "vm-1", "one", extra=extra)
    until(lines, "shop  one  asked vm-1 (check 1 of 5): COMMIT")
    assert not told.logger.propagate
    assert told.logger.level == logging.INFO


def test_a_topic_that_is_new_is_seen_from_its_first_message(
    topics: PlayedTopics, lines: list[str]
) -> None:
    topics.create("invoices")
    topics.forward(topics.prepare("one", topic="invoices"))
    until(lines, "one  visible on invoices/0@0")


def test_kafka_away_for_a_moment_ends_nothing(topics: PlayedTopics, lines: list[str]) -> None:
    topics.prepare("one")
    until(lines, "one  stored")
    topics.away = True
    topics.away = False
    topics.prepare("two")
    until(lines, "two  stored")
