"""Whose fault it is that a step failed, as far as Kafka says so.

Of a FAIL a cause is told only where Kafka names it. What the half or op topic refuses is never a
target's, and whether a topic may be written to is asked of the brokers: that it can be described
says nothing about it. Of records that were handed on without a report (outside.py) no delivery is
heard of: a step that fails with such ones and names no cause is unexplained.

Belongs to one writer and its thread.
"""

import time
from collections.abc import Collection, Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from halfhitch.adapters.kafka.admin import unwritable
from halfhitch.adapters.kafka.error_table import AWAY, is_ours
from halfhitch.adapters.kafka.errors import POISON, TOPIC_REFUSED, describe
from halfhitch.adapters.watchdog import progress
from halfhitch.ports import TargetRecord, WriteOutcome, WriteResult

#: A look at the metadata before a target is tried again.
_LOOK_S: Final = 1.0
#: To be told which topics refuse what is written to them.
_ASK_S: Final = 2.0
_REASONS_MAX: Final = 10


class Blame:
    """Of one write after the other."""

    def __init__(self, admin: AdminClient, half_topic: str, op_topic: str) -> None:
        self._admin = admin
        self._half_topic = half_topic
        self._op_topic = op_topic
        self._failures: list[str] = []
        # As librdkafka has reported it: topic -> why.
        self._refused_topics: dict[str, str] = {}
        self._refusing: dict[str, str] = {}
        self._away_topics: set[str] = set()
        #: Place among the targets -> why this record is refused for good.
        self.poisoned: dict[int, str] = {}
        #: The owner's own trouble.
        self.is_ours = False
        #: Some records have gone out of which no delivery is reported.
        self.is_unreported = False

    def forget(self) -> None:
        """The next write begins."""
        self._failures.clear()
        self._refused_topics.clear()
        self._refusing.clear()
        self._away_topics.clear()
        self.poisoned.clear()
        self.is_ours = self.is_unreported = False

    def undelivered(self, error: KafkaError, topic: str) -> None:
        """A record was not stored."""
        self.refused(error, topic, None)
        if error.code() in AWAY:
            self._away_topics.add(topic)
        if len(self._failures) < _REASONS_MAX:
            self._failures.append(f"{topic}: {error.str()}")

    def refused(self, error: KafkaError, topic: str, place: int | None) -> None:
        """Perhaps for good. Without a place: a broker refuses whole batches and names no record."""
        code, why = error.code(), f"{topic}: {error.str()}"
        if code in TOPIC_REFUSED:
            self._refused_topics[topic] = why
        elif code in POISON:
            if place is None or topic == self._half_topic:
                self._refusing[topic] = why
            else:
                self.poisoned[place] = why

    def reason(self, error: KafkaException | BufferError | SystemError) -> str:
        """For people."""
        if not isinstance(error, KafkaException):
            return "; ".join([str(error), *self._failures])
        self.is_ours = self.is_ours or is_ours(error.args[0])
        return "; ".join([describe(error), *self._failures])

    def result(self, reason: str, targets: Sequence[TargetRecord]) -> WriteResult:
        """Of a write that was surely aborted."""
        ours = {self._half_topic, self._op_topic}
        closed = self._closed(targets)
        if self.is_unreported and not (closed or self._is_named):
            asked = {self._op_topic, *(target.topic for target in targets)}
            self._away_topics |= leaderless(self._admin, asked)
        poisoned = {
            place: closed[target.topic]
            for place, target in enumerate(targets)
            if target.topic in closed and target.topic not in ours
        }
        poisoned.update(self.poisoned)
        return WriteResult(
            WriteOutcome.FAIL,
            "; ".join([reason, *(why for why in closed.values() if why not in reason)]),
            poisoned=poisoned,
            away_topics=self._away(),
            closed=closed,
            refusing=dict(self._refusing),
            is_ours=self.is_ours or not ours.isdisjoint([*closed, *self._refusing]),
            is_unexplained=self.is_unreported and not (closed or self._is_named),
        )

    @property
    def _is_named(self) -> bool:
        return bool(self.is_ours or self._refusing or self.poisoned or self._away_topics)

    def _away(self) -> frozenset[str]:
        """Targets that could not be reached in time, while our own op log could."""
        if not self._away_topics.isdisjoint((self._half_topic, self._op_topic)):
            return frozenset()  # all of Kafka is away: that is no target's fault
        return frozenset(self._away_topics)

    def _closed(self, targets: Sequence[TargetRecord]) -> dict[str, str]:
        """Topics of the step that take nothing, as the brokers say it when they are asked.

        Asked about what was refused, for what librdkafka knows may just have been behind; and about
        all where nothing was said. When the coordinator does not let a topic into a Kafka
        transaction, librdkafka tells no record's fate, and half of its calls do not say why.
        """
        topics = set(self._refused_topics)
        if not (topics or self._is_named):
            topics = {self._op_topic, *(target.topic for target in targets)}
        if not topics:
            return {}
        progress()
        found = unwritable(self._admin, topics, _ASK_S)
        # What librdkafka was told says more than that it is so.
        return {topic: self._refused_topics.get(topic, why) for topic, why in found.items()}


def leaderless(admin: AdminClient, topics: Collection[str]) -> frozenset[str]:
    """Those that surely have a partition without a leader now. Quick; what is not known is not."""
    give_up_s = time.monotonic() + _LOOK_S
    found = set()
    for topic in topics:
        left_s = give_up_s - time.monotonic()
        if left_s <= 0:
            break
        try:
            known = admin.list_topics(topic, left_s).topics.get(topic)
        except KafkaException:
            break  # no answer is no reason to hold a target back
        if known is not None and any(p.leader < 0 for p in known.partitions.values()):
            found.add(topic)
    return frozenset(found)
