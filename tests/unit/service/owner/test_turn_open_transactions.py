"""What an open Kafka transaction of somebody else hides exists: nothing follows from not seeing it.

The last stable offset says what can be read now, the high watermark says what exists.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from halfhitch.core.check_rules import CheckRules
from halfhitch.core.standing import Standing
from halfhitch.errors import KafkaUnavailable
from harness.defaults import check_rules, owner_limits
from harness.twin import RecordingReader, Twin, identity, turn_until_idle

if TYPE_CHECKING:
    from halfhitch.adapters.memory.kafka import KafkaTransaction
    from halfhitch.ports import ReadBatch
    from halfhitch.service.owner.turn import PartitionOwner

RULES = check_rules(immunity_ms=6_000, interval_ms=60_000, jitter=0.0, count_max=3)


def twin_with_producers(room: int = 10, rules: CheckRules = RULES) -> Twin:
    twin = Twin(limits=owner_limits(check_rules=rules))
    twin.gate.room = room
    return twin


def opened(twin: Twin, topic: str, transactional_id: str = "stranger") -> KafkaTransaction:
    """An open Kafka transaction of somebody else, with one record in partition 0 of the topic."""
    epoch = twin.kafka.init_producer(transactional_id)
    transaction = twin.kafka.begin(transactional_id, epoch)
    twin.kafka.append(topic, 0, None, b"?", [], transaction)
    return transaction


def pass_time(twin: Twin, owner: PartitionOwner, seconds: float) -> None:
    for _ in range(int(seconds)):
        twin.clock.advance(1.0)
        turn_until_idle(owner)


def resume_of_another(twin: Twin) -> KafkaTransaction:
    """One that hangs: its note is stored, its end never comes."""
    return opened(twin, twin.kafka.op_topic, twin.kafka.resumer(0))


class PassingReader(RecordingReader):
    """Waiting takes no time but the clock's."""

    def __init__(self, twin: Twin) -> None:
        super().__init__(twin.kafka, twin.calls)
        self._twin = twin

    def read(self, wait_s: float) -> ReadBatch:
        self._twin.clock.advance(wait_s)
        return super().read(0.0)


# -- a takeover ----------------------------------------------------------------------------------


def test_a_takeover_does_not_forward_again_what_was_done_behind_an_open_resume() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("P")  # undecided: it holds the half watermark
    twin.half("T", value=b"paid")
    twin.commit("T", hints=[1])
    owner._feed.take(owner._working_ledger(), *_read(owner))
    resume_of_another(twin)
    turn_until_idle(owner)
    assert twin.written_values() == [b"paid"]
    successor = twin.working_owner(reader=PassingReader(twin))
    turn_until_idle(successor)
    assert twin.values() == [b"paid"]


def _read(owner: PartitionOwner) -> tuple[object, object]:
    batch = owner._reader.read(0.0)
    return batch.half, batch.op


def test_a_takeover_ends_what_a_dead_resume_has_left_open() -> None:
    twin = Twin()
    twin.half("T", value=b"paid")
    resume_of_another(twin)
    twin.commit("T", hints=[0])
    owner = twin.working_owner(reader=PassingReader(twin))
    turn_until_idle(owner)
    assert twin.values() == [b"paid"]


def test_a_takeover_waits_for_a_strangers_kafka_transaction_and_says_so() -> None:
    twin = Twin()
    twin.half("T", value=b"paid")
    hanging = opened(twin, twin.kafka.op_topic)
    twin.commit("T", hints=[0])
    owner = twin.owner(reader=PassingReader(twin))
    with pytest.raises(KafkaUnavailable, match=r"OP_HALF_TOPIC-0 .* up to 0 of 2: .* open"):
        owner.take_over()
    twin.kafka.abort(hanging)
    owner.take_over()
    turn_until_idle(owner)
    assert twin.values() == [b"paid"]


# -- while working -------------------------------------------------------------------------------


def test_a_commit_whose_half_cannot_be_read_yet_does_not_run_out() -> None:
    twin = twin_with_producers()
    owner = twin.working_owner()
    hanging = opened(twin, twin.kafka.half_topic)
    half_offset = twin.half("T", value=b"paid")
    twin.commit("T", hints=[half_offset])
    pass_time(twin, owner, 300)
    assert twin.observer.of("unknown_decisions") == []
    twin.kafka.abort(hanging)
    pass_time(twin, owner, 10)
    assert twin.values() == [b"paid"]
    assert twin.gate.sent == []


def test_commits_keep_their_order_while_the_half_of_the_first_cannot_be_read() -> None:
    twin = Twin()
    owner = twin.working_owner()
    second = twin.half("second", value=b"second")
    hanging = opened(twin, twin.kafka.half_topic)
    first = twin.half("first", value=b"first")
    twin.commit("first", hints=[first])
    twin.commit("second", hints=[second])
    turn_until_idle(owner)
    twin.kafka.abort(hanging)
    turn_until_idle(owner)
    assert twin.written_values() == [b"first", b"second"]


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


def test_what_is_incomplete_is_not_parked_while_the_missing_half_cannot_be_read() -> None:
    twin = twin_with_producers(rules=replace(RULES, incomplete_ms=30_000))
    owner = twin.working_owner()
    first = twin.half("T", index=0, value=b"one")
    hanging = opened(twin, twin.kafka.half_topic)
    twin.half("T", index=1, value=b"two")
    twin.commit("T", covered=2, hints=[first, first])
    pass_time(twin, owner, 120)
    assert owner.standing(identity("T"), first) is not Standing.PARKED
    twin.kafka.abort(hanging)
    pass_time(twin, owner, 5)
    assert twin.values() == [b"one", b"two"]


def test_what_is_incomplete_is_parked_although_the_half_log_is_never_quiet() -> None:
    twin = twin_with_producers(rules=replace(RULES, incomplete_ms=30_000))
    owner = twin.working_owner()
    first = twin.half("T", index=0, value=b"one")
    twin.commit("T", covered=2, hints=[first])
    read = owner._reader.read
    count = 0

    def busy(wait_s: float) -> object:
        nonlocal count
        batch = read(wait_s)
        count += 1
        twin.half(f"other-{count}")
        return batch

    owner._reader.read = busy  # type: ignore[method-assign,assignment]
    for _ in range(60):
        twin.clock.advance(1.0)
        owner.turn(0.0)
        owner.turn(0.0)
    assert owner.standing(identity("T"), first) is Standing.PARKED


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
