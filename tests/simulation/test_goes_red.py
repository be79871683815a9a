"""The simulation must be able to fail: each mistake here has to be found within so many lives.

Every mutation is a mistake somebody could make (some of them are RocketMQ's), put into the real
code for the time of one test. The four rules that the check-back stands on are tried in every run,
the others by `make mutations`.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from halfhitch.core import early, ledger
from halfhitch.core.age_limit import AgeLimit
from halfhitch.core.checks import Checks
from halfhitch.core.conflicts import Conflicts
from halfhitch.core.finished import Finished
from halfhitch.core.late import LateMarks
from halfhitch.core.ledger import Ledger
from halfhitch.core.model import DecisionRead, Resolution
from halfhitch.core.notes import LateNotes
from halfhitch.core.step import Step
from halfhitch.core.transaction import State, Transaction
from halfhitch.core.watermarks import Watermarks
from halfhitch.service.owner import payloads
from halfhitch.service.owner.calendar import Calendar
from halfhitch.service.owner.checkback import CheckBack
from halfhitch.service.owner.stories import Stories
from halfhitch.wire import half as half_wire
from halfhitch.wire.half import Garbage
from halfhitch.wire.parked_fold import ParkedFold
from harness.simulation.cluster import SimulatedReader
from harness.simulation.desk import Desk
from harness.simulation.ending import lived

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Patch = pytest.MonkeyPatch

SEEDS_MAX = 700


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    """The owner says what goes wrong, and here everything does."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def first_red() -> tuple[int, str]:
    """The first seed that is red, and why."""
    for seed in range(SEEDS_MAX):
        try:
            lived(seed)
        except (TypeError, AttributeError):
            raise  # the mutation fits the code no more: that shows nothing
        except Exception as error:  # noqa: BLE001 - a crash of the mutant is as red as a wrong end
            return seed, f"{type(error).__name__}: {error}"
    return -1, ""


# -- the four rules -----------------------------------------------------------------------------


def counted_when_it_is_written(patch: Patch) -> None:
    """Numbers burn while nobody is there."""
    original = Checks.copied

    def copied(self, order):
        original(self, order)
        order.transaction.is_delivered = True
        self._sleep(order.transaction)

    patch.setattr(Checks, "copied", copied)


def checked_after_the_decision(patch: Patch) -> None:
    """The desk's own list of what to ask is never told that something is decided."""
    original = CheckBack.sent_after

    def sent_after(self, step):
        before = getattr(self, "_kept", [])
        for check in before:
            self._gate.granted[check.identity[0]] += 1
        self._kept = list(self._questions_out)
        original(self, step)
        self._gate.send(before)

    patch.setattr(CheckBack, "sent_after", sent_after)


def offsets_are_the_identity(patch: Patch) -> None:
    """RocketMQ: a late commit with the old offsets does not stop the checks of the copy."""
    original = Ledger.decision

    def decision(self, event):
        transaction = self._by_identity.get(event.identity)
        if transaction is not None and transaction.check_count:
            offsets = transaction.half_offsets()
            if offsets and event.half_hint < min(offsets):
                self._marks.op_read(event.op_offset)
                return
        original(self, event)

    patch.setattr(Ledger, "decision", decision)


def redis_is_the_truth(patch: Patch) -> None:
    """What Redis says of numbers and deliveries counts more than the log."""
    original = CheckBack.tick

    def tick(self, ledger):
        if ledger.checks.now_ms is None and self._index is not None:
            for transaction in ledger.pending():
                doubt = self._index.known(transaction.identity)
                transaction.check_count = 0 if doubt is None else doubt.check_count
                transaction.is_delivered = True
        original(self, ledger)

    patch.setattr(CheckBack, "tick", tick)


# -- numbers and deliveries -----------------------------------------------------------------------


def redis_may_say_anything_about_deliveries(patch: Patch) -> None:
    def is_known(self, sent, offsets):
        doubt = self._twin.known(sent.identity)
        return doubt is not None and doubt.delivered >= sent.number

    patch.setattr(Desk, "_is_known", is_known)


