"""Where a takeover begins to read, also when Kafka has forgotten which pair was committed last.

Kafka may give back watermarks that were committed long ago: seen after a group's coordinator was
killed. A pair within both logs only makes the replay longer. One below them would stop the half
partition, though nothing is lost: the owner itself has deleted what newer pairs had passed. It
deletes only below a pair that an op record proves (wire/proof.py, trimming.py), so the op log
says which one was committed last. `newest_proven_pair` looks there.

Watermarks that are lost, or that somebody has set, say nothing of how much of both logs belongs
together: a broker that has died knows where a log began up to a minute before, so the half log may
begin earlier again than the op log's marks of it do. What a pair proves is known for certain then,
too. Not after the half log's watermark alone is lost: Kafka forgets it with the topic, and of one
that was created anew an old op log proves nothing.

A pair beyond a log's end is refused, whatever is proven: the log was cut at its end, or the topic
was created anew, and what is missing was never done.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from halfhitch.crash_points import reached
from halfhitch.errors import BelowLogError, TopologyError
from halfhitch.ports import Clock, Observer, PartitionReader, ReadBatch
from halfhitch.service.owner.takeover import replay
from halfhitch.wire.proof import read_proof

logger = logging.getLogger(__name__)

#: Before Kafka is asked again: its coordinator may not have read all that it had stored.
_PAUSES_S: Final = (0.1, 0.3, 1.0)

Watermarks = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Start:
    """Where both logs are begun; and what Kafka gave: both watermarks and their stamp."""

    half_start: int
    op_start: int
    stored: tuple[int | None, int | None, str]


def begin_reading(
    reader: PartitionReader,
    *,
    clock: Clock,
    partition: int,
    observer: Observer,
    on_held: Callable[[str], None],
) -> Start:
    """At the stored watermarks; at the newest proven pair when those are none, or below the logs.

    Raises TopologyError when no proven pair lies within both logs: then records are missing.
    """
    stored = _ask(reader)
    for pause_s in (*_PAUSES_S, None):
        half, op, _ = stored
        try:
            start = Start(*reader.begin(half, op if half is not None else None), stored)
        except BelowLogError as error:
            refusal = error
        else:
            if op is not None:
                return start
            pair = newest_proven_pair(reader, clock=clock, partition=partition, on_held=on_held)
            if pair is None:
                return Start(*reader.begin(half, op), stored)
            # Above it, what somebody has set says what he wants to have passed over.
            return Start(*reader.begin(max(half or 0, pair[0]), pair[1]), stored)
        if pause_s is not None:
            # Waited for at the half log's end, where little comes; what does is read again.
            reader.begin(reader.half_end(), None)
            reader.read(pause_s)
            stored = _ask(reader)
    pair = newest_proven_pair(reader, clock=clock, partition=partition, on_held=on_held)
    if pair is None:
        raise refusal
    try:
        start = Start(*reader.begin(*pair), stored)
    except TopologyError:
        raise refusal from None
    logger.warning(
        "Kafka gave old watermarks for half partition %d (half %s, op %s), which lie below its "
        "logs; it is taken over from the newest pair that its op log proves (half %d, op %d): "
        "nothing is lost or done twice. Look why the group's offsets went back "
        "(docs/operations.md)",
        partition,
        *stored[:2],
        *pair,
        extra={"action": "old_watermarks"},
    )
    observer.old_watermarks(partition)
    return start


def _ask(reader: PartitionReader) -> tuple[int | None, int | None, str]:
    stored = (*reader.committed_positions(), reader.stamp)
    reached("after_positions")
    return stored


def newest_proven_pair(
    reader: PartitionReader,
    *,
    clock: Clock,
    partition: int,
    on_held: Callable[[str], None],
) -> Watermarks | None:
    """Half and op watermark of the last proof in the op log that lie within both; None without any.

    Any pair that was ever committed is right, as long as both logs hold what it needs. The last one
    may not: who has taken old watermarks proves less than a predecessor, stopped for a while, may
    still delete.

    Reads the whole op log, to where it ends and not to where it can be read: a newer proof may be
    hidden behind somebody's open Kafka transaction. Raises what a replay raises.
    """
    found: Watermarks | None = None
    half_begin, op_begin = reader.begin(None, None)
    half_end = reader.half_end()

    def look(batch: ReadBatch) -> None:
        nonlocal found
        for record in batch.op:
            pair = read_proof(record.offset(), record.headers(), record.key())
            if pair and half_begin <= pair[0] <= half_end and op_begin <= pair[1]:
                found = pair

    reader.begin(half_end, None)
    replay(
        reader,
        look,
        is_fed_to=lambda _: True,
        clock=clock,
        partition=partition,
        on_held=on_held,
    )
    return found
