"""What can be asked of a ledger, and its counts: right at each moment of whatever may happen."""

import random
from collections.abc import Iterator

from halfhitch.core.model import Identity, Resolution
from halfhitch.core.standing import Standing
from halfhitch.core.transaction import State
from harness.defaults import check_rules
from harness.ledger_script import LedgerScript, identity_of

RULES = check_rules(jitter=0.0, count_max=2)


def begun() -> LedgerScript:
    script = LedgerScript(rules=RULES)
    script.tick()
    return script


def counted(script: LedgerScript) -> tuple[int, int]:
    """Pending and decided, by looking at each of them."""
    known = list(script.ledger._by_identity.values())
    undecided = sum(1 for transaction in known if transaction.resolution is None)
    written = sum(1 for transaction in known if transaction.state is State.WRITTEN)
    return undecided, len(known) - undecided - written


def test_giving_up_is_told_in_its_own_words() -> None:
    script = begun()
    script.half("T1")
    assert script.standing("T1") is Standing.PENDING
    script.give_up("T1")
    assert script.standing("T1") is Standing.GIVING_UP
    step = script.written()
    assert script.standing("T1") is Standing.GIVEN_UP
    script.read_back(step)
    assert script.standing("T1") is Standing.GIVEN_UP
    script.resume("T1")
    assert script.standing("T1") is Standing.PENDING


def test_a_transaction_stays_pending_while_it_is_appended_anew() -> None:
    script = begun()
    script.half("T1")
    script.pass_time(RULES.immunity_ms)
    step = script.planned(permits=1)
    assert script.standing("T1") is Standing.PENDING
    script.ledger.confirm(step)
    assert script.standing("T1") is Standing.PENDING
    assert script.ledger.counts == (1, 0, 0, 0)
    script.read_back(step)
    assert script.ledger.counts == (1, 0, 0, 0)


def test_the_pending_are_told_in_the_order_of_their_first_halves() -> None:
    script = begun()
    for name in ("T3", "T1", "T2"):
        script.half(name)
    script.commit("T1")
    assert [transaction.identity[1] for transaction in script.ledger.pending()] == ["T3", "T2"]


def test_only_what_is_unfinished_can_be_found() -> None:
    script = begun()
    assert script.ledger.find(identity_of("T1")) is None
    script.half("T1")
    assert script.transaction("T1").identity == identity_of("T1")
    script.commit("T1")
    script.carried_out()
    assert script.ledger.find(identity_of("T1")) is None


def test_giving_up_what_nobody_knows_ends_nothing_that_is_read_later() -> None:
    script = begun()
    script.give_up("T1")
    assert script.plan() is None
    script.half("T1")
    assert script.standing("T1") is Standing.PENDING
    assert script.plan() is None


def test_giving_up_what_is_decided_changes_nothing_and_nobody_has_lost() -> None:
    script = begun()
    script.half("T1")
    script.commit("T1")
    script.give_up("T1")
    step = script.carried_out()
    assert (step.forwards, step.conflicts, step.notes) == ([[0]], [], [])
    script.give_up("T1")
    assert script.plan() is None


def test_giving_up_twice_is_giving_up_once() -> None:
    script = begun()
    script.half("T1")
    script.give_up("T1")
    script.give_up("T1")
    step = script.carried_out()
    assert (len(step.done), step.notes) == (1, [])
    assert script.plan() is None


def test_what_is_decided_after_the_giving_up_is_noted_and_whoever_asks_is_answered() -> None:
    script = begun()
    script.half("T1")
    script.give_up("T1")
    script.carried_out()
    late = script.roll_back("T1")
    step = script.carried_out()
    assert [(n.identity[1], n.resolution, n.op_offset) for n in step.notes] == [
        ("T1", Resolution.ROLLBACK, late)
    ]
    assert [mark.half_offsets for mark in step.done] == [[]]
    assert step.conflicts == []
    assert script.plan() is None


def test_notes_of_an_aborted_step_are_written_by_the_next() -> None:
    script = begun()
    script.half("T1")
    script.give_up("T1")
    script.commit("T1")
    step = script.planned()
    assert len(step.notes) == 1
    script.ledger.abort(step)
    assert len(script.carried_out().notes) == 1
    assert script.plan() is None


class Walk:
    """Whatever may happen to a handful of transactions, drawn by lot."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.script = begun()
        self.lives = dict[str, int]()

    def step(self) -> None:
        name = f"T{self.dice.randrange(6)}"
        match self.dice.randrange(9):
            case 0 | 1:
                self.script.half(name, self.dice.randrange(2))
            case 2:
                self.script.commit(name, self.dice.randrange(1, 3))
            case 3:
                self.script.roll_back(name)
            case 4:
                self.script.give_up(name)
            case 5:
                self.script.pass_time(self.dice.choice([1_000, 70_000]))
            case 6:
                self._report(name)
            case 7:
                self._resume(name)
            case _:
                self._carry_out()

    def _report(self, name: str) -> None:
        transaction = self.script.ledger.find(identity_of(name))
        if transaction is not None:
            lost = self.dice.random() < 0.3
            number, counted = transaction.check_count, self.dice.random() < 0.5
            self.script.report(name, number, is_counted=counted, is_lost=lost)

    def _resume(self, name: str) -> None:
        if self.script.standing(name) in (Standing.GIVEN_UP, Standing.PARKED):
            self.lives[name] = self.lives.get(name, 0) + 1
            born = self.dice.choice([None, Resolution.COMMIT, Resolution.ROLLBACK])
            self.script.resume(name, self.lives[name], born=born)

    def _carry_out(self) -> None:
        for transaction in self.script.ledger.checks.given_up(10):
            assert transaction.messages()
            self.script.ledger.checks.postpone(transaction)
        step = self.script.plan(message_count_max=self.dice.choice([1, 100]), permits=2)
        if step is None:
            return
        if self.dice.random() < 0.3:
            self.script.ledger.abort(step)
            return
        self.script.ledger.confirm(step)
        assert self.script.ledger.counts[:2] == counted(self.script)
        self.script.read_back(step)


def walks() -> Iterator[Walk]:
    """One for each seed, which is shown if something fails."""
    for seed in range(60):
        print(f"{seed=}")
        yield Walk(seed)


def test_the_counts_are_right_at_each_moment_whatever_happens() -> None:
    for walk in walks():
        for _ in range(150):
            walk.step()
            assert walk.script.ledger.counts[:2] == counted(walk.script)
            told: set[Identity] = {t.identity for t in walk.script.ledger.pending()}
            assert len(told) == walk.script.ledger.counts[0]


def test_nothing_is_left_when_all_is_decided_whatever_happened_before() -> None:
    for walk in walks():
        for _ in range(150):
            walk.step()
        nothing_is_left(walk.script)


def nothing_is_left(script: LedgerScript) -> None:
    """Decide all, carry it out, and look."""
    for _ in range(40):
        for transaction in list(script.ledger.pending()):
            script.commit(transaction.identity[1], 2)
        script.pass_time(RULES.incomplete_ms // 10)
        if (step := script.plan()) is not None:
            script.ledger.confirm(step)
            script.read_back(step)
    assert script.ledger.counts[:2] == (0, 0)
    assert script.plan(permits=9) is None
    marks = script.ledger._marks
    assert marks._open == {}
    assert script.ledger.checks.asleep_count == 0
    script.half("LAST")
    script.commit("LAST")
    assert script.planned().half_watermark == script.next_half