def a_replay_takes_the_number_for_delivered(patch: Patch) -> None:
    original = Checks.found_copy

    def found_copy(self, transaction, check_count, stored_ms):
        original(self, transaction, check_count, stored_ms)
        transaction.is_delivered = True

    patch.setattr(Checks, "found_copy", found_copy)


def a_replay_forgets_the_number(patch: Patch) -> None:
    patch.setattr(Checks, "found_copy", lambda self, transaction, check_count, stored_ms: None)


def given_up_by_what_is_written(patch: Patch) -> None:
    original = Checks._wake

    def wake(self, transaction, now_ms):
        if transaction.check_count >= self.rules.count_max and not transaction.missing_count:
            transaction.is_delivered = True
            transaction.due_ms = min(transaction.due_ms, now_ms)
        original(self, transaction, now_ms)

    patch.setattr(Checks, "_wake", wake)


def lost_is_delivered(patch: Patch) -> None:
    original = Checks.reported

    def reported(self, *values, **more):
        original(self, *values, **(more | {"is_counted": True, "is_lost": False}))

    patch.setattr(Checks, "reported", reported)


def handed_over_before_it_is_in_the_log(patch: Patch) -> None:
    original = CheckBack.records

    def records(self, step, payload):
        result = original(self, step, payload)
        questions, self._questions_out, self._held = self._questions_out, [], {}
        self._gate.send(questions)
        return result

    patch.setattr(CheckBack, "records", records)


def permits_of_aborted_steps_are_lost(patch: Patch) -> None:
    def put_back(self):
        self._held, self._rooms, self._questions_out = {}, {}, []

    patch.setattr(CheckBack, "put_back", put_back)


# -- times ----------------------------------------------------------------------------------------


def immunity_is_ignored(patch: Patch) -> None:
    original = Checks.begins

    def begins(self, transaction, stored_ms, immunity_ms):
        original(self, transaction, stored_ms, 0)

    patch.setattr(Checks, "begins", begins)


def ages_are_those_of_the_producers_clock(patch: Patch) -> None:
    original = half_wire.read_identity

    def read_identity(half_offset, stored_at_ms, size_bytes, headers):
        event = original(half_offset, stored_at_ms, size_bytes, headers)
        if not isinstance(event, Garbage) and event.first_stored_ms < 0:
            event.stored_at_ms = int(headers[0][1].split(b";")[2])
        return event

    patch.setattr(half_wire, "read_identity", read_identity)
    original_begins = Checks.begins

    def begins(self, transaction, stored_ms, immunity_ms):
        original_begins(self, transaction, stored_ms, immunity_ms)
        transaction.aged_from_ms = stored_ms

    patch.setattr(Checks, "begins", begins)


def the_later_clock_counts(patch: Patch) -> None:
    def start_clock(self, newest_ms):
        self._scale_ms = max(newest_ms, self._clock.wall_ms())
        self._scale_s = self._clock.monotonic_s()
        if self._index is not None:
            self._index.owns(self._partition, is_owned=True, by=self)

    patch.setattr(CheckBack, "start_clock", start_clock)


def the_calendar_is_this_machines_clock(patch: Patch) -> None:
    """One that is days ahead makes everything too old that cannot say at once."""
    patch.setattr(Calendar, "now_ms", lambda self: self._clock.wall_ms())


def the_calendar_is_the_brokers_clock(patch: Patch) -> None:
    def now_ms(self):
        return None if self._shift_ms is None else self._monotonic_ms() + self._shift_ms

    patch.setattr(Calendar, "now_ms", now_ms)


def the_calendar_ends_who_was_not_asked(patch: Patch) -> None:
    """After a sleep of days, before its producers are there."""
    original = AgeLimit.is_reached

    def is_reached(self, transaction, now_ms):
        calendar_ms = self.calendar_ms or 0
        is_old = calendar_ms - transaction.stored_at_ms >= self._age_ms_max
        return is_old or original(self, transaction, now_ms)

    patch.setattr(AgeLimit, "is_reached", is_reached)


