"""Logs whose readers are held by somebody's open Kafka transaction."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters.kafka import held_logs
from halfhitch.adapters.kafka.held_logs import HeldLog, HeldLogs, HeldSince, sentence
from halfhitch.adapters.kafka.open_producers import OpenProducer
from halfhitch.errors import KafkaUnavailable

if TYPE_CHECKING:
    from collections.abc import Collection

LOG = ("orders", 2)
OTHER = ("op", 0)


def test_a_log_is_held_when_what_can_be_read_has_not_moved_for_long() -> None:
    holding = HeldSince(after_s=10.0)
    assert holding.seen({LOG: 40}, {LOG: 17}, 100.0) == []
    assert holding.seen({LOG: 45}, {LOG: 17}, 109.0) == []
    assert holding.seen({LOG: 50}, {LOG: 17}, 110.0) == [HeldLog(LOG, 17, 50, 10.0)]
    assert holding.seen({LOG: 50}, {LOG: 50}, 111.0) == []
    assert holding.seen({LOG: 60}, {LOG: 50}, 130.0) == []


def test_one_kafka_transaction_after_the_other_holds_nothing() -> None:
    holding = HeldSince(after_s=10.0)
    for number in range(100):
        assert holding.seen({LOG: number + 5}, {LOG: number}, float(number)) == []


def test_the_sentence_names_the_place_the_producer_and_how_to_end_it() -> None:
    text = sentence(HeldLog(LOG, 17, 40, 130.0), OpenProducer(4001, 3, 17), "kafka:9092")
    assert text.startswith("orders-2 can be read up to 17 of 40 for 130 s: producer 4001 (epoch 3)")
    assert text.endswith(
        "kafka-transactions.sh --bootstrap-server kafka:9092 abort --topic orders --partition 2 "
        "--start-offset 17"
    )


def test_without_the_producer_the_sentence_says_how_to_find_it() -> None:
    text = sentence(HeldLog(LOG, 17, 40, 130.0), None, "kafka:9092")
    assert "describe-producers --topic orders --partition 2" in text


class Ends:
    def __init__(self) -> None:
        self.existing_now: dict[Any, int] = {LOG: 40, OTHER: 7}
        self.readable_now: dict[Any, int] = {LOG: 17, OTHER: 7}
        self.is_away = False

    def existing(self, logs: Collection[Any]) -> dict[Any, int]:
        if self.is_away or any(topic == "gone" for topic, _ in logs):
            raise KafkaUnavailable("away")
        return {log: self.existing_now[log] for log in logs}

    def readable(self, logs: Collection[Any]) -> dict[Any, int]:
        return {log: self.readable_now[log] for log in logs}


def looking(ends: Any, *logs: Any) -> HeldLogs:
    admin: Any = SimpleNamespace(list_topics=lambda topic, wait_s: SimpleNamespace(topics={}))
    return HeldLogs(
        admin,
        ends,
        logs=lambda: logs,
        always=["op"],
        bootstrap="b1:9092",
        options={},
        tell=lambda _: None,
    )


def test_one_target_that_is_gone_does_not_hide_the_others() -> None:
    held = looking(Ends(), OTHER, ("gone", 0), LOG)
    held.look(0.0)
    held.look(11.0)
    assert [text.split(" can")[0] for text in held.troubles] == ["orders-2"]
    assert held.unseen == ["gone"]


def test_no_answer_is_told_and_is_not_taken_for_nothing() -> None:
    ends = Ends()
    ends.is_away = True
    held = looking(ends, OTHER, LOG)
    held.look(0.0)
    assert (held.troubles, held.unseen) == ([], ["op", "orders"])


def test_what_holds_is_told_once_measured_always_and_gone_when_it_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[object] = []

    def holder(address: object, log: object, options: object) -> OpenProducer:
        asked.append((address, log))
        return OpenProducer(4001, 3, 17)

    monkeypatch.setattr(held_logs, "holder", holder)
    partitions = {2: SimpleNamespace(leader=1)}
    cluster = SimpleNamespace(
        topics={"orders": SimpleNamespace(partitions=partitions)},
        brokers={1: SimpleNamespace(host="b1", port=9092)},
    )
    admin: Any = SimpleNamespace(list_topics=lambda topic, wait_s: cluster)
    ends: Any = Ends()
    told: list[dict[Any, int]] = []
    held = HeldLogs(
        admin,
        ends,
        logs=lambda: [LOG, OTHER],
        always=["op"],
        bootstrap="b1:9092",
        options={},
        tell=told.append,  # type: ignore[arg-type]
    )
    held.look(0.0)
    assert (held.troubles, told[-1]) == ([], {OTHER: 0})
    for now_s in (11.0, 16.0):
        held.look(now_s)
        assert len(held.troubles) == 1
        assert told[-1] == {LOG: 23, OTHER: 0}
    assert "producer 4001" in held.troubles[0]
    assert asked == [(("b1", 9092), LOG)]
    assert sum("orders-2" in record.getMessage() for record in caplog.records) == 1
    ends.is_away = True
    held.look(20.0)
    assert held.troubles, "no answer is no finding, neither this way nor that"
    ends.is_away = False
    ends.readable_now[LOG] = 40
    held.look(21.0)
    assert (held.troubles, told[-1]) == ([], {OTHER: 0})
