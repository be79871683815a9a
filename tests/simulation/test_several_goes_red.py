"""The simulation of several instances must be able to fail: mistakes in what keeps owners apart.

Each mutation takes away one of the things that make a step happen once: fences, the guard against
requests that were held up, the order of a takeover, what is read and stored. It has to turn one
of the invariants that it names red within so many lives.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING

import pytest

from halfhitch.core.ledger import Ledger
from halfhitch.core.watermarks import Watermarks
from halfhitch.ports import WriteOutcome, WriteResult
from halfhitch.service.owner import proven_pair, turn
from halfhitch.service.owner.copying import Copying
from halfhitch.service.owner.forwarding import Forwarder
from halfhitch.service.owner.takeover import replay
from halfhitch.service.owner.turn import PartitionOwner
from halfhitch.service.owner.worker import PartitionWorker
from halfhitch.service.topic_policy import TopicPolicy
from halfhitch.wire.proof import read_proof, write_proof
from harness.simulation.several.broker import Brokers
from harness.simulation.several.judge import lived_together
from harness.simulation.several.ports import SeveralReader, SeveralWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Patch = pytest.MonkeyPatch

SEEDS_MAX = 400


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    """The owners say what goes wrong, and here everything does."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def first_red(invariants: tuple[str, ...]) -> tuple[int, str]:
    """The first seed that turns one of these red, and how."""
    for seed in range(SEEDS_MAX):
        try:
            lived_together(seed)
        except AssertionError as error:
            if str(error).startswith(invariants):
                return seed, str(error)
    return -1, ""


# -- the guard ----------------------------------------------------------------------------------


def guard_is_off(patch: Patch) -> None:
    """A commit that was sent twice: the first one ends the next Kafka transaction."""
    patch.setattr(SeveralWriter, "GUARD", "off")


def guard_believes_in_slowness_alone(patch: Patch) -> None:
    """A connection that is reset is retried faster than any threshold."""
    patch.setattr(SeveralWriter, "GUARD", "slow")


def a_suspect_producer_is_used_again(patch: Patch) -> None:
    original = PartitionOwner._fence_again

    def fence_again(self):
        if self._writer._producer_epoch is None:
            original(self)

    patch.setattr(PartitionOwner, "_fence_again", fence_again)


def what_was_heard_while_it_was_made_is_forgotten(patch: Patch) -> None:
    """A line that was logged twice is suppressed when it matters."""
    patch.setattr(SeveralWriter, "SILENCE", False)


def suppressed_lines_are_not_heard(patch: Patch) -> None:
    patch.setattr(SeveralWriter, "DEBUG_LINES", False)


def the_guard_goes_deaf(patch: Patch) -> None:
    what_was_heard_while_it_was_made_is_forgotten(patch)
    suppressed_lines_are_not_heard(patch)


# -- refusals -----------------------------------------------------------------------------------


def a_refused_write_is_judged_by_what_can_be_described(patch: Patch) -> None:
    """Nobody is to blame, so nothing is parked."""
    patch.setattr(SeveralWriter, "RIGHTS", False)


def owners_take_what_their_own_doors_take(patch: Patch) -> None:
    patch.setattr(SeveralWriter, "OWN_LIMIT", True)


def owners_forward_to_what_their_own_doors_allow(patch: Patch) -> None:
    original = TopicPolicy.__init__

    def init(self, **options):
        original(self, **options)
        self.ban = self.refusal

    patch.setattr(TopicPolicy, "__init__", init)


def what_the_parked_topic_refuses_is_tried_at_once_again(patch: Patch) -> None:
    def blame(self, identity, topic, reason, result):
        self._condemned[identity] = reason

    patch.setattr(Forwarder, "_blame", blame)


