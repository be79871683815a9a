"""An owner's reading and forwarding by halfhitch-native: payloads stay outside of Python.

The consumer is native as a whole. The producer is not: its fences, its suspicion and its commit are
confluent-kafka's, and only the records of committed halves are given to librdkafka's handle in it.
That handle stands in confluent-kafka's object, whose form is no promise of theirs; so it is looked
for only where that form is known, and librdkafka itself is asked whether it is the right one.

Where something does not fit everything goes the interpreted way, and the log says why.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from halfhitch.adapters.kafka.log_consumer import LogConsumer, Taken
from halfhitch.adapters.kafka.outside import Forward, Refused
from halfhitch.adapters.native.carrier import library, native_log, native_options
from halfhitch.adapters.native.face import has_owner, installed
from halfhitch.ports import Payload

logger = logging.getLogger(__name__)

#: Of confluent-kafka's Producer where librdkafka's handle is its first field (2.16).
_PRODUCER_BYTES: Final = 176


@dataclass(frozen=True, slots=True)
class OwnersWay:
    """What an owner is made with."""

    #: Of a consumer's configuration; None: such a one must be Python's.
    consumer: Callable[[Mapping[str, Any], str, str, int], LogConsumer | None]
    forward: Forward


def load() -> OwnersWay | None:
    """None without the package, or where it does not fit."""
    module, _ = installed()
    return None if module is None else way_of(module)


def way_of(module: Any) -> OwnersWay | None:
    """Of this build; None where it does not fit."""
    if not has_owner(module):
        return None
    found = library()
    if found is None or Producer.__basicsize__ != _PRODUCER_BYTES:
        logger.info(
            "halfhitch-native is not used for owners: confluent-kafka %s is of a form that it does "
            "not know",
            confluent_kafka.version(),
            extra={"action": "native_unused"},
        )
        return None
    logger.info(
        "halfhitch-native reads and forwards for the owners of half partitions",
        extra={"action": "native_used"},
    )
    return OwnersWay(partial(_consumer, module, found), partial(_forward, module, found))


def _consumer(
    module: Any,
    found: str,
    config: Mapping[str, Any],
    half_topic: str,
    op_topic: str,
    partition: int,
) -> LogConsumer | None:
    options = native_options(config)
    if options is None:
        logger.info(
            "halfhitch-native is not used for the owner of half partition %d: kafka.options ask "
            "for what calls back into Python",
            partition,
            extra={"action": "native_unused"},
        )
        return None
    return NativeLogConsumer(
        module.LogConsumer(found, options, half_topic, op_topic, partition), half_topic
    )


def _forward(
    module: Any, found: str, producer: Producer, payloads: Sequence[tuple[Payload, int]]
) -> Refused | None:
    refused = module.forward(found, producer, payloads)
    if refused is None:
        return None
    place, code, words, is_fatal, is_retriable, wants_abort = refused
    return Refused(place, KafkaError(code, words, is_fatal, is_retriable, wants_abort))


class NativeLogConsumer:
    """LogConsumer of halfhitch-native."""

    def __init__(self, consumer: Any, half_topic: str) -> None:
        self._consumer = consumer
        self._half_topic = half_topic

    def committed(self, logs: list[TopicPartition], wait_s: float) -> list[TopicPartition]:
        """See LogConsumer; so for the others."""
        found = self._asked(self._consumer.committed, int(wait_s * 1000))
        return [
            TopicPartition(log.topic, log.partition, *position)
            for log, position in zip(logs, found, strict=True)
        ]

    def get_watermark_offsets(self, log: TopicPartition, wait_s: float) -> tuple[int, int]:
        """See LogConsumer."""
        is_op = log.topic != self._half_topic
        found: tuple[int, int] = self._asked(self._consumer.watermarks, is_op, int(wait_s * 1000))
        return found

    def assign(self, logs: list[TopicPartition]) -> None:
        """See LogConsumer."""
        self._asked(self._consumer.assign, *(log.offset for log in logs))

    def pause(self, logs: list[TopicPartition]) -> None:  # noqa: ARG002 - always the op log
        """See LogConsumer."""
        self._asked(self._consumer.pause_op)

    def resume(self, logs: list[TopicPartition]) -> None:  # noqa: ARG002 - always the op log
        """See LogConsumer."""
        self._asked(self._consumer.resume_op)

    def take(self, wait_s: float, count_max: int) -> Taken:
        """See LogConsumer."""
        half, op, others, count = self._asked(self._consumer.read, int(wait_s * 1000), count_max)
        for line in self._consumer.lines():
            native_log(*line)
        return Taken(half, op, [_Other(*other) for other in others], count <= count_max)

    def wake(self) -> None:
        """See LogConsumer."""
        self._consumer.wake()

    def close(self) -> None:
        """See LogConsumer."""
        self._consumer.close()

    def _asked(self, ask: Callable[..., Any], *given: Any) -> Any:
        try:
            return ask(*given)
        except RuntimeError as error:
            if len(error.args) != 2:
                raise
            raise KafkaException(KafkaError(*error.args)) from error


@dataclass(frozen=True, slots=True)
class _Other:
    """What a log gives that is no record; the methods are those of a message."""

    _code: int
    _words: str
    _topic: str | None
    _partition: int
    _log_offset: int

    def error(self) -> KafkaError:
        """What it is."""
        return KafkaError(self._code, self._words)

    def topic(self) -> str | None:
        """Of the log."""
        return self._topic

    def partition(self) -> int:
        """Of the log."""
        return self._partition

    def offset(self) -> int:
        """Where."""
        return self._log_offset
