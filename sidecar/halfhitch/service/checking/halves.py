"""A question made out of its half records: what the producer is shown, and the handle that ends it.

The owner makes it from what it has in memory. Another instance that is to ask its producers gets
the transaction's name and the places of its halves, and makes it from the half log itself: no
message and no handle travels through Redis, and whoever writes there can have nothing asked that
Kafka does not hold. Pure.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from halfhitch.core.model import Identity
from halfhitch.ports import KafkaHeaders, StoredRecord
from halfhitch.wire import half as half_wire
from halfhitch.wire.check import Check, CheckMessage
from halfhitch.wire.half import Garbage
from halfhitch.wire.handle import TOPICS_MAX, Handle

#: With the whole question, or None: its halves are not there, or Kafka does not answer.
Filled = Callable[[Check | None], object]


class AskedHalves(Protocol):
    """The half log, for questions of other instances."""

    def fill(self, check: Check, filled: Filled) -> None:
        """Read what `check` names by partition, identity and half offsets; `filled` on the loop."""
        ...


def message_of(
    half_offset: int, key: bytes | None, value: bytes | None, headers: KafkaHeaders
) -> CheckMessage | None:
    """The message as its producer gave it; None: the record does not say where it goes."""
    forward = half_wire.read_forward(half_offset, headers)
    if isinstance(forward, Garbage):
        return None
    target, partition = forward.target_topic, forward.target_partition
    return CheckMessage(target, key, value, half_wire.user_headers(headers), partition)


def handle_of(
    partition: int,
    identity: Identity,
    halves: Sequence[tuple[int, int]],
    messages: Iterable[CheckMessage],
) -> Handle:
    """`halves` are index and half offset, in the order of the indexes."""
    # Offsets are hints, but their number says how many messages a commit covers: with one missing
    # in between, as many as up to the last.
    count = halves[-1][0] + 1
    offsets = tuple([half_offset for _, half_offset in halves])
    topics = tuple(dict.fromkeys(message.topic for message in messages))
    return Handle(
        partition,
        *identity,
        offsets + offsets[-1:] * (count - len(offsets)),
        topics if len(topics) <= TOPICS_MAX else (),
    )


def filled_check(
    check: Check, records: Mapping[int, StoredRecord], sign: Callable[[Handle], str]
) -> Check | None:
    """The whole question; None unless every place that it names holds a half of its transaction."""
    halves: dict[int, int] = {}
    messages: dict[int, CheckMessage | None] = {}
    for half_offset in check.half_offsets:
        record = records.get(half_offset)
        if record is None:
            return None
        headers = record.headers() or []
        found = half_wire.read_identity(half_offset, 0, 0, headers)
        if isinstance(found, Garbage) or found.identity != check.identity or found.index in halves:
            return None
        halves[found.index] = half_offset
        messages[found.index] = message_of(half_offset, record.key(), record.value(), headers)
    if not halves:
        return None
    ordered = sorted(halves.items())
    shown = [message for index, _ in ordered if (message := messages[index]) is not None]
    handle = handle_of(check.partition, check.identity, ordered, shown)
    return replace(check, handle=sign(handle), messages=shown)
