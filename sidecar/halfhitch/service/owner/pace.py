"""How an owner under load makes its steps larger, and so fewer.

A step costs Kafka the same requests for ten transactions as for a thousand: partitions, offsets,
the end, and a marker for each partition. At a few thousand transactions a second steps that follow
one another at once take a third of the broker. So after a large step the owner rests for as long as
the step took, and up to three times as long where it works alone, carries out hundreds in each step
and yet more would fit. Small steps are never followed by a rest: a lone message is forwarded at
once. Nor is the rest longer where somebody waits to see his message. An owner that is behind does
not rest: its steps are full anyway, and a rest would cost a third of its time.

Owners of one process take turns in the same way: their steps may be small and many. While they
carry out much together, each rests for as long as the others would take, as if there were one.

What lies in the consumer's queue after a rest is old, for Kafka's client fetches ahead only little
(clients.py). Reading until both logs have brought something more spares everybody a whole step,
and what has gathered a wait for the next one.
"""

from collections.abc import Callable
from typing import Final

from halfhitch.ports import PartitionReader, ReadBatch
from halfhitch.service.owner.rhythm import Rhythm

#: Transactions in a step that is followed by a rest.
LARGE_STEP: Final = 32
#: A rest is longer than its step by one for each so many of its transactions,
LONGER_FOR: Final = 100
#: so many times at most,
LONGEST: Final = 3
#: and not where the step had as many as are worth it.
FULL_STEP: Final = 1_000
#: So many transactions of all owners within a window of their rhythm are much.
BUSY_TOGETHER: Final = 64
#: A step that took longer than this had other reasons; and nobody's message waits for longer.
REST_S_MAX: Final = 0.05
#: An owner whose lag is longer is behind.
BEHIND_S: Final = 0.5
#: For what has gathered meanwhile to arrive: the client's pause between two looks at its queue, and
#: one way to a busy Kafka and back.
_CATCH_UP_S: Final = 0.01


class Pace:
    """Belongs to one owner and its thread; `rhythm` to all owners."""

    __slots__ = ("_now_s", "_partition", "_rhythm", "rest_s")

    def __init__(
        self, now_s: Callable[[], float], partition: int = 0, rhythm: Rhythm | None = None
    ) -> None:
        self._now_s = now_s
        self._partition = partition
        self._rhythm = rhythm or Rhythm()
        self.rest_s = 0.0  # before the next turn

    def stepped(
        self,
        transaction_count: int,
        took_s: float,
        *,
        lag_s: float = 0.0,
        leaves_more: bool = False,
    ) -> None:
        """A step was written, by an owner that was `lag_s` behind its logs.

        `leaves_more`: it was full.
        """
        owner_count, together = self._rhythm.stepped(
            self._partition, transaction_count, self._now_s()
        )
        others = owner_count - 1 if together >= BUSY_TOGETHER else 0
        rests = (transaction_count >= LARGE_STEP or others) and lag_s < BEHIND_S
        times = float(max(1, others))
        if owner_count == 1 and not leaves_more and not self._rhythm.is_awaited(self._partition):
            times = _longer(transaction_count)
        self.rest_s = min(took_s * times, REST_S_MAX) if rests else 0.0

    def read(self, reader: PartitionReader, wait_s: float) -> ReadBatch:
        """What a turn begins with."""
        batch = reader.read(wait_s)
        if self.rest_s == 0.0:
            return batch
        self.rest_s = 0.0
        half, op = [*batch.half], [*batch.op]
        until_s = self._now_s() + _CATCH_UP_S
        has_half = has_op = False
        while not (has_half and has_op) and (left_s := until_s - self._now_s()) > 0:
            batch = reader.read(left_s)
            if not batch.half and not batch.op:
                break
            half += batch.half
            op += batch.op
            has_half, has_op = has_half or bool(batch.half), has_op or bool(batch.op)
        return ReadBatch(half, op)


def _longer(transaction_count: int) -> float:
    """How many times as long as the step its rest is."""
    times = min(transaction_count / LONGER_FOR, LONGEST, FULL_STEP / max(1, transaction_count))
    return max(1.0, times)
