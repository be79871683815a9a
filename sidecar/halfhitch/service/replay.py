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
#: A replay that gives nothing for so long is stuck: give up and begin again.
_IDLE_S: Final = 15.0


def replay(
    reader: PartitionReader,
    feed: Callable[[ReadBatch], None],
    *,
    is_done: Callable[[], bool],
    clock: Clock,
    partition: int,
) -> int:
    """Feed everything; gives the number of records. Raises KafkaUnavailable.

    `is_done`: nothing that was fed is held back. A done mark behind an entry that is ahead must be
    fed before any step is planned: what it finished would be forwarded again.
    """
    replayed = 0
    progress_s = clock.monotonic_s()
    op_released = op_was_read = False
    while True:
        batch = reader.read(_WAIT_S)
        count = len(batch.half) + len(batch.op)
        replayed += count
        feed(batch)
        reached("mid_replay")
        if count:
            progress_s = clock.monotonic_s()
        if not op_released and batch.half_at_end:
            reader.release_op()
            op_released = True
        op_was_read = op_was_read or (op_released and batch.op_at_end)
        if op_was_read and is_done():
            return replayed
        if clock.monotonic_s() - progress_s > _IDLE_S:
            raise KafkaUnavailable(
                f"the logs of half partition {partition} cannot be read to their ends"
            )
