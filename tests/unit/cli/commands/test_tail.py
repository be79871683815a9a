"""`halfhitch tail` over topics in memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

import pytest

from halfhitch.core.model import Resolution
from halfhitch.errors import KafkaUnavailable
from halfhitch_cli.app import main
from halfhitch_cli.commands import tail
from harness.played_topics import AT_MS, PlayedTopics

if TYPE_CHECKING:
    from collections.abc import Callable

Run = "Callable[..., tuple[int, list[str], str]]"


class Kafka:
    """Stands for KafkaAdmin."""

    def __init__(self, topics: PlayedTopics) -> None:
        self._topics = topics

    def __call__(self, *_: Any, **__: Any) -> Kafka:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def reach(self) -> None:
        if self._topics.away:
            raise KafkaUnavailable("Kafka does not answer at k:1 within 30 s.")

    def reader(self, group: str) -> Any:
        assert group == "halfhitch-tail"
        return self._topics.consumer()


@pytest.fixture
def topics() -> PlayedTopics:
    return PlayedTopics(orders=3, points=1)


@pytest.fixture
def run(
    topics: PlayedTopics, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, list[str], str]]:
    monkeypatch.setattr(tail, "KafkaAdmin", Kafka(topics))

    def run(*arguments: str) -> tuple[int, list[str], str]:
        code = main(["tail", *arguments, "--kafka-bootstrap", "k:1", "--topics-prefix", ""])
        captured = capsys.readouterr()
        return code, captured.out.splitlines(), captured.err

    return run


def places(lines: list[str]) -> list[str]:
    return [line.split("  ")[1] for line in lines]


def test_a_message_could_be_seen_with_another_tool_only(
    topics: PlayedTopics, run: Callable[..., tuple[int, list[str], str]]
) -> None:
    topics.forward(topics.prepare("one", key=b"42", value=b"x", headers=[("trace", b"t")]), 2)
    code, lines, told = run("orders")
    assert (code, told) == (0, "")
    assert lines == ["2026-11-21T16:00:00Z  orders/2@0  key=42  value=x  trace=t  (one of shop)"]


def test_the_last_ones_of_all_partitions_are_shown_in_their_order(
    topics: PlayedTopics, run: Callable[..., tuple[int, list[str], str]]
) -> None:
    for number in range(300):
        topics.append("orders", number % 3, value=b"v", at_ms=AT_MS + number)
    _, lines, _ = run("orders", "-n", "4")
    assert places(lines) == ["orders/2@98", "orders/0@99", "orders/1@99", "orders/2@99"]
    assert len(run("orders")[1]) == 10
    assert len(run("orders", "-n", "1000")[1]) == 300


def test_filters_are_looked_for_further_back(
    topics: PlayedTopics, run: Callable[..., tuple[int, list[str], str]]
) -> None:
    topics.forward(topics.prepare("one", group="bank"))
    for number in range(500):
        topics.append("orders", 0, value=b"v", at_ms=AT_MS + number)
    assert places(run("orders", "--group", "bank", "-n", "1")[1]) == ["orders/0@0"]
    assert places(run("orders", "--id", "one")[1]) == ["orders/0@0"]
    code, lines, told = run("orders", "--id", "two")
    assert (code, lines, told) == (0, [], "No message on orders matches the filters.\n")


def test_since_a_time_all_are_shown(
    topics: PlayedTopics, run: Callable[..., tuple[int, list[str], str]]
) -> None:
    for number in range(60):
        topics.append("orders", 0, value=b"v", at_ms=AT_MS + number * 1_000)
    _, lines, _ = run("orders", "--since", "2026-11-21T16:00:30Z")
    assert len(lines) == 30
    assert run("orders", "--since", "yesterday")[0] == 2


def test_beside_since_the_last_so_many_were_not_heard_of(
    topics: PlayedTopics, run: Callable[..., tuple[int, list[str], str]]
) -> None:
    for number in range(60):
        topics.append("orders", 0, value=b"v", at_ms=AT_MS + number * 1_000)
    since = ("--since", "2026-11-21T16:00:30Z")
    assert places(run("orders", "-n", "2", *since)[1]) == ["orders/0@58", "orders/0@59"]
    assert run("orders", "-n", "0", *since)[1] == []
    assert len(run("orders", "-n", "50", *since)[1]) == 30


def test_what_is_prepared_is_shown_as_invisible_until_it_is_done(
    topics: PlayedTopics, run: Callable[..., tuple[int, list[str], str]]
) -> None:
    waiting = topics.prepare("waiting", at_ms=AT_MS + 1)
    dropped = topics.prepare("dropped")
    topics.decide(dropped, Resolution.ROLLBACK)
    topics.finish(dropped, 0)
    topics.prepare("other", topic="points")
    assert run("orders")[1] == []
    _, lines, _ = run("orders", "--uncommitted")
    assert lines == [
        "2026-11-21T16:00:00Z  invisible  orders (half 0@0)  key=k  value=v  (waiting of shop)"
    ]
    topics.finish(waiting, 1)
    topics.forward(waiting)
    _, lines, _ = run("orders", "--uncommitted")
    assert [line.split()[1:3] for line in lines] == [["visible", "orders/0@0"]]


def test_of_an_empty_topic_is_said_where_else_to_look(
    run: Callable[..., tuple[int, list[str], str]],
) -> None:
    code, lines, told = run("orders", "points")
    assert (code, lines) == (0, [])
    assert told == (
        "No message is visible on orders, points. What is prepared and not visible yet: halfhitch "
        "tail orders points --uncommitted\n"
    )
    assert run("orders", "--uncommitted")[2] == (
        "No message is visible on orders, and none is prepared for it.\n"
    )


@pytest.mark.parametrize("asked", [("-n", "0"), ("--since", "2027-01-01T00:00Z")])
def test_what_is_older_than_was_asked_for_was_said_not_to_be_there(
    asked: tuple[str, ...],
    topics: PlayedTopics,
    run: Callable[..., tuple[int, list[str], str]],
) -> None:
    topics.forward(topics.prepare("one"))
    assert run("orders", *asked)[1:] == ([], "No message on orders matches the filters.\n")


def test_json_is_a_line_for_each_message(
    topics: PlayedTopics, run: Callable[..., tuple[int, list[str], str]]
) -> None:
    topics.forward(topics.prepare("one\x1b[2J", value=b"\xff"))
    topics.append("orders", 0, value=None)
    _, lines, _ = run("orders", "-o", "json")
    first, second = map(json.loads, lines)
    assert (first["transaction_id"], first["value_base64"]) == ("one\x1b[2J", "/w==")
    assert "\x1b" not in lines[0]
    assert (second["transaction_id"], second["value"]) == (None, None)


def test_a_topic_that_is_not_there_is_told_with_what_is(
    run: Callable[..., tuple[int, list[str], str]],
) -> None:
    code, _, told = run("ordrs")
    assert (code, told) == (1, "halfhitch: There is no topic 'ordrs'. Did you mean 'orders'?\n")
    assert "There are RMQ_SYS_TRANS_HALF_TOPIC," in run("x")[2]
    assert "TRANS_CHECK_MAX_TIME_TOPIC, orders, points." in run("x")[2]


def test_kafka_away_is_one_sentence(
    topics: PlayedTopics, run: Callable[..., tuple[int, list[str], str]]
) -> None:
    topics.away = True
    assert run("orders") == (1, [], "halfhitch: Kafka does not answer at k:1 within 30 s.\n")


def test_followed_a_message_is_seen_to_become_visible(
    topics: PlayedTopics, run: Callable[..., tuple[int, list[str], str]]
) -> None:
    steps: list[Callable[[], None]] = []

    def prepared() -> None:
        one, two = topics.prepare("one"), topics.prepare("two")
        topics.prepare("three", topic="points")
        steps.append(lambda: (topics.forward(one), topics.finish(one), None)[2])
        steps.append(lambda: (topics.finish(two, 0), None)[1])

    def idle() -> None:
        if topics.logs["orders", 0] or steps or not topics.logs["RMQ_SYS_TRANS_HALF_TOPIC", 0]:
            if not steps:
                raise KeyboardInterrupt
            steps.pop(0)()

    topics.on_idle = idle
    steps.append(prepared)
    code, lines, told = run("orders", "-f", "--uncommitted")
    assert code == 0
    assert [line.split()[1:3] for line in lines] == [
        ["invisible", "orders"],
        ["invisible", "orders"],
        ["visible", "orders/0@0"],
    ]
    assert "two of shop was rolled back: dropped" in told
    assert "No message" not in told


def test_a_cluster_without_our_topics_has_nothing_prepared(
    topics: PlayedTopics, run: Callable[..., tuple[int, list[str], str]]
) -> None:
    topics.logs = {log: [] for log in topics.logs if log[0] in ("orders", "points")}
    code, lines, told = run("orders", "--uncommitted")
    assert (code, lines) == (0, [])
    assert told == "No message is visible on orders, and none is prepared for it.\n"
