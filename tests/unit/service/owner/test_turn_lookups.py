"""Questions to an owner's ledger: each is answered, or refused with a reason."""

from __future__ import annotations

import threading

import pytest

from halfhitch.core.ledger import Ledger
from halfhitch.errors import KafkaUnavailable, Overloaded
from halfhitch.service.api import Filter
from halfhitch.service.owner.turn_lookups import WAITING_MAX, TurnLookups
from harness.defaults import check_rules
from harness.twin import Twin, turn_until_idle

LEDGER = Ledger(half_position=0, op_position=0, horizon_ms=1, finished_max=1, rules=check_rules())


def test_a_question_is_answered_in_the_next_turn_and_its_error_is_the_askers() -> None:
    questions = TurnLookups(0)
    answered = questions.ask(lambda ledger: ledger.early_count)
    failed = questions.ask(lambda _: 1 // 0)
    questions.answer(LEDGER)
    assert answered.result(0) == 0
    assert isinstance(failed.exception(0), ZeroDivisionError)


def test_one_question_too_many_took_the_place_of_another_that_was_never_answered() -> None:
    questions = TurnLookups(3)
    asked = [questions.ask(lambda _: True) for _ in range(WAITING_MAX + 1)]
    with pytest.raises(Overloaded, match="half partition 3"):
        asked.pop().result(0)
    questions.answer(LEDGER)
    assert all(future.result(0) for future in asked)


def test_nobody_waits_for_an_owner_that_has_gone() -> None:
    questions = TurnLookups(3)
    before = questions.ask(lambda _: True)
    gave_up = questions.ask(lambda _: True)
    gave_up.cancel()
    questions.end()
    after = questions.ask(lambda _: True)
    for future in (before, after):
        with pytest.raises(KafkaUnavailable, match="half partition 3 is being taken over"):
            future.result(0)
    assert gave_up.cancelled()


def test_whoever_asks_while_the_owner_goes_gets_an_answer() -> None:
    for _ in range(200):
        questions = TurnLookups(0)
        owner = threading.Thread(target=questions.end)
        owner.start()
        asked = [questions.ask(lambda _: True) for _ in range(20)]
        owner.join()
        assert all(isinstance(future.exception(1), KafkaUnavailable) for future in asked)


def test_one_that_is_named_is_not_looked_for_among_all_that_are_pending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    twin = Twin()
    owner = twin.working_owner()
    for name in ("T1", "T2", "T3"):
        twin.half(name)
    turn_until_idle(owner)
    twin.commit("T3")
    monkeypatch.setattr(Ledger, "pending", lambda _: pytest.fail("all were looked through"))
    named = [Filter(producer_group="group", transaction_id=name) for name in ("T2", "T3", "T4")]
    asked = [owner.checkback.undecided(wanted) for wanted in named]
    owner.checkback._numbers_s = twin.clock.monotonic_s()  # the count of a second looks at them all
    owner.turn(0.0)
    found = [[shown.transaction_id for shown in future.result(0)[0]] for future in asked]
    assert found == [["T2"], [], []]
    other = owner.checkback.undecided(
        Filter(producer_group="group", transaction_id="T2", check_count_min=1)
    )
    owner.turn(0.0)
    assert other.result(0) == ([], 0), "other conditions hold too"


def test_whoever_asks_wakes_the_owner_and_whoever_asks_too_late_does_not() -> None:
    woken: list[int] = []
    questions = TurnLookups(0, lambda: woken.append(1))
    questions.ask(lambda _: True)
    assert woken == [1]
    questions.end()
    questions.ask(lambda _: True)
    assert woken == [1]
