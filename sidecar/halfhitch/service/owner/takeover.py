"""Reading both logs of a half partition to their ends, before anything is planned.

The half log is read first on purpose: a done mark that is read before its half would make that half
look like a late copy, and it would be marked done a second time.
"""

from collections.abc import Callable
from typing import Final

from halfhitch.crash_points import reached
from halfhitch.errors import KafkaUnavailable
from halfhitch.ports import Clock, PartitionReader, ReadBatch

_WAIT_S: Final = 0.5
#: Nothing more came for so long: perhaps somebody's open Kafka transaction hides it.
_HELD_S: Final = 1.0
#: A replay that gives nothing for so long is stuck: give up and begin again.
_IDLE_S: Final = 15.0


def replay(
    reader: PartitionReader,
    feed: Callable[[ReadBatch], None],
    *,
    is_fed_to: Callable[[int], bool],
    clock: Clock,
    partition: int,
    on_held: Callable[[str], None],
) -> int:
    """Feed everything; gives the number of records. Raises KafkaUnavailable.

    To the ends that the logs have now, after the fence: whatever a predecessor has written lies
    below. To wait until there is nothing more to read would be to wait for the load to stop.

    The ends are where the logs end, not where they can be read to: a done mark behind somebody
    else's open Kafka transaction is there all the same, and what it finished would be forwarded
    again. `on_held` is told, once, what hides records; perhaps it can end that.

    `is_fed_to`: nothing below this op offset is held back. A done mark behind an entry that is
    ahead must be fed before any step is planned: what it finished would be forwarded again.
    """
    replayed = 0
    half_end, op_end = reader.half_end(), reader.op_end()
    progress_s = clock.monotonic_s()
    op_released = has_told = False
    while True:
        if not op_released and reader.half_read_to() >= half_end:
            reader.release_op()
            op_released = True
        if op_released and reader.op_read_to() >= op_end and is_fed_to(op_end):
            return replayed
        batch = reader.read(_WAIT_S)
        count = len(batch.half) + len(batch.op)
        replayed += count
        feed(batch)
        reached("mid_replay")
        if count:
            progress_s = clock.monotonic_s()
            continue
        idle_s = clock.monotonic_s() - progress_s
        if idle_s > _HELD_S and not has_told and (held := reader.held()) is not None:
            has_told = True
            on_held(held)
        if idle_s > _IDLE_S:
            held = reader.held()
            raise KafkaUnavailable(
                f"half partition {partition} cannot be taken over yet: "
                f"{held or 'its logs cannot be read to their ends'}"
            )
