"""Decisions on their way into the op log: those of the same moment share one record.

While one record of a partition is on its way, the next decisions gather; they leave together when
it is confirmed. At low load a decision leaves at once, at high load hundreds share a record, and no
timer is needed. One record in flight for each partition also fixes the order: what was asked first
lies first.

Against a decision that is still on its way a contrary one is known at once, but which of them
counts is known only when the first has arrived or failed: see `UnderWay`.
"""

from asyncio import Future, get_running_loop
from dataclasses import dataclass, field
from typing import Final

from halfhitch.core.model import Identity, Resolution, ResolutionSource
from halfhitch.ports import RecordLog
from halfhitch.wire import op as op_wire

#: More would make the record too large for its topic; the rest goes into the next one.
_BATCH_MAX: Final = op_wire.MARKS_MAX
#: Of ids and reasons in one record: with the offsets well below a topic's usual megabyte.
_ENTRIES_BYTES_MAX: Final = 500_000


@dataclass(slots=True, init=False)
class Decision:
    """One decision to be made durable."""

    identity: Identity
    resolution: Resolution
    covered_count: int
    half_offsets: tuple[int, ...]  # hints for people and for other versions
    source: ResolutionSource
    reason: str | None = None

    def __init__(
        self,
        identity: Identity,
        resolution: Resolution,
        covered_count: int,
        half_offsets: tuple[int, ...],
        source: ResolutionSource,
        reason: str | None = None,
    ) -> None:
        self.identity = identity
        self.resolution = resolution
        self.covered_count = covered_count
        self.half_offsets = half_offsets
        self.source = source
        self.reason = reason


@dataclass(slots=True, init=False)
class UnderWay:
    """A decision that was asked for before and has not been confirmed yet."""

    resolution: Resolution
    #: How it went, once known. Records of one partition arrive in the order of asking: whoever was
    #: asked later and is confirmed can look here.
    is_stored: bool | None
    error: BaseException | None

    def __init__(
        self,
        resolution: Resolution,
        is_stored: bool | None = None,  # noqa: FBT001 - a field
        error: BaseException | None = None,
    ) -> None:
        self.resolution = resolution
        self.is_stored = is_stored
        self.error = error


@dataclass(slots=True, init=False)
class _Item:
    decision: Decision
    future: "Future[int]"
    under_way: UnderWay

    def __init__(
        self,
        decision: Decision,
        future: "Future[int]",
        under_way: UnderWay,
    ) -> None:
        self.decision = decision
        self.future = future
        self.under_way = under_way

    @property
    def entry_bytes_max(self) -> int:
        """A bound of what it takes in a record: JSON doubles quotes, UTF-8 takes up to four."""
        group, transaction_id = self.decision.identity
        reason = self.decision.reason or ""
        return 64 + 4 * (len(group) + len(transaction_id)) + 6 * len(reason)


@dataclass(slots=True)
class _Lane:
    """What waits and what is on its way for one partition."""

    waiting: list[_Item] = field(default_factory=list)
    in_flight: int = 0
    under_way: dict[Identity, UnderWay] = field(default_factory=dict)


class DecisionLog:
    """Appends decisions for one event loop. The result of a future is the decision's op offset."""

    def __init__(self, log: RecordLog) -> None:
        self._log = log
        self._lanes: dict[int, _Lane] = {}

    def append(self, partition: int, decision: Decision) -> "Future[int]":
        """Queue a decision; the future fails as ports.RecordLog says."""
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = _Lane()
        future: Future[int] = get_running_loop().create_future()
        item = _Item(decision, future, UnderWay(decision.resolution))
        lane.waiting.append(item)
        lane.under_way.setdefault(decision.identity, item.under_way)
        if lane.in_flight == 0:
            self._send(partition, lane)
        return future

    def under_way(self, partition: int, identity: Identity) -> UnderWay | None:
        """The first decision of this transaction that is not confirmed yet."""
        lane = self._lanes.get(partition)
        return None if lane is None else lane.under_way.get(identity)

    def _send(self, partition: int, lane: _Lane) -> None:
        """One record for each run of equal tags, so that the log keeps the order of asking."""
        batch, lane.waiting = lane.waiting[:_BATCH_MAX], lane.waiting[_BATCH_MAX:]
        run: list[_Item] = []
        offset_count = entries_bytes = 0
        for item in batch:
            decision = item.decision
            if run and (
                decision.resolution is not run[-1].decision.resolution
                or offset_count + len(decision.half_offsets) > op_wire.OFFSETS_MAX
                or entries_bytes + item.entry_bytes_max > _ENTRIES_BYTES_MAX
            ):
                self._send_run(partition, lane, run)
                run, offset_count, entries_bytes = [], 0, 0
            run.append(item)
            offset_count += len(decision.half_offsets)
            entries_bytes += item.entry_bytes_max
        if run:
            self._send_run(partition, lane, run)

    def _send_run(self, partition: int, lane: _Lane, run: list[_Item]) -> None:
        entries: list[op_wire.Entry] = []
        half_offsets: list[int] = []
        for item in run:
            decision = item.decision
            entries.append(
                op_wire.DecisionEntry(
                    *decision.identity,
                    decision.covered_count,
                    len(decision.half_offsets),
                    decision.source,
                    decision.reason,
                )
            )
            half_offsets.extend(decision.half_offsets)
        value, headers = op_wire.write(
            op_wire.tag_of(run[0].decision.resolution), entries, half_offsets
        )
        lane.in_flight += 1
        stored = self._log.append_op(partition, value, headers)
        stored.add_done_callback(lambda done: self._stored(partition, lane, run, done))

    def _stored(self, partition: int, lane: _Lane, run: list[_Item], stored: "Future[int]") -> None:
        lane.in_flight -= 1
        error = stored.exception()
        for item in run:
            identity, future = item.decision.identity, item.future
            item.under_way.is_stored, item.under_way.error = error is None, error
            if lane.under_way.get(identity) is item.under_way:
                del lane.under_way[identity]
            if future.done():  # whoever asked has gone; the decision stands all the same
                continue
            if error is None:
                future.set_result(stored.result())
            else:
                future.set_exception(error)
        if lane.waiting and lane.in_flight == 0:
            self._send(partition, lane)
