"""What the source's options mean; nobody is asked."""

from __future__ import annotations

import pytest

from halfhitch.errors import ConfigurationError
from halfhitch_spark.kafka_topics import Choice, Topic
from halfhitch_spark.source.wish import EARLIEST, LATEST, places, wish_of

FOUND = {"orders": Topic("a", 2), "points": Topic("b", 1)}
NEEDED = {"kafka.bootstrap.servers": "k:1", "subscribe": "orders"}


def test_what_is_not_said_has_the_reader_s_defaults() -> None:
    wish = wish_of(NEEDED, streaming=True)
    assert wish.client == {"bootstrap.servers": "k:1"}
    assert wish.choice == Choice(("orders",))
    assert set(wish.starting.offsets(FOUND).values()) == {EARLIEST}
    assert set(wish.ending.offsets(FOUND).values()) == {LATEST}
    assert not wish.accept_data_loss


def test_the_letters_case_does_not_count_and_kafka_s_options_go_to_its_client() -> None:
    wish = wish_of(
        {
            "KAFKA.Bootstrap.Servers": "k:1",
            "SubscribePattern": "o.*",
            "FAILONDATALOSS": "False",
            "includeHeaders": "true",
            "kafka.isolation.level": "read_committed",
            "kafka.security.protocol": "SSL",
        },
        streaming=False,
    )
    assert wish.client == {"bootstrap.servers": "k:1", "security.protocol": "SSL"}
    assert wish.choice == Choice(pattern="o.*")
    assert wish.accept_data_loss


def test_edges_are_words_moments_or_offsets_and_the_rest_is_filled_in() -> None:
    given = '{"orders":{"1":7},"points":{"0":-1}}'
    wish = wish_of({**NEEDED, "startingOffsets": given, "endingTimestamp": "17"}, streaming=False)
    assert wish.starting.offsets(FOUND) == {
        ("orders", 0): EARLIEST, ("orders", 1): 7, ("points", 0): LATEST
    }  # fmt: skip
    assert wish.ending.at_ms == 17
    latest = wish_of({**NEEDED, "startingOffsets": "latest"}, streaming=True)
    assert set(latest.starting.offsets(FOUND).values()) == {LATEST}
    assert places(FOUND) == [("orders", 0), ("orders", 1), ("points", 0)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kafka.isolation.level": "read_uncommitted"}, "must be read_committed, because"),
        ({"includeHeaders": "false"}, "must be true, because"),
        ({"startingOffset": "latest"}, "there is no option startingoffset; did you mean starting"),
        ({"path": "x"}, "there is no option path; there are: subscribe"),
        ({"maxOffsetsPerTrigger": "5"}, "only Spark's Kafka connector has it"),
        ({"assign": "{}"}, "only Spark's Kafka connector"),
        ({"subscribePattern": "o.*"}, "option subscribe, or subscribePattern"),
        ({"subscribe": "a b"}, "is no topic name"),
        ({"subscribe": ", "}, "no topic to read"),
        ({"startingOffsets": "noon"}, "startingOffsets is earliest, latest, or offsets as"),
        ({"startingOffsets": '["orders"]'}, "startingOffsets is earliest"),
        ({"startingTimestamp": "noon"}, "in milliseconds, not 'noon'"),
        ({"startingTimestamp": "1", "startingOffsets": "latest"}, "give either"),
        ({"endingOffsets": "latest"}, "a stream has no end"),
        ({"failOnDataLoss": "perhaps"}, "is true or false, not 'perhaps'"),
        ({"kafka.auto.offset.reset": "earliest"}, "is the source's own"),
    ],
)
def test_what_it_would_not_do_as_asked_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        wish_of({**NEEDED, **options}, streaming=True)


def test_without_an_address_or_a_topic_it_says_which_option() -> None:
    with pytest.raises(ConfigurationError, match=r"option kafka.bootstrap.servers"):
        wish_of({"subscribe": "orders"}, streaming=False)
    with pytest.raises(ConfigurationError, match="option subscribe"):
        wish_of({"kafka.bootstrap.servers": "k:1"}, streaming=False)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ('{"other":{"0":1}}', "other, which is not read"),
        ('{"points":{"1":1}}', "points has no partition 1: it has 1"),
    ],
)
def test_offsets_of_what_is_not_there_are_refused(given: str, words: str) -> None:
    wish = wish_of({**NEEDED, "startingOffsets": given}, streaming=True)
    with pytest.raises(ConfigurationError, match=words):
        wish.starting.offsets(FOUND)
