"""Kafka's clients as an engine needs them: one method for each role, all from its options."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from halfhitch.adapters.kafka import clients
from halfhitch.adapters.kafka.burden_board import OnCommit
from halfhitch.adapters.kafka.log_consumer import LogConsumer
from halfhitch.adapters.kafka.outside import Forward
from halfhitch.adapters.kafka.topics import RECORD_OVERHEAD_BYTES
from halfhitch.adapters.native import owner as native_owner
from halfhitch.engine.options import EngineOptions
from halfhitch.service.transactions.op_appends import DecisionLog
from halfhitch.wire.topics import InternalTopics


@dataclass(frozen=True, slots=True)
class Appends:
    """What an append of halves and decisions has to keep to."""

    config: clients.Config
    instance: str
    message_bytes_max: int
    half_topic: str
    op_topic: str
    partition_count: Callable[[], int]  # of the half topic; 0 until Kafka was reached
    preferred_partition: Callable[[int], int]  # of so many: for what may go to any
    target_partitions: Callable[[str], int | None]  # of a topic, as far as known
    decisions: DecisionLog


class EngineClients:
    """Each call makes a new client; whoever asked for it lets it go."""

    def __init__(self, options: EngineOptions, names: InternalTopics) -> None:
        self._options = options
        self._names = names
        self._way = native_owner.load() if options.owner_enabled else None

    def admin(self) -> AdminClient:
        """Questions about the cluster, topics, deletion."""
        return AdminClient(self._config(self._options.admin_options), logger=clients.logger)

    def consumer(self) -> Consumer:
        """Reads logs by hand-made assignment; joins no group."""
        config = self._config(self._options.consumer_options)
        return clients.log_consumer(config, group=self._names.owner_group)

    def native_consumer(self, partition: int) -> LogConsumer | None:
        """Reads both logs of a half partition outside of Python; None: `consumer` has to."""
        if self._way is None:
            return None
        config = self._config(self._options.consumer_options)
        config = clients.log_config(config, group=self._names.owner_group)
        return self._way.consumer(config, self._names.half, self._names.op, partition)

    @property
    def forward(self) -> Forward | None:
        """For what was read so; None: an owner spells it out."""
        return None if self._way is None else self._way.forward

    def searcher(self) -> Consumer:
        """Reads much at once, and then goes."""
        config = self._config(self._options.consumer_options)
        return clients.search_consumer(config, group=self._names.owner_group)

    def looker(self) -> Consumer:
        """Reads a little of many partitions, and then goes."""
        config = self._config(self._options.consumer_options)
        return clients.look_consumer(config, group=self._names.owner_group)

    def bounds_client(self, on_commit: OnCommit) -> Consumer:
        """Stores and asks under the group by which owners tell what they do not take."""
        config = self._config(self._options.consumer_options)
        return clients.log_consumer(config, group=self._names.bounds_group, on_commit=on_commit)

    def skips_client(self) -> Consumer:
        """Asks under the group by which operators say what is to be passed over."""
        config = self._config(self._options.consumer_options)
        return clients.log_consumer(config, group=self._names.skips_group)

    def member(self) -> Consumer:
        """Joins the owners' group."""
        options = self._options
        return clients.member_consumer(
            self._config(options.consumer_options),
            group=self._names.owner_group,
            session_timeout_ms=options.session_timeout_ms,
            group_instance_id=options.group_instance_id,
        )

    def record_producer(self) -> Producer:
        """Halves and decisions."""
        return clients.record_producer(self.record_config())

    def record_config(self) -> clients.Config:
        """What a producer of halves and decisions is made of."""
        options = self._options
        return clients.record_config(
            self._config(options.producer_options),
            delivery_ms=options.delivery_ms,
            message_bytes_max=options.message_bytes_max + RECORD_OVERHEAD_BYTES,
        )

    def owner_producer(self, transactional_id: str) -> clients.OwnerProducer:
        """The one of a half partition."""
        options = self._options
        return clients.owner_producer(
            self._config(options.producer_options),
            transactional_id=transactional_id,
            transaction_timeout_ms=options.transaction_timeout_ms,
        )

    def resume_producer(self, transactional_id: str) -> Producer:
        """Of an operator, who puts parked messages back."""
        options = self._options
        return clients.resume_producer(
            self._config(options.producer_options),
            transactional_id=transactional_id,
            transaction_timeout_ms=options.transaction_timeout_ms,
        )

    def _config(self, options: dict[str, Any]) -> clients.Config:
        return clients.base(self._options.bootstrap, f"halfhitch-{self._options.instance}", options)
