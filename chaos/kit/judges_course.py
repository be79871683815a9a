"""Judges of how it came about: checks, watermarks, order, client against log, what is left open.

Each is a pure function from a `Case` to sentences; none of them means that the promise held.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from chaos.kit.history import Outcome
from chaos.kit.log_model import COMMIT, ROLLBACK, Life
from harness.checkers import Fate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chaos.kit.checker import Case
    from chaos.kit.history import Identity, Truth
    from chaos.kit.log_model import Account
    from chaos.kit.readers import Sample

    Judge = Callable[[Case], Iterator[str]]

_TAGS = {Fate.COMMITTED: COMMIT, Fate.ROLLED_BACK: ROLLBACK}
_FATES = {COMMIT: Fate.COMMITTED, ROLLBACK: Fate.ROLLED_BACK}


def over_checked(case: Case) -> Iterator[str]:
    """More checks than allowed, a number that was never delivered, a check after the decision."""
    highest = case.limits.check_count_max
    for truth in case.truths.values():
        numbers = [checked.number for checked in truth.checks]
        for number in numbers:
            if not 1 <= number <= highest:
                yield f"{truth.identity} was asked check {number}, {highest} are allowed"
        if len(case.account(truth.identity).lives) > 1:
            continue  # put back by an operator: its numbers began again
        first_seen = list(dict.fromkeys(numbers))
        is_skipped = first_seen != list(range(1, len(first_seen) + 1))
        if case.limits.deliveries_are_certain and is_skipped:
            yield f"{truth.identity}: a check was counted and never delivered: {numbers}"
        yield from _after_the_decision(case, truth)
    for half in case.model.halves():
        if half.check_count > highest:
            yield f"{half.identity} has check {half.check_count} in the half log"
    for identity, account in case.model.accounts.items():
        for life in account.lives.values():
            written = [half.check_count for half in life.halves if half.first_stored_ms is not None]
            if written != sorted(written):
                yield f"{identity}: numbers went back in the half log: {written}"


def _after_the_decision(case: Case, truth: Truth) -> Iterator[str]:
    answered = [a.answered_ms for a in truth.asked if a.outcome is Outcome.OK and a.answered_ms]
    if not answered:
        return
    for checked in truth.checks:
        late_ms = checked.at_ms - min(answered)
        if late_ms > case.limits.decided_slack_ms:
            yield f"{truth.identity} was asked {late_ms} ms after its decision was acknowledged"


def early_checked(case: Case) -> Iterator[str]:
    """A check within the immunity, or sooner than the interval after the one before."""
    for identity, account in case.model.accounts.items():
        truth = case.truths.get(identity)
        asked_ms = truth.immunity_ms if truth is not None else None
        immunity_ms = case.limits.immunity_ms if asked_ms is None else asked_ms
        for life in account.lives.values():
            yield from _too_early(case, identity, life, immunity_ms)
        if truth is None or truth.first_prepare_ms is None:
            continue
        for checked in truth.checks:
            age_ms = checked.at_ms - truth.first_prepare_ms
            if age_ms < immunity_ms:
                yield f"{identity} was asked {age_ms} ms after its first prepare, not {immunity_ms}"


def _too_early(case: Case, identity: Identity, life: Life, immunity_ms: int) -> Iterator[str]:
    """By the broker's times alone: when the first half and when each number was stored."""
    stored_ms: dict[int, int] = {0: life.halves[0].stored_ms}
    for half in life.halves:
        stored_ms.setdefault(half.check_count, half.stored_ms)
    for number in sorted(stored_ms)[1:]:
        before_ms = stored_ms.get(number - 1)
        if before_ms is None:
            yield f"{identity} has check {number} in the half log, and not the one before"
            continue
        wanted_ms = immunity_ms if number == 1 else case.limits.interval_ms
        passed_ms = stored_ms[number] - before_ms
        if passed_ms < wanted_ms - case.limits.interval_slack_ms:
            yield f"{identity}: check {number} came after {passed_ms} ms instead of {wanted_ms}"


def watermark_overrun(case: Case) -> Iterator[str]:
    """A stored watermark beyond what needs something, below the log's start, or going back."""
    done_ms: dict[tuple[int, int], int] = {}
    for account in case.model.accounts.values():
        for mark in account.done:
            for half_offset in mark.half_offsets:
                done_ms.setdefault((mark.partition, half_offset), mark.stored_ms)
    halves = sorted((h.partition, h.half_offset, h.identity) for h in case.model.halves())
    for partition, half_offset, identity in halves:
        passed = case.first_beyond("half", partition, half_offset)
        if passed is None:
            continue
        at_ms = done_ms.get((partition, half_offset))
        where = f"the half watermark of {partition} passed {identity} at {half_offset}"
        if at_ms is None:
            yield f"{where}, which nothing has marked as done"
        elif at_ms > passed.t_ms + case.limits.clock_slack_ms:
            yield f"{where} {at_ms - passed.t_ms} ms before it was done"
    yield from _op_overrun(case, done_ms)
    for before, after in pairwise(case.samples):
        if not any(before.t_ms <= at_ms <= after.t_ms for at_ms in case.limits.resets_ms):
            yield from _went_back(before, after)
    yield from _below_the_start(case)


