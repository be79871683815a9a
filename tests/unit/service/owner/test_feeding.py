"""What is fed to the ledger while a log cannot be read to its end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from halfhitch.core.model import Resolution
from halfhitch.core.standing import Standing
from harness.open_ones import RULES, opened, pass_time, twin_with_producers
from harness.twin import Twin, identity, turn_until_idle

if TYPE_CHECKING:
    from halfhitch.core.model import DecisionRead


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


@pytest.mark.interpreted("replaces a method, which a compiled object does not allow")
def test_a_record_was_read_before_its_last_decision_counted() -> None:
    """The ledger's position passes a record with its first decision. Whoever asked about the last
    one in between was told by nobody: the memory was silent, the owner knew nothing yet.
    """
    twin = Twin()
    names = ["one", "two", "three"]
    halves = [twin.half(name) for name in names]
    owner = twin.working_owner()
    turn_until_idle(owner)
    ledger = owner._ledger
    assert ledger is not None
    known = ledger.decision
    seen: list[tuple[int | None, list[bool]]] = []

    def decision(event: DecisionRead) -> None:
        known(event)
        are_known = [owner.standing(identity(name), 0) is not Standing.PENDING for name in names]
        seen.append((owner.op_read_to, are_known))

    ledger.decision = decision  # type: ignore[method-assign]
    op_offset = twin.decide(Resolution.COMMIT, *names, hints=halves)
    turn_until_idle(owner)
    assert [are_known for _, are_known in seen] == [
        [True, False, False], [True, True, False], [True, True, True],
    ]  # fmt: skip
    assert all(read_to is not None and read_to <= op_offset for read_to, _ in seen)
    assert owner.op_read_to is not None
    assert owner.op_read_to > op_offset


def test_marks_that_were_written_here_are_read_back_once_and_a_strangers_are_read() -> None:
    twin = Twin()
    owner = twin.working_owner()
    first = twin.half("one", value=b"one")
    twin.commit("one", hints=[first])
    owner.turn(0.0)
    [written] = owner._feed._written
    assert [mark.identity for mark in written.marks] == [identity("one")]
    # Somebody copies the record: it says nothing new.
    record = written.record
    twin.kafka.append(twin.kafka.op_topic, 0, record.key, record.value, list(record.headers))
    turn_until_idle(owner)
    assert not owner._feed._written
    assert owner.standing(identity("one"), first) is Standing.COMMITTED
    second = twin.half("two", value=b"two")
    twin.commit("two", hints=[second])
    turn_until_idle(owner)
    assert twin.values() == [b"one", b"two"]
    assert owner.standing(identity("two"), second) is Standing.COMMITTED


def test_a_takeover_reads_what_was_written_before_it() -> None:
    twin = Twin()
    owner = twin.working_owner()
    first = twin.half("one", value=b"one")
    twin.commit("one", hints=[first])
    owner.turn(0.0)
    assert owner._feed._written
    owner.take_over()
    assert not owner._feed._written
    turn_until_idle(owner)
    assert owner.standing(identity("one"), first) is Standing.COMMITTED
    assert twin.values() == [b"one"]
