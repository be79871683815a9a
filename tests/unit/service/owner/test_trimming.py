"""What is deleted: only below a pair of watermarks that an earlier step's op record proves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from halfhitch.adapters.memory import MemoryClock
from halfhitch.service.owner.trimming import Trimmer
from halfhitch.wire.proof import read_proof
from harness.defaults import owner_limits
from harness.twin import Twin, turn_until_idle

if TYPE_CHECKING:
    from halfhitch.adapters.memory.kafka import MemoryRecord

#: Remembers few, so that the op watermark follows at once.
FORGETFUL = owner_limits(finished_max=1)


class Recording:
    """The writer, as far as a Trimmer knows it."""

    def __init__(self) -> None:
        self.deleted: list[tuple[int, int]] = []

    def delete_below(self, half_offset: int, op_offset: int) -> None:
        self.deleted.append((half_offset, op_offset))


def trimmer_and_writer() -> tuple[Trimmer, Recording, MemoryClock]:
    writer: Any = Recording()
    clock = MemoryClock()
    return Trimmer(writer, clock), writer, clock


def test_nothing_is_deleted_below_a_pair_before_a_later_step_was_committed() -> None:
    trimmer, writer, clock = trimmer_and_writer()
    trimmer.begin(5, 9)
    clock.advance(60.0)
    trimmer.committed(7, 12, is_proven=True)
    assert writer.deleted == [], "the start is not known to be proven"
    trimmer.committed(8, 14, is_proven=True)
    assert writer.deleted == [(7, 12)]


def test_a_pair_that_no_op_record_proves_is_never_deleted_below() -> None:
    trimmer, writer, clock = trimmer_and_writer()
    trimmer.begin(0, 0)
    for n in range(1, 4):
        clock.advance(60.0)
        trimmer.committed(n * 10, n * 10, is_proven=False)
    assert writer.deleted == []
    assert trimmer.watermarks == (30, 30), "what is shown is what was committed"
    trimmer.committed(40, 41, is_proven=True)
    for n in range(5, 8):
        clock.advance(60.0)
        trimmer.committed(n * 10, n * 10, is_proven=False)
    assert writer.deleted == [(40, 41)]


def test_after_a_takeover_from_an_older_pair_nothing_is_deleted_by_what_was_before() -> None:
    trimmer, writer, clock = trimmer_and_writer()
    trimmer.begin(0, 0)
    trimmer.committed(50, 50, is_proven=True)
    trimmer.begin(10, 12)
    clock.advance(60.0)
    trimmer.committed(20, 22, is_proven=True)
    assert writer.deleted == []
    clock.advance(60.0)
    trimmer.committed(30, 32, is_proven=True)
    assert writer.deleted == [(20, 22)]


def test_a_new_owner_deleted_halves_that_another_instance_was_about_to_read() -> None:
    """It had been asked to ask its producers about them, and found nothing to ask."""
    trimmer, writer, clock = trimmer_and_writer()
    clock.advance(1_000.0)
    trimmer.begin(0, 0)
    for n in range(1, 4):
        clock.advance(3.0)
        trimmer.committed(n, n, is_proven=True)
    assert writer.deleted == []
    clock.advance(3.0)
    trimmer.committed(4, 4, is_proven=True)
    assert writer.deleted == [(3, 3)]


def proofs(twin: Twin) -> dict[int, tuple[int, int]]:
    """By op offset: what lies in the op log still, and may be read."""
    records: list[MemoryRecord] = twin.kafka.committed(twin.kafka.op_topic)
    found = {r.offset(): read_proof(r.offset(), r.headers(), r.key()) for r in records}
    return {op_offset: pair for op_offset, pair in found.items() if pair is not None}


def test_the_proof_of_a_pair_lies_above_all_that_is_deleted_with_it() -> None:
    twin = Twin(limits=FORGETFUL)
    owner = twin.working_owner()
    logs = [twin.kafka.log(topic, 0) for topic in (twin.kafka.half_topic, twin.kafka.op_topic)]
    cuts = set()
    for n in range(30):
        twin.half(f"T{n}")
        if n % 7 != 3:
            twin.commit(f"T{n}")
        twin.clock.advance(7.0)
        turn_until_idle(owner)
        starts = tuple(log.start for log in logs)
        cuts.add(starts)
        if starts != (0, 0):
            assert starts in proofs(twin).values(), "it was proven, and its proof is still there"
            newest = proofs(twin)[max(proofs(twin))]
            assert newest == twin.stored()
            assert all(log.start <= at <= log.end for log, at in zip(logs, newest, strict=True))
    assert len(cuts) > 3, "it was cut several times"


def test_a_step_without_op_records_gets_no_proof_for_its_own_sake() -> None:
    """It would move the op log's end, and call for another step."""
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1")
    twin.commit("T1")
    turn_until_idle(owner)
    end = twin.kafka.log(twin.kafka.op_topic, 0).end
    assert len(proofs(twin)) == 1
    for _ in range(20):
        twin.clock.advance(60.0)
        turn_until_idle(owner)
    assert twin.kafka.log(twin.kafka.op_topic, 0).end == end
