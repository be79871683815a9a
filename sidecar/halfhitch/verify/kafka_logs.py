"""Reading the topics of an installation for `halfhitch verify`: verify.run.Logs.

One consumer with a hand-made assignment that grows and shrinks; it joins no group and commits
nothing. Committed records only. Where the log was trimmed while it was read, reading goes on from
its new start, and the caller is told so. One thread uses it; everything here blocks.
"""

import logging
import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from halfhitch.adapters.kafka.admin import answer
from halfhitch.adapters.kafka.clients import JUDGING
from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.log_ends import patiently
from halfhitch.adapters.kafka.scan import LogScan
from halfhitch.errors import KafkaUnavailable
from halfhitch.verify.account import Layout, Place
from halfhitch.verify.kafka_targets import TargetFinder, Wanted
from halfhitch.verify.report import Unjudged
from halfhitch.verify.run import Skipped, Take
from halfhitch.wire.topics import InternalTopics

logger = logging.getLogger(__name__)

_POLL_S: Final = 0.2
_CHUNK: Final = 5_000
_MOMENT_S: Final = 2.0
#: Nothing comes, and no open Kafka transaction explains it: give up after this.
_STUCK_S: Final = 30.0


def verify_consumer(config: Mapping[str, Any], *, group: str) -> Consumer:
    """A consumer for this: reads fast, joins nothing, commits nothing, holds 64 MiB at most.

    It carries the owners' group only to read its stored watermarks.
    """
    return Consumer(
        {
            **config,
            **JUDGING,
            "group.id": group,
            "queued.max.messages.kbytes": 65_536,
            "fetch.wait.max.ms": 50,
        },
        logger=logger,
    )


