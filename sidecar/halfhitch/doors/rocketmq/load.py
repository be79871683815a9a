"""What the door carries at this moment; shared by its connections, on the event loop's thread."""

from halfhitch.doors.holding import Holding
from halfhitch.doors.rocketmq.limits import Limits
from halfhitch.doors.rocketmq.stats import Stats
from halfhitch.errors import HalfHitchError


class Load(Holding):
    """Shared by all connections of one door."""

    __slots__ = ("failed_ends", "held_bytes", "refusal", "stats")

    def __init__(self, stats: Stats) -> None:
        super().__init__()
        self.stats = stats
        self.held_bytes = 0
        #: Why new messages are not taken at all, looked at by the sweep: waiting for a Kafka that
        #: is away would outlast every client's patience.
        self.refusal: HalfHitchError | None = None
        #: One-way ends that failed since the sweep last said so, and the last reason.
        self.failed_ends: tuple[int, HalfHitchError] | None = None

    def room(self, limits: Limits, in_flight_count: int) -> int:
        """How many requests a connection that has so many may take without asking further."""
        if self.refusal is not None or self.is_draining:
            return 0
        return min(
            limits.pipelined_count_max - in_flight_count,
            limits.in_flight_count_max - self.stats.in_flight_count,
        )

    def drained_some(self) -> None:
        """See Holding; a one-way end has no task, and the client may be gone by then."""
        if self.stats.in_flight_count == 0:
            super().drained_some()

    def end_failed(self, error: HalfHitchError) -> None:
        """Nobody hears of it; the sweep says it in the log, once for all of a moment."""
        count = 0 if self.failed_ends is None else self.failed_ends[0]
        self.failed_ends = (count + 1, error)
