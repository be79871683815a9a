"""Membership in the owners' group: which half partitions are ours, told to a listener.

The member reads nothing (its partitions are paused); it exists for the assignment and for the group
generation that every Kafka transaction of an owner carries.

Rules of this thread:
- It polls and does nothing else that could block, but for a revocation: then the workers of the
  partitions must have ended before the answer goes out, or two owners would be alive.
- The generation handed to the workers is taken on this thread only, between polls. A worker whose
  partition is about to be revoked is stopped inside the very poll that learns of it, so it never
  gets a generation in which the partition belongs to somebody else.

With a `group.instance.id` (static membership) the partitions wait for a member that restarts within
its session. Two processes with one id would fence each other for ever, so whoever is fenced tells
`on_fatal` and ends: that is for a person to settle.

Whoever is outside the group owns nothing. After an outage that lasts as long as the session of who
was in it before. A joining whose answer is lost, as one can be when a broker comes back, is sent
again by the client once a rebalance cannot last any longer (clients.py keeps that short). As a last
resort a consumer that waits for much longer than that, while Kafka answers, is left to itself, and
another one joins in its place. Not sooner: what was left may have joined, and hold partitions for a
session more.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.watchdog import progress
from halfhitch.errors import ConfigurationError, HalfHitchError
from halfhitch.service.api import MembershipState

logger = logging.getLogger(__name__)

_POLL_S: Final = 0.2
#: The note is written anew, for Kafka forgets an offset of a topic that nobody in the group reads;
#: and soon at first, for in a rebalance it is refused.
_NOTE_S: Final = 0.5
_NOTE_S_MAX: Final = 3_600.0
#: So many sessions are long for a joining, even for one that has to be sent again.
_PATIENCE_SESSIONS: Final = 3
#: Between two consumers of which the first has failed for good.
_PAUSE_S: Final = 1.0
_PATIENCE_S_MAX: Final = 300.0
#: Joining takes a moment always; from then on it is told.
_TOLD_S: Final = 5.0


def _no_note() -> TopicPartition | None:
    return None


def _on_a_thread(close: Callable[[], None]) -> None:
    threading.Thread(target=close, name="membership-left", daemon=True).start()


class Listener(Protocol):
    """service.owner.ownership.Ownership, as this thread sees it."""

    def assigned(self, partitions: list[int]) -> None:
        """Ours from now on."""

    def revoked(self, partitions: list[int]) -> None:
        """Given up; returns when their workers have ended."""

    def lost(self, partitions: list[int]) -> None:
        """Somebody else's already."""


