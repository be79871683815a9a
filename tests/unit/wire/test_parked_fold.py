"""What is parked now, out of records in any interleaving of their partitions."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfhitch.core.model import ProducerGroup, TransactionId
from halfhitch.wire import parked_fold
from halfhitch.wire.half import HalfRecord, Headers, system_headers
from halfhitch.wire.parked import (
    CHECKS_EXHAUSTED,
    LATE,
    UNDELIVERABLE,
    LateDecision,
    Parked,
    Resumed,
    note_headers,
    parked_headers,
)
from halfhitch.wire.parked_fold import ParkedAt, ParkedFold, Parking

Record = tuple[ParkedAt, int, Headers]


def identity(name: str) -> tuple[ProducerGroup, TransactionId]:
    return ProducerGroup("shop"), TransactionId(name)


def message(
    name: str, index: int, place: ParkedAt, half_offset: int, reason: str = CHECKS_EXHAUSTED,
    decision: str | None = None, topic: str = "orders", parked_ms: int = 100,
    half_partition: int = 3,
) -> Record:  # fmt: skip
    half = HalfRecord(name, "shop", index, 5, "node-1", topic)
    why = Parked(reason, "why", half_partition, half_offset, decision, 15, 50)
    return place, parked_ms, parked_headers(system_headers(half), why)


def resumed(place: ParkedAt, name: str, *parked_at: ParkedAt, fence: int = 100) -> Record:
    note = Resumed("shop", name, 3, list(parked_at), 1, "because", "ann", None, fence)
    return place, 200, note_headers(note)


def decided(
    place: ParkedAt, name: str, decision: str, op_offset: int, half_partition: int = 3
) -> Record:
    note = LateDecision(
        "shop", name, decision, half_partition, op_offset, f"at {op_offset}", "check"
    )
    return place, 150, note_headers(note)


def folded(*records: Record, **options: object) -> ParkedFold:
    fold = ParkedFold(**options)  # type: ignore[arg-type]
    for place, stored_ms, headers in records:
        fold.take(place, stored_ms, 7, headers)
    return fold


def test_messages_of_one_transaction_are_together_by_their_index() -> None:
    fold = folded(
        message("T1", 2, (0, 0), 12, topic="points"),
        message("T2", 0, (0, 1), 20, parked_ms=90),
        message("T1", 0, (1, 0), 10, parked_ms=99),
        message("T1", 1, (1, 1), 11),
    )
    second, first = fold.parkings()
    assert (second.identity, first.identity) == (identity("T2"), identity("T1"))
    assert [m.index for m in first.messages] == [0, 1, 2]
    assert (first.topics, first.parked_ms, first.size_bytes) == (("orders", "points"), 99, 21)
    assert (first.half_partition, first.decision, first.stored_ms) == (3, None, 50)
    assert fold.parkings(identity("T1")) == [first]
    assert fold.parkings(identity("T9")) == []


def test_what_a_note_names_is_not_parked_wherever_the_note_is_read() -> None:
    both = message("T1", 0, (0, 5), 10), message("T1", 1, (1, 5), 11)
    note = resumed((2, 0), "T1", (0, 5), (1, 5))
    for records in ((*both, note), (note, *both), (both[0], note, both[1])):
        fold = folded(*records)
        assert fold.parkings() == []
        assert len(fold) == 0


def test_a_transaction_parked_again_after_a_resume_is_parked() -> None:
    fold = folded(
        message("T1", 0, (0, 5), 10), resumed((1, 0), "T1", (0, 5)), message("T1", 0, (0, 6), 30)
    )
    [parking] = fold.parkings()
    assert [m.place for m in parking.messages] == [(0, 6)]


def test_an_id_that_was_used_anew_is_two_transactions() -> None:
    fold = folded(
        message("T1", 0, (0, 0), 10), message("T1", 1, (1, 0), 11),
        message("T1", 0, (1, 1), 50), message("T1", 1, (0, 1), 51), message("T1", 2, (0, 2), 52),
        message("T1", 0, (0, 3), 10, half_partition=4),
    )  # fmt: skip
    lives = [[m.why.half_offset for m in parking.messages] for parking in fold.parkings()]
    assert sorted(lives) == [[10], [10, 11], [50, 51, 52]]
    other = folded(message("T1", 0, (0, 0), 10), message("T1", 1, (0, 1), 11, reason=UNDELIVERABLE))
    assert len(other.parkings()) == 2


def test_what_came_late_belongs_to_what_was_given_up_whichever_is_read_first() -> None:
    records = (
        message("T1", 0, (0, 0), 10), message("T1", 1, (1, 0), 11),
        message("T1", 2, (1, 1), 30, reason=LATE), message("T1", 3, (0, 1), 31, reason=LATE),
    )  # fmt: skip
    for order in (records, records[::-1]):
        [parking] = folded(*order).parkings()
        assert [m.index for m in parking.messages] == [0, 1, 2, 3]
        assert parking.first.why.reason == CHECKS_EXHAUSTED
    # It came before the others were put back, and those are parked again: it goes with them.
    again = message("T1", 0, (0, 3), 50), message("T1", 1, (0, 4), 51)
    put_back = resumed((0, 2), "T1", (0, 0), (1, 0))
    [parking] = folded(*records[:3], put_back, *again).parkings()
    assert [m.why.half_offset for m in parking.messages] == [50, 51, 30]
    # By itself it can be put back as well.
    [parking] = folded(*records[:3], put_back).parkings()
    assert [(m.index, m.why.reason) for m in parking.messages] == [(2, LATE)]


def test_the_first_decision_counts_and_that_of_the_parking_before_all() -> None:
    late = decided((0, 1), "T1", "c", 9), decided((1, 1), "T1", "r", 8)
    for notes in (late, late[::-1]):
        [parking] = folded(message("T1", 0, (0, 0), 10), *notes).parkings()
        assert (parking.decision, parking.decision_reason) == ("r", "at 8")
        assert parking.decision_source == "check"
    committed = message("T1", 0, (0, 0), 10, reason=UNDELIVERABLE, decision="c")
    [parking] = folded(committed, *late).parkings()
    assert (parking.decision, parking.decision_reason) == ("c", None)
    assert parking.decision_source is None  # not of one that came later
    elsewhere = decided((0, 1), "T1", "c", 9, half_partition=2)
    [parking] = folded(message("T1", 0, (0, 0), 10), elsewhere).parkings()
    assert parking.decision is None


def test_a_message_whose_target_cannot_be_read_is_parked_all_the_same() -> None:
    place, stored_ms, headers = message("T1", 0, (0, 0), 10, reason=UNDELIVERABLE)
    headers.insert(5, ("REAL_QID", b"x"))
    headers.insert(5, ("CHECK_IMMUNITY_TIME_IN_SECONDS", b"soon"))
    headers[3] = ("REAL_TOPIC", b"orders\xff")
    [parking] = folded((place, stored_ms, headers)).parkings()
    assert parking.topics == ("orders\ufffd",)
    assert parking.first.partition is None


@pytest.mark.parametrize(
    "headers", [None, [], [("HALFHITCH_PARKED", b"9{}")], message("T1", 0, (0, 0), 1)[2][-1:]]
)
def test_garbage_is_counted_and_passed_over(headers: Headers | None) -> None:
    fold = folded(message("T1", 0, (0, 0), 10))
    fold.take((0, 1), 1, 0, headers)
    assert (len(fold), fold.garbage_count) == (1, 1)


def test_more_than_can_be_kept_is_counted_and_one_of_them_can_be_looked_for() -> None:
    records = [message(f"T{n}", 0, (0, n), n) for n in range(5)]
    fold = folded(*records, kept_max=2)
    assert (len(fold.parkings()), fold.left_out_count) == (2, 3)
    fold.take(*_with_size(resumed((1, 0), "T4", (0, 4))))
    assert fold.left_out_count == 2
    only = folded(*records, decided((1, 0), "T4", "c", 1), kept_max=2, only=identity("T4"))
    [parking] = only.parkings()
    assert (parking.identity, parking.decision, only.left_out_count) == (identity("T4"), "c", 0)


def test_what_was_deleted_from_the_topic_is_forgotten() -> None:
    fold = folded(message("T1", 0, (0, 3), 10), message("T1", 1, (1, 3), 11))
    fold.forget_below(0, 4)
    assert fold.places(identity("T1")) == {(1, 3)}
    fold.take(*_with_size(resumed((1, 4), "T2", (0, 2))))  # of a record nobody will read any more
    fold.take(*_with_size(message("T2", 0, (0, 4), 12)))
    assert len(fold) == 2


def _with_size(record: Record) -> tuple[ParkedAt, int, int, Headers]:
    place, stored_ms, headers = record
    return place, stored_ms, 0, headers


@given(seed=st.integers(0, 2**32), partition_count=st.integers(1, 4))
def test_the_state_does_not_depend_on_how_partitions_interleave(
    seed: int, partition_count: int
) -> None:
    chance = random.Random(seed)
    logs: list[list[Record]] = [[] for _ in range(partition_count)]

    def append(make: object, *values: object) -> ParkedAt:
        partition = chance.randrange(partition_count)
        place = partition, len(logs[partition])
        logs[partition].append(_made(make, place, *values))
        return place

    expected: set[ParkedAt] = set()
    parked: dict[str, list[ParkedAt]] = {}
    for number in range(30):
        name = f"T{chance.randrange(5)}"
        if name in parked and chance.random() < 0.5:
            places = parked.pop(name)
            append("resumed", name, places, number)
            expected -= set(places)
        elif name not in parked:
            count = chance.randrange(1, 4)
            parked[name] = [append("message", name, index, number) for index in range(count)]
            expected |= set(parked[name])
        else:
            append("decided", name, chance.choice("cr"), number)

    def state(records: list[Record]) -> list[Parking]:
        return folded(*records).parkings()

    one_by_one = state([record for log in logs for record in log])
    assert {m.place for parking in one_by_one for m in parking.messages} == expected
    mixed: list[Record] = []
    rest = [list(log) for log in logs]
    while any(rest):
        mixed.append(chance.choice([log for log in rest if log]).pop(0))
    assert state(mixed) == one_by_one


def _made(kind: object, place: ParkedAt, *values: object) -> Record:
    if kind == "message":
        name, index, number = values
        return message(str(name), int(str(index)), place, int(str(number)) * 10 + int(str(index)))
    if kind == "resumed":
        name, places, number = values
        assert isinstance(places, list)
        return resumed(place, str(name), *places, fence=int(str(number)))
    name, decision, number = values
    return decided(place, str(name), str(decision), int(str(number)))


def test_how_often_it_was_put_back_before_is_told_by_its_halves() -> None:
    half = HalfRecord("T1", "shop", 0, 5, "node-1", "orders", first_stored_ms=0, resumed_count=2)
    why = Parked(CHECKS_EXHAUSTED, "why", 3, 10)
    fold = folded(
        message("T2", 0, (0, 0), 9), ((0, 1), 100, parked_headers(system_headers(half), why))
    )
    assert {p.identity[1]: p.resumed_count for p in fold.parkings()} == {"T1": 2, "T2": 0}


def test_whoever_looks_for_one_passes_over_the_decisions_of_the_others() -> None:
    records = (
        message("T1", 0, (0, 0), 10),
        decided((0, 1), "T2", "c", 70),
        decided((0, 2), "T1", "r", 71),
    )
    (parking,) = folded(*records, only=identity("T1")).parkings()
    assert parking.decision == "r"
    assert folded(*records, only=identity("T2")).parkings() == []


def test_decisions_beyond_what_is_kept_are_counted_and_those_kept_still_take_earlier_ones() -> None:
    fold = folded(
        decided((0, 0), "T1", "c", 70),
        decided((0, 1), "T2", "c", 71),
        decided((1, 0), "T1", "r", 60),
        kept_max=1,
    )
    assert fold.left_out_count == 1
    for place, stored_ms, headers in (message("T1", 0, (0, 2), 10),):
        fold.take(place, stored_ms, 7, headers)
    assert [p.decision for p in fold.parkings()] == ["r"]


def test_more_notes_of_unread_records_than_can_be_kept_stop_the_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To forget one would put its message back a second time."""
    monkeypatch.setattr(parked_fold, "_AHEAD_MAX", 2)
    fold = folded(resumed((0, 0), "T1", (1, 5), (2, 5)))
    place, stored_ms, headers = resumed((0, 1), "T2", (1, 6))
    with pytest.raises(OverflowError):
        fold.take(place, stored_ms, 7, headers)


