"""Records whose content lies outside of Python: how a writer gives them to Kafka's client."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from confluent_kafka import KafkaError, KafkaException, Producer

from halfhitch.ports import Payload, TargetRecord
from halfhitch.wire.count import forwarded


@dataclass(frozen=True, slots=True)
class Refused:
    """One was not taken, and none behind it."""

    place: int
    error: KafkaError

    def raised(self) -> None:
        """As Kafka's client would have raised it."""
        if self.error.code() == KafkaError._QUEUE_FULL:
            raise BufferError(self.error.str())
        raise KafkaException(self.error)


#: Gives committed halves to a producer: payloads with an aim, and how many messages the transaction
#: of each has. None: all were taken.
Forward = Callable[[Producer, Sequence[tuple[Payload, int]]], Refused | None]


def runs(targets: Sequence[TargetRecord]) -> list[tuple[bool, list[TargetRecord]]]:
    """Neighbours of one kind together, in order: True for those whose content is outside."""
    return [
        (is_outside, list(run))
        for is_outside, run in groupby(targets, lambda t: t.outside is not None)
    ]


def spelled_out(target: TargetRecord) -> TargetRecord:
    """The same with all its content here."""
    if target.outside is None:
        return target
    payload, message_count = target.outside
    return TargetRecord(
        target.topic,
        target.partition,
        target.key,
        payload.value,
        forwarded(payload.headers, message_count),
    )
