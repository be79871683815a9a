"""The audit topic: creating it, and looking whether it can be told to.

Not one of the internal topics that promises rest on: where it is missing or another than it should
be, nothing is told, and everything else works. So whatever is found here is a warning.

It has a partition for each half partition, and one more for the indexes (wire/story.py).
Everything blocks, and is called from threads.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
    OffsetSpec,
)

from halfhitch.adapters.kafka.admin import Layout, answer, topic_configs, topic_layouts, unwritable
from halfhitch.adapters.kafka.topic_checks import Finding, Severity, copies_of, in_sync_min_for
from halfhitch.adapters.kafka.topics import set_config
from halfhitch.errors import HalfHitchError
from halfhitch.wire.topics import InternalTopics

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_RECORD_BYTES_MAX = 1_048_588
_AGAIN_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """The settings `audit`, of an installation that has it."""

    retention_h: int
    replication_factor: int


def audit_config(options: AuditOptions, copies: int) -> dict[str, str]:
    """The settings that it is created with."""
    retention_ms = options.retention_h * _HOUR_MS
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(retention_ms),
        "max.message.bytes": str(_RECORD_BYTES_MAX),
        "min.insync.replicas": str(in_sync_min_for(copies)),
        # Looked for by time, of one clock.
        "message.timestamp.type": "LogAppendTime",
        # Only whole segments are deleted.
        "segment.ms": str(max(_HOUR_MS, min(_DAY_MS, retention_ms // 8))),
    }


def ensure_audit(
    admin: AdminClient,
    names: InternalTopics,
    options: AuditOptions,
    *,
    half_count: int,
    wait_s: float = 30.0,
) -> bool:
    """Create it if it is missing; whether it was. Raises BackendError, ConfigurationError."""
    if topic_layouts(admin, (names.audit,), wait_s)[names.audit] is not None:
        return False
    copies = options.replication_factor
    wanted = NewTopic(
        names.audit,
        num_partitions=half_count + 1,
        replication_factor=copies,
        config=audit_config(options, copies),
    )
    futures = admin.create_topics([wanted], operation_timeout=wait_s, request_timeout=wait_s)
    # Two instances that start at once both create; whoever comes second is content.
    future = futures[names.audit]
    answer(future, wait_s, f"create the topic {names.audit}", KafkaError.TOPIC_ALREADY_EXISTS)
    return future.exception() is None


def repair_audit(
    admin: AdminClient, names: InternalTopics, options: AuditOptions, *, wait_s: float = 30.0
) -> tuple[str, ...]:
    """Set its settings to those it is created with; says what was changed."""
    layout = topic_layouts(admin, (names.audit,), wait_s)[names.audit]
    if not layout:
        return ()
    configs, refusal = topic_configs(admin, [names.audit], wait_s)
    if refusal is not None:
        return ()  # told by `verify_audit`
    wrong = _wrong(configs[names.audit], audit_config(options, copies_of(layout)))
    if wrong:
        set_config(admin, names.audit, wrong, wait_s)
    return tuple(f"{names.audit}: {key}={value}" for key, value in wrong.items())


def verify_audit(
    admin: AdminClient,
    names: InternalTopics,
    options: AuditOptions,
    *,
    wait_s: float = 30.0,
) -> list[Finding]:
    """Look at it. Raises BackendError where Kafka does not answer."""
    layouts = topic_layouts(admin, (names.audit, names.half), wait_s)
    layout, half = layouts[names.audit], layouts[names.half]
    if half is None:
        return []  # told by topic_checks.py, and nothing can be said of this one
    trouble = _trouble(names, layout, len(half))
    if trouble is not None:
        return [Finding(names.audit, Severity.WARN, *trouble, is_right_in_dev=True)]
    configs, refusal = topic_configs(admin, [names.audit], wait_s)
    found: list[Finding] = []
    if refusal is None:
        copies = copies_of(layout or ())
        wrong = _wrong(configs[names.audit], audit_config(options, copies))
        found = [
            Finding(
                names.audit,
                Severity.WARN,
                f"{names.audit} has {key}={configs[names.audit].get(key)} instead of {value}.",
                "Run `halfhitch topics init --repair`, or set audit.retention_h to what it has.",
            )
            for key, value in wrong.items()
        ]
    return found or [Finding(names.audit, Severity.OK, f"{len(layout or ())} partitions.")]


def _wrong(config: Mapping[str, str | None], wanted: Mapping[str, str]) -> dict[str, str]:
    """What matters to what is kept; the rest is a matter of disk space."""
    keys = ("cleanup.policy", "retention.ms", "message.timestamp.type")
    return {key: wanted[key] for key in keys if config.get(key) != wanted[key]}


def _trouble(
    names: InternalTopics, layout: Layout | None, half_count: int
) -> tuple[str, str] | None:
    """Why nothing can be told to it, and what to do."""
    if layout is None:
        return (
            f"The topic {names.audit} does not exist, so what becomes of transactions is not kept.",
            "Run `halfhitch topics init`, or set audit.enabled to false.",
        )
    if len(layout) != half_count + 1:
        text = (
            f"{names.audit} has {len(layout)} partitions, not {half_count + 1} (one for each half "
            "partition, one for indexes), so what becomes of transactions is not kept."
        )
        return text, "Delete it, and run `halfhitch topics init`."
    return None


class AuditTopic:
    """Whether it is there, as the engine has seen it last, and where its partitions end."""

    def __init__(
        self, admin: AdminClient, names: InternalTopics, options: AuditOptions | None
    ) -> None:
        self._admin = admin
        self._names = names
        self._options = options
        #: Of the indexes; None: it is not there, or not wanted. From any thread.
        self.index_partition: int | None = None
        #: Why nothing is told to it, and what to do. From any thread.
        self.trouble: str | None = None

    def look(self, half_count: int, *, creates: bool, wait_s: float) -> None:
        """Look again, unless it was there. Blocks; never raises for what is wrong with it."""
        options = self._options
        if options is None or self.index_partition is not None:
            return
        try:
            if creates:
                ensure_audit(
                    self._admin, self._names, options, half_count=half_count, wait_s=wait_s
                )
            layout = self._layout(wait_s)
            # What was created a moment ago is not known to every broker yet (see topics.py).
            settled_s = time.monotonic() + wait_s
            while creates and layout is None and time.monotonic() < settled_s:
                time.sleep(_AGAIN_S)
                layout = self._layout(wait_s)
            closed = unwritable(self._admin, [self._names.audit], wait_s) if layout else {}
        except HalfHitchError as error:
            self.trouble = f"{self._names.audit} could not be looked at: {error.message}"
            return
        trouble = _trouble(self._names, layout, half_count)
        told = [*closed.values()] if trouble is None else [" ".join(trouble)]
        self.trouble = told[0] if told else None
        if not told:
            self.index_partition = half_count

    def _layout(self, wait_s: float) -> Layout | None:
        return topic_layouts(self._admin, (self._names.audit,), wait_s)[self._names.audit]

    def untold(self) -> str | None:
        """Why what becomes of transactions is not kept; None: it is."""
        if self._options is None:
            return "What becomes of transactions is not kept: audit.enabled is false."
        if self.index_partition is None and self.trouble is None:
            return "The audit topic has not been looked at yet: try again in a moment."
        return self.trouble

    def ask_end(self, partition: int) -> Callable[[], int | None]:
        """The high watermark of a partition: what is given says it, or None as long as Kafka has
        not answered. Raises what Kafka's client has raised.
        """
        latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        where = TopicPartition(self._names.audit, partition)
        futures = self._admin.list_offsets(
            {where: latest}, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=10.0
        )
        future = futures[where]
        return lambda: int(future.result().offset) if future.done() else None
