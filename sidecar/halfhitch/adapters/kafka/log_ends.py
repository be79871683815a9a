"""Where logs end: how far records exist, and how far they can be read.

Two numbers, never one for the other. The high watermark says what exists: everything that was
acknowledged lies below it. The last stable offset says what a read_committed reader can be given
now: it stands still at the first record of the oldest open Kafka transaction, whoever has it open.
A read_committed consumer that is asked for its watermarks gives the second one as the end.
"""

from collections.abc import Collection, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from halfhitch.adapters.kafka.errors import describe
from halfhitch.errors import KafkaUnavailable

_ASK_S: Final = 5.0

#: Topic and partition.
Log = tuple[str, int]


def held_sentence(
    logs: Collection[Log], existing: Mapping[Log, int], readable: Mapping[Log, int]
) -> str | None:
    """What hides records of these logs; None when all that exists can be read."""
    parts = [
        f"{log[0]}-{log[1]} can be read up to {readable[log]} of {existing[log]}"
        for log in logs
        if readable[log] < existing[log]
    ]
    if not parts:
        return None
    return (
        f"{', '.join(parts)}: a Kafka transaction is open there, and what lies behind it is hidden "
        "until it ends (halfhitch doctor names its producer and how to abort it)"
    )


class LogEnds:
    """Questions to the leaders; from any thread. Raises KafkaUnavailable."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    def existing(self, logs: Collection[Log]) -> dict[Log, int]:
        """High watermarks: the offset of the next record of each."""
        return self._latest(logs, IsolationLevel.READ_UNCOMMITTED)

    def readable(self, logs: Collection[Log]) -> dict[Log, int]:
        """Last stable offsets: read_committed readers see nothing at or above them now."""
        return self._latest(logs, IsolationLevel.READ_COMMITTED)

    def _latest(self, logs: Collection[Log], isolation: IsolationLevel) -> dict[Log, int]:
        if not logs:
            return {}
        latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(*log): latest for log in logs}
        try:
            futures = self._admin.list_offsets(
                asked, isolation_level=isolation, request_timeout=_ASK_S
            )
            return {
                (where.topic, where.partition): int(future.result(_ASK_S + 1.0).offset)
                for where, future in futures.items()
            }
        except KafkaException as error:
            raise KafkaUnavailable(
                f"Kafka does not say where logs end: {describe(error)}"
            ) from error
        except FutureTimeoutError as error:
            raise KafkaUnavailable("Kafka does not say in time where logs end") from error
