"""Decisions on their way into the op log: those of the same moment share one record.

While one record of a partition is on its way, the next decisions gather; they leave together when
it is confirmed. At low load a decision leaves at once, at high load hundreds share a record, and no
timer is needed. One record in flight for each partition also fixes the order: what was asked first
lies first.

Within a batch and against the batch in flight a contrary decision is known at once.
"""

from asyncio import Future, get_running_loop
from dataclasses import dataclass, field
from typing import Final

from halfhitch.core.model import Identity, Resolution, ResolutionSource
from halfhitch.ports import RecordLog
from halfhitch.wire import op as op_wire

#: More would make the record too large for its topic; the rest goes into the next one.
_BATCH_MAX: Final = op_wire.MARKS_MAX


@dataclass(slots=True)
class Decision:
    """One decision to be made durable."""

    identity: Identity
    resolution: Resolution
    covered_count: int
    half_offsets: tuple[int, ...]  # hints for people and for other versions
    source: ResolutionSource
    reason: str | None = None


@dataclass(slots=True)
class _Lane:
    """What waits and what is on its way for one partition."""

    waiting: list[tuple[Decision, "Future[int]"]] = field(default_factory=list)
    in_flight: int = 0
    under_way: dict[Identity, Resolution] = field(default_factory=dict)


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
        lane.waiting.append((decision, future))
        lane.under_way.setdefault(decision.identity, decision.resolution)
        if lane.in_flight == 0:
            self._send(partition, lane)
        return future

    def under_way(self, partition: int, identity: Identity) -> Resolution | None:
        """The first decision of this transaction that is not confirmed yet."""
        lane = self._lanes.get(partition)
        return None if lane is None else lane.under_way.get(identity)

    def _send(self, partition: int, lane: _Lane) -> None:
        """One record for each run of equal tags, so that the log keeps the order of asking."""
        batch, lane.waiting = lane.waiting[:_BATCH_MAX], lane.waiting[_BATCH_MAX:]
        run: list[tuple[Decision, Future[int]]] = []
        offset_count = 0
        for item in batch:
            decision = item[0]
            if run and (
                decision.resolution is not run[-1][0].resolution
                or offset_count + len(decision.half_offsets) > op_wire.OFFSETS_MAX
            ):
                self._send_run(partition, lane, run)
                run, offset_count = [], 0
            run.append(item)
            offset_count += len(decision.half_offsets)
        if run:
            self._send_run(partition, lane, run)

    def _send_run(
        self, partition: int, lane: _Lane, run: list[tuple[Decision, "Future[int]"]]
    ) -> None:
        entries: list[op_wire.Entry] = []
        half_offsets: list[int] = []
        for decision, _ in run:
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
        value, headers = op_wire.write(op_wire.tag_of(run[0][0].resolution), entries, half_offsets)
        lane.in_flight += 1
        stored = self._log.append_op(partition, value, headers)
        stored.add_done_callback(lambda done: self._stored(partition, lane, run, done))

    def _stored(
        self,
        partition: int,
        lane: _Lane,
        run: list[tuple[Decision, "Future[int]"]],
        stored: "Future[int]",
    ) -> None:
        lane.in_flight -= 1
        error = stored.exception()
        for decision, future in run:
            lane.under_way.pop(decision.identity, None)
            if future.done():  # whoever asked has gone; the decision stands all the same
                continue
            if error is None:
                future.set_result(stored.result())
            else:
                future.set_exception(error)
        if lane.waiting and lane.in_flight == 0:
            self._send(partition, lane)