def a_new_owner_gives_up_at_once(patch: Patch) -> None:
    """Its scale begins where the logs end, days after what lies in them perhaps."""
    patch.setattr(AgeLimit, "begin", lambda self, now_ms: None)


def a_sleep_makes_everything_young(patch: Patch) -> None:
    """Who slept for days is asked as often as anybody."""
    patch.setattr(Calendar, "now_ms", lambda self: None)


def decisions_are_told_apart_by_time_alone(patch: Patch) -> None:
    """A broker whose clock is set back makes them look older than what they decide."""

    def is_meant_for(decision, began_at, began_ms):
        return began_ms <= decision.stored_at_ms + early.EARLY_MS

    patch.setattr(ledger, "is_meant_for", is_meant_for)


def the_next_number_follows_at_once(patch: Patch) -> None:
    original = Checks.reported

    def reported(self, transaction, *values, **more):
        original(self, transaction, *values, **more)
        if transaction.is_delivered and transaction.state is State.PENDING:
            transaction.due_ms = self._now()
            self._sleep(transaction)

    patch.setattr(Checks, "reported", reported)


# -- copies ---------------------------------------------------------------------------------------


def copied_halves_are_not_marked(patch: Patch) -> None:
    patch.setattr(Step, "all_done", property(lambda self: self.done))


def marks_of_copied_halves_are_not_obeyed(patch: Patch) -> None:
    def copied_before_us(self, event):
        self._marks.done_read(event.op_offset, event.half_offsets)

    patch.setattr(Ledger, "_copied_before_us", copied_before_us)


def copies_do_not_supersede(patch: Patch) -> None:
    original = Transaction.take

    def take(self, index, half_offset, size_bytes, *, supersedes=False, digest=0):
        return original(self, index, half_offset, size_bytes, digest=digest)

    patch.setattr(Transaction, "take", take)


def only_the_first_message_is_appended_anew(patch: Patch) -> None:
    original = Transaction.messages

    def messages(self):
        found = original(self)
        return found[:1] if self.state is State.COPYING else found

    patch.setattr(Transaction, "messages", messages)


def copies_forget_what_the_producer_asked_for(patch: Patch) -> None:
    """Custom immunity is lost, and the user's headers with it."""
    original = half_wire.copied_headers

    def copied_headers(headers, half_offset, **more):
        copied = original(headers, half_offset, **more)
        return [header for header in copied if header[0] != "n"]

    patch.setattr(half_wire, "copied_headers", copied_headers)


def the_half_watermark_passes_copies(patch: Patch) -> None:
    patch.setattr(Watermarks, "_half_watermark", lambda self: self.half_position)


def payloads_of_copies_are_never_let_go(patch: Patch) -> None:
    original = payloads.PayloadCache.let_go

    def let_go(self, half_offsets):
        original(self, list(half_offsets)[1:])

    patch.setattr(payloads.PayloadCache, "let_go", let_go)


# -- giving up, and what comes after it -------------------------------------------------------


def what_is_parked_is_forgotten(patch: Patch) -> None:
    original = Finished.remember

    def remember(self, identity, ending, digests=()):
        if ending >= 0:
            original(self, identity, ending, digests)

    patch.setattr(Finished, "remember", remember)


def resumed_twice(patch: Patch) -> None:
    patch.setattr(ParkedFold, "_resumed", lambda self, note: None)


def a_resumed_one_has_no_life_of_its_own(patch: Patch) -> None:
    original = half_wire.read_identity

    def read_identity(*record):
        event = original(*record)
        return event if isinstance(event, Garbage) else replace(event, resumed_count=0)

    patch.setattr(half_wire, "read_identity", read_identity)
    patch.setattr("harness.simulation.account.read_identity", original)


def late_decisions_are_not_noted(patch: Patch) -> None:
    patch.setattr(LateNotes, "add", lambda self, decision: None)


