"""Kafka gives watermarks that it has forgotten to move: nothing stops that need not."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from halfhitch.errors import BelowLogError, KafkaUnavailable, TopologyError
from halfhitch.service.owner.proven_pair import newest_proven_pair
from halfhitch.service.owner.turn import OutcomeLostError
from halfhitch.wire.proof import read_proof, write_proof
from harness.defaults import owner_limits
from harness.twin import RecordingReader, Twin, turn_until_idle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halfhitch.ports import ReadBatch
    from halfhitch.service.owner.turn import PartitionOwner

#: Remembers few, so that the op watermark follows at once.
FORGETFUL = owner_limits(finished_max=1)
Pair = tuple[int | None, int | None]


class ForgetfulReader(RecordingReader):
    """Kafka gives these, one after the other; then, as long as it is so, the last one."""

    def __init__(self, twin: Twin, given: Sequence[Pair]) -> None:
        super().__init__(twin.kafka, twin.calls)
        self._twin = twin
        self.given = list(given)

    def committed_positions(self) -> Pair:
        found = super().committed_positions()
        if not self.given:
            return found
        self.stamp = "old"
        return self.given.pop(0) if len(self.given) > 1 else self.given[0]

    def read(self, wait_s: float) -> ReadBatch:
        self._twin.clock.advance(wait_s)
        return super().read(0.0)


def trimmed_twin() -> Twin:
    """Two half messages are undecided, all before them is done and deleted."""
    twin = Twin(limits=FORGETFUL)
    owner = twin.working_owner()
    for n in range(12):
        twin.half(f"T{n}", value=b"%d" % n)
        twin.commit(f"T{n}")
        twin.clock.advance(11.0)
        turn_until_idle(owner)
    twin.half("P1", value=b"p1")
    twin.half("P2", value=b"p2")
    turn_until_idle(owner)
    assert all(start > 3 for start in starts(twin))
    twin.calls.clear()
    return twin


def starts(twin: Twin) -> tuple[int, int]:
    kafka = twin.kafka
    return kafka.log(kafka.half_topic, 0).start, kafka.log(kafka.op_topic, 0).start


def goes_on(twin: Twin, owner: PartitionOwner) -> None:
    """Everything is forwarded once."""
    twin.commit("P1", "P2")
    turn_until_idle(owner)
    assert twin.values() == [*(b"%d" % n for n in range(12)), b"p1", b"p2"]
    assert twin.written_values() == twin.values()
    assert owner.numbers().pending_count == 0, "nothing is asked about that is done"


def test_a_partition_stood_because_kafka_gave_old_watermarks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A coordinator that had been killed gave those of seven minutes before; both logs were cut."""
    twin = trimmed_twin()
    committed = twin.stored()
    owner = twin.working_owner(reader=ForgetfulReader(twin, [(1, 2)]))
    assert owner.numbers().half_watermark == committed[0]
    assert owner.numbers().op_watermark == committed[1]
    (record,) = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert record.action == "old_watermarks"  # type: ignore[attr-defined]
    for part in ("half 1, op 2", f"half {committed[0]}, op {committed[1]}", "nothing is lost"):
        assert part in record.getMessage()
    assert twin.observer.of("old_watermarks") == [(0,)]
    goes_on(twin, owner)


@pytest.mark.parametrize("which", ["half", "op"])
def test_one_watermark_below_its_log_is_enough(which: str) -> None:
    twin = trimmed_twin()
    half, op = twin.stored()
    given = (0, op) if which == "half" else (half, 0)
    owner = twin.working_owner(reader=ForgetfulReader(twin, [given]))
    assert twin.observer.of("old_watermarks") == [(0,)]
    goes_on(twin, owner)


def test_a_half_watermark_below_its_log_that_is_no_pair_is_replaced_too() -> None:
    twin = trimmed_twin()
    owner = twin.working_owner(reader=ForgetfulReader(twin, [(1, None)]))
    goes_on(twin, owner)


def test_kafka_is_asked_again_before_anything_is_looked_for() -> None:
    twin = trimmed_twin()
    reader = ForgetfulReader(twin, [(1, 2), (1, 2), twin.stored()])
    owner = twin.working_owner(reader=reader)
    assert twin.observer.of("old_watermarks") == []
    assert twin.calls.count("committed_positions") == 3
    reader.given.clear()
    goes_on(twin, owner)


