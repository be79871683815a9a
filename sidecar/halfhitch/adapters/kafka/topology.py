"""Which topics these are: ids and numbers of partitions, now and when they were last used.

A topic that was deleted and created anew has the same name, and nothing in it is what the stored
watermarks, the handles and the op log speak of. Another number of partitions sends a repeated
prepare to another half partition, where it would be forwarded a second time. Both can happen while
every sidecar is stopped, so what the topics were is remembered: as the text of an offset that the
owners' group commits for the parked topic, of which it never reads. (The memory may be lost with
the group; then there is nothing to compare, and the topics are taken as they are.)

Blocks. Owners commit the memory (membership.py); what follows from a difference is decided in
topic_watch.py.
"""

from dataclasses import dataclass
from typing import Final, Self

from confluent_kafka import (
    KafkaError,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from halfhitch.adapters.kafka.admin import answer
from halfhitch.adapters.kafka.stored import StoredOffsets
from halfhitch.errors import ConfigurationError, KafkaUnavailable, TopologyError
from halfhitch.wire.topics import InternalTopics

_VERSION: Final = "1"


@dataclass(frozen=True, slots=True)
class Topology:
    """Half and op topic."""

    half_id: str
    half_count: int
    op_id: str
    op_count: int

    def text(self) -> str:
        """To be remembered."""
        return f"{_VERSION};{self.half_id};{self.half_count};{self.op_id};{self.op_count}"

    @classmethod
    def parse(cls, text: str | None) -> Self | None:
        """What was remembered; None for nothing, and for what another release wrote."""
        parts = (text or "").split(";")
        if len(parts) != 5 or parts[0] != _VERSION:
            return None
        _, half_id, half_count, op_id, op_count = parts
        if not (half_count.isdigit() and op_count.isdigit()):
            return None
        return cls(half_id, int(half_count), op_id, int(op_count))

    def recreated(self, now: "Topology", names: InternalTopics) -> list[str]:
        """Topics that are not what they were: one sentence for each."""
        changes = ((names.half, self.half_id, now.half_id), (names.op, self.op_id, now.op_id))
        return [
            f"{topic} was deleted and created anew (topic id {new}, was {old}): what was pending "
            "in it is lost."
            for topic, old, new in changes
            if old != new
        ]

    def resized(self, now: "Topology", names: InternalTopics) -> list[str]:
        """Topics that have another number of partitions: one sentence for each."""
        changes = (
            (names.half, self.half_count, now.half_count),
            (names.op, self.op_count, now.op_count),
        )
        return [
            f"{topic} has {new} partitions, but had {old} when it was used."
            for topic, old, new in changes
            if old != new
        ]


def look(admin: AdminClient, names: InternalTopics, *, wait_s: float) -> Topology:
    """As it is now. Raises TopologyError when a topic is not there, KafkaUnavailable."""
    wanted = TopicCollection([names.half, names.op])
    found = {}
    for topic, future in admin.describe_topics(wanted, request_timeout=wait_s).items():
        found[topic] = answer(
            future, wait_s, f"describe the topic {topic}", KafkaError.UNKNOWN_TOPIC_OR_PART
        )
        if found[topic] is None:
            raise TopologyError(f"The topic {topic} does not exist. Run `halfhitch topics init`.")
    half, op = found[names.half], found[names.op]
    return Topology(str(half.topic_id), len(half.partitions), str(op.topic_id), len(op.partitions))


def place(names: InternalTopics, topology: Topology) -> TopicPartition:
    """The offset whose text is the memory; to be committed by the owners' group."""
    return TopicPartition(names.parked, 0, 0, metadata=topology.text())


def remembered(
    stored_offsets: StoredOffsets, names: InternalTopics, *, wait_s: float
) -> Topology | None:
    """What owners have committed. Raises KafkaUnavailable."""
    where = TopicPartition(names.parked, 0)
    try:
        found = stored_offsets.of([where], wait_s, "read what the topics were")
    except TopologyError:
        raise
    except ConfigurationError:
        return None  # an instance that owns nothing need not have the right
    return Topology.parse(found[0].metadata) if found else None


def accept(
    admin: AdminClient,
    stored_offsets: StoredOffsets,
    names: InternalTopics,
    *,
    wait_s: float = 30.0,
) -> Topology:
    """Take the topics as they are from now on; refused by Kafka while a sidecar is running."""
    now = look(admin, names, wait_s=wait_s)
    try:
        stored_offsets.keep([place(names, now)], "remember what the topics are")
    except KafkaUnavailable as error:
        raise TopologyError(f"{error.message} Stop every sidecar before this.") from error
    return now


def compare(before: Topology | None, now: Topology, names: InternalTopics) -> None:
    """Refuse what is not as it was when it was last used. Raises TopologyError."""
    if before is None:
        return
    if recreated := before.recreated(now, names):
        raise TopologyError(f"{' '.join(recreated)} {_after_loss(names)}")
    if resized := before.resized(now, names):
        raise TopologyError(f"{' '.join(resized)} {_after_resizing()}")


def _after_loss(names: InternalTopics) -> str:
    return (
        "Find out what the applications miss. Then stop every sidecar, delete "
        f"{names.half} and {names.op} both, so that neither speaks of the other's past, run "
        "`halfhitch topics init --accept`, and start again."
    )


def _after_resizing() -> str:
    return (
        "Partitions cannot be removed, and with another number a repeated prepare lands in another "
        "one and is forwarded twice. Stop new prepares, wait until no producer repeats an old one, "
        "stop every sidecar, run `halfhitch topics init --accept` with topics.partitions set to "
        "the new number, and start again."
    )
