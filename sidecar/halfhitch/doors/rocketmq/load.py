"""What the door carries at this moment; shared by its connections, on the event loop's thread."""

import logging
from collections.abc import Callable, Sequence

from halfhitch.doors.holding import Holding, OnRefused
from halfhitch.doors.rocketmq.addresses import shown
from halfhitch.doors.rocketmq.flight import Flight
from halfhitch.doors.rocketmq.limits import Limits
from halfhitch.doors.rocketmq.stats import Stats
from halfhitch.doors.rocketmq.unfinished import Unfinished
from halfhitch.errors import HalfHitchError, KafkaUnavailable
from halfhitch.observability.lines import LineBudget
from halfhitch.wire.handle import Handle
from halfhitch.wire.remoting.messages import Host

logger = logging.getLogger(__name__)


class Load(Holding):
    """Shared by all connections of one door."""

    __slots__ = (
        "_closed_lines",
        "_fault_lines",
        "_foreign_lines",
        "_unready_reasons",
        "failed_ends",
        "flight",
        "stats",
        "unfinished",
    )

    def __init__(
        self,
        stats: Stats,
        limits: Limits,
        on_refused: OnRefused | None = None,
        *,
        unready_reasons: Callable[[], Sequence[str]] = list,
        has_native: bool = False,
    ) -> None:
        super().__init__(on_refused)
        self.stats = stats
        bytes_max = limits.in_flight_bytes_max
        # Native threads have the other half.
        self.flight = Flight(stats, limits, max(1, bytes_max // 2) if has_native else bytes_max)
        self.unfinished = Unfinished(limits.held_bytes_max)
        self._closed_lines = LineBudget()
        self._foreign_lines = LineBudget()
        self._fault_lines = LineBudget()
        self._unready_reasons = unready_reasons
        #: One-way ends that failed since the sweep last said so, and the last reason.
        self.failed_ends: tuple[int, HalfHitchError] | None = None

    @property
    def refusal(self) -> HalfHitchError | None:
        """Why new messages are not taken at all: waiting for a Kafka that is away would outlast
        every client's patience."""
        reasons = self._unready_reasons()
        return KafkaUnavailable(reasons[0]) if reasons else None

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

    def say_fault(self, what: str, error: BaseException, action: str) -> None:
        """A fault of ours; whoever can bring it about can do so again and again."""
        more = self._fault_lines.take()
        if more is not None:
            logger.error(
                "%s failed; please report this%s",
                what,
                more,
                exc_info=error,
                extra={"action": action},
            )

    def say_foreign_end(self, peer: Host, known: Handle, identity: str | None) -> None:
        """An end is refused because its numbers are not ours; any stranger can make them up."""
        more = self._foreign_lines.take()
        if more is not None:
            logger.warning(
                "an end of RocketMQ client %s%s for transaction %.100r of group %.100r is refused: "
                "its numbers were not given to that transaction here. It decides nothing, a check "
                "settles the transaction. Where an older release, or one with another handle.key "
                "or topics.prefix, has answered its message, make all instances alike; else that "
                "client makes its numbers up%s",
                shown(peer),
                "" if identity is None else f" (identity {identity!r})",
                known.transaction_id,
                known.producer_group,
                more,
                extra={"action": "rocketmq_foreign_end"},
            )
