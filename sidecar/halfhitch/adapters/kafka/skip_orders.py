"""Operators' orders to pass over one record that says it was written by a newer release.

Such a record stops its half partition: to pass over it would lose what it says. But whoever may
write to the internal topics can forge one, and no upgrade helps against that. An order names the
log and the offset, with the operator and the reason; owners ask for it when they meet the record.

Kept as the text of offsets that a group without members has stored, one for each log. Kafka forgets
them after `offsets.retention.minutes` (a week), when the watermarks have long passed the record.
"""

import json
import logging
from typing import Final

from confluent_kafka import TopicPartition

from halfhitch.adapters.kafka.stored import StoredOffsets
from halfhitch.errors import HalfHitchError

logger = logging.getLogger(__name__)

#: Kafka takes 4,096 (`offset.metadata.max.bytes`).
_TEXT_BYTES_MAX: Final = 4_000
_WAIT_S: Final = 5.0

#: Offset -> who wants it to be passed over, and why.
Orders = dict[int, tuple[str, str]]


class SkipOrders:
    """`stored` is of the group `InternalTopics.skips_group`. Any thread; blocks."""

    def __init__(self, stored: StoredOffsets) -> None:
        self._stored = stored

    def of(self, topic: str, partition: int, wait_s: float = _WAIT_S) -> Orders:
        """Raises KafkaUnavailable, ConfigurationError."""
        found = self._stored.of(
            [TopicPartition(topic, partition)], wait_s, "read what is to be passed over"
        )
        return parse(found[0].metadata) if found and found[0].offset >= 0 else {}

    def reason(self, topic: str, partition: int, log_offset: int) -> str | None:
        """Of an order for this record; None also when nobody can be asked."""
        try:
            order = self.of(topic, partition).get(log_offset)
        except HalfHitchError as error:
            logger.warning("%s", error, extra={"action": "skip_orders_unread"})
            return None
        return None if order is None else f"{order[0]}: {order[1]}"

    def add(
        self, topic: str, partition: int, log_offset: int, *, operator: str, reason: str
    ) -> None:
        """Raises KafkaUnavailable, ConfigurationError."""
        orders = {**self.of(topic, partition), log_offset: (operator, reason)}
        place = TopicPartition(topic, partition, log_offset, metadata=text_of(orders, log_offset))
        self._stored.keep([place], "keep the order to pass over the record")


def text_of(orders: Orders, newest: int) -> str:
    """The lowest go first when there is no room: owners have passed them. `newest` always fits."""
    kept = sorted(orders)
    while True:
        content = [[log_offset, *orders[log_offset]] for log_offset in kept]
        text = json.dumps({"skip": content}, ensure_ascii=False, separators=(",", ":"))
        spare = [log_offset for log_offset in kept if log_offset != newest]
        if len(text.encode()) <= _TEXT_BYTES_MAX or not spare:
            return text
        kept.remove(spare[0])


def parse(text: str | None) -> Orders:
    """What somebody else has written there is no order."""
    try:
        content = json.loads(text or "{}")["skip"]
        return {int(log_offset): (str(by), str(why)) for log_offset, by, why in content}
    except (ValueError, KeyError, TypeError):
        return {}