class GroupMembership:
    """One consumer, one thread."""

    def __init__(
        self,
        make_consumer: Callable[[], Consumer],
        *,
        half_topic: str,
        listener: Listener,
        session_s: float,
        kafka_answers: Callable[[], bool] = lambda: True,
        note: Callable[[], TopicPartition | None] = _no_note,
        on_fatal: Callable[[HalfHitchError], None] = lambda _: None,
        now_s: Callable[[], float] = time.monotonic,
        leave_to_itself: Callable[[Callable[[], None]], None] = _on_a_thread,
    ) -> None:
        """`note`: an offset that the group keeps for us, see topology.py. `leave_to_itself` runs
        what closes a consumer that may hang, without waiting for it."""
        self._make_consumer = make_consumer
        self._half_topic = half_topic
        self._listener = listener
        self._note = note
        self._note_due_s = 0.0
        self._note_wait_s = _NOTE_S
        self._on_fatal = on_fatal
        self._now_s = now_s
        self._leave_to_itself = leave_to_itself
        self._consumer: Consumer | None = None
        self._owned: set[int] = set()
        self._metadata: Any = None
        # The name under which the group has last given us an assignment, be it an empty one. The
        # client forgets its name when it has lost its session, even if there was nothing to lose.
        self._joined_as: str | None = None
        self._outside_since_s: float | None = now_s()
        self._kafka_answers = kafka_answers
        self._patience_s_min = _PATIENCE_SESSIONS * session_s
        self._patience_s = self._patience_s_min
        self._waiting_since_s = 0.0  # for a join, while Kafka answers
        self._stopping = threading.Event()
        self._left_because: str | None = None
        self.trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name="membership", daemon=True)

    def start(self) -> None:
        """Join the group."""
        self._outside_since_s = self._now_s()
        self._thread.start()

    def stop(self, wait_s: float) -> None:
        """Leave the group; the listener is told to revoke everything first."""
        self._stopping.set()
        self._thread.join(wait_s)

    def leave(self, reason: HalfHitchError) -> None:
        """Own nothing until a restart: another instance can do what we cannot. From any thread.

        Returns at once; the membership's thread gives everything up in order. Whoever joined again
        would be given the same partitions, and stop them again.
        """
        if self._left_because is None:
            self._left_because = reason.message
            logger.error(
                "this instance leaves the group of owners until it is restarted: %s",
                reason.message,
                extra={"action": "left_group"},
            )

    def metadata(self, may_write: Callable[[], bool]) -> Any:
        """The group generation for send_offsets_to_transaction; from any thread.

        A worker is told that it may not write before its partition goes, and the generation moves
        on only after that. So the generation is taken first and the question asked second: the
        other way round, a worker that hangs in between would get one that it must not have.
        """
        metadata = self._metadata
        if metadata is None:
            raise KafkaException(KafkaError(KafkaError._STATE, "not a member of the group yet"))
        if not may_write():
            raise KafkaException(KafkaError(KafkaError._STATE, "the partition was given up"))
        return metadata

    @property
    def is_alive(self) -> bool:
        """False when the thread has died: only a restart helps then."""
        return self._left_because is not None or self._thread.is_alive()

    def state(self) -> MembershipState | None:
        """How it stands in the group; None before `start`."""
        if self._thread.ident is None:
            return None
        since_s = self._outside_since_s
        if since_s is None:
            return MembershipState(is_joined=True, outside_s=0.0)
        return MembershipState(is_joined=False, outside_s=max(0.0, self._now_s() - since_s))

    def troubles(self) -> list[str]:
        """Why this instance owns nothing, where it should wonder; a sentence at most.

        In the group with nothing assigned is no trouble: there may be more instances than half
        partitions.
        """
        if self._left_because is not None:
            why = self._left_because
            return [f"this instance owns no half partition until it is restarted: {why}"]
        state = self.state()
        if state is None or state.outside_s < _TOLD_S:
            return []
        waiting = f"for {state.outside_s:.0f} s it has been waiting for Kafka's coordinator"
        return [
            f"this instance owns no half partition: {waiting} to take it into the owners' group"
        ]

    def _is_over(self) -> bool:
        return self._stopping.is_set() or self._left_because is not None

    def _run(self) -> None:
        while not self._is_over():
            consumer = self._consumer = self._make_consumer()
            self._waiting_since_s = self._now_s()
            consumer.subscribe(
                [self._half_topic],
                on_assign=self._assigned,
                on_revoke=self._revoked,
                on_lost=self._lost,
            )
            is_stuck = False
            try:
                while not is_stuck and not self._is_over() and self._poll(consumer):
                    is_stuck = self._is_stuck()
            finally:
                if is_stuck:
                    self._give_up(consumer)
                else:
                    consumer.close()  # revokes what is left, through the callback
                    self._lose_the_rest()
            if not is_stuck and not self._is_over():
                self._listener.lost([])  # closing gave all up in order; it will come again
                self._stopping.wait(_PAUSE_S)

    def _is_stuck(self) -> bool:
        """Kafka is there, and the group has taken longer than any joining takes."""
        now_s = self._now_s()
        if self._joined_as is not None or not self._kafka_answers():
            self._waiting_since_s = now_s
        return now_s - self._waiting_since_s > self._patience_s

    def _give_up(self, consumer: Consumer) -> None:
        """Its request is still with Kafka, so to close it would take as long as a request may."""
        logger.warning(
            "the owners' group has not answered for %.0f s: joining it anew",
            self._patience_s,
            extra={"action": "membership_anew"},
        )
        # A group that is slow, not forgetful, must not be disturbed again and again.
        self._patience_s = max(self._patience_s_min, min(2 * self._patience_s, _PATIENCE_S_MAX))
        self._consumer = None
        self._leave_to_itself(consumer.close)

    def _lose_the_rest(self) -> None:
        """A consumer that has failed for good closes without a word of what it had."""
        self._left()
        if self._owned:
            partitions, self._owned = sorted(self._owned), set()
            self._listener.lost(partitions)

    def _poll(self, consumer: Consumer) -> bool:
        """False when this consumer is finished and another is to be made."""
        progress()
        message = consumer.poll(_POLL_S)
        error: Any = None if message is None else message.error()
        if error is not None:
            self.trouble = f"group membership: {error.str()}"
            logger.warning("%s", self.trouble, extra={"action": "membership_trouble"})
            # The client says so by the code; `fatal()` is about producers.
            if error.code() == KafkaError._FATAL or error.fatal():
                self._fatal(error)
                return False
        if self._joined_as is not None and consumer.memberid() != self._joined_as:
            self._left()
        self._take_metadata(consumer)
        self._keep_note(consumer)
        return True

    def _entered(self, consumer: Consumer) -> None:
        self._joined_as, self._outside_since_s = consumer.memberid(), None
        self._patience_s = self._patience_s_min
        self.trouble = None

    def _left(self) -> None:
        if self._joined_as is not None:
            self._joined_as, self._outside_since_s = None, self._now_s()

    def _fatal(self, error: Any) -> None:
        if "group.instance.id" not in error.str() or self._stopping.is_set():
            return  # another consumer is made
        self._stopping.set()
        self._on_fatal(
            ConfigurationError(
                "Another process has joined the owners' group under this instance's name, so this "
                "one was put out. With owner.static_membership every instance needs an "
                "instance.id of its own: look for two with the same, change one, and start again."
            )
        )

    def _keep_note(self, consumer: Consumer) -> None:
        """Only an owner may: a group takes offsets from its members alone."""
        note = self._note()
        if note is None or not self._owned or self._now_s() < self._note_due_s:
            return
        self._note_due_s = self._now_s() + self._note_wait_s
        self._note_wait_s = min(2 * self._note_wait_s, _NOTE_S_MAX)
        try:
            consumer.commit(offsets=[note], asynchronous=True)
        except KafkaException as error:
            logger.debug("what the topics are was not noted: %s", describe(error))

    def _take_metadata(self, consumer: Consumer) -> None:
        try:
            self._metadata = consumer.consumer_group_metadata()
        except KafkaException as error:
            logger.debug("no group metadata: %s", describe(error))

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if consumer is not self._consumer:
            return  # it was left to itself, and gives them back while it closes
        # Nothing is read, but without an offset the client would look for a stored one, and at one
        # that was trimmed away it would find something wrong.
        consumer.incremental_assign(
            [TopicPartition(p.topic, p.partition, OFFSET_END) for p in partitions]
        )
        if partitions:
            consumer.pause(partitions)
        self._take_metadata(consumer)
        self._entered(consumer)
        self._owned |= {p.partition for p in partitions}
        self._note_due_s, self._note_wait_s = 0.0, _NOTE_S
        self._listener.assigned([p.partition for p in partitions])

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if consumer is not self._consumer:
            return
        self._owned -= {p.partition for p in partitions}
        self._listener.revoked([p.partition for p in partitions])
        consumer.incremental_unassign(partitions)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if consumer is not self._consumer:
            return
        self._left()
        logger.warning(
            "half partitions %s were lost: this instance was not heard of in time",
            sorted(p.partition for p in partitions),
            extra={"action": "partitions_lost"},
        )
        self._owned -= {p.partition for p in partitions}
        self._listener.lost([p.partition for p in partitions])
        consumer.incremental_unassign(partitions)
