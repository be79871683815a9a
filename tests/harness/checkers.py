"""The judges: plain functions over what was asked of the coordinator and what readers found.

A transaction's fate is what its producer knows: COMMITTED and ROLLED_BACK were acknowledged,
PENDING was never ended, UNKNOWN was asked for without an answer and may have gone either way, but
only one way.

Each judge gives a list of sentences; an empty one means that the promise held. None of them says
anything about a run in which nothing happened: ask for the counts you expect as well.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from harness.partitioning import java_partition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from halfhitch.service.api import OutgoingMessage
    from harness.kafka import ReadRecord

    Records = Mapping[str, Sequence[ReadRecord]]


class Fate(Enum):
    """What the producer knows of a transaction."""

    COMMITTED = auto()
    ROLLED_BACK = auto()
    PENDING = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Truth:
    """One transaction as its producer sent it."""

    transaction_id: str
    messages: tuple[OutgoingMessage, ...]
    fate: Fate


#: Topic, transaction id, index of the message.
Place = tuple[str, str, int]

_SYSTEM = ("UNIQ_KEY", "PGROUP", "HALFHITCH")


def place_of(topic: str, record: ReadRecord) -> Place | None:
    """Which message a record says it is; None when it does not say so as a forwarded one does."""
    names = tuple(name for name, _ in record.headers[-3:])
    if names != _SYSTEM:
        return None
    raw_id, _, marker = (value or b"" for _, value in record.headers[-3:])
    parts = marker.split(b";", 3)
    if len(parts) != 4 or parts[0] != b"1" or not parts[1].isdigit():
        return None
    return topic, raw_id.decode(), int(parts[1])


def _places(truth: Truth) -> list[Place]:
    return [
        (message.topic, truth.transaction_id, index) for index, message in enumerate(truth.messages)
    ]


def _found(records: Records) -> Counter[Place]:
    found: Counter[Place] = Counter()
    for topic, there in records.items():
        for record in there:
            place = place_of(topic, record)
            if place is not None:
                found[place] += 1
    return found


def lost(truths: Sequence[Truth], records: Records) -> list[str]:
    """Messages of committed transactions that nobody can read."""
    found = _found(records)
    return [
        f"{place} was committed and is not there"
        for truth in truths
        if truth.fate is Fate.COMMITTED
        for place in _places(truth)
        if not found[place]
    ]


def doubled(truths: Sequence[Truth], records: Records) -> list[str]:
    """Messages that can be read more than once, whatever their fate."""
    del truths  # a message may not appear twice, whoever sent it
    return [f"{place} is there {n} times" for place, n in _found(records).items() if n > 1]


def torn(truths: Sequence[Truth], records: Records) -> list[str]:
    """Transactions of which some messages can be read and others cannot."""
    found = _found(records)
    result = []
    for truth in truths:
        there = [place for place in _places(truth) if found[place]]
        if 0 < len(there) < len(truth.messages):
            result.append(f"of {truth.transaction_id} only {there} can be read")
    return result


def invented(truths: Sequence[Truth], records: Records) -> list[str]:
    """Records that should not be there, or not as they are."""
    by_place: dict[Place, tuple[OutgoingMessage, Fate]] = {}
    for truth in truths:
        for place, message in zip(_places(truth), truth.messages, strict=True):
            by_place[place] = message, truth.fate
    result = []
    for topic, there in records.items():
        for record in there:
            place = place_of(topic, record)
            known = None if place is None else by_place.get(place)
            if known is None:
                result.append(f"{topic}: nobody has sent {place or record}")
                continue
            message, fate = known
            if fate in (Fate.ROLLED_BACK, Fate.PENDING):
                result.append(f"{place} can be read although it is {fate.name}")
            result += _differences(place, message, record)
    return result


def _differences(place: Place | None, message: OutgoingMessage, record: ReadRecord) -> list[str]:
    result = []
    if (record.key, record.value) != (message.key, message.value):
        result.append(f"{place} has another key or value")
    if list(record.headers[:-3]) != list(message.headers):
        result.append(f"{place} has other user headers: {record.headers[:-3]}")
    if message.partition is not None and record.partition != message.partition:
        result.append(f"{place} is in partition {record.partition}, not {message.partition}")
    return result


def misrouted(truths: Sequence[Truth], records: Records, partition_count: int) -> list[str]:
    """Keyed messages that do not lie where a Java producer would have sent them."""
    fixed = {
        place
        for truth in truths
        for place, message in zip(_places(truth), truth.messages, strict=True)
        if message.partition is not None
    }
    return [
        f"{place_of(topic, record)} is in partition {record.partition}"
        for topic, there in records.items()
        for record in there
        if record.key is not None
        and place_of(topic, record) not in fixed
        and record.partition != java_partition(record.key, partition_count)
    ]


def faults(truths: Sequence[Truth], records: Records) -> dict[str, list[str]]:
    """All judges at once, by name; only those that found something."""
    verdicts = {judge.__name__: judge(truths, records) for judge in (lost, doubled, invented, torn)}
    return {name: found for name, found in verdicts.items() if found}
