"""Looking at the internal topics while the sidecar runs: somebody may change them under it.

Owns `TopicWatch`. What it finds is told in the log when it begins and when it ends, and stands in
`troubles` as long as it lasts. A topic that was deleted, or created anew, is final (`failure`): the
handles, the watermarks and the ledgers of this process speak of one that is gone, and a commit
would be acknowledged that finds no message. More partitions are not: new prepares go on to the
ones that were there at the start.

Used by one thread at a time; `troubles` may be read from any.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from halfhitch.adapters.kafka import topology
from halfhitch.adapters.kafka.positions import inspect_positions
from halfhitch.adapters.kafka.stored import StoredOffsets
from halfhitch.adapters.kafka.topic_checks import Finding, Severity, verify
from halfhitch.adapters.kafka.topology import Topology
from halfhitch.errors import BackendError, HalfHitchError, TopologyError
from halfhitch.wire.topics import InternalTopics

logger = logging.getLogger(__name__)

_MISSING_COUNT: Final = 3


class TopicWatch:
    """`open` at the start, then `look` now and then; what was found last is in `troubles`."""

    def __init__(
        self,
        admin: AdminClient,
        stored_offsets: StoredOffsets,
        names: InternalTopics,
        *,
        message_bytes_max: int,
        wait_s: float,
    ) -> None:
        self._admin = admin
        self._stored_offsets = stored_offsets
        self._names = names
        self._before: Topology | None = None
        self._message_bytes_max = message_bytes_max
        self._wait_s = wait_s
        self._missing_count = 0
        self.troubles: list[str] = []

    def open(self) -> None:
        """Half and op topic must be those that were last used. Blocks; raises TopologyError."""
        now = topology.look(self._admin, self._names, wait_s=self._wait_s)
        before = topology.remembered(self._stored_offsets, self._names, wait_s=self._wait_s)
        topology.compare(before, now, self._names)
        self._before = now

    def note(self) -> TopicPartition | None:
        """What an owner is to remember of the topics, once they are known."""
        before = self._before
        return None if before is None else topology.place(self._names, before)

    def look(self) -> None:
        """Blocks. Raises TopologyError for what no waiting will mend."""
        before = self._before
        if before is None:
            return
        try:
            now = topology.look(self._admin, self._names, wait_s=self._wait_s)
        except BackendError:
            return  # no answer is no finding
        except TopologyError as error:
            # One broker may be behind: it must be said more than once.
            self._missing_count += 1
            if self._missing_count < _MISSING_COUNT:
                self._tell([error.message])
                return
            raise TopologyError(
                "A topic was deleted under the running sidecar, and what it held is lost. "
                f"{error.message}"
            ) from error
        self._missing_count = 0
        if before.recreated(now, self._names):
            topology.compare(before, now, self._names)
        found = [
            f"{sentence} New prepares go to the partitions that were there before; the next start "
            "will be refused until this is settled (halfhitch doctor)."
            for sentence in before.resized(now, self._names)
        ]
        count = min(before.half_count, before.op_count)
        for look in (self._settings, partial(self._positions, count)):
            found += _broken(look)
        self._tell(found)

    def _settings(self) -> list[Finding]:
        return [
            finding
            for finding in verify(
                self._admin,
                self._names,
                message_bytes_max=self._message_bytes_max,
                wait_s=self._wait_s,
            )
            # Unequal counts are told above.
            if finding.check in self._names.all
        ]

    def _positions(self, count: int) -> list[Finding]:
        return inspect_positions(
            self._admin, self._stored_offsets, self._names, count, wait_s=self._wait_s
        )

    def _tell(self, found: list[str]) -> None:
        before, self.troubles = self.troubles, found
        for sentence in found:
            if sentence not in before:
                logger.error("%s", sentence, extra={"action": "topics_changed"})
        for sentence in before:
            if sentence not in found:
                logger.info("no more: %s", sentence, extra={"action": "topics_mended"})


def _broken(look: Callable[[], list[Finding]]) -> list[str]:
    try:
        found = look()
    except HalfHitchError:
        return []  # Kafka does not answer, or not yet: others tell of that
    return [f"{f.sentence} {f.remedy}" for f in found if f.severity is Severity.FAIL]