def test_an_old_pair_within_both_logs_only_makes_the_replay_longer() -> None:
    twin = trimmed_twin()
    old = starts(twin)
    assert old != twin.stored()
    owner = twin.working_owner(reader=ForgetfulReader(twin, [old]))
    assert twin.observer.of("old_watermarks") == []
    assert owner.numbers().half_watermark == old[0]
    goes_on(twin, owner)


@pytest.mark.parametrize("given", [(None, None), (0, None), (3, None)])
def test_a_half_log_that_began_earlier_again_was_forwarded_anew_when_its_watermarks_were_lost(
    given: Pair,
) -> None:
    """Its broker had died: it knows for certain only where the log began up to a minute before."""
    twin = trimmed_twin()
    kafka = twin.kafka
    kafka.log(kafka.half_topic, 0).start = 0
    owner = twin.working_owner(reader=ForgetfulReader(twin, [given]))
    goes_on(twin, owner)


def test_what_somebody_wants_passed_over_is_passed_over() -> None:
    """He has set the half watermark forward: what a pair proves lies below it."""
    twin = trimmed_twin()
    half, op = twin.stored()
    assert half is not None
    owner = twin.working_owner(reader=ForgetfulReader(twin, [(half + 1, None)]))
    numbers = owner.numbers()
    assert (numbers.half_watermark, numbers.op_watermark) == (half + 1, op)
    assert numbers.pending_count == 1


def test_of_a_half_log_that_was_created_anew_an_old_op_log_proves_nothing() -> None:
    """With a topic Kafka forgets what was stored for it, and only that."""
    twin = trimmed_twin()
    half, op = twin.stored()
    assert half is not None
    log = twin.kafka.log(twin.kafka.half_topic, 0)
    log.records.clear()
    log.start = 0
    for n in range(half + 3):
        twin.half(f"N{n}", value=b"n")
    owner = twin.working_owner(reader=ForgetfulReader(twin, [(None, op)]))
    assert owner.numbers().pending_count == half + 3


def test_an_op_log_that_was_cut_beyond_the_newest_proof_stopped_the_partition() -> None:
    """By a predecessor, stopped for a while, which had proven more than who took old watermarks."""
    twin = trimmed_twin()
    kafka = twin.kafka
    _, op = starts(twin)
    newest = twin.stored()
    older = write_proof(newest[0] or 0, op)
    kafka.append(kafka.op_topic, 0, older.key, older.value, older.headers)
    kafka.delete_below(kafka.op_topic, 0, op + 1)
    owner = twin.working_owner(reader=ForgetfulReader(twin, [(newest[0], op)]))
    assert owner.numbers().half_watermark == newest[0]
    goes_on(twin, owner)


def test_without_any_proof_it_is_refused_as_records_that_were_deleted() -> None:
    """By releases before proofs, or from outside."""
    twin = trimmed_twin()
    kafka = twin.kafka
    kafka.delete_below(kafka.op_topic, 0, kafka.log(kafka.op_topic, 0).end)
    with pytest.raises(BelowLogError, match="stored watermark is 1"):
        twin.working_owner(reader=ForgetfulReader(twin, [(1, 2)]))
    assert twin.observer.of("old_watermarks") == []


@pytest.mark.parametrize("which", ["half", "op"])
def test_what_was_deleted_beyond_every_proven_pair_is_refused(which: str) -> None:
    twin = trimmed_twin()
    kafka = twin.kafka
    half, op = twin.stored()
    assert half is not None
    assert op is not None
    if which == "half":
        kafka.delete_below(kafka.half_topic, 0, half + 1)
    else:
        kafka.delete_below(kafka.op_topic, 0, op + 1)
        records, _ = kafka.log(kafka.op_topic, 0).committed(op + 1, 100)
        pairs = [read_proof(r.offset(), r.headers(), r.key()) for r in records]
        assert (half, op) in pairs, "its proof is still there"
    with pytest.raises(TopologyError, match="records were deleted"):
        twin.working_owner()
    with pytest.raises(TopologyError, match="records were deleted"):
        twin.working_owner(reader=ForgetfulReader(twin, [(1, 2)]))


