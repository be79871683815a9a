"""Which stretches are read, and what a checkpoint's offsets say."""

from __future__ import annotations

import json
import pickle

import pytest

from halfhitch.errors import ConfigurationError
from halfhitch_spark.kafka_topics import NO_ID, Topic
from halfhitch_spark.source.stretches import (
    MessagesGone,
    Stretch,
    as_offsets,
    begin_of,
    is_there,
    positions,
    require_same,
    stretches,
)

FOUND = {"points": Topic("b", 1), "orders": Topic("a", 2)}
AT = {("orders", 0): 3, ("orders", 1): 0, ("points", 0): 17}


def test_offsets_are_the_same_text_for_the_same_place_and_can_be_read_again() -> None:
    kept = as_offsets(FOUND, AT)
    assert json.dumps(kept) == json.dumps(as_offsets(dict(reversed(FOUND.items())), AT))
    assert positions(json.loads(json.dumps(kept))) == AT
    require_same(kept, FOUND, accept_gone=False)


def test_the_end_of_the_first_batch_says_where_it_begins() -> None:
    begun = {place: at - 3 if at else 0 for place, at in AT.items()}
    end = json.loads(json.dumps(as_offsets(FOUND, AT, begun)))
    assert positions(end) == AT
    assert begin_of(end) == begun
    assert begin_of(as_offsets(FOUND, AT)) == {}
    assert is_there(end, as_offsets(FOUND, AT))
    assert not is_there(end, as_offsets(FOUND, {**AT, ("points", 0): 18}))
    assert not is_there(end, as_offsets({**FOUND, "points": Topic("c", 1)}, AT))
    require_same(end, FOUND, accept_gone=False)


def test_a_topic_that_was_made_anew_is_refused_whatever_is_accepted() -> None:
    kept = as_offsets(FOUND, AT)
    anew = {**FOUND, "points": Topic("c", 1)}
    with pytest.raises(ConfigurationError, match="points was deleted and made anew"):
        require_same(kept, anew, accept_gone=True)


def test_a_kafka_that_has_topic_ids_since_a_while_was_taken_for_another_topic() -> None:
    before = as_offsets({"points": Topic(NO_ID, 1)}, AT)
    require_same(before, {"points": Topic("b", 1)}, accept_gone=False)


def test_a_topic_that_is_gone_is_refused_unless_that_is_accepted() -> None:
    kept, left = as_offsets(FOUND, AT), {"orders": FOUND["orders"]}
    with pytest.raises(ConfigurationError, match="topic points, and this query does not read it"):
        require_same(kept, left, accept_gone=False)
    require_same(kept, left, accept_gone=True)


def test_what_lies_between_is_read_and_a_new_partition_from_its_beginning() -> None:
    ends = {("orders", 0): 9, ("orders", 1): 0, ("points", 0): 17, ("points", 1): 5}
    earliest = {("orders", 0): 1, ("points", 1): 2}
    found = stretches(AT, ends, earliest, accept_data_loss=False)
    assert found == [Stretch("orders", 0, 3, 9), Stretch("points", 1, 2, 5)]
    assert pickle.loads(pickle.dumps(found)) == found


def test_messages_deleted_unread_are_told_or_passed_over_as_was_said() -> None:
    log = ("orders", 0)
    with pytest.raises(MessagesGone, match="messages 3 to 5 of orders-0 were deleted"):
        stretches({log: 3}, {log: 9}, {log: 6}, accept_data_loss=False)
    with pytest.raises(MessagesGone, match="messages 3 to 8 of orders-0 were deleted"):
        stretches({log: 3}, {log: 9}, {log: 20}, accept_data_loss=False)
    kept = stretches({log: 3}, {log: 9}, {log: 6}, accept_data_loss=True)
    assert kept == [Stretch("orders", 0, 6, 9)]


def test_nothing_is_gone_where_nothing_is_to_be_read() -> None:
    """Spark plans its last batch as an empty one when it goes on: what went since is the next's."""
    log = ("orders", 0)
    assert stretches({log: 4}, {log: 4}, {log: 7}, accept_data_loss=False) == []


def test_a_log_that_has_become_shorter_is_told() -> None:
    log = ("orders", 0)
    with pytest.raises(MessagesGone, match="orders-0 ends at 5, and was read to 9 already"):
        stretches({log: 9}, {log: 5}, {log: 0}, accept_data_loss=False)
    assert stretches({log: 9}, {log: 5}, {log: 0}, accept_data_loss=True) == []
