"""Logs whose readers are held: somebody has had a Kafka transaction open there for long.

A hanging Kafka transaction stops everything that lies behind its first record, for every
read_committed reader: in the half or op log a whole half partition, in a target its readers. It
loses nothing, but nothing moves, and positions look as if all had been read. So it is looked for,
told, and measured: the high watermark minus the last stable offset.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from halfhitch.adapters.kafka.log_ends import Log, LogEnds
from halfhitch.adapters.kafka.open_producers import OpenProducer, holder
from halfhitch.adapters.kafka.topic_checks import Finding, Severity
from halfhitch.errors import KafkaUnavailable

logger = logging.getLogger(__name__)

#: Our own steps and resumes end sooner, or Kafka ends them.
HELD_AFTER_S: Final = 10.0
_EVERY_S: Final = 5.0
_LOOK_S: Final = 5.0
#: So many are told; when one coordinator hangs they are many.
_TOLD_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class HeldLog:
    """Readable up to `read_to` and no further since `for_s` seconds, although it ends at `end`."""

    log: Log
    read_to: int
    end: int
    for_s: float


class HeldSince:
    """Which logs have been held for how long. Pure: time is an argument."""

    def __init__(self, after_s: float = HELD_AFTER_S) -> None:
        self._after_s = after_s
        self._since: dict[Log, tuple[int, float]] = {}  # where it stands still, and since when

    @property
    def has_some(self) -> bool:
        """Whether a log was behind when the ends were seen last."""
        return bool(self._since)

    def seen(
        self, existing: Mapping[Log, int], readable: Mapping[Log, int], now_s: float
    ) -> list[HeldLog]:
        """The ends of some logs now; gives those that are held for long."""
        since: dict[Log, tuple[int, float]] = {}
        found: list[HeldLog] = []
        for log, read_to in readable.items():
            if read_to >= existing[log]:
                continue
            before = self._since.get(log)
            since[log] = before if before is not None and before[0] == read_to else (read_to, now_s)
            for_s = now_s - since[log][1]
            if for_s >= self._after_s:
                found.append(HeldLog(log, read_to, existing[log], for_s))
        self._since = since
        return found


def sentence(held: HeldLog, producer: OpenProducer | None, bootstrap: str) -> str:
    """What a person needs to end it."""
    topic, partition = held.log
    tool = f"kafka-transactions.sh --bootstrap-server {bootstrap}"
    where = f"--topic {topic} --partition {partition}"
    who = "a producer" if producer is None else f"producer {producer.producer_id}"
    if producer is not None:
        who += f" (epoch {producer.producer_epoch})"
    find = f" Find it with: {tool} describe-producers {where}." if producer is None else ""
    return (
        f"{topic}-{partition} can be read up to {held.read_to} of {held.end} for "
        f"{held.for_s:.0f} s: {who} has a Kafka transaction open there, and what lies behind it is "
        f"visible to nobody.{find} If its process is gone, end it with: {tool} abort {where} "
        f"--start-offset {held.read_to}"
    )


class HeldLogs:
    """`look` now and then, and read what was found in `troubles`."""

    def __init__(
        self,
        admin: AdminClient,
        ends: LogEnds,
        *,
        logs: Callable[[], Collection[Log]],
        always: Collection[str],
        bootstrap: str,
        options: Mapping[str, str],
        tell: Callable[[Mapping[Log, int]], None],
        after_s: float = HELD_AFTER_S,
    ) -> None:
        """`logs`: those to look at. `tell`: how many records of each cannot be read now.

        Told of are the topics in `always`, and other logs while they are held: there are many.
        """
        self._admin = admin
        self._ends = ends
        self._logs = logs
        self._always = frozenset(always)
        self._bootstrap = bootstrap
        self._options = options
        self._tell = tell
        self._after_s = after_s
        self._holding = HeldSince(after_s)
        self._known: dict[tuple[Log, int], OpenProducer] = {}
        self._told: set[Log] = set()
        self.unseen: list[str] = []  # topics of which there was no answer at the last look
        self.troubles: list[str] = []

    async def run(self, monotonic_s: Callable[[], float]) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(min(_EVERY_S, self._after_s))
            await asyncio.to_thread(lambda: self.look(monotonic_s()))

    def look(self, now_s: float) -> None:
        """Blocks. No answer is no finding; `unseen` names what there was none of."""
        logs = self._logs()
        try:
            existing, readable = self._both_ends(logs)
        except KafkaUnavailable:
            self.unseen = sorted({topic for topic, _ in logs})
            return
        held = self._holding.seen(existing, readable, now_s)[:_TOLD_MAX]
        counts = {
            log: max(0, end - readable[log])
            for log, end in existing.items()
            if log[0] in self._always
        }
        counts.update({one.log: one.end - one.read_to for one in held})
        self._tell(counts)
        known = {
            place: producer
            for one in held
            if (producer := self._producer(place := (one.log, one.read_to))) is not None
        }
        self._known = known
        self.troubles = [
            sentence(one, known.get((one.log, one.read_to)), self._bootstrap) for one in held
        ]
        for one, text in zip(held, self.troubles, strict=True):
            if one.log not in self._told:
                logger.warning("%s", text, extra={"action": "log_held"})
        self._told = {one.log for one in held}

    def _both_ends(self, logs: Collection[Log]) -> tuple[dict[Log, int], dict[Log, int]]:
        """One target that is gone, or that we may not read, must not hide all the others."""
        self.unseen = []
        try:
            return self._ends_of(logs)
        except KafkaUnavailable:
            existing: dict[Log, int] = {}
            readable: dict[Log, int] = {}
        for topic in dict.fromkeys(topic for topic, _ in logs):
            try:
                some = self._ends_of([log for log in logs if log[0] == topic])
            except KafkaUnavailable:
                if topic in self._always:
                    raise  # then it is Kafka, and asking on would only take time
                self.unseen.append(topic)
            else:
                existing.update(some[0])
                readable.update(some[1])
        return existing, readable

    def _ends_of(self, logs: Collection[Log]) -> tuple[dict[Log, int], dict[Log, int]]:
        # In this order: what is readable only grows, so nothing seems held that is not.
        return self._ends.existing(logs), self._ends.readable(logs)

    @property
    def has_seen_some(self) -> bool:
        """Whether anything could not be read at the last look, however short that is ago."""
        return self._holding.has_some

    def _producer(self, place: tuple[Log, int]) -> OpenProducer | None:
        known = self._known.get(place)
        if known is not None:
            return known
        address = leader_of(self._admin, place[0])
        return None if address is None else holder(address, place[0], self._options)


def leader_of(admin: AdminClient, log: Log) -> tuple[str, int] | None:
    """Host and port of the partition's leader; None when that is not known."""
    try:
        found = admin.list_topics(log[0], _LOOK_S)
    except KafkaException:
        return None
    partition = found.topics[log[0]].partitions.get(log[1]) if log[0] in found.topics else None
    broker = None if partition is None else found.brokers.get(partition.leader)
    return None if broker is None else (str(broker.host), int(broker.port))


def inspect_held(
    admin: AdminClient,
    logs: Collection[Log],
    *,
    bootstrap: str,
    options: Mapping[str, str],
    always: Collection[str] = (),
    after_s: float = 3.0,
) -> list[Finding]:
    """Whether somebody holds these logs now. Blocks; `after_s` is waited only if it seems so."""
    held = HeldLogs(
        admin,
        LogEnds(admin),
        logs=lambda: logs,
        always=always,
        bootstrap=bootstrap,
        options=options,
        tell=lambda _: None,
        after_s=after_s,
    )
    began_s = time.monotonic()
    held.look(began_s)
    if held.has_seen_some:
        time.sleep(after_s)
        held.look(max(time.monotonic(), began_s + after_s))
    found = [
        Finding("held logs", Severity.WARN, text, "Nothing behind it is seen until it ends.")
        for text in held.troubles
    ]
    if held.unseen:
        text = f"Kafka does not say where these logs end: {', '.join(held.unseen[:_TOLD_MAX])}."
        found.append(
            Finding("held logs", Severity.WARN, text, "Allow Describe, or run this again.")
        )
    return found or [Finding("held logs", Severity.OK, "No Kafka transaction holds readers back.")]
