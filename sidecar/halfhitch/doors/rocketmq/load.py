"""What the door carries at this moment; shared by its connections, on the event loop's thread."""

import logging

from halfhitch.doors.holding import Holding, OnRefused
from halfhitch.doors.rocketmq.addresses import shown
from halfhitch.doors.rocketmq.limits import Limits
from halfhitch.doors.rocketmq.stats import Stats
from halfhitch.errors import HalfHitchError
from halfhitch.observability.lines import LineBudget
from halfhitch.wire.remoting.messages import Host

logger = logging.getLogger(__name__)


class Load(Holding):
    """Shared by all connections of one door."""

    __slots__ = ("_closed_lines", "_group_lines", "failed_ends", "held_bytes", "refusal", "stats")

    def __init__(self, stats: Stats, on_refused: OnRefused | None = None) -> None:
        super().__init__(on_refused)
        self.stats = stats
        self.held_bytes = 0
        self._closed_lines = LineBudget()
        self._group_lines = LineBudget()
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
        """See Holding; what is carried out natively has no task, and its client may be gone."""
        if self.stats.in_flight_count == 0:
            super().drained_some()

    def end_failed(self, error: HalfHitchError) -> None:
        """Nobody hears of it; the sweep says it in the log, once for all of a moment."""
        count = 0 if self.failed_ends is None else self.failed_ends[0]
        self.failed_ends = (count + 1, error)

    def say_closed(self, peer: Host, reason: str) -> None:
        """A connection is closed for what its client does; any stranger can bring this about."""
        more = self._closed_lines.take()
        if more is not None:
            logger.warning(
                "the connection of RocketMQ client %s is closed: %s%s",
                shown(peer),
                reason,
                more,
                extra={"action": "rocketmq_connection_closed"},
            )

    def has_room_for_group(self, limits: Limits, group_count: int) -> bool:
        """Whether a connection that has so many producer groups may register one more."""
        return (
            group_count < limits.group_count_max
            and self.stats.producer_count < limits.producer_count_max
        )

    def say_too_many_groups(self, limits: Limits, peer: Host, producer_group: str) -> None:
        """The group is not asked over this connection."""
        more = self._group_lines.take()
        if more is not None:
            logger.warning(
                "producer group %r gets no checks over the connection of %s: a connection may have "
                "%d groups, and all together %d%s",
                producer_group,
                shown(peer),
                limits.group_count_max,
                limits.producer_count_max,
                more,
                extra={"action": "rocketmq_too_many_groups"},
            )
