"""An AdminClient for commands: quiet on stderr, and able to say why Kafka does not answer.

Owns `KafkaAdmin`. librdkafka reports a refused connection or a wrong password only through its
error callback, while the question that was asked merely times out; both are put together here.
"""

import re
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from halfhitch.adapters.kafka import brokers
from halfhitch.adapters.kafka.audit_topic import AuditOptions
from halfhitch.adapters.kafka.clients import JUDGING
from halfhitch.adapters.kafka.stored import StoredOffsets
from halfhitch.config import Settings
from halfhitch.errors import KafkaUnavailable

_ERRORS_MAX = 100
_STATE = re.compile(r" \(after \d+ms in state [A-Z_]+\)")


def audit_options(settings: Settings) -> AuditOptions | None:
    """How the audit topic is to be; None where there is to be none."""
    if not settings.audit.enabled:
        return None
    return AuditOptions(settings.audit.retention_h, settings.audit_copies)


class KafkaAdmin:
    """One cluster, for the length of a command."""

    def __init__(self, settings: Settings, *, wait_s: float) -> None:
        self._bootstrap = settings.kafka.bootstrap
        self._wait_s = wait_s
        self._errors: list[str] = []
        self._common: dict[str, Any] = {
            "bootstrap.servers": settings.kafka.bootstrap,
            "client.id": "halfhitch-cli",
            "log_level": 0,
            "error_cb": self._remember,
        }
        self._consumer_options = settings.kafka.options.for_client("consumer")
        self.client = AdminClient({**settings.kafka.options.for_client("admin"), **self._common})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.client.poll(0)

    def reach(self) -> brokers.Cluster:
        """Who is there. Raises KafkaUnavailable with the best reason that is known."""
        try:
            return brokers.describe_cluster(self.client, wait_s=self._wait_s)
        except KafkaUnavailable as error:
            self.client.poll(0)
            reason = self._errors[-1] if self._errors else error.message
            raise KafkaUnavailable(
                f"Kafka does not answer at {self._bootstrap} within {self._wait_s:g} s ({reason}): "
                "check kafka.bootstrap, the network and kafka.options."
            ) from error

    def stored_offsets(self, group: str) -> StoredOffsets:
        """What the group has stored."""
        config = {**self._consumer_options, **self._common, "group.id": group}
        # Only what is final counts: not what an open Kafka transaction may still take back.
        config |= JUDGING
        return StoredOffsets(lambda: Consumer(config))

    def reader(self, group: str) -> Consumer:
        """For records, by hand-made assignment."""
        config = {**self._consumer_options, **self._common, "group.id": group}
        config |= {"enable.auto.commit": False, "isolation.level": "read_committed"}
        return Consumer({**config, "enable.partition.eof": True})

    def _remember(self, error: Any) -> None:
        text = error.str()
        # "all brokers down" follows from the errors before it and would hide them.
        if len(self._errors) < _ERRORS_MAX and "brokers are down" not in text:
            self._errors.append(_STATE.sub("", text).strip())
