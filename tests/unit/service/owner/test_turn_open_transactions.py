"""What an open Kafka transaction of somebody else hides exists: nothing follows from not seeing it.

The last stable offset says what can be read now, the high watermark says what exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.open_ones import opened, pass_time, twin_with_producers
from harness.twin import Twin, identity, turn_until_idle

if TYPE_CHECKING:
    from halfhitch.service.owner.turn import PartitionOwner


# -- while working -------------------------------------------------------------------------------


def test_nobody_is_asked_whose_decision_lies_behind_an_open_kafka_transaction() -> None:
    twin = twin_with_producers()
    owner = twin.working_owner()
    half_offset = twin.half("T", value=b"paid")
    turn_until_idle(owner)
    hanging = opened(twin, twin.kafka.op_topic)
    twin.commit("T", hints=[half_offset])
    pass_time(twin, owner, 60)
    assert twin.gate.sent == []
    twin.kafka.abort(hanging)
    pass_time(twin, owner, 5)
    assert (twin.gate.sent, twin.values()) == ([], [b"paid"])


# -- lag -----------------------------------------------------------------------------------------


def test_checks_go_on_with_a_steady_lag() -> None:
    """The op log's end is always two seconds ahead of what was read."""
    twin = twin_with_producers()
    owner = twin.working_owner()
    lagging = _Lagging(twin, owner, lag_s=2)
    twin.half("T", value=b"?")
    for _ in range(30):
        lagging.second()
    assert [check.identity for check in twin.gate.sent] == [identity("T")]


def test_with_a_lag_nobody_is_asked_who_was_decided_before_it_was_due() -> None:
    twin = twin_with_producers()
    owner = twin.working_owner()
    lagging = _Lagging(twin, owner, lag_s=3)
    half_offset = twin.half("T", value=b"paid")
    for _ in range(5):
        lagging.second()
    twin.commit("T", hints=[half_offset])  # 5 s old: it is due at 6, and this is read at 8
    for _ in range(30):
        lagging.second()
    assert (twin.gate.sent, twin.values()) == ([], [b"paid"])


class _Lagging:
    """An owner that reads each op record `lag_s` after it was stored; one comes every second."""

    def __init__(self, twin: Twin, owner: PartitionOwner, *, lag_s: int) -> None:
        self._twin, self._owner = twin, owner
        self._lag_s = lag_s
        self._log = twin.kafka.log(twin.kafka.op_topic, 0)
        cursor = owner._reader._cursors[1]  # type: ignore[attr-defined]
        take = cursor.take

        def take_old(count_max: int) -> list[object]:
            until_ms = twin.clock.wall_ms() - self._lag_s * 1000
            seen = [r for r in self._log.records[cursor.position :] if _stored(r) <= until_ms]
            return take(len(seen)) if seen else []

        cursor.take = take_old

    def second(self) -> None:
        self._twin.clock.advance(1.0)
        self._twin.commit("nobody")
        turn_until_idle(self._owner)


def _stored(record: object) -> int:
    return record.timestamp()[1]  # type: ignore[attr-defined,no-any-return]