def what_our_own_topics_refuse_is_blamed_on_transactions(patch: Patch) -> None:
    original = Forwarder.refused

    def refused(self, step, targets, result):
        if not result.is_ours or not result.closed or not step.transactions:
            return original(self, step, targets, result)
        if len(step.transactions) == 1:
            self._condemned[step.transactions[0].identity] = result.reason
        else:
            self.shrink(len(step.transactions) // 2)
        return True

    patch.setattr(Forwarder, "refused", refused)


def a_copy_that_is_refused_fails_the_steps_of_all(patch: Patch) -> None:
    patch.setattr(Copying, "refused", lambda *_: False)


# -- fences -------------------------------------------------------------------------------------


def group_metadata_is_not_sent(patch: Patch) -> None:
    """An owner that is left behind fences last, and what it does is accepted."""
    patch.setattr(SeveralWriter, "member", lambda self: None)


def producers_are_never_fenced(patch: Patch) -> None:
    """All of a partition's owners are one producer."""

    def init_producer_id(self, transactional_id):
        if transactional_id not in self._producers:
            return original(self, transactional_id)
        return self._producers[transactional_id].producer_epoch

    original = Brokers.init_producer_id
    patch.setattr(Brokers, "init_producer_id", init_producer_id)


def all_partitions_share_one_producer(patch: Patch) -> None:
    """They fence each other for ever."""
    original = SeveralWriter.__init__

    def init(self, *values):
        original(self, *values)
        self.transactional_id = "owner"

    patch.setattr(SeveralWriter, "__init__", init)


def who_is_left_behind_may_go_on(patch: Patch) -> None:
    """It gets the generation that its instance has now, in which the partition is another's."""
    patch.setattr(PartitionWorker, "abandon", lambda self: None)


def neither_generation_nor_fencing(patch: Patch) -> None:
    group_metadata_is_not_sent(patch)
    producers_are_never_fenced(patch)


# -- takeover -----------------------------------------------------------------------------------


def offsets_are_read_before_fencing(patch: Patch) -> None:
    """The predecessor may commit a step, and trim, between the reading and the fence."""
    original = PartitionOwner.take_over

    def take_over(self):
        early = self._reader.committed_positions()
        self._reader.committed_positions = lambda: early
        try:
            original(self)
        finally:
            del self._reader.committed_positions

    patch.setattr(PartitionOwner, "take_over", take_over)


def logs_are_read_before_fencing(patch: Patch) -> None:
    original = PartitionOwner.take_over

    def take_over(self):
        fence = self._writer.fence
        self._writer.fence = lambda: None
        try:
            original(self)
        finally:
            del self._writer.fence
        fence()
        self._stored = (*self._reader.committed_positions(), self._reader.stamp)

    patch.setattr(PartitionOwner, "take_over", take_over)


def offsets_are_read_before_fencing_with_one_fence(patch: Patch) -> None:
    group_metadata_is_not_sent(patch)
    offsets_are_read_before_fencing(patch)


def logs_are_read_before_fencing_with_one_fence(patch: Patch) -> None:
    group_metadata_is_not_sent(patch)
    logs_are_read_before_fencing(patch)


def unstable_offsets_are_taken(patch: Patch) -> None:
    """The predecessor's decided step is not seen, and its watermarks are about to move."""
    patch.setattr(Brokers, "is_stable", lambda self, places: True)


def stored_watermarks_are_not_compared(patch: Patch) -> None:
    """After fencing anew: nobody notices that another one has written."""

    def fence_again(self):
        self._writer.fence()

    patch.setattr(PartitionOwner, "_fence_again", fence_again)


def marks_of_others_are_no_sign(patch: Patch) -> None:
    """Who is the owner no more reads his successor's marks, and goes on with what is left."""
    patch.setattr(
        Ledger, "foreign_count", property(lambda self: 0, lambda self, count: None), raising=False
    )


def the_readable_end_is_taken_for_the_end(patch: Patch) -> None:
    """Somebody else's open Kafka transaction hides the predecessor's done marks."""
    patch.setattr(SeveralReader, "half_end", lambda self: self._half.stable_end)
    patch.setattr(SeveralReader, "op_end", lambda self: self._op.stable_end)


# -- outcomes -----------------------------------------------------------------------------------


def unknown_is_taken_for_failed(patch: Patch) -> None:
    """An abort after a commit that nobody has answered."""

    def unknown(self, reason):
        self._producer_epoch = None
        return WriteResult(WriteOutcome.FAIL, reason)

    patch.setattr(SeveralWriter, "_unknown", unknown)


def only_watermarks_are_compared(patch: Patch) -> None:
    """They stand still while a single transaction is pending."""
    nothing = property(lambda self: "", lambda self, stamp: None)
    patch.setattr(SeveralReader, "stamp", nothing, raising=False)
    patch.setattr(SeveralWriter, "_stamp", nothing, raising=False)


def unknown_is_taken_for_failed_and_only_watermarks_are_compared(patch: Patch) -> None:
    unknown_is_taken_for_failed(patch)
    only_watermarks_are_compared(patch)


def unknown_is_taken_for_done(patch: Patch) -> None:
    def unknown(self, reason):
        return WriteResult(WriteOutcome.OK, reason, is_suspect=True)

    patch.setattr(SeveralWriter, "_unknown", unknown)


def unknown_is_taken_for_done_and_only_watermarks_are_compared(patch: Patch) -> None:
    unknown_is_taken_for_done(patch)
    only_watermarks_are_compared(patch)


def an_aborted_step_is_not_given_again(patch: Patch) -> None:
    """The consumer does not go back, and neither does the ledger."""
    patch.setattr(Ledger, "abort", Ledger.confirm)


# -- positions and readers ----------------------------------------------------------------------


def position_instead_of_watermark(patch: Patch) -> None:
    patch.setattr(Watermarks, "_half_watermark", lambda self: self.half_position)


def op_position_instead_of_watermark(patch: Patch) -> None:
    patch.setattr(Watermarks, "_op_watermark", lambda self, *values: self.op_position)


def op_log_is_read_uncommitted(patch: Patch) -> None:
    original = SeveralReader._committed

    def committed(self, log, position, count_max):
        if log is not self._op:
            return original(self, log, position, count_max)
        found = [r for r in log.records[position:] if not r.is_marker]
        return found, log.end

    patch.setattr(SeveralReader, "_committed", committed)


def half_log_is_read_uncommitted(patch: Patch) -> None:
    original = SeveralReader._committed

    def committed(self, log, position, count_max):
        if log is not self._half:
            return original(self, log, position, count_max)
        found = [r for r in log.records[position:] if not r.is_marker]
        return found, log.end

    patch.setattr(SeveralReader, "_committed", committed)


# -- watermarks that Kafka has forgotten ----------------------------------------------------------


def old_watermarks_stop_the_partition(patch: Patch) -> None:
    patch.setattr(proven_pair, "newest_proven_pair", lambda *_, **__: None)


def an_older_proven_pair_is_taken(patch: Patch) -> None:
    """What the oldest proof names has been deleted since."""

    def oldest_proven_pair(reader, **options):
        found = []

        def look(batch):
            proofs = [read_proof(r.offset(), r.headers(), r.key()) for r in batch.op]
            found.extend(proof for proof in proofs if proof)

        reader.begin(reader.half_end(), None)
        replay(reader, look, is_fed_to=lambda _: True, **options)
        return found[0] if found else None

    patch.setattr(proven_pair, "newest_proven_pair", oldest_proven_pair)


def lost_watermarks_mean_the_beginning_of_both_logs(patch: Patch) -> None:
    """Of which one may begin earlier again than the other, after a broker has died."""
    original = proven_pair.newest_proven_pair

    def newest_proven_pair(reader, **options):
        stored = reader.committed_positions()
        return original(reader, **options) if stored[1] is not None else None

    patch.setattr(proven_pair, "newest_proven_pair", newest_proven_pair)


def what_no_op_record_proves_is_deleted(patch: Patch) -> None:
    """As releases without proofs do it: every second step is of one."""
    count = itertools.count()

    def write(half_watermark, op_watermark):
        proof = write_proof(half_watermark, op_watermark)
        return proof if next(count) % 2 else proof._replace(key=b"")

    patch.setattr(turn, "write_proof", write)


def the_proof_is_not_in_the_step_that_it_proves(patch: Patch) -> None:
    """It is written before: should the step be aborted, it names watermarks that never were."""
    original = SeveralWriter.write

    def write(self, targets, ops, half_watermark, op_watermark):
        kept = [op for op in ops if not read_proof(op_watermark, op.headers, op.key)]
        for value, headers, key in ops[len(kept) :]:
            place = self._op
            log_offset = self._world.kafka.append(*place, key, value, headers)
            self._world.stored(place, log_offset)
        return original(self, targets, kept, half_watermark, op_watermark)

    patch.setattr(SeveralWriter, "write", write)


#: What each must turn red. First the ones that every run tries, then those of `make mutations`.
RED = {
    guard_is_off: ("I1", "I3: parked twice"),
    group_metadata_is_not_sent: ("I7", "I1"),
    producers_are_never_fenced: ("I7", "I1"),
    offsets_are_read_before_fencing_with_one_fence: ("I7", "I1", "I8"),
    position_instead_of_watermark: ("I8",),
    op_log_is_read_uncommitted: ("I8", "I1"),
    the_readable_end_is_taken_for_the_end: ("I1", "I3"),
    unknown_is_taken_for_failed_and_only_watermarks_are_compared: ("I1", "I3: parked twice"),
    a_refused_write_is_judged_by_what_can_be_described: ("I11",),
    owners_take_what_their_own_doors_take: ("I11", "I1: parked without need"),
    owners_forward_to_what_their_own_doors_allow: ("I1: parked without need",),
    what_the_parked_topic_refuses_is_tried_at_once_again: ("I11",),
    a_copy_that_is_refused_fails_the_steps_of_all: ("I11",),
    old_watermarks_stop_the_partition: ("I11",),
    an_older_proven_pair_is_taken: ("I11",),
    what_no_op_record_proves_is_deleted: ("I11",),
    lost_watermarks_mean_the_beginning_of_both_logs: ("I8", "I14"),
}
MORE_RED = {
    the_guard_goes_deaf: ("I1", "I3: parked twice"),
    what_our_own_topics_refuse_is_blamed_on_transactions: ("I1: parked without need",),
    guard_believes_in_slowness_alone: ("I1", "I3: parked twice"),
    a_suspect_producer_is_used_again: ("I1", "I3: parked twice"),
    all_partitions_share_one_producer: ("I11",),
    neither_generation_nor_fencing: ("I7", "I1"),
    logs_are_read_before_fencing_with_one_fence: ("I7", "I1", "I8"),
    # The stamp beside the watermarks tells, unless the group's offsets are lost at that moment.
    unknown_is_taken_for_failed: ("I1", "I3: parked twice"),
    # The same; but a check goes out before the next step finds that its number is in no log.
    unknown_is_taken_for_done: ("I3",),
    unknown_is_taken_for_done_and_only_watermarks_are_compared: ("I8", "I3"),
    an_aborted_step_is_not_given_again: ("I8",),
    op_position_instead_of_watermark: ("I8",),
    half_log_is_read_uncommitted: ("I3",),
    marks_of_others_are_no_sign: ("a bug",),
    the_proof_is_not_in_the_step_that_it_proves: ("I8", "I1", "I11"),
}
#: Each is held by something else as well: alone it must change nothing, and says so when it does.
HELD_TWICE = [
    offsets_are_read_before_fencing,  # the generation, and what is unstable is waited for
    logs_are_read_before_fencing,
    unstable_offsets_are_taken,  # whoever fences waits for the markers
    stored_watermarks_are_not_compared,  # nobody who is not the owner can write
    only_watermarks_are_compared,
    what_was_heard_while_it_was_made_is_forgotten,  # all lines are heard
    suppressed_lines_are_not_heard,  # a producer is made in silence
    who_is_left_behind_may_go_on,  # its thread ends with the turn in which it hangs
]


def check_red(mutation: Callable[[Patch], None], invariants: tuple[str, ...], patch: Patch) -> None:
    mutation(patch)
    seed, why = first_red(invariants)
    print(f"seed {seed}: {why[:200]}")
    assert seed >= 0, f"not found in {SEEDS_MAX} lives"


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutation", RED, ids=lambda mutation: mutation.__name__)
def test_it_is_red_without(mutation: Callable[[Patch], None], monkeypatch: Patch) -> None:
    check_red(mutation, RED[mutation], monkeypatch)


@pytest.mark.mutation
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutation", MORE_RED, ids=lambda mutation: mutation.__name__)
def test_the_simulation_finds(mutation: Callable[[Patch], None], monkeypatch: Patch) -> None:
    check_red(mutation, MORE_RED[mutation], monkeypatch)


@pytest.mark.mutation
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutation", HELD_TWICE, ids=lambda mutation: mutation.__name__)
def test_one_of_two_is_enough(mutation: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutation(monkeypatch)
    for seed in range(100):
        lived_together(seed)
