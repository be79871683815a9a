"""librdkafka configurations: one function for each role, the reasons beside the values.

`options` are the operator's own, already passed through the allow-list of the settings; what a role
fixes is fixed and wins over them.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from halfhitch.adapters.kafka.client_log import ClientLog
from halfhitch.adapters.kafka.guard import Suspicion
from halfhitch.adapters.kafka.letting_go import Shell
from halfhitch.adapters.kafka.topic_checks import RECORD_OVERHEAD_BYTES

ConfigValue = str | int | float | bool
Config = dict[str, ConfigValue]

#: Every client's; of what they all say again and again it lets little through.
logger: Final = ClientLog(logging.getLogger("halfhitch.kafka"))

#: Well below every transaction timeout: a lost connection must be noticed while there is time left.
_SOCKET_TIMEOUT_MS = 4_000
#: What owners and resumers take, whatever their own settings say: the size of a message was judged
#: at the door that took it, which may be another instance's. As much as messages.bytes_max may be,
#: and what our headers add.
_ANY_MESSAGE_BYTES: Final = 64 * 1_048_576 + RECORD_OVERHEAD_BYTES
_BACKOFF = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 1_000}


def base(bootstrap: str, client_id: str, options: Mapping[str, ConfigValue]) -> Config:
    """What all clients share."""
    return {
        **options,
        "bootstrap.servers": bootstrap,
        "client.id": client_id,
        "socket.timeout.ms": _SOCKET_TIMEOUT_MS,
        "topic.metadata.refresh.interval.ms": 30_000,
        **_BACKOFF,
    }


def record_config(common: Config, *, delivery_ms: int, message_bytes_max: int) -> Config:
    """Halves and decisions, by any instance.

    linger 0 with two requests in flight batches by itself: while two are under way the next one
    fills. Measured best at every concurrency; the default of five in flight makes tiny requests.
    """
    return {
        **common,
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 0,
        "max.in.flight": 2,
        "message.timeout.ms": delivery_ms,
        "message.max.bytes": message_bytes_max,
        "queue.buffering.max.messages": 100_000,
        "queue.buffering.max.kbytes": 131_072,
        # Of plain messages that are fixed to no partition: as a Java producer would.
        "partitioner": "murmur2_random",
        "topic.metadata.propagation.max.ms": 2_000,
    }


def record_producer(config: Config) -> Producer:
    """Of such a configuration."""
    return Producer(dict(config), logger=logger)


class _Listening:
    """What librdkafka logs, heard by the producer's suspicion before little of it is written down.

    It stands where librdkafka's binding wants a logger, of which it calls `log` and nothing else.
    """

    def __init__(self, suspicion: Suspicion) -> None:
        self._suspicion = suspicion

    def log(self, level: int, form: str, facility: str, name: str, line: str) -> None:
        """One line: facility (FAIL, REQTMOUT, ...), the client's name, the text."""
        self._suspicion.hear(facility, line)
        if level > logging.DEBUG:  # those are for the suspicion alone
            logger.log(level, form, facility, name, line)


class _Client(Producer):
    """Kafka's own cannot be referred to weakly: whether one has ended could not be seen."""