def whoever_gives_up_wins(patch: Patch) -> None:
    original = Ledger._apply

    def apply(self, transaction, event):
        if event.resolution is Resolution.PARK and transaction.state is State.READY:
            transaction.resolution = Resolution.PARK
        original(self, transaction, event)

    patch.setattr(Ledger, "_apply", apply)


def the_incomplete_wait_for_ever(patch: Patch) -> None:
    patch.setattr(Ledger, "end_incomplete", lambda self: None)


def what_can_be_read_is_taken_for_what_exists(patch: Patch) -> None:
    """The last stable offset for the end: a takeover overlooks the done marks behind it."""
    patch.setattr(SimulatedReader, "half_end", lambda self: self._half.stable_end)
    patch.setattr(SimulatedReader, "op_end", lambda self: self._op.stable_end)


def an_answer_covers_what_its_question_knew(patch: Patch) -> None:
    """What was added and acknowledged since is dropped."""
    patch.setattr(DecisionRead, "is_about_all", property(lambda self: False))


def other_messages_of_an_id_collapse_into_the_first(patch: Patch) -> None:
    """In silence, as if they were repeats of it."""
    patch.setattr(Conflicts, "reused", lambda self, identity, half_offset: None)


def what_is_added_to_a_given_up_one_is_dropped(patch: Patch) -> None:
    """A mark and nothing more, as for a copy; an instance that does not own it has taken it."""
    patch.setattr(LateMarks, "park", lambda self, mark, index, digest, resumed_count: True)


def what_is_added_to_a_given_up_one_is_parked_with_each_try(patch: Patch) -> None:
    original = LateMarks.park

    def park(self, mark, index, digest, resumed_count):
        self._parked.clear()
        return original(self, mark, index, digest, resumed_count)

    patch.setattr(LateMarks, "park", park)


def a_giving_up_that_is_lost_is_not_repeated(patch: Patch) -> None:
    patch.setattr(Checks, "postpone", lambda self, transaction: None)


def an_aborted_step_is_told_with_the_next_one(patch: Patch) -> None:
    """Kept for the next step, which tells the same endings itself."""
    original = Stories.refused

    def refused(self, result):
        for piece in [] if self._told is None else self._told.pieces:
            self._wait(piece)
        return original(self, result)

    patch.setattr(Stories, "refused", refused)


def endings_are_told_before_they_are_decided_upon(patch: Patch) -> None:
    """A note that a step of its own writes: what it tells may never happen, or happen again."""
    original = Stories.records

    def records(self, step, *rest):
        found = original(self, step, *rest)
        for piece in [] if self._told is None else self._told.pieces:
            self._wait(piece)
        return found

    patch.setattr(Stories, "records", records)


RULES = [
    counted_when_it_is_written,
    checked_after_the_decision,
    offsets_are_the_identity,
    redis_is_the_truth,
    what_can_be_read_is_taken_for_what_exists,
    an_answer_covers_what_its_question_knew,
    other_messages_of_an_id_collapse_into_the_first,
    what_is_added_to_a_given_up_one_is_dropped,
    an_aborted_step_is_told_with_the_next_one,
]
OTHERS = [
    value
    for value in list(globals().values())
    if getattr(value, "__annotations__", {}).get("patch") == "Patch" and value not in RULES
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutation", RULES, ids=lambda mutation: mutation.__name__)
def test_a_rule_is_broken(mutation: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutation(monkeypatch)
    seed, why = first_red()
    print(f"seed {seed}: {why[:200]}")
    assert seed >= 0, f"not found in {SEEDS_MAX} lives"


@pytest.mark.mutation
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutation", OTHERS, ids=lambda mutation: mutation.__name__)
def test_the_simulation_finds(mutation: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutation(monkeypatch)
    seed, why = first_red()
    print(f"seed {seed}: {why[:200]}")
    assert seed >= 0, f"not found in {SEEDS_MAX} lives"