def _op_overrun(case: Case, done_ms: dict[tuple[int, int], int]) -> Iterator[str]:
    """Passed: the decision of what is not done, or the mark of a half that replay will read."""
    for identity, account in case.model.accounts.items():
        for life in account.lives.values():
            winner = life.winner
            if winner is None or life.halves[0].born is not None:
                continue
            passed = case.first_beyond("op", winner.partition, winner.op_offset)
            if passed is None:
                continue
            late = [
                half.half_offset
                for half in life.halves
                if half.stored_ms <= passed.t_ms
                and done_ms.get((half.partition, half.half_offset), 1 << 62)
                > passed.t_ms + case.limits.clock_slack_ms
            ]
            if late:
                at = f"op watermark of {winner.partition} passed the decision of {identity}"
                yield f"the {at} at {winner.op_offset} while the halves {late} were not done"
        for mark in account.done:
            passed = case.first_beyond("op", mark.partition, mark.op_offset)
            half_watermark = passed.half.get(mark.partition, 0) if passed else 0
            again = [o for o in mark.half_offsets if passed and o >= half_watermark]
            if again:
                yield (
                    f"the op watermark of {mark.partition} passed the done mark of {identity} at "
                    f"{mark.op_offset}, and a replay reads its halves {again} again"
                )


def _went_back(before: Sample, after: Sample) -> Iterator[str]:
    for log in ("half", "op"):
        was, now = getattr(before, log), getattr(after, log)
        for partition, at in was.items():
            if now.get(partition, 0) < at:
                found = now.get(partition, "nothing")
                yield f"the {log} watermark of {partition} went back from {at} to {found}"


def _below_the_start(case: Case) -> Iterator[str]:
    """Who sets it back on purpose may set it there; with the owner's next step it is right again,
    and must be so in the end.
    """
    last_ms = case.samples[-1].t_ms if case.samples else 0
    right_ms: dict[tuple[str, int], int] = {}
    for sample in case.samples:
        for log in ("half", "op"):
            starts, stored = getattr(sample, f"{log}_starts"), getattr(sample, log)
            for partition, start in starts.items():
                at = stored.get(partition)
                if at is None or at >= start:
                    right_ms[log, partition] = sample.t_ms
                    continue
                since_ms = right_ms.get((log, partition), 0)
                is_set_back = any(since_ms <= ms <= sample.t_ms for ms in case.limits.resets_ms)
                if not is_set_back or sample.t_ms == last_ms:
                    yield f"the {log} log of {partition} begins at {start}, its watermark is {at}"


def conflict(case: Case) -> Iterator[str]:
    """An acknowledged decision that the log has not; a decision that nobody has made, or whose
    producer was told that another one came first.
    """
    for identity, truth in case.truths.items():
        account = case.account(identity)
        tags = {decision.tag for decision in account.decisions}
        for fate, tag in _TAGS.items():
            if truth.acked(fate) and tag not in tags:
                yield f"{identity} has an acknowledged {fate.name} that the op log does not know"
        yield from _of_nobody(truth, account)


def _of_nobody(truth: Truth, account: Account) -> Iterator[str]:
    winner = account.winner
    if winner is None or winner.source not in ("producer", "check"):
        return
    fate = _FATES.get(winner.tag)
    asked = [a for a in truth.asked if a.wants is fate]
    if not asked and not _is_of_the_door(truth, account):
        yield f"{truth.identity} is {account.state} by a {winner.source} that never asked for it"
    elif asked and all(a.outcome is Outcome.FAIL for a in asked):
        errors = sorted({str(a.error) for a in asked})
        yield f"{truth.identity} is {account.state}, but its {winner.source} was told {errors}"
    elif len(account.lives) == 1 and any(a.error == "contrary_decision" for a in asked):
        yield f"{truth.identity} is {account.state}, and one who asked for that was refused"


def _is_of_the_door(truth: Truth, account: Account) -> bool:
    """A prepare that failed half-way, and can never be completed, is rolled back by the door."""
    return account.state == "rolled_back" and truth.prepared is not Outcome.OK


def disordered(case: Case) -> Iterator[str]:
    """Messages of one key, from one half partition, on the target in another order than commits."""
    if not case.limits.is_ordered:
        return
    lines: dict[tuple[str, int, bytes, int], list[tuple[int, tuple[int, int], Identity]]]
    lines = defaultdict(list)
    for (identity, index), records in case.found.items():
        account = case.account(identity)
        winner = account.winner if account.state == "committed" else None
        if winner is None or winner.source != "producer" or len(records) > 1 or index:
            continue  # of another's business, or another class's
        seen = records[0]
        if seen.key is not None:
            line = (seen.topic, seen.partition, seen.key, winner.partition)
            lines[line].append((seen.log_offset, (winner.op_offset, winner.entry), identity))
    for (topic, _, key, _), found in lines.items():
        found.sort()
        for (_, first, one), (_, second, other) in pairwise(found):
            if second < first:
                yield f"{topic} key {key!r}: {other} was committed before {one}, and lies behind it"


def stalled(case: Case) -> Iterator[str]:
    """Readers of committed records that were held for too long."""
    longest_ms = case.limits.stall_ms_max
    for stall in case.readings.stalls:
        if longest_ms is not None and stall.duration_ms > longest_ms:
            yield f"{stall.topic}-{stall.partition} held its readers for {stall.duration_ms} ms"


def late(case: Case) -> Iterator[str]:
    """Visible too long after its commit was acknowledged, as the concurrent reader saw it."""
    longest_ms = case.limits.late_ms_max
    if longest_ms is None:
        return
    for (identity, index), delay_ms in case.delays_ms.items():
        if delay_ms > longest_ms:
            yield f"{identity} message {index} was visible {delay_ms} ms after its commit"


def open_transaction_left(case: Case) -> Iterator[str]:
    """Kafka transactions that nobody has ended."""
    yield from case.readings.open_transactions


COURSE: dict[str, Judge] = {
    "over-checked": over_checked,
    "early-checked": early_checked,
    "watermark-overrun": watermark_overrun,
    "conflict-between-client-and-log": conflict,
    "disordered": disordered,
    "stalled": stalled,
    "late": late,
    "open-transaction-left": open_transaction_left,
}