class OwnerProducer(Shell):
    """A transactional producer with its suspicion: is a request of it still under way?

    A shell around Kafka's client. Whatever keeps an exception keeps the frames that it has passed,
    and what they name; the binding itself never frees some. Frames name the shell, so that the
    client in it ends when it is let go: one that nobody serves and nobody ends fills the memory
    with its statistics and, once its broker is gone, with a hundred log lines a second.
    """

    def __init__(self, config: Config) -> None:
        self.suspicion = Suspicion()
        everything: dict[str, Any] = {**config, "stats_cb": self.suspicion.statistics}
        self._client: Producer | None = _Client(everything, logger=_Listening(self.suspicion))

    def _alive(self) -> Producer:
        if self._client is None:
            raise RuntimeError("this producer has been let go")
        return self._client

    def __len__(self) -> int:
        return 0 if self._client is None else len(self._client)

    def list_topics(self, topic: str, wait_s: float) -> None:
        """Wait for a connection. Raises KafkaException."""
        self._alive().list_topics(topic, wait_s)

    def init_transactions(self, wait_s: float) -> None:
        """As the client's. Raises KafkaException."""
        self._alive().init_transactions(wait_s)

    def begin_transaction(self) -> None:
        """As the client's. Raises KafkaException."""
        self._alive().begin_transaction()

    @property
    def produce(self) -> Any:
        """The client's own, for very many calls. No frame may keep it behind an exception."""
        return self._alive().produce

    def send_offsets_to_transaction(
        self, offsets: list[TopicPartition], metadata: Any, wait_s: float
    ) -> None:
        """As the client's. Raises KafkaException."""
        self._alive().send_offsets_to_transaction(offsets, metadata, wait_s)

    def commit_transaction(self, wait_s: float) -> None:
        """As the client's. Raises KafkaException or SystemError."""
        self._alive().commit_transaction(wait_s)

    def abort_transaction(self, wait_s: float) -> None:
        """As the client's. Raises KafkaException or SystemError."""
        self._alive().abort_transaction(wait_s)

    def poll(self, wait_s: float) -> int:
        """As the client's. Raises KafkaException or SystemError."""
        return self._alive().poll(wait_s)

    def purge(self) -> None:
        """As the client's. Raises KafkaException."""
        self._alive().purge()

    @property
    def client(self) -> Producer | None:
        """For a look at it from outside; None once it was given up."""
        return self._client

    def release(self) -> Producer | None:
        """See Shell."""
        client, self._client = self._client, None
        return client


def begin_producing(producer: Producer | OwnerProducer, topic: str, wait_s: float) -> None:
    """`init_transactions` for a new producer. Blocks; raises KafkaException.

    Only once it has a connection, which is what asking about the `topic` waits for: librdkafka
    looks for a coordinator at once, and if no broker is there yet it looks again after 0.5 s.
    """
    give_up_s = time.monotonic() + wait_s
    try:
        producer.list_topics(topic, wait_s)
        producer.init_transactions(max(0.1, give_up_s - time.monotonic()))
    finally:
        del producer  # whoever keeps the error keeps this frame: it would never end


def owner_producer(
    common: Config, *, transactional_id: str, transaction_timeout_ms: int
) -> OwnerProducer:
    """Forwards, marks and watermarks of one half partition, in Kafka transactions."""
    return OwnerProducer(
        {
            **common,
            "enable.idempotence": True,
            "acks": "all",
            "transactional.id": transactional_id,
            "transaction.timeout.ms": transaction_timeout_ms,
            # A record that cannot be delivered must fail while its transaction can still be
            # aborted, and soon: until then the other targets of its half partition wait.
            "message.timeout.ms": transaction_timeout_ms // 3,
            "message.max.bytes": _ANY_MESSAGE_BYTES,
            # A step's records come within a moment. Without the pause the first of them goes out
            # alone, and while more wait for two requests to be answered the client's thread asks
            # its socket again and again instead of sleeping. docs/performance.md has the figures.
            "linger.ms": 1,
            "max.in.flight": 2,
            # The same partition as a Java producer: murmur2 of the key, random without one.
            "partitioner": "murmur2_random",
            # The next Kafka transaction begins while the markers of the last one are still being
            # written (2 to 5 ms); the broker says CONCURRENT_TRANSACTIONS and the client waits this
            # long. The default of 100 ms was most of what commit-to-visible took.
            "retry.backoff.ms": 2,
            "retry.backoff.max.ms": 200,
            "delivery.report.only.error": True,
            "topic.metadata.propagation.max.ms": 2_000,
            # The senses of the suspicion; not the operator's to turn off. What a connection is
            # lost for is also a debug line, and those are never suppressed for being the same;
            # they cost three more lines for each Kafka transaction.
            "statistics.interval.ms": 1_000,
            "debug": "broker",
            "log.connection.close": True,
        }
    )


def resume_producer(
    common: Config, *, transactional_id: str, transaction_timeout_ms: int
) -> Producer:
    """One Kafka transaction of an operator: parked messages go back to their half partition.

    Unlike the owner's it reports every delivery: the new half offsets are named in the decision.
    """
    return Producer(
        {
            **common,
            "enable.idempotence": True,
            "acks": "all",
            "transactional.id": transactional_id,
            "transaction.timeout.ms": transaction_timeout_ms,
            "message.timeout.ms": transaction_timeout_ms * 2 // 3,
            "message.max.bytes": _ANY_MESSAGE_BYTES,
            "linger.ms": 0,
            "max.in.flight": 2,
            # The broker says CONCURRENT_TRANSACTIONS until a rival's transaction is ended.
            "retry.backoff.ms": 5,
            "retry.backoff.max.ms": 200,
        },
        logger=logger,
    )


