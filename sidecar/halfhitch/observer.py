"""What the service tells of itself; a port as those of ports.py, which has it too."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from halfhitch.core.model import ConflictKind, Resolution, ResolutionSource

#: What a caller waits for: that a prepare is stored, an end durable, a commit visible.
Latency = Literal["prepare", "commit", "rollback", "visible"]


class Observer(Protocol):
    """One method per thing worth counting; metrics and logs are listeners. Called on any thread.

    Implementations must be quick and must not raise.
    """

    def prepared(self, message_count: int, elapsed_s: float) -> None:
        """A prepare was acknowledged."""

    def all_prepared(self, elapsed_s: Sequence[float]) -> None:
        """Prepares of one message each were acknowledged."""

    def prepare_refused(self, code: str) -> None:
        """A prepare was answered with this error code."""

    def ended(self, resolution: Resolution, source: ResolutionSource, elapsed_s: float) -> None:
        """A decision became durable."""

    def all_ended(
        self, resolution: Resolution, source: ResolutionSource, elapsed_s: Sequence[float]
    ) -> None:
        """Decisions of one kind became durable."""

    def end_refused(self, code: str) -> None:
        """An end was answered with this error code."""

    def conflict(self, kind: ConflictKind, count: int) -> None:
        """Conflicts were recorded in the op log."""

    def unknown_decisions(self, count: int) -> None:
        """Decisions were dropped because nothing is known of their transaction."""

    def garbage(self, topic_role: str, count: int) -> None:
        """Unreadable records were passed over; topic_role is "half" or "op"."""

    def parked(self, transaction_count: int, message_count: int) -> None:
        """Transactions were parked: undeliverable, or given up undecided."""

    def kafka_transaction(
        self,
        partition: int,
        outcome: str,
        elapsed_s: float,
        forwarded_count: int,
        dropped_count: int,
    ) -> None:
        """The owner ended a Kafka transaction ("ok", "fail", "unknown"); both counts: messages."""

    def producer_recycled(self, partition: int) -> None:
        """The owner's producer was replaced: a request of it might still be on its way."""

    def producer_left(self, partition: int, is_left: bool) -> None:  # noqa: FBT001 - one fact
        """The owner's producer was left in a call that hangs, or has come out of it and is gone."""

    def target_away(self, topic: str, is_away: bool) -> None:  # noqa: FBT001 - one fact
        """A target takes no messages for the time being, or takes them again."""

    def unreadable(self, counts: Mapping[tuple[str, int], int]) -> None:
        """Records that exist and that read_committed readers are not given yet, by log."""

    def forwarded_after(self, elapsed_s: float, transaction_count: int) -> None:
        """So many commits became visible so long after they were stored, by the broker's clock."""

    def forwarded(self, counts: Mapping[str, int]) -> None:
        """So many messages became visible, by topic."""

    def parked_open(self, transaction_count: int | None) -> None:
        """So many are parked now and were not put back; None: others tell."""

    def traced(self, latency: Latency, elapsed_s: float, trace_id: str, wall_ms: int) -> None:
        """One of those told of belongs to this trace, which its caller records; it is now
        `wall_ms`."""

    def appended(self, elapsed_s: float) -> None:
        """Kafka has answered records of one partition that were handed over together."""

    def takeover(self, partition: int, elapsed_s: float, replayed_count: int) -> None:
        """A partition was taken over: fenced, both logs read to their ends."""

    def old_watermarks(self, partition: int) -> None:
        """Kafka gave a takeover watermarks below the logs; the newest proven pair was taken."""

    def check_sent(self, producer_group: str, lag_s: float, trace_id: str | None = None) -> None:
        """A check was handed to a producer, this long after it was due; of such a trace, if any."""

    def check_settled(self, producer_group: str, outcome: str, elapsed_s: float) -> None:
        """What became of a check, a value of service.checking.api.CheckOutcome, so long after it
        was handed to a producer."""

    def given_up(self, policy: str, reason: str, count: int) -> None:
        """Undecided transactions were given up; policy is "park", "rollback" or "commit"."""

    def renewed(self, count: int) -> None:
        """Old pending transactions were re-appended without being checked."""

    def resumed(self, count: int) -> None:
        """Parked transactions were put back."""

    def stories(self, written_count: int, lost_count: int) -> None:
        """Entries were written to the audit topic, or could not be kept until it takes some."""

    def redis(self, healthy: bool) -> None:  # noqa: FBT001 - one fact
        """Redis answers, or does not."""

    def redis_rebuilt(self, reason: str) -> None:
        """What Redis held was not ours any more: one word says why."""
