"""Operators: they put parked transactions back, two at a time if it comes to that, and decide.

A resume is one Kafka transaction under the half partition's own transactional id, as the parked
store writes it: the note, then the halves with the note's offset as their fence, then the mark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from halfhitch.adapters.kafka.parked_resume import _life, half_headers
from halfhitch.adapters.memory.kafka import Fenced
from halfhitch.core.model import ResolutionSource
from halfhitch.wire import op as op_wire
from halfhitch.wire.parked import Resumed, note_headers
from halfhitch.wire.parked_fold import ParkedFold
from harness.simulation.cluster import HALF, OP, PARKED, RESUMER
from harness.simulation.strangers import fresh_dice

if TYPE_CHECKING:
    from collections.abc import Callable

    from halfhitch.core.model import Identity
    from halfhitch.wire.parked_fold import Parking
    from harness.simulation.apps import Apps
    from harness.simulation.cluster import Cluster


def fold(cluster: Cluster) -> ParkedFold:
    """What the parked topic says now."""
    result = ParkedFold()
    kafka = cluster.kafka
    for partition in range(kafka.partition_count(PARKED) or 0):
        log = kafka.log(PARKED, partition)
        for record in log.committed(log.start, log.end)[0]:
            size_bytes = len(record.key() or b"") + len(record.value() or b"")
            place = (partition, record.offset())
            result.take(place, record.timestamp()[1], size_bytes, record.headers())
    return result


class Operators:
    """Any number of people with the same tools. `hasten` is their way to the owner."""

    def __init__(self, cluster: Cluster, apps: Apps, hasten: Callable[[Identity], None]) -> None:
        self._cluster = cluster
        self._timeline = cluster.timeline
        self._apps = apps
        self._hasten = hasten
        self._ids = list(apps.transactions)
        self._dice = fresh_dice(cluster.timeline.dice)

    def act(self) -> None:
        """Something an operator does."""
        dice = self._timeline.dice
        what = dice.choice(["resume", "resume", "resume", "decide", "hasten"])
        if what == "resume":
            self.resume()
            if dice.random() < 0.4:  # and somebody else
                self._timeline.after(dice.randint(0, 100), self.resume)
            return
        if not self._apps.transactions:
            return
        transaction = dice.choice(list(self._apps.transactions.values()))
        if what == "hasten":
            self._hasten(transaction.identity)
        elif transaction.half_offsets and transaction.outcome is not None:
            if self._timeline.now_ms < transaction.known_ms:
                return  # it is not over: nobody may say yet how it ended
            source = ResolutionSource.OPERATOR
            self._apps.decide(transaction, transaction.outcome, source)

    def resume(self, identity: Identity | None = None) -> None:
        """Fence whoever else does it, look what is parked, put one back."""
        kafka, dice = self._cluster.kafka, self._timeline.dice
        producer_epoch = kafka.init_producer(RESUMER)
        logs = [kafka.log(PARKED, p) for p in range(kafka.partition_count(PARKED) or 0)]
        if any(log.stable_end < log.end for log in logs):
            # An open Kafka transaction, a dead owner's perhaps, hides who was put back before.
            self._timeline.count["resumes that waited in vain"] += 1
            return
        parkings = fold(self._cluster).parkings(identity)
        if not parkings:
            return
        parking = dice.choice(parkings)
        self._timeline.count["resumes begun"] += 1
        delay_ms = dice.choice([0, 0, 30, 300])
        self._timeline.after(delay_ms, lambda: self._write(producer_epoch, parking))

    def _write(self, producer_epoch: int, parking: Parking) -> None:
        cluster, timeline = self._cluster, self._timeline
        identity = parking.identity
        try:
            open_ = cluster.kafka.begin(RESUMER, producer_epoch)
        except Fenced:
            timeline.count["resumes fenced"] += 1
            return
        value, headers = op_wire.write_note(
            identity, action="resume", operator="ann", reason="they are back"
        )
        fence = cluster.append(OP, None, value, headers, open_)
        life = _life(parking, fence)
        for message in parking.messages:
            record: Any = cluster.kafka.log(PARKED, message.place[0]).records[message.place[1]]
            copied = half_headers(message, record, life)
            cluster.append(HALF, record.key(), record.value(), copied, open_)
        note = Resumed(
            *identity,
            parking.half_partition,
            [message.place for message in parking.messages],
            parking.resumed_count + 1,
            "they are back",
            "ann",
            parking.decision,
        )
        place = parking.first.place[0]
        cluster.append(PARKED, None, None, note_headers(note), open_, place)
        timeline.note("resume {} fence {} born {}", identity[1], fence, parking.decision)

        def end() -> None:
            if timeline.chance(0.15):
                cluster.kafka.abort(open_)
                timeline.count["resumes aborted"] += 1
                return
            if self._dice.random() < cluster.plan.dead_resumes and cluster.is_faulty:
                timeline.count["resumes that died"] += 1
                timeline.note("who resumes {} dies", identity[1])
                # The coordinator ends it when it has had enough, unless a takeover did.
                late_ms = self._dice.randint(15_000, 25_000)
                timeline.after(late_ms, lambda: cluster.kafka.abort(open_))
                return
            try:
                cluster.kafka.commit(open_)
            except Fenced:
                timeline.count["resumes fenced"] += 1
            else:
                timeline.count["resumes"] += 1
                timeline.note("resumed {}", identity[1])

        timeline.after(timeline.dice.choice([0, 1, 50, 2_000]), end)
