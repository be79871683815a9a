"""Half messages on their way into the half log: their id, partition, headers, and append.

What every prepare does, whichever door asks; who is refused is admission's.
"""

from asyncio import Future
from collections.abc import Iterable, Sequence
from typing import Final

from halfhitch.core.model import Identity, Resolution, ResolutionSource
from halfhitch.core.partitioning import half_partition
from halfhitch.core.standing import Standing
from halfhitch.errors import KafkaUnavailable, OutcomeUnknown, Overloaded
from halfhitch.service.api import OutgoingMessage
from halfhitch.service.transactions.dependencies import Dependencies
from halfhitch.service.transactions.end import reused
from halfhitch.service.transactions.op_appends import Decision
from halfhitch.service.transactions.taken import Taken
from halfhitch.wire.digest import digest_of
from halfhitch.wire.half import HalfRecord, system_headers

#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_UNKNOWN: Final = Standing.UNKNOWN


class Preparing:
    """Closed until `open` says how many half partitions there are."""

    def __init__(self, parts: Dependencies) -> None:
        self._parts = parts
        self._log = parts.log
        self._taken = Taken(parts.clock.monotonic_s)
        self.partition_count = 0

    def open(self, partition_count: int) -> None:
        """The internal topics are verified: prepares are taken from now on. 0: none any more."""
        self.partition_count = partition_count

    def partition_of(
        self, first_key: bytes | None, transaction_id: str | None, topics: Iterable[str] = ()
    ) -> int:
        """Where one for these topics lives. Raises KafkaUnavailable while nothing is open."""
        count = self.partition_count
        if count == 0:
            raise KafkaUnavailable("the coordinator has not reached Kafka yet; see /readyz")
        partition = half_partition(first_key, transaction_id, count)
        if partition is None:
            closed = self._parts.intake.closed_to(topics)
            return self._parts.owners.preferred_partition(count, closed)
        return partition

    def admit(self, partition: int, identity: Identity, topics: Iterable[str]) -> None:
        """Raises what Intake.admit does, but for a repeat of what is pending already."""
        parts = self._parts
        try:
            parts.intake.admit(partition, identity[0], topics)
        except Overloaded:
            if parts.owners.standing(partition, identity, -1) is not Standing.PENDING:
                raise

    def claim(
        self, partition: int, identity: Identity, first_index: int, digests: Sequence[int]
    ) -> None:
        """Messages are about to be stored under an id that somebody may have used before.

        Raises TransactionReused when it is known here that it stands for others.
        """
        if self._parts.owners.differs(partition, identity, first_index, digests) or (
            not self._taken.claim(identity, first_index, digests)
        ):
            raise reused(identity)

    def is_repeat(self, identity: Identity, first_index: int, digests: Sequence[int]) -> bool:
        """Whether just these messages came here a moment ago, and were perhaps stored."""
        return self._taken.has(identity, first_index, digests)

    def is_prepared_again(self, identity: Identity) -> bool:
        """Whether its caller has prepared it here more than once, a moment ago."""
        return self._taken.was_taken_again(identity)

    def claim_new(self, partition: int, identity: Identity, digest: int) -> bool:
        """One message is about to be stored elsewhere in this process, under an id of its caller's.

        False: something is known of the id here, so it must come this way; nothing is claimed.
        """
        owners = self._parts.owners
        is_decided = self._parts.decisions.is_known(partition, identity)
        standing = owners.standing(partition, identity, -1)
        return (
            not is_decided
            # None: where its owner is, which has read nothing of it.
            and (standing is None or standing is _UNKNOWN)
            and not owners.differs(partition, identity, 0, (digest,))
            and not self._parts.decisions.was_rolled_back(partition, identity)
            and self._taken.claim_new(identity, digest)
        )

    def failed(self, identity: Identity, index: int, error: BaseException) -> None:
        """A message that was claimed could not be stored, or nobody can say."""
        if not isinstance(error, OutcomeUnknown):
            self._taken.release(identity, index)

    def append(
        self,
        partition: int,
        identity: Identity,
        message: OutgoingMessage,
        index: int,
        immunity_s: int | None,
        born_ms: int,
        digest: int,
    ) -> "Future[int]":
        """Store one half; its half offset."""
        group, transaction_id = identity
        record = HalfRecord(
            transaction_id,
            group,
            index,
            born_ms,
            self._parts.instance,
            message.topic,
            message.partition,
            immunity_s,
            digest=digest,
        )
        headers = system_headers(record) + message.headers
        return self._log.append_half(partition, message.key, message.value, headers)

    def disown(
        self, partition: int, identity: Identity, covered_count: int, stored: tuple[int, ...]
    ) -> None:
        """Roll back what may have been stored; without waiting, and without a second failure."""
        decision = Decision(
            identity,
            Resolution.ROLLBACK,
            covered_count,
            stored,
            ResolutionSource.PRODUCER,
            "prepare failed",
        )
        future = self._parts.decisions.append(partition, decision)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())


def digest(message: OutgoingMessage, *, is_partition_chosen: bool = True) -> int:
    """What the message says. `is_partition_chosen`: by its producer, and so by all its tries."""
    partition = message.partition if is_partition_chosen else None
    return digest_of(message.topic, partition, message.key, message.value, message.headers)
