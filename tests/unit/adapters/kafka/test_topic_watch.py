"""The watch over the internal topics, where a real broker cannot be made to answer so."""

from collections.abc import Callable
from typing import Any

import pytest

from halfhitch.adapters.kafka import topic_watch, topology
from halfhitch.adapters.kafka.topic_checks import Finding, Severity
from halfhitch.adapters.kafka.topic_watch import TopicWatch
from halfhitch.adapters.kafka.topology import Topology
from halfhitch.errors import KafkaUnavailable, TopologyError
from halfhitch.wire.topics import InternalTopics

NAMES = InternalTopics("shop.")
BEFORE = Topology("half-id", 4, "op-id", 4)
MISSING = TopologyError("The topic does not exist.")


class World:
    """What the next look finds."""

    def __init__(self) -> None:
        self.now: Topology | Exception = BEFORE
        self.settings: list[Finding] | Exception = []
        self.positions: list[Finding] | Exception = []


def given(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    answers: dict[Any, dict[str, Callable[..., Any]]] = {
        topology: {
            "look": lambda *_, **__: given(world.now),
            "remembered": lambda *_, **__: None,
        },
        topic_watch: {
            "verify": lambda *_, **__: given(world.settings),
            "inspect_positions": lambda *_, **__: given(world.positions),
        },
    }
    for module, functions in answers.items():
        for name, function in functions.items():
            monkeypatch.setattr(module, name, function)
    return world


@pytest.fixture
def watch(world: World) -> TopicWatch:
    del world
    nobody: Any = None
    watch = TopicWatch(nobody, nobody, NAMES, message_bytes_max=1, wait_s=1.0)
    assert watch.note() is None, "nothing is known yet"
    watch.open()
    note = watch.note()
    assert note is not None
    assert Topology.parse(note.metadata) == BEFORE
    return watch


def test_a_topic_is_gone_only_when_it_was_missed_three_times_running(
    world: World, watch: TopicWatch
) -> None:
    world.now = MISSING
    for _ in range(2):
        watch.look()
        assert watch.troubles == [MISSING.message]
    world.now = BEFORE
    watch.look()
    assert watch.troubles == []
    world.now = MISSING
    watch.look()
    watch.look()
    with pytest.raises(TopologyError, match="deleted under the running sidecar"):
        watch.look()


def test_no_answer_is_no_finding_and_takes_none_back(world: World, watch: TopicWatch) -> None:
    world.settings = [Finding(NAMES.half, Severity.FAIL, "It is compacted.", "Mend it.")]
    watch.look()
    assert watch.troubles == ["It is compacted. Mend it."]
    world.now = KafkaUnavailable("away")
    watch.look()
    assert watch.troubles == ["It is compacted. Mend it."]


def test_one_part_that_cannot_be_looked_at_hides_no_other(world: World, watch: TopicWatch) -> None:
    world.settings = KafkaUnavailable("away")
    world.positions = [Finding("watermarks", Severity.FAIL, "It was cut.", "Look.")]
    watch.look()
    assert watch.troubles == ["It was cut. Look."]


def test_warnings_were_told_at_the_start_and_are_not_repeated(
    world: World, watch: TopicWatch
) -> None:
    world.settings = [
        Finding(NAMES.half, Severity.WARN, "One copy.", "Three."),
        Finding("partition counts", Severity.FAIL, "Told as resized.", "Otherwise twice."),
    ]
    watch.look()
    assert watch.troubles == []


def test_another_id_is_final_at_once(world: World, watch: TopicWatch) -> None:
    world.now = Topology("half-id", 4, "other", 4)
    with pytest.raises(TopologyError, match="created anew"):
        watch.look()