class KafkaVerifyLogs:
    """See the module's text. Which targets are read is verify_targets.py's to know."""

    def __init__(
        self,
        consumer: Consumer,
        admin: AdminClient,
        *,
        names: InternalTopics,
        wanted: Wanted,
        wait_s: float = 10.0,
        open_wait_s: float = 20.0,
    ) -> None:
        self._consumer = consumer
        self._admin = admin
        self._names = names
        self._finder = TargetFinder(admin, names, wanted, wait_s=wait_s)
        self._wait_s = wait_s
        self._open_wait_s = open_wait_s
        self._scan = LogScan(consumer, on_trimmed=self._trimmed, count_max=_CHUNK)
        self._skipped: Skipped | None = None
        self._partitions: dict[str, int] = {}

    # -- what there is ---------------------------------------------------------------------------

    def layout(self) -> Layout:
        """See Logs."""
        found = self._finder.find()
        self._partitions = found.internal | found.partitions
        return Layout(
            self._names.half,
            self._names.op,
            self._names.parked,
            found.partitions,
            has_all_targets=found.has_all,
            compacted=found.compacted,
            unclear=found.unclear,
            unreadable=found.unreadable,
            watermarks=self.watermarks(),
        )

    def unread(self, topics: Collection[str]) -> Mapping[str, Unjudged]:
        """See Logs."""
        return self._finder.unread(topics) if topics else {}

    def watermarks(self) -> dict[int, int]:
        """See Logs. Without the right to see them two rules are not judged.

        Asked of the consumer: librdkafka's admin call for it aborts the process, sooner or later,
        after it has timed out.
        """
        half = self._names.half
        asked = [TopicPartition(half, p) for p in range(self._partitions[half])]
        try:
            found = self._consumer.committed(asked, self._wait_s)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                return {}
            raise KafkaUnavailable(
                f"The stored watermarks cannot be read: {describe(error)}; try again."
            ) from error
        return {where.partition: max(0, where.offset) for where in found}

    def starts(self, topic: str, since_ms: int) -> Mapping[Place, tuple[int, bool]]:
        """See Logs."""
        earliest: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
        places = [(topic, partition) for partition in range(self._partitions[topic])]
        starts = self._offsets(places, earliest)
        if not since_ms:
            return {place: (start, start > 0) for place, start in starts.items()}
        at_time: Any = OffsetSpec.for_timestamp(since_ms)
        found = self._offsets(places, at_time)
        ends = self.ends([topic])
        return {
            # Below 0: nothing is younger. Where the time lies above the start nothing that counts
            # was deleted.
            place: (first, first == start > 0)
            for place, start in starts.items()
            for first in [max(start, found[place]) if found[place] >= 0 else ends[place]]
        }

    def ends(self, topics: Collection[str]) -> dict[Place, int]:
        """See Logs."""
        latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        places = [(t, partition) for t in topics for partition in range(self._partitions[t])]
        return self._offsets(places, latest)

    def _offsets(self, places: Collection[Place], spec: Any) -> dict[Place, int]:
        asked = {TopicPartition(*place): spec for place in places}
        return patiently(lambda: self._asked(asked), self._wait_s) if asked else {}

    def _asked(self, asked: dict[Any, Any]) -> dict[Place, int]:
        futures = self._admin.list_offsets(
            asked,
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=self._wait_s,
        )
        return {
            (where.topic, where.partition): answer(
                future, self._wait_s, f"find the end of {where.topic}"
            ).offset
            for where, future in futures.items()
        }

    # -- reading ---------------------------------------------------------------------------------

    def follow(self, starts: Mapping[Place, int]) -> None:
        """See Logs. Where it was left the position may be ahead of the last record: markers."""
        read_to = self._scan.read_to
        self._scan.begin({p: max(start, read_to.get(p, 0)) for p, start in starts.items()})

    def leave(self, topics: Collection[str]) -> None:
        """See Logs."""
        self._scan.leave([place for place in self._scan.followed if place[0] in topics])

    def pause(self) -> None:
        """See Logs."""
        time.sleep(_MOMENT_S)

    def read_to(self, ends: Mapping[Place, int], take: Take, skipped: Skipped) -> frozenset[Place]:
        """See Logs. Targets are left where their end is reached; the internal logs are followed."""
        scan, self._skipped = self._scan, skipped
        left = scan.below(ends)
        moved_s = time.monotonic()
        self._leave_ended(ends.keys() - left)
        while left:
            before = {place: scan.read_to[place] for place in left}
            take(scan.some(_POLL_S))
            now_s = time.monotonic()
            done = left - scan.below(ends)
            self._leave_ended(done)
            left -= done
            if any(scan.read_to[place] > at for place, at in before.items()):
                moved_s = now_s
            elif now_s - moved_s > self._open_wait_s:
                if self._are_hidden(left):
                    return frozenset(left)
                if now_s - moved_s > self._open_wait_s + _STUCK_S:
                    raise KafkaUnavailable(
                        f"{len(left)} partitions gave nothing for {now_s - moved_s:.0f} s, "
                        f"{min(left)[0]} among them: is a broker away? Try again."
                    )
        return frozenset()

    def _leave_ended(self, places: Collection[Place]) -> None:
        scan, internal = self._scan, self._names.all
        scan.leave([p for p in places if p[0] not in internal and p in scan.followed])

    def _trimmed(self, place: Place) -> None:
        earliest: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
        start = self._offsets([place], earliest)[place]
        if self._skipped is not None:
            self._skipped(place, start)
        self._scan.leave([place])
        self.follow({place: start})

    def _are_hidden(self, places: Collection[Place]) -> bool:
        """They give nothing more. Is it open Kafka transactions, or is Kafka slow or away?"""
        asked: Any = {TopicPartition(*p): OffsetSpec.latest() for p in places}  # type: ignore[no-untyped-call]
        futures = self._admin.list_offsets(
            asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self._wait_s
        )
        return all(
            self._scan.read_to[where.topic, where.partition]
            >= answer(future, self._wait_s, f"find the end of {where.topic}").offset
            for where, future in futures.items()
        )