@pytest.mark.parametrize("given", [(10_000, 2), (1, 10_000), (10_000, 10_000), (10_000, None)])
def test_a_watermark_beyond_its_log_is_refused_whatever_is_proven(given: Pair) -> None:
    """The log was cut at its end, or the topic created anew: what is missing was never done."""
    twin = trimmed_twin()
    with pytest.raises(TopologyError) as raised:
        twin.working_owner(reader=ForgetfulReader(twin, [given]))
    assert not isinstance(raised.value, BelowLogError)
    assert "begin" in twin.calls
    assert "release_op" not in twin.calls, "nothing was looked for"


def test_the_newest_of_several_proofs_counts_and_aborted_ones_do_not() -> None:
    twin = Twin()
    kafka = twin.kafka
    for _ in range(9):
        kafka.append(kafka.op_topic, 0, None, b"?", [("TAGS", b"?")])
        kafka.append(kafka.half_topic, 0, None, b"", [])
    for pair in ((1, 2), (3, 4)):
        proof = write_proof(*pair)
        kafka.append(kafka.op_topic, 0, proof.key, proof.value, proof.headers)
    aborted = kafka.begin("stranger", kafka.init_producer("stranger"))
    proof = write_proof(5, 6)
    kafka.append(kafka.op_topic, 0, proof.key, proof.value, proof.headers, aborted)
    kafka.abort(aborted)
    reader = RecordingReader(kafka, [])
    options = {"clock": twin.clock, "partition": 0, "on_held": lambda _: None}
    assert newest_proven_pair(reader, **options) == (3, 4)  # type: ignore[arg-type]
    kafka.append(kafka.half_topic, 0, None, b"", [])
    assert newest_proven_pair(reader, **options) == (3, 4)  # type: ignore[arg-type]
    proof = write_proof(11, 6)
    kafka.append(kafka.op_topic, 0, proof.key, proof.value, proof.headers)
    assert newest_proven_pair(reader, **options) == (3, 4), "beyond"  # type: ignore[arg-type]
    kafka.delete_below(kafka.op_topic, 0, 4)
    assert newest_proven_pair(reader, **options) == (3, 4)  # type: ignore[arg-type]
    kafka.delete_below(kafka.op_topic, 0, 5)
    assert newest_proven_pair(reader, **options) is None  # type: ignore[arg-type]


def test_a_proof_behind_an_open_kafka_transaction_is_waited_for() -> None:
    """An older one may lie below the logs, or be of no use: what is hidden is not passed over."""
    twin = trimmed_twin()
    kafka = twin.kafka
    resume = kafka.begin(kafka.resumer(0), kafka.init_producer(kafka.resumer(0)))
    kafka.append(kafka.op_topic, 0, None, b"?", [], resume)
    hidden = starts(twin)
    assert hidden != twin.stored()
    proof = write_proof(*hidden)
    kafka.append(kafka.op_topic, 0, proof.key, proof.value, proof.headers)
    owner = twin.working_owner(reader=ForgetfulReader(twin, [(1, 2)]))
    numbers = owner.numbers()
    assert (numbers.half_watermark, numbers.op_watermark) == hidden, "the resume was ended"
    stranger = kafka.begin("stranger", kafka.init_producer("stranger"))
    kafka.append(kafka.op_topic, 0, None, b"?", [], stranger)
    with pytest.raises(KafkaUnavailable, match="a Kafka transaction is open there"):
        twin.working_owner(reader=ForgetfulReader(twin, [(1, 2)]))


def test_what_is_compared_after_a_fence_is_what_kafka_gave_not_what_was_taken() -> None:
    twin = trimmed_twin()
    reader = ForgetfulReader(twin, [(1, 2)])
    owner = twin.working_owner(reader=reader)
    owner._fence_again()  # it still gives the same: nobody has written
    reader.given.clear()
    with pytest.raises(OutcomeLostError):
        owner._fence_again()  # it is itself again: taken over anew, from what is stored
    owner.take_over()
    assert twin.observer.of("old_watermarks") == [(0,)]
    goes_on(twin, owner)


def test_old_watermarks_that_are_given_after_a_step_end_in_another_takeover() -> None:
    twin = trimmed_twin()
    reader = ForgetfulReader(twin, [])
    owner = twin.working_owner(reader=reader)
    reader.given = [(1, 2)]
    with pytest.raises(OutcomeLostError):
        owner._fence_again()
    owner.take_over()
    assert twin.observer.of("old_watermarks") == [(0,)]
    twin.commit("P1")
    turn_until_idle(owner)
    reader.given.clear()  # what it was told since, it knows
    owner._fence_again()
    goes_on(twin, owner)
