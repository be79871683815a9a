"""What the topics were when they were last used, and what it means that they are not that now."""

import pytest

from halfhitch.adapters.kafka.topology import Topology, compare, place
from halfhitch.errors import TopologyError
from halfhitch.wire.topics import InternalTopics

NAMES = InternalTopics("shop.")
BEFORE = Topology("half-id", 4, "op-id", 4)


def test_what_is_remembered_is_read_back() -> None:
    assert Topology.parse(BEFORE.text()) == BEFORE
    where = place(NAMES, BEFORE)
    assert (where.topic, where.partition, where.offset) == (NAMES.parked, 0, 0)
    assert where.metadata == BEFORE.text()


@pytest.mark.parametrize("text", [None, "", "garbage", "2;a;4;b;4", "1;a;4;b", "1;a;x;b;4"])
def test_no_memory_and_one_of_another_release_compare_to_nothing(text: str | None) -> None:
    assert Topology.parse(text) is None
    compare(None, BEFORE, NAMES)


def test_topics_that_are_as_they_were_are_taken() -> None:
    compare(BEFORE, Topology("half-id", 4, "op-id", 4), NAMES)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (Topology("other", 4, "op-id", 4), ["shop.RMQ_SYS_TRANS_HALF_TOPIC was deleted"]),
        (Topology("half-id", 4, "other", 4), ["shop.RMQ_SYS_TRANS_OP_HALF_TOPIC was deleted"]),
        (Topology("other", 6, "new", 6), ["HALF_TOPIC was deleted", "OP_HALF_TOPIC was deleted"]),
        (Topology("half-id", 6, "op-id", 4), ["has 6 partitions, but had 4"]),
        (Topology("half-id", 4, "op-id", 5), ["has 5 partitions, but had 4"]),
    ],
)
def test_every_difference_is_refused_with_what_to_do(now: Topology, words: list[str]) -> None:
    with pytest.raises(TopologyError) as caught:
        compare(BEFORE, now, NAMES)
    assert all(word in caught.value.message for word in words)
    assert "topics init --accept" in caught.value.message
