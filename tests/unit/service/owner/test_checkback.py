"""The owner's side of the check-back, on a Kafka in memory with producers that do as told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch.adapters.memory import WriteFault
from halfhitch.core.check_rules import CheckRules
from halfhitch.core.model import COPIED, GIVEN_UP, DoneRead, Resolution
from halfhitch.core.standing import Standing
from halfhitch.service.api import Filter
from halfhitch.service.checking.api import CheckOutcome
from halfhitch.service.checking.policy import GiveUpPolicy
from halfhitch.service.owner.turn import OutcomeLostError, StepFailedError
from halfhitch.wire import half as half_wire
from halfhitch.wire.parked import CHECKS_EXHAUSTED, TOO_OLD, LateDecision, Parked, read_parked
from harness.defaults import check_rules, owner_limits
from harness.twin import PARKED, BlindReader, RecordingWriter, Twin, identity, turn_until_idle

if TYPE_CHECKING:
    from halfhitch.service.owner.turn import PartitionOwner
    from halfhitch.wire.check import Check

RULES = check_rules(
    immunity_ms=6_000, interval_ms=60_000, jitter=0.0, count_max=3, renew_ms=600_000,
    age_ms_max=7_200_000,
)  # fmt: skip


def twin_with_producers(room: int = 10, rules: CheckRules = RULES) -> Twin:
    twin = Twin(limits=owner_limits(check_rules=rules))
    twin.gate.room = room
    return twin


def pass_time(twin: Twin, owner: PartitionOwner, seconds: float) -> None:
    """In steps, as turns come."""
    while seconds > 0:
        part = min(seconds, 1.0)
        twin.clock.advance(part)
        seconds -= part
        turn_until_idle(owner)


def numbers(twin: Twin) -> list[int]:
    return [check.number for check in twin.gate.sent]


def halves(twin: Twin) -> list[half_wire.HalfRecord]:
    found = []
    for record in twin.kafka.committed(twin.kafka.half_topic):
        half = half_wire.read_record(record.offset(), record.headers())
        assert isinstance(half, half_wire.HalfRecord)
        found.append(half)
    return found


def checked_once(twin: Twin, owner: PartitionOwner) -> Check:
    twin.half("T1", value=b"one")
    turn_until_idle(owner)
    pass_time(twin, owner, 7)
    assert numbers(twin) == [1]
    return twin.gate.sent[0]


def test_a_copy_made_for_a_check_is_not_counted_as_a_forwarded_message() -> None:
    twin = twin_with_producers()
    checked_once(twin, twin.working_owner())
    assert [told[3] for told in twin.observer.of("kafka_transaction")] == [0]


def test_a_group_that_was_forgotten_and_is_prepared_for_natively_was_never_noticed_again() -> None:
    """The link of a URL goes when there are too many groups; only interpreted prepares met it."""
    twin = twin_with_producers(room=0)
    owner = twin.working_owner()
    noticed: list[str] = []
    owner.checkback._on_nobody = noticed.append
    twin.half("T1", value=b"one")
    turn_until_idle(owner)
    pass_time(twin, owner, 9)
    assert noticed == [identity("T1")[0]]
    pass_time(twin, owner, 30)
    assert 2 <= len(noticed) <= 4


def test_nobody_is_asked_while_the_op_log_is_not_read_to_its_end() -> None:
    twin = twin_with_producers()
    reader = BlindReader(twin.kafka, twin.calls)
    owner = twin.working_owner(reader=reader)
    twin.half("T1", value=b"one")
    twin.half("T2", value=b"two")
    turn_until_idle(owner)
    reader.set_blind(blind=True, log=1)
    twin.commit("T1")
    pass_time(twin, owner, 20)
    assert twin.gate.sent == []
    reader.set_blind(blind=False, log=1)
    pass_time(twin, owner, 1)
    assert [check.identity for check in twin.gate.sent] == [identity("T2")]
    assert twin.values() == [b"one"]


def test_who_is_decided_while_the_step_with_his_check_is_out_is_not_asked() -> None:
    """A process that is stopped in the middle of a Kafka transaction goes on as if nothing were."""
    twin = twin_with_producers()
    writer = RecordingWriter(twin.kafka, twin.calls)
    owner = twin.working_owner(writer=writer)
    twin.half("T1", value=b"one")
    twin.half("T2", value=b"two")
    turn_until_idle(owner)

    def stopped() -> None:
        writer.before_write = None
        twin.commit("T1")
        twin.clock.advance(9)

    writer.before_write = stopped
    pass_time(twin, owner, 10)
    assert [(c.identity, c.number) for c in twin.gate.sent] == [(identity("T2"), 1)]
    assert twin.values() == [b"one"]


def test_nobody_is_asked_while_the_end_of_the_op_log_cannot_be_learned() -> None:
    twin = twin_with_producers()
    owner = twin.working_owner()
    twin.half("T1", value=b"one")
    turn_until_idle(owner)
    twin.kafka.faults.is_away = True
    twin.clock.advance(7)
    owner.turn(0.0)
    assert twin.gate.sent == []
    twin.kafka.faults.is_away = False
    pass_time(twin, owner, 1)
    assert numbers(twin) == [1]


def test_an_undecided_transaction_is_checked_after_its_immunity_and_not_before() -> None:
    twin = twin_with_producers()
    owner = twin.working_owner()
    twin.half("T1", value=b"one")
    turn_until_idle(owner)
    pass_time(twin, owner, 5.9)
    assert twin.gate.sent == []
    pass_time(twin, owner, 0.3)
    (check,) = twin.gate.sent
    assert check.identity == identity("T1")
    assert (check.number, check.number_max) == (1, 3)
    assert check.age_ms >= 6_000
    assert [message.value for message in check.messages] == [b"one"]
    assert twin.gate.taken == 0


def test_the_number_is_in_the_log_before_the_check_is_handed_over() -> None:
    twin = twin_with_producers()
    owner = twin.working_owner()
    checked_once(twin, owner)
    first, copy = halves(twin)
    assert (first.check_count, copy.check_count) == (0, 1)
    assert copy.first_half_offset == 0
    copied = [e for e in twin.ops() if isinstance(e, DoneRead)]
    assert [(entry.ending, entry.half_offsets) for entry in copied] == [(COPIED, (0,))]
    assert twin.stored()[0] == 1, "the watermark moves with the check"


def test_a_step_that_is_aborted_delivers_nothing_and_gives_its_permits_back() -> None:
    twin = twin_with_producers()
    owner = twin.working_owner()
    twin.half("T1")
    turn_until_idle(owner)
    twin.kafka.faults.writes = [WriteFault.ABORTED]
    with pytest.raises(StepFailedError):
        pass_time(twin, owner, 7)
    assert (twin.gate.sent, twin.gate.taken) == ([], 0)
    turn_until_idle(owner)
    assert numbers(twin) == [1]


def test_a_step_whose_outcome_is_lost_gives_its_permits_back_and_the_next_owner_asks() -> None:
    twin = twin_with_producers()
    owner = twin.working_owner()
    twin.half("T1")
    turn_until_idle(owner)
    twin.kafka.faults.writes = [WriteFault.COMMITTED_UNSEEN]
    with pytest.raises(OutcomeLostError):
        pass_time(twin, owner, 7)
    owner.close()
    assert (twin.gate.sent, twin.gate.taken) == ([], 0)
    successor = twin.working_owner()
    turn_until_idle(successor)
    pass_time(twin, successor, 70)
    assert numbers(twin) == [1], "number 1 is in the log and was not delivered: it is sent now"
    assert twin.gate.sent[0].is_repeat


def test_without_live_producers_nothing_is_written_and_nothing_counted() -> None:
    """RocketMQ 475 and 1789: an outage of the producers burns the checks there."""
    twin = twin_with_producers(room=0)
    owner = twin.working_owner()
    twin.half("T1")
    turn_until_idle(owner)
    pass_time(twin, owner, 500)
    assert len(halves(twin)) == 1
    twin.gate.room = 1
    pass_time(twin, owner, 1)
    assert numbers(twin) == [1]


def test_the_next_number_follows_only_a_delivery() -> None:
    twin = twin_with_producers()
    owner = twin.working_owner()
    first = checked_once(twin, owner)
    twin.gate.answer(owner.checkback, first, CheckOutcome.UNDELIVERED)
    pass_time(twin, owner, 3)
    assert numbers(twin) == [1, 1]
    twin.gate.answer(owner.checkback, twin.gate.sent[-1], CheckOutcome.UNKNOWN)
    pass_time(twin, owner, 55)
    assert numbers(twin) == [1, 1]
    pass_time(twin, owner, 10)
    assert numbers(twin) == [1, 1, 2]


def test_a_producer_that_dies_of_the_question_is_not_asked_for_ever() -> None:
    twin = twin_with_producers()
    owner = twin.working_owner()
    checked_once(twin, owner)
    answered = 0
    for _ in range(40):
        for check in twin.gate.sent[answered:]:
            twin.gate.answer(owner.checkback, check, CheckOutcome.LOST)
        answered = len(twin.gate.sent)
        pass_time(twin, owner, 60)
    assert {number: numbers(twin).count(number) for number in (1, 2, 3)} == {1: 3, 2: 3, 3: 3}
    assert [entry[1] for entry in twin.gate.decided][:1] == [Resolution.PARK]


def test_a_decision_ends_the_checks_and_forgets_the_question() -> None:
    """RocketMQ 9640 and 1517: committed, and checked all the same."""
    twin = twin_with_producers()
    owner = twin.working_owner()
    checked_once(twin, owner)
    twin.commit("T1")
    turn_until_idle(owner)
    assert twin.values() == [b"one"]
    assert twin.gate.forgotten == [identity("T1")]
    pass_time(twin, owner, 300)
    assert numbers(twin) == [1]


def test_a_late_commit_that_names_the_old_offsets_ends_the_copy_too() -> None:
    """RocketMQ 8158: it is delivered there, and the copy is checked on and delivered again."""
    twin = twin_with_producers()
    owner = twin.working_owner()
    checked_once(twin, owner)
    twin.commit("T1", hints=(0,))
    turn_until_idle(owner)
    pass_time(twin, owner, 1_000)
    assert twin.values() == [b"one"]
    assert numbers(twin) == [1]
    assert (
        twin.stored()[0] == twin.kafka.log(twin.kafka.half_topic, 0).stable_end
        or (twin.stored()[0] or 0) >= 2
    )


def test_a_long_immunity_costs_no_checks() -> None:
    """RocketMQ 615, 8311 and 9320: each pass within the immunity burns one of the checks there."""
    twin = twin_with_producers()
    owner = twin.working_owner()
    record = half_wire.HalfRecord("T1", identity("T1")[0], 0, 0, "i", "orders", immunity_s=300)
    twin.kafka.append(
        twin.kafka.half_topic, 0, None, b"one", half_wire.system_headers(record), None
    )
    turn_until_idle(owner)
    pass_time(twin, owner, 299)
    assert (twin.gate.sent, len(halves(twin))) == ([], 1)
    pass_time(twin, owner, 2)
    assert numbers(twin) == [1]


def exhausted(twin: Twin) -> PartitionOwner:
    owner = twin.working_owner()
    twin.half("T1", value=b"one", key=b"k", headers=[("a", b"1")])
    turn_until_idle(owner)
    for number in (1, 2, 3):
        while len(twin.gate.sent) < number:
            pass_time(twin, owner, 1)
        why = f"RuntimeError: {number}"
        twin.gate.answer(owner.checkback, twin.gate.sent[-1], CheckOutcome.UNKNOWN, why)
        turn_until_idle(owner)
    pass_time(twin, owner, 61)
    assert numbers(twin) == [1, 2, 3]
    return owner


def carry_out(twin: Twin, owner: PartitionOwner) -> None:
    """What the desk does with a decision by policy: it goes into the op log."""
    its_identity, resolution, covered, _ = twin.gate.decided[-1]
    twin.decide(resolution, its_identity[1], covered=covered)
    turn_until_idle(owner)


def test_after_the_last_check_it_is_parked_once_with_everything() -> None:
    twin = twin_with_producers()
    owner = exhausted(twin)
    carry_out(twin, owner)
    pass_time(twin, owner, 300)
    (record,) = twin.kafka.committed(PARKED)
    why = read_parked(0, record.headers())
    assert isinstance(why, Parked)
    assert (why.reason, why.check_count, why.last_answer) == (CHECKS_EXHAUSTED, 3, "unknown")
    assert why.last_reason == "RuntimeError: 3"
    assert (record.key(), record.value()) == (b"k", b"one")
    assert ("a", b"1") in (record.headers() or [])
    assert twin.values() == []
    assert owner.standing(identity("T1"), 0) is Standing.GIVEN_UP
    endings = [e.ending for e in twin.ops() if isinstance(e, DoneRead)]
    assert endings.count(GIVEN_UP) == 1


@pytest.mark.parametrize(("policy", "values"), [("commit", [b"one"]), ("rollback", [])])
def test_other_policies_decide_instead_of_parking(policy: str, values: list[bytes]) -> None:
    twin = twin_with_producers()
    twin.give_up = GiveUpPolicy("park", [f"ord*={policy}"])
    owner = exhausted(twin)
    carry_out(twin, owner)
    assert twin.values() == values
    assert list(twin.kafka.committed(PARKED)) == []


def test_a_commit_that_lies_before_the_giving_up_wins() -> None:
    twin = twin_with_producers()
    owner = exhausted(twin)
    twin.commit("T1")
    carry_out(twin, owner)
    assert twin.values() == [b"one"]
    assert list(twin.kafka.committed(PARKED)) == []


def test_an_answer_after_the_giving_up_is_written_beside_what_is_parked() -> None:
    twin = twin_with_producers()
    owner = exhausted(twin)
    carry_out(twin, owner)
    op_offset = twin.decide(Resolution.COMMIT, "T1", reason="it was paid")
    turn_until_idle(owner)
    found = [read_parked(0, record.headers()) for record in twin.kafka.committed(PARKED)]
    (note,) = (note for note in found if isinstance(note, LateDecision))
    assert (note.decision, note.op_offset, note.reason) == ("c", op_offset, "it was paid")
    assert len(found) == 2
    assert twin.values() == []


def test_a_pending_one_is_renewed_without_counting_when_it_is_old_and_nobody_can_be_asked() -> None:
    twin = twin_with_producers(room=0)
    owner = twin.working_owner()
    twin.half("T1", value=b"one")
    turn_until_idle(owner)
    pass_time(twin, owner, 1_900)
    assert twin.observer.of("renewed") == [(1,)] * 3
    assert {half.check_count for half in halves(twin)} == {0}
    twin.gate.room = 1
    pass_time(twin, owner, 1)
    assert numbers(twin) == [1]


def test_one_that_is_too_old_is_given_up_whatever_its_count() -> None:
    twin = twin_with_producers(room=0)
    owner = twin.working_owner()
    twin.half("T1", value=b"one")
    turn_until_idle(owner)
    pass_time(twin, owner, 7_202)
    carry_out(twin, owner)
    (record,) = twin.kafka.committed(PARKED)
    why = read_parked(0, record.headers())
    assert isinstance(why, Parked)
    assert (why.reason, why.check_count) == (TOO_OLD, 0)


def test_one_that_is_given_up_was_counted_again_while_its_decision_was_not_stored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Kafka is half away: the op log takes nothing, and the decision is made again and again."""
    twin = twin_with_producers(room=0)
    owner = twin.working_owner()
    twin.half("T1")
    turn_until_idle(owner)
    pass_time(twin, owner, 7_300)
    assert len(twin.gate.decided) > 3
    assert twin.observer.of("given_up") == [("park", "too_old", 1)]
    assert caplog.text.count("T1 of group group is given up") == 1
    carry_out(twin, owner)
    twin.observer.calls.clear()
    twin.half("T2")
    turn_until_idle(owner)
    pass_time(twin, owner, 7_300)
    assert twin.observer.of("given_up") == [("park", "too_old", 1)]


