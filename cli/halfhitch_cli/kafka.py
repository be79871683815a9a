"""An AdminClient for commands: quiet on stderr, and able to say why Kafka does not answer.

Owns `KafkaAdmin`. librdkafka reports a refused connection or a wrong password only through its
error callback, while the question that was asked merely times out; both are put together here.
"""

import re
from types import TracebackType
from typing import Any, Self

from confluent_kafka.admin import AdminClient

from halfhitch.adapters.kafka import brokers
from halfhitch.config import Settings
from halfhitch.errors import KafkaUnavailable

_ERRORS_MAX = 100
_STATE = re.compile(r" \(after \d+ms in state [A-Z_]+\)")


class KafkaAdmin:
    """One cluster, for the length of a command."""

    def __init__(self, settings: Settings, *, wait_s: float) -> None:
        self._bootstrap = settings.kafka.bootstrap
        self._wait_s = wait_s
        self._errors: list[str] = []
        config: dict[str, Any] = {
            **settings.kafka.options.for_client("admin"),
            "bootstrap.servers": settings.kafka.bootstrap,
            "client.id": "halfhitch-cli",
            "log_level": 0,
            "error_cb": self._remember,
        }
        self.client = AdminClient(config)

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

    def _remember(self, error: Any) -> None:
        text = error.str()
        # "all brokers down" follows from the errors before it and would hide them.
        if len(self._errors) < _ERRORS_MAX and "brokers are down" not in text:
            self._errors.append(_STATE.sub("", text).strip())
