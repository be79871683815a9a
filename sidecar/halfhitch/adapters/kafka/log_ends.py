"""Where logs end: how far records exist, and how far they can be read.

Two numbers, never one for the other. The high watermark says what exists: everything that was
acknowledged lies below it. The last stable offset says what a read_committed reader can be given
now: it stands still at the first record of the oldest open Kafka transaction, whoever has it open.
A read_committed consumer that is asked for its watermarks gives the second one as the end.
"""

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from halfhitch.adapters.kafka.errors import describe
from halfhitch.errors import KafkaUnavailable

_ASK_S: Final = 5.0
_PAUSE_S: Final = 0.1

_Answer = TypeVar("_Answer")

#: What the client knows of the leader is no longer so.
_OUTDATED: Final = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)

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


def patiently(ask: Callable[[], _Answer], wait_s: float) -> _Answer:
    """While a leader moves, or is new, the answer is an error for a moment: ask again for so long.

    Raises what `ask` raised last: KafkaException or KafkaUnavailable.
    """
    give_up_s = time.monotonic() + wait_s
    while True:
        try:
            return ask()
        except (KafkaException, KafkaUnavailable):
            if time.monotonic() > give_up_s:
                raise
            time.sleep(_PAUSE_S)


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
        try:
            try:
                return self._ask(logs, isolation)
            except KafkaException as error:
                if error.args[0].code() not in _OUTDATED:
                    raise
                # An admin client asks whom it knew to lead, and does not look again by itself
                # until what it knew has expired: for half a minute after a broker's restart.
                for topic in {topic for topic, _ in logs}:
                    self._admin.list_topics(topic, _ASK_S)
                return self._ask(logs, isolation)
        except KafkaException as error:
            raise KafkaUnavailable(
                f"Kafka does not say where logs end: {describe(error)}"
            ) from error
        except FutureTimeoutError as error:
            raise KafkaUnavailable("Kafka does not say in time where logs end") from error

    def _ask(self, logs: Collection[Log], isolation: IsolationLevel) -> dict[Log, int]:
        latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(*log): latest for log in logs}
        futures = self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=_ASK_S)
        return {
            (where.topic, where.partition): int(future.result(_ASK_S + 1.0).offset)
            for where, future in futures.items()
        }
