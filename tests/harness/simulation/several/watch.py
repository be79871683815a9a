"""What must hold at every moment, told by an independent reading of the logs.

Looked at when a coordinator decides to commit: what it decides is as good as visible then, although
markers and offsets follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from halfhitch.core.model import DecisionRead, DoneRead, Identity
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage, read_identity
from harness.simulation.account import EARLY_MS
from harness.simulation.cluster import HALF, OP

if TYPE_CHECKING:
    from harness.simulation.several.broker import Open, Place
    from harness.simulation.several.life import SeveralLife


class Watch:
    """I7 and I8 as they happen; I11 when it is asked for."""

    def __init__(self, life: SeveralLife) -> None:
        self._life = life
        self._world = life.world
        self._kafka = life.world.kafka
        self._decided: set[Any] = set()  # Kafka transactions, log by log
        self._ops: dict[int, list[Any]] = {}
        self._halves: dict[int, list[Identity]] = {}
        self._decided_halves: dict[int, set[int]] = {}
        self._positions: dict[Place, int] = {}
        self._kafka.on_commit = self._committed

    def forget_positions(self) -> None:
        """They were lost: they may begin anew."""
        self._positions = {}

    def _committed(self, open_: Open) -> None:
        self._decided.update(open_.parts.values())
        partition = open_.author.partition
        self._judge_author(open_, partition)
        half, op = ((topic, partition) for topic in (HALF, OP))
        if half not in open_.positions or op not in open_.positions:
            self._world.timeline.count["committed without offsets"] += 1
            return
        self._judge_watermarks(partition, open_.positions[half], open_.positions[op])
        for place, position in open_.positions.items():
            before = self._positions.get(place, 0)
            if position < before:
                self._world.red(f"I8: the watermark of {place} goes back, {before} to {position}")
            self._positions[place] = position

    def _judge_author(self, open_: Open, partition: int) -> None:
        """I7: nobody but the owner, once the owner has taken over."""
        owner = self._world.group.owner_of(partition)
        completed = self._life.completed.get(partition)
        if owner is None or completed is None or completed.member != owner:
            return
        author = open_.author
        if author.member != owner or author.number < completed.number:
            self._world.red(f"I7: {author} writes, and {completed} has taken over")

    # -- the logs ---------------------------------------------------------------------------------

    def _is_visible(self, record: Any) -> bool:
        transaction = record.kafka_transaction
        return not record.is_marker and (transaction is None or transaction in self._decided)

    def _events(self, partition: int) -> list[tuple[Any, Any]]:
        """Op records with what they say, those that will never be seen included."""
        events = self._ops.setdefault(partition, [])
        for record in self._kafka.log(OP, partition).records[len(events) :]:
            said: Any = ()
            if not record.is_marker:
                said = op_wire.read(record.offset(), 0, record.value(), record.headers())
            events.append((record, () if isinstance(said, Garbage) else said))
        return events

    def _identities(self, partition: int) -> list[Any]:
        found = self._halves.setdefault(partition, [])
        decided = self._decided_halves.setdefault(partition, set())
        for record in self._kafka.log(HALF, partition).records[len(found) :]:
            half: Any = None
            if not record.is_marker:
                half = read_identity(record.offset(), 0, 0, record.headers())
                if isinstance(half, Garbage):
                    half = None
                elif half.born is not None:
                    decided.add(record.offset())
            found.append(None if half is None else half.identity)
        return found

    def _fold(self, partition: int) -> tuple[dict[int, int], dict[Identity, Any]]:
        """Marked halves (to the highest op offset that marks them); first decisions."""
        marked: dict[int, int] = {}
        first: dict[Identity, Any] = {}
        for record, said in self._events(partition):
            if not said or not self._is_visible(record):
                continue
            for event in said:
                if isinstance(event, DoneRead):
                    for half_offset in event.half_offsets:
                        marked[half_offset] = event.op_offset
                elif isinstance(event, DecisionRead):
                    first.setdefault(event.identity, event)
        return marked, first

    def _unmarked(self, partition: int, marked: dict[int, int]) -> list[tuple[int, Identity]]:
        records = self._kafka.log(HALF, partition).records
        return [
            (half_offset, identity)
            for half_offset, identity in enumerate(self._identities(partition))
            if identity is not None
            and half_offset not in marked
            and self._is_visible(records[half_offset])
        ]

    def _judge_watermarks(self, partition: int, half_watermark: int, op_watermark: int) -> None:
        """I8: never beyond what a replay needs."""
        red = self._world.red
        marked, first = self._fold(partition)
        stored_at = self._world.stored_at
        for half_offset, identity in self._unmarked(partition, marked):
            if half_offset < half_watermark:
                red(f"I8: half {half_offset} of {identity[1]} is below {half_watermark}, not done")
            decision = first.get(identity)
            if decision is None or decision.op_offset >= op_watermark:
                continue
            if half_offset in self._decided_halves[partition]:
                continue  # it says itself what was decided
            decided_ms = stored_at[OP, partition, decision.op_offset]
            if decided_ms + EARLY_MS >= stored_at[HALF, partition, half_offset]:
                red(f"I8: {identity[1]} is not done, its decision is below {op_watermark}")
        for half_offset, op_offset in marked.items():
            if half_offset >= half_watermark and op_offset < op_watermark:
                red(f"I8: half {half_offset} is read again, its mark is below {op_watermark}")

    # -- when it is asked for ---------------------------------------------------------------------

    def all_decided_are_done(self, until_ms: int) -> None:
        """I11: everything that was decided by then is where it belongs now."""
        for partition in range(self._life.plan.partitions):
            marked, first = self._fold(partition)
            for half_offset, identity in self._unmarked(partition, marked):
                decision = first.get(identity)
                transaction = self._life.apps.transactions[identity]
                if decision is None or transaction.is_incomplete:
                    continue
                if self._world.is_excused(transaction):
                    continue  # it waits, and is shown, until the parked topic takes it
                decided_ms = self._world.stored_at[OP, partition, decision.op_offset]
                stored_ms = self._world.stored_at[HALF, partition, half_offset]
                if max(decided_ms, stored_ms) <= until_ms and decided_ms + EARLY_MS >= stored_ms:
                    raise AssertionError(
                        f"I11: {identity[1]} is decided for "
                        f"{self._world.timeline.now_ms - decided_ms} ms, half {half_offset} waits"
                    )
