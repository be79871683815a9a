"""Where Kafka is, when nobody says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch.errors import ConfigurationError
from halfhitch_cli.options import Given
from halfhitch_cli.places import kafka_settings

if TYPE_CHECKING:
    from halfhitch.config import Settings
    from harness.scripted_admin import Door


#: No door has this port.
NOBODY = 1


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HALFHITCH_KAFKA_BOOTSTRAP", raising=False)


def found(port: int, **flags: object) -> Settings:
    given = {key.replace("__", "."): value for key, value in flags.items()}
    return kafka_settings(Given({"admin.port": str(port), **given}, None))


def test_the_sidecar_knows_its_kafka_and_its_topics(door: Door) -> None:
    door.say("/v1/status", 200, {"info": {"kafka_bootstrap": "k:9092", "topic_prefix": "a."}})
    settings = found(door.port)
    assert (settings.kafka.bootstrap, settings.topics.prefix) == ("k:9092", "a.")


def test_what_was_given_counts(door: Door) -> None:
    door.say("/v1/status", 200, {"info": {"kafka_bootstrap": "k:9092", "topic_prefix": "a."}})
    settings = found(door.port, kafka__bootstrap="mine:1", topics__prefix="b.")
    assert (settings.kafka.bootstrap, settings.topics.prefix) == ("mine:1", "b.")
    settings = found(door.port, kafka__bootstrap="mine:1")
    # The sidecar is another Kafka's: its prefix is none of this one's business.
    assert (settings.kafka.bootstrap, settings.topics.prefix) == ("mine:1", "")
    settings = found(door.port, kafka__bootstrap="k:9092")
    assert settings.topics.prefix == "a."


def test_without_a_sidecar_kafka_alone_is_enough() -> None:
    settings = found(NOBODY, kafka__bootstrap="mine:1")
    assert (settings.kafka.bootstrap, settings.topics.prefix) == ("mine:1", "")


def test_where_nobody_knows_both_ways_are_told() -> None:
    with pytest.raises(ConfigurationError, match=r"--kafka-bootstrap host:port.*No sidecar answ"):
        found(NOBODY)


def test_an_answer_of_something_else_is_no_address(door: Door) -> None:
    door.say("/v1/status", 200, {"status": "up"})
    with pytest.raises(ConfigurationError, match="--kafka-bootstrap host:port"):
        found(door.port)
