"""After a life: nothing may be left over, and reading everything again may change nothing."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from halfhitch.core.model import ResolutionSource
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import HalfRecord, system_headers
from halfhitch.wire.parked import LateDecision, read_parked
from harness.attributes import attributes
from harness.simulation.account import judge
from harness.simulation.cluster import HALF, OP, PARKED, TARGETS
from harness.simulation.life import HORIZON_MS, Life

if TYPE_CHECKING:
    from halfhitch.core.ledger import Ledger


def lived(seed: int, *, is_traced: bool = False) -> Life:
    """A whole life, judged. Raises AssertionError when something was wrong in it."""
    life = Life(seed, is_traced=is_traced)
    try:
        life.live()
        judge(life)
        _nothing_is_left(life)
        _read_again(life)
        judge(life)
        _forget_the_finished(life)
        _read_again(life)
    except BaseException as error:
        error.add_note(f"seed {seed}: {life.plan}")
        error.life = life  # type: ignore[attr-defined]
        raise
    return life


def _nothing_is_left(life: Life) -> None:
    """Whatever is finished costs nothing but its memory in `Finished`."""
    life.drive_for(20_000)  # what was told to others is cleared in the next turns
    ledger, owner = life.ledger, life.owner
    assert owner is not None
    for part in (ledger, ledger.checks):
        for name, value in attributes(part).items():
            if isinstance(value, deque | list | dict | set):
                assert not value, f"left behind in {type(part).__name__}.{name}: {value}"
    counts = ledger.checks.counts()
    assert not any(counts), f"left behind: {counts}"
    assert ledger.counts[:3] == (0, 0, 0), f"left behind: {ledger.counts}"
    assert not ledger._marks._open, f"halves that nobody needs are held: {ledger._marks._open}"
    assert not ledger._conflicts, "conflicts are never recorded"
    assert not ledger._notes, "notes are never written"
    assert len(owner._payloads) == 0, f"payloads are kept: {len(owner._payloads)}"
    granted = {group: count for group, count in life.desk.granted.items() if count}
    assert not granted, f"permits are lost: {granted}"
    stored = life.cluster.kafka.stored_position(HALF, 0)
    if stored is not None:  # else nothing was written since the offsets were reset
        assert stored >= ledger.positions[0], f"the half watermark stays behind: {stored}"


def _seen(life: Life) -> tuple[Any, ...]:
    kafka = life.cluster.kafka
    ends = [kafka.log(topic, 0).end for topic in TARGETS if kafka.partition_count(topic)]
    found = [read_parked(r.offset(), r.headers()) for r in kafka.committed(PARKED)]
    # A late decision may be noted once more: of several the first in the op log counts.
    parked = sum(not isinstance(record, LateDecision) for record in found)
    return (*ends, parked, len(life.sent))


def _read_again(life: Life) -> None:
    """I14: the group's offsets are gone, and with them all that was remembered."""
    seen = _seen(life)
    life.restart()
    life.reset_offsets()
    life.timeline.count["replays of everything"] += 1
    life.idle_wait_s = 20.0
    life.drive_for(200_000)  # decisions of nothing are forgotten by then
    assert _seen(life) == seen, f"I14: reading it all again has changed {seen} to {_seen(life)}"
    state = {name: count for name, count in life.state().items() if count}
    assert not state, f"I14: reading it all again has begun something: {state}"


def _forget_the_finished(life: Life) -> None:
    """New transactions push out the memory: both watermarks reach the ends of then."""
    kafka = life.cluster.kafka
    ends = {topic: kafka.log(topic, 0).end for topic in (HALF, OP)}
    clock = life.cluster.clock
    clock.topic = OP
    newest_ms = max((r.timestamp()[1] for r in kafka.log(OP, 0).records), default=0)
    clock.ahead_ms += max(0, newest_ms - clock.wall_ms())
    for number in range(6):
        life.drive_for(HORIZON_MS // 2 + 60_000)
        _commit_one(life, f"after-{number}")
        life.drive_for(60_000)
    for topic, end in ends.items():
        position = kafka.stored_position(topic, 0)
        assert position is not None
        assert position >= end, f"the {topic} watermark stays behind: {position} of {end}"
    _check_memory(life.ledger)


def _check_memory(ledger: Ledger) -> None:
    assert len(ledger._finished) <= 6, f"the finished are not forgotten: {len(ledger._finished)}"


def _commit_one(life: Life, name: str) -> None:
    record = HalfRecord(name, "after", 0, 0, "i-1", TARGETS[0])
    half_offset = life.cluster.append(HALF, None, b"", system_headers(record))
    entry = op_wire.DecisionEntry("after", name, 1, 1, ResolutionSource.PRODUCER)
    value, headers = op_wire.write(b"c", [entry], [half_offset])
    life.cluster.append(OP, None, value, headers)