@pytest.mark.parametrize("hours", [1, -1])
def test_a_wall_clock_that_jumps_hastens_and_delays_nothing(hours: int) -> None:
    twin = twin_with_producers()
    owner = twin.working_owner()
    twin.half("T1")
    turn_until_idle(owner)
    twin.clock.jump(hours * 3600)
    twin.half("T2")  # the broker's clock is the same one here
    turn_until_idle(owner)
    pass_time(twin, owner, 5.8)
    assert twin.gate.sent == []
    pass_time(twin, owner, 1)
    assert {check.identity[1] for check in twin.gate.sent} == {"T1", "T2"}


def test_at_a_takeover_a_clock_that_is_ahead_makes_nothing_older() -> None:
    twin = twin_with_producers()
    twin.half("T1")
    twin.clock.jump(3600)  # this machine only: the broker has stored it before
    owner = twin.working_owner()
    turn_until_idle(owner)
    assert twin.gate.sent == []
    pass_time(twin, owner, 7)
    assert numbers(twin) == [1]


def test_several_messages_are_checked_once_and_appended_anew_together() -> None:
    twin = twin_with_producers()
    owner = twin.working_owner()
    twin.half("T1", index=0, value=b"one")
    twin.half("T1", index=1, value=b"two")
    turn_until_idle(owner)
    pass_time(twin, owner, 7)
    (check,) = twin.gate.sent
    assert [message.value for message in check.messages] == [b"one", b"two"]
    assert [(h.index, h.check_count) for h in halves(twin)[2:]] == [(0, 1), (1, 1)]
    twin.commit("T1", covered=2)
    turn_until_idle(owner)
    assert twin.values() == [b"one", b"two"]