#: Whoever reads logs to judge by them: committed records only, every end seen, no silent jump from
#: a position that is gone, and nothing joined, stored or created.
JUDGING: Final[Mapping[str, Any]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
    "check.crcs": True,
}


def log_config(common: Config, *, group: str) -> dict[str, Any]:
    """Reads half and op records by hand-made assignment; never joins the group, never commits.

    It carries the group's name only to read its committed offsets: with read_committed that asks
    for stable offsets. A position that is gone from the log is an error, never a silent jump.
    """
    return {
        **common,
        **JUDGING,
        "group.id": group,
        # Paced by the load: an idle owner is answered at the first byte; while it is busy with a
        # Kafka transaction its queue is not empty and no fetch goes out. When it has taken the
        # queue it waits for the next fetch (pace.py), which goes out after this pause.
        "fetch.min.bytes": 1,
        "queued.min.messages": 1,
        "fetch.queue.backoff.ms": 2,
        # An answer to nobody costs an idle sidecar a wake-up, of the broker too; a record does not
        # wait for it. Only a takeover that has read its halves for long may: the op log is fetched
        # next, after the fetch that is out.
        "fetch.wait.max.ms": 500,
        "queued.max.messages.kbytes": 8_192,
        # Of one answer. A log that is ahead of its owner is read in large pieces: with the client's
        # one mebibyte a step under load had less than its thousand transactions.
        "max.partition.fetch.bytes": 4 * 1_024 * 1_024,
        "fetch.error.backoff.ms": 100,
    }


def log_consumer(
    common: Config, *, group: str, on_commit: Callable[..., None] | None = None
) -> Consumer:
    """Of such a configuration. Who stores something is told by `on_commit` what came of it."""
    config = log_config(common, group=group)
    if on_commit is not None:
        config["on_commit"] = on_commit
    return Consumer(config, logger=logger)


def search_consumer(common: Config, *, group: str) -> Consumer:
    """As `log_consumer`, for whoever reads much at once and then goes."""
    return Consumer(
        {
            **common,
            **JUDGING,
            "group.id": group,
            "fetch.min.bytes": 1,
            "fetch.wait.max.ms": 20,
            "fetch.message.max.bytes": 8_388_608,
            "fetch.queue.backoff.ms": 5,
            "queued.min.messages": 100_000,
            "queued.max.messages.kbytes": 32_768,
        },
        logger=logger,
    )


def look_consumer(common: Config, *, group: str) -> Consumer:
    """As `search_consumer`, where a little is read of many partitions: it asks for little ahead."""
    return Consumer(
        {
            **common,
            **JUDGING,
            "group.id": group,
            "fetch.min.bytes": 1,
            "fetch.wait.max.ms": 20,
            "max.partition.fetch.bytes": 524_288,
            "fetch.max.bytes": 8_388_608,
            "fetch.queue.backoff.ms": 5,
            "queued.min.messages": 10_000,
            "queued.max.messages.kbytes": 16_384,
        },
        logger=logger,
    )


def member_consumer(
    common: Config, *, group: str, session_timeout_ms: int, group_instance_id: str | None
) -> Consumer:
    """The member of the owners' group: gets half partitions assigned, reads nothing."""
    config: Config = {
        **common,
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "allow.auto.create.topics": False,
        # Partitions that stay with an instance go on working while others move.
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": session_timeout_ms,
        # A rebalance is heard of at the next heartbeat: this bounds how long a partition that was
        # given up in good order waits for its next owner.
        "heartbeat.interval.ms": min(1_000, max(500, session_timeout_ms // 4)),
        # The group waits so long for a member that has to join again, and the client, with 3 s
        # more, for the answer when it joins. An answer can be lost when a broker comes back: until
        # the client asks again, partitions have no owner. So it is as short as the client allows:
        # the member polls all the time, and waits less for owners that end (EngineOptions).
        "max.poll.interval.ms": session_timeout_ms,
        "fetch.wait.max.ms": 500,
        "queued.max.messages.kbytes": 1_024,
    }
    if group_instance_id is not None:
        config["group.instance.id"] = group_instance_id
    return Consumer(config, logger=logger)