def test_of_any_number_of_decisions_the_first_is_kept() -> None:
    late = [decided((0, n + 1), "T1", "c" if n else "r", 500 - n if n else 7) for n in range(300)]
    fold = folded(message("T1", 0, (0, 0), 10), *late)
    assert [p.decision for p in fold.parkings()] == ["r"]


def test_what_was_said_of_a_life_is_forgotten_only_when_all_was_read() -> None:
    early = decided((0, 0), "T1", "c", 70)
    note, anew = resumed((1, 0), "T1", (2, 0)), message("T1", 0, (2, 1), 500)
    former = message("T1", 0, (2, 0), 10)
    for records in ((note, early, former, anew), (early, former, anew, note)):
        assert [p.decision for p in folded(*records).parkings()] == [None]
    fold = folded(former, early, note, anew)
    fold.caught_up()
    fold.take(*_with_size(decided((0, 1), "T1", "r", 130)))
    assert [p.decision for p in fold.parkings()] == ["r"]


def test_a_decision_of_a_life_that_was_put_back_says_nothing_when_the_id_is_used_anew() -> None:
    fold = folded(
        message("T1", 0, (0, 0), 10),
        decided((0, 1), "T1", "c", 70),
        resumed((0, 2), "T1", (0, 0)),
        message("T1", 0, (0, 3), 500),  # long after, undecided
    )
    assert [p.decision for p in fold.parkings()] == [None]


def test_without_room_for_fences_decisions_of_former_lives_are_told_rather_than_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parked_fold, "_AHEAD_MAX", 0)
    fold = folded(
        resumed((0, 0), "T1"), decided((1, 0), "T1", "c", 70), message("T1", 0, (1, 1), 9)
    )
    assert [parking.decision for parking in fold.parkings()] == ["c"]