def test_a_group_without_room_does_not_hold_back_the_others() -> None:
    twin = twin_with_producers(room=2)
    owner = twin.working_owner()
    for number in range(5):
        twin.half(f"T{number}")
    turn_until_idle(owner)
    twin.half("U1")
    twin.commit("U1")
    pass_time(twin, owner, 7)
    assert twin.done_ids().count("U1") == 1
    assert len(twin.gate.sent) >= 2


def test_a_takeover_goes_on_with_the_numbers_of_the_log() -> None:
    twin = twin_with_producers()
    owner = twin.working_owner()
    check = checked_once(twin, owner)
    twin.gate.answer(owner.checkback, check, CheckOutcome.UNKNOWN)
    turn_until_idle(owner)
    owner.close()
    successor = twin.working_owner()
    turn_until_idle(successor)
    pass_time(twin, successor, 50)
    assert numbers(twin) == [1], "no sooner than the interval"
    pass_time(twin, successor, 15)
    assert numbers(twin) == [1, 1], "whether 1 was delivered was not in the log"
    assert twin.gate.sent[-1].is_repeat


def test_operators_see_why_a_check_could_not_be_answered() -> None:
    twin = twin_with_producers()
    owner = twin.working_owner()
    twin.half("T1")
    turn_until_idle(owner)
    while not twin.gate.sent:
        pass_time(twin, owner, 1)
    why = "RuntimeError: db down"
    twin.gate.answer(owner.checkback, twin.gate.sent[-1], CheckOutcome.UNKNOWN, why)
    asked = owner.checkback.undecided(Filter())
    turn_until_idle(owner)
    ((shown,), _) = asked.result(0)
    assert (shown.last_answer, shown.asked, shown.last_reason) == ("unknown", "producer-1", why)
    ledger = owner._ledger
    assert ledger is not None
    transaction = ledger.find(identity("T1"))
    assert transaction is not None
    assert owner.checkback.doubt(transaction).last_reason == why


def test_operators_see_what_is_undecided() -> None:
    twin = twin_with_producers()
    owner = twin.working_owner()
    checked_once(twin, owner)
    twin.half("T2", topic="points")
    turn_until_idle(owner)
    asked = owner.checkback.undecided(Filter())
    turn_until_idle(owner)
    found, count = asked.result(0)
    assert count == 2
    assert [(u.transaction_id, u.check_count, u.topics) for u in found] == [
        ("T1", 1, ("orders",)), ("T2", 0, ("points",)),
    ]  # fmt: skip
    asked = owner.checkback.undecided(Filter(topic="points"))
    turn_until_idle(owner)
    assert [u.transaction_id for u in asked.result(0)[0]] == ["T2"]


def test_an_operator_can_have_it_checked_at_once() -> None:
    twin = twin_with_producers()
    owner = twin.working_owner()
    twin.half("T1")
    turn_until_idle(owner)
    pass_time(twin, owner, 2)
    asked = owner.checkback.hasten(identity("T1"))
    turn_until_idle(owner)
    turn_until_idle(owner)
    assert asked.result(0) is True
    assert numbers(twin) == [1]
    unknown = owner.checkback.hasten(identity("T9"))
    turn_until_idle(owner)
    assert unknown.result(0) is False
