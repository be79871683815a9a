"""Which half partitions this instance owns: workers come and go as the group's membership says.

Called from three sides: the membership thread (assigned, revoked, lost), the event loop
(questions), the workers themselves (through their owners). The table of workers is replaced, never
changed in place, so that questions need no lock.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from zlib import crc32

from halfhitch.core.model import Identity, ProducerGroup, TransactionId
from halfhitch.core.standing import Standing
from halfhitch.service.api import Filter, PartitionState, Undecided
from halfhitch.service.checking.api import CheckReport
from halfhitch.service.owner import many
from halfhitch.service.owner.checkback import CheckBack
from halfhitch.service.owner.turn import PartitionOwner
from halfhitch.service.owner.worker import PartitionWorker
from halfhitch.service.transactions.first import Place

logger = logging.getLogger(__name__)


class Ownership:
    """service.transactions.dependencies.Owners, and the membership's listener."""

    def __init__(
        self,
        make_worker: Callable[[int], PartitionWorker],
        *,
        on_lost: Callable[[int], None],
        instance: str,
        stop_wait_s: float,
        is_candidate: bool = True,
        on_assigned: Callable[[], None] = lambda: None,
    ) -> None:
        """`is_candidate`: it may be assigned half partitions. `on_assigned`: the group has said
        who owns what; from the membership's thread."""
        self._make_worker = make_worker
        self._on_lost = on_lost
        self._salt = crc32(instance.encode())
        self._stop_wait_s = stop_wait_s
        self._workers: dict[int, PartitionWorker] = {}
        self._preferred: int | None = None
        self._on_assigned = on_assigned
        # Before the group has assigned anything, and since it has put us out: whatever is nobody's
        # may be ours in a moment.
        self._is_candidate = self._is_outside = is_candidate

    # -- the membership's side -------------------------------------------------------------------

    def assigned(self, partitions: Sequence[int]) -> None:
        """These half partitions are ours from now on."""
        workers = dict(self._workers)
        for partition in partitions:
            if partition not in workers:
                workers[partition] = self._make_worker(partition)
                workers[partition].start()
        self._replace(workers)
        self._is_outside = False
        self._on_assigned()

    def revoked(self, partitions: Sequence[int]) -> None:
        """Give these up in order: finish the turn under way. All share one deadline.

        A worker that hangs beyond it is left behind: it can write nothing more (see worker.py),
        and its producer is fenced by the next owner.
        """
        self._end(partitions, self._stop_wait_s)

    def lost(self, partitions: Sequence[int]) -> None:
        """These are somebody else's already: stop without waiting."""
        self._is_outside = self._is_candidate
        self._end(partitions, 0.0)

    def stop(self) -> None:
        """Give up everything, in order."""
        self._is_candidate = self._is_outside = False
        self._end(list(self._workers), self._stop_wait_s)

    def _end(self, partitions: Sequence[int], wait_s: float) -> None:
        workers = dict(self._workers)
        ending = [worker for p in partitions if (worker := workers.pop(p, None)) is not None]
        self._replace(workers)
        for worker in ending:
            worker.stop()
        give_up_s = time.monotonic() + wait_s
        for worker in ending:
            if not worker.join(max(0.0, give_up_s - time.monotonic())):
                worker.abandon()
                if wait_s > 0:
                    logger.warning(
                        "half partition %d did not stop within %.1f s and is left behind",
                        worker.partition,
                        wait_s,
                        extra={"action": "worker_left_behind"},
                    )
            self._on_lost(worker.partition)

    def _replace(self, workers: dict[int, PartitionWorker]) -> None:
        self._workers = workers
        self._preferred = min(workers, default=None)

    # -- questions -------------------------------------------------------------------------------

    def preferred_partition(self, partition_count: int, full: Collection[int] = ()) -> int:
        """See transactions.dependencies.Owners. One owned partition rather than several in turn.

        Kafka's client sends one produce request for each partition: records that go to one
        partition share requests, Kafka transactions and done marks.
        """
        preferred = self._preferred_of(partition_count)
        if preferred not in full:
            return preferred
        others = [p for p in range(partition_count) if p not in full]
        mine = [p for p in others if self.works(p)]
        return (mine or others or [preferred])[0]

    def _preferred_of(self, partition_count: int) -> int:
        preferred = self._preferred
        if preferred is None:
            return self._salt % partition_count
        worker = self._workers.get(preferred)
        if worker is None or worker.owner is not None or worker.state().trouble is None:
            return preferred
        # It stands still, perhaps for good, and what has no key need not wait for it.
        return min(self.owned(), default=preferred)

    def standing(self, partition: int, identity: Identity, half_offset: int) -> Standing | None:
        """See service.transactions.dependencies.Owners."""
        worker = self._workers.get(partition)
        owner = worker.owner if worker is not None else None
        return Standing.UNKNOWN if owner is None else owner.standing(identity, half_offset)

    def covered_count(self, partition: int, identity: Identity) -> int:
        """See service.transactions.dependencies.Owners."""
        worker = self._workers.get(partition)
        owner = worker.owner if worker is not None else None
        return 0 if owner is None else owner.covered_count(identity)

    def differs(
        self, partition: int, identity: Identity, first_index: int, digests: Sequence[int]
    ) -> bool:
        """See service.transactions.dependencies.Owners."""
        worker = self._workers.get(partition)
        owner = worker.owner if worker is not None else None
        return owner is not None and owner.differs(identity, first_index, digests)

    def is_reused(self, partition: int, half_offsets: Sequence[int]) -> bool:
        """See service.transactions.dependencies.Owners."""
        worker = self._workers.get(partition)
        owner = worker.owner if worker is not None else None
        return owner is not None and owner.is_reused(half_offsets)

    def checked(self, partition: int, identity: Identity) -> tuple[int, float | None, str | None]:
        """See service.transactions.dependencies.Owners."""
        worker = self._workers.get(partition)
        owner = worker.owner if worker is not None else None
        return (0, None, None) if owner is None else owner.checked(identity)

    def report(self, partition: int, report: CheckReport) -> None:
        """See service.checking.api.ReportSink. Without an owner here the next one asks again."""
        worker = self._workers.get(partition)
        owner = worker.owner if worker is not None else None
        if owner is not None:
            owner.checkback.report(report)

    def size_bytes(self, partition: int, identity: Identity) -> int:
        """See service.transactions.dependencies.Owners."""
        worker = self._workers.get(partition)
        owner = worker.owner if worker is not None else None
        return 0 if owner is None else owner.size_bytes(identity)

    def op_read_to(self, partition: int) -> int | None:
        """See service.transactions.op_appends.DecisionLog.owner_read_to."""
        worker = self._workers.get(partition)
        owner = worker.owner if worker is not None else None
        return None if owner is None else owner.op_read_to

    def has_read(self, place: Place) -> bool | None:
        """See service.transactions.first.Readers."""
        if place.partition not in self._workers:
            is_outside = self._is_outside
            if place.partition not in self._workers:  # else it has come in between
                return False if is_outside else None
        read_to = self.op_read_to(place.partition)
        return read_to is not None and place.op_offset < read_to

    def works(self, partition: int) -> bool:
        """See service.transactions.dependencies.Owners."""
        worker = self._workers.get(partition)
        return worker is not None and worker.owner is not None

    # -- questions of operators ------------------------------------------------------------------

    def owned(self) -> set[int]:
        """Half partitions that are worked on here."""
        return {partition for partition in self._workers if self.works(partition)}

    async def undecided(self, wanted: Filter) -> tuple[list[Undecided], int]:
        """Pending transactions of owned partitions that match, oldest first, and how many."""
        answers = await asyncio.gather(
            *(
                asyncio.wrap_future(owner.checkback.undecided(wanted))
                for worker in self._workers.values()
                if (owner := worker.owner) is not None and _may_have(owner, wanted)
            )
        )
        found = [transaction for transactions, _ in answers for transaction in transactions]
        found.sort(key=lambda transaction: transaction.place)
        return found[: wanted.count_max], sum(count for _, count in answers)

    async def names(self, wanted: Filter) -> tuple[list[tuple[int, Identity]], int]:
        """When stored, and which: all that match, the oldest of each partition first; how many."""
        answers = await asyncio.gather(
            *(asyncio.wrap_future(checkback.names(wanted)) for _, checkback in self._checkbacks())
        )
        found = [(one.stored_ms, one.identity) for names, _ in answers for one in names]
        return found, sum(count for _, count in answers)

    async def halves_of(
        self, identities: Sequence[Identity]
    ) -> dict[Identity, tuple[int, tuple[int, ...], int]]:
        """See service.operators.parts.PendingOwners. One turn of each owner."""
        checkbacks = self._checkbacks()
        answers = await asyncio.gather(
            *(
                asyncio.wrap_future(checkback.ask(partial(many.halves_of, identities=identities)))
                for _, checkback in checkbacks
            )
        )
        return {
            identity: (partition, halves.half_offsets, halves.covered_count)
            for (partition, _), found in zip(checkbacks, answers, strict=True)
            for identity, halves in found.items()
        }

    def _checkbacks(self) -> list[tuple[int, CheckBack]]:
        return [
            (partition, owner.checkback)
            for partition, worker in self._workers.items()
            if (owner := worker.owner) is not None
        ]

    async def check_now(self, partition: int, identity: Identity) -> bool:
        """Check it as soon as possible; False when it is not pending here."""
        worker = self._workers.get(partition)
        owner = worker.owner if worker is not None else None
        if owner is None:
            return False
        return await asyncio.wrap_future(owner.checkback.hasten(identity))

    def troubles(self) -> list[str]:
        """What keeps owned partitions from working, wholly or in part; a sentence for each."""
        found = []
        for state in self.states():
            if state.trouble is not None:
                found.append(f"half partition {state.partition} stands still: {state.trouble}")
            found += [f"half partition {state.partition}: {t}" for t in state.troubles]
        return found

    def states(self) -> list[PartitionState]:
        """All owned partitions, for people."""
        workers = self._workers
        return [workers[partition].state() for partition in sorted(workers)]


def _may_have(owner: PartitionOwner, wanted: Filter) -> bool:
    """Whether it is worth a turn of this owner: for one that is named, most need not be asked."""
    if wanted.producer_group is None or wanted.transaction_id is None:
        return True
    identity = ProducerGroup(wanted.producer_group), TransactionId(wanted.transaction_id)
    return owner.standing(identity, -1) is Standing.PENDING
