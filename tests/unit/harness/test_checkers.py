"""Each judge goes red for what it is there for, and for nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from halfhitch.service.api import OutgoingMessage
from harness.checkers import Fate, Truth, doubled, faults, invented, lost, misrouted, torn
from harness.forwards import forwarded_headers
from harness.kafka import ReadRecord
from harness.partitioning import java_partition

PARTITION_COUNT = 3


def truth(transaction_id: str, fate: Fate) -> Truth:
    key = transaction_id.encode()
    return Truth(
        transaction_id,
        (
            OutgoingMessage("orders", key, b"o-" + key, [("a", b"1"), ("a", None)]),
            OutgoingMessage("points", None, None, [], 2),
        ),
        fate,
    )


def visible(of: Truth) -> dict[str, list[ReadRecord]]:
    """What a reader finds of a committed transaction."""
    found: dict[str, list[ReadRecord]] = {"orders": [], "points": []}
    for index, message in enumerate(of.messages):
        if message.partition is not None:
            partition = message.partition
        else:
            partition = java_partition(message.key or b"", PARTITION_COUNT)
        headers = tuple(forwarded_headers(of.transaction_id, index=index, user=message.headers))
        found[message.topic].append(ReadRecord(partition, 0, message.key, message.value, headers))
    return found


def merged(*parts: dict[str, list[ReadRecord]]) -> dict[str, list[ReadRecord]]:
    return {topic: [r for part in parts for r in part[topic]] for topic in ("orders", "points")}


DONE, BACK, OPEN, MAYBE = (
    truth("done", Fate.COMMITTED),
    truth("back", Fate.ROLLED_BACK),
    truth("open", Fate.PENDING),
    truth("maybe", Fate.UNKNOWN),
)
ALL = [DONE, BACK, OPEN, MAYBE]


@pytest.mark.parametrize("records", [visible(DONE), merged(visible(DONE), visible(MAYBE))])
def test_a_run_as_promised_is_faultless(records: dict[str, list[ReadRecord]]) -> None:
    assert faults(ALL, records) == {}
    assert misrouted(ALL, records, PARTITION_COUNT) == []


def test_a_dropped_message_is_lost_and_its_transaction_torn() -> None:
    records = visible(DONE)
    records["points"].clear()
    assert len(lost(ALL, records)) == 1
    assert len(torn(ALL, records)) == 1
    assert set(faults(ALL, records)) == {"lost", "torn"}
    assert set(faults(ALL, {"orders": [], "points": []})) == {"lost"}


def test_half_of_a_transaction_of_unknown_fate_is_torn() -> None:
    records = merged(visible(DONE), visible(MAYBE))
    del records["orders"][1]
    assert set(faults(ALL, records)) == {"torn"}


def test_a_second_copy_is_doubled_even_in_another_partition() -> None:
    records = visible(DONE)
    records["orders"].append(replace(records["orders"][0], partition=0, offset=9))
    assert len(doubled(ALL, records)) == 1
    assert set(faults(ALL, records)) == {"doubled"}


@pytest.mark.parametrize("wrong", [BACK, OPEN])
def test_what_was_rolled_back_or_never_ended_is_invented(wrong: Truth) -> None:
    records = merged(visible(DONE), visible(wrong))
    assert len(invented(ALL, records)) == 2
    assert set(faults(ALL, records)) == {"invented"}


@pytest.mark.parametrize(
    "change",
    [
        {"value": b"o-donf"},
        {"key": None},
        {"headers": forwarded_headers("done", user=[("a", b"1")])},
        {"headers": forwarded_headers("done", user=[("a", None), ("a", b"1")])},
        {"headers": forwarded_headers("nobody", user=[("a", b"1"), ("a", None)])},
        {"headers": forwarded_headers("done", index=7, user=[("a", b"1"), ("a", None)])},
        {"headers": ()},
    ],
)
def test_a_message_that_was_changed_is_invented(change: dict[str, object]) -> None:
    records = visible(DONE)
    if "headers" in change:
        change = {"headers": tuple(change["headers"])}  # type: ignore[arg-type]
    records["orders"][0] = replace(records["orders"][0], **change)  # type: ignore[arg-type]
    assert invented(ALL, records)


def test_a_message_in_a_wrong_partition_is_found() -> None:
    records = visible(DONE)
    records["points"][0] = replace(records["points"][0], partition=1)
    assert invented(ALL, records)
    records = visible(DONE)
    wrong = (records["orders"][0].partition + 1) % PARTITION_COUNT
    records["orders"][0] = replace(records["orders"][0], partition=wrong)
    assert misrouted(ALL, records, PARTITION_COUNT)


def test_a_message_on_another_topic_is_lost_there_and_invented_here() -> None:
    records = visible(DONE)
    records["points"].append(records["orders"].pop())
    assert {"lost", "invented"} <= set(faults(ALL, records))
