"""Judges of what readers found: is everything there, once, whole, unchanged, and nothing else.

Each is a pure function from a `Case` to sentences; none of them means that the promise held.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from chaos.kit.history import Message, Outcome
from chaos.kit.log_model import GIVE_UP, UNDELIVERABLE, count_said, identity_and_index
from harness.checkers import Fate
from harness.partitioning import java_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chaos.kit.checker import Case
    from chaos.kit.history import Identity, Truth
    from chaos.kit.log_model import Account
    from chaos.kit.readers import Seen

    Judge = Callable[[Case], Iterator[str]]


def lost(case: Case) -> Iterator[str]:
    """Committed and not to be read; acknowledged and not in the logs; parked and not kept."""
    for identity in case.identities:
        account = case.account(identity)
        there = case.indexes_found.get(identity, set())
        for index, message in account.last.expected.items():
            if index not in there:
                yield f"{identity} message {index} is committed and not on {message.topic}"
        for index in sorted(case.surely_committed(identity) - there):
            # The logs may agree with each other and be wrong: this is what its producer was told.
            yield f"{identity} message {index} was acknowledged, as was its commit, and is nowhere"
        if account.state == "parked":
            yield from _not_kept(case, account)
        truth = case.truths.get(identity)
        if truth is not None:
            yield from _not_stored(truth, account, there)


def _not_kept(case: Case, account: Account) -> Iterator[str]:
    if not account.last.is_carried_out:
        return  # it is given up, but that was not carried out yet: see `unfinished`
    kept = {
        half.index
        for half, _ in case.parked.messages.get(account.identity, [])
        if half.life == account.last.number
    }
    winner, life = account.winner, account.last
    surely = case.acknowledged(account.identity)
    for index in life.firsts:
        is_covered = winner is None or winner.tag == GIVE_UP or index < life.covered_count
        if (is_covered or index in surely) and index not in kept:
            yield f"{account.identity} message {index} was parked and is not on the parked topic"


def _not_stored(truth: Truth, account: Account, there: set[int]) -> Iterator[str]:
    known = {index for life in account.lives.values() for index in life.firsts}
    for index in range(truth.acked_count):
        if index not in known:
            yield f"{truth.identity} message {index} was acknowledged and is not in the half log"
    is_undecided = account.state in ("pending", "unseen", "incomplete")
    if truth.fate is Fate.COMMITTED and is_undecided and len(there) < truth.acked_count:
        yield f"{truth.identity} has an acknowledged commit, but the logs say {account.state}"


def duplicate(case: Case) -> Iterator[str]:
    """A message in more than one record, whenever that was visible."""
    for (identity, index), records in case.ever_found.items():
        places = sorted({seen.place for seen in records})
        if len(places) > 1:
            yield f"{identity} message {index} is there {len(places)} times: {places}"


def phantom(case: Case) -> Iterator[str]:
    """Visible at any time, and should never have been, or not yet, or not only for a while."""
    final = {seen.place for seen in case.readings.final}
    for seen in case.visible:
        place = identity_and_index(seen.headers)
        if place is None or (place[0] not in case.truths and place[0] not in case.model.accounts):
            yield f"{seen.place} is of nobody's sending: {place or seen.headers}"
            continue
        identity, index = place
        account, winner = case.account(identity), case.account(identity).winner
        if account.state != "committed" or winner is None:
            yield f"{identity} message {index} at {seen.place} is visible, but {account.state}"
        elif index >= account.last.covered_max:
            yield f"{identity} message {index} at {seen.place} is not covered by its commit"
        yield from _unasked(case, identity, seen)
        if seen.place not in final:
            yield f"{identity} message {index} at {seen.place} was visible and is not any more"


def _unasked(case: Case, identity: Identity, seen: Seen) -> Iterator[str]:
    """What its own producers know of it forbids that it is visible, or as early as that."""
    truth, winner = case.truths.get(identity), case.account(identity).winner
    if truth is None or winner is None or winner.source not in ("producer", "check"):
        return
    if Fate.COMMITTED not in truth.fates:
        fates = sorted(fate.name for fate in truth.fates)
        yield f"{identity} at {seen.place} is visible, but its producers know it as {fates}"
        return
    since_ms = min(a.invoked_ms for a in truth.asked if a.wants is Fate.COMMITTED)
    if seen.seen_ms and seen.seen_ms + case.limits.clock_slack_ms < since_ms:
        yield f"{identity} at {seen.place} was visible before anybody asked for its commit"


def torn(case: Case) -> Iterator[str]:
    """Some messages of a transaction can be read, others cannot."""
    for identity, there in case.indexes_found.items():
        life, truth = case.account(identity).last, case.truths.get(identity)
        count = life.covered_count
        if not count and truth is not None:
            count = truth.acked_count
        missing = sorted(({*range(count)} | case.surely_committed(identity)) - there)
        if missing:
            yield f"{identity}: messages {sorted(there)} can be read, {missing} cannot"


def misrouted(case: Case) -> Iterator[str]:
    """On another topic, not in the partition asked for, or not where Java puts the key."""
    for (identity, index), records in case.ever_found.items():
        sent = case.sent(identity, index)
        for seen in records:
            if sent and not any(_is_at_home(case, message, seen) for message in sent):
                yield f"{identity} message {index} lies at {seen.place}, sent as {sent}"


def _is_at_home(case: Case, message: Message, seen: Seen) -> bool:
    if message.topic != seen.topic:
        return False
    if message.partition is not None:
        return message.partition == seen.partition
    count = case.limits.partition_counts.get(seen.topic)
    if count is None or message.key is None:
        return True
    return java_partition(message.key, count) == seen.partition


def corrupted(case: Case) -> Iterator[str]:
    """Not what was sent: on the targets, among the parked, in the half log and its copies."""
    for (identity, index), records in case.ever_found.items():
        for seen in records:
            found = Message.of(seen.topic, seen.value, seen.key, headers=seen.headers[:-3])
            where = f"{identity} message {index} at {seen.place}"
            yield from _differences(where, found, case.sent(identity, index))
            life = case.account(identity).last
            half = life.firsts.get(index)
            if half is not None:
                yield from _differences(where, found, [half.message])
            count = count_said(seen.headers)
            if count and max(life.endings, default=0) > 0 and count not in life.endings:
                yield f"{where} says that there are {count} messages, but {life.endings}"
    for identity, kept in case.parked.messages.items():
        for half, _ in kept:
            where = f"{identity} message {half.index}, parked,"
            yield from _differences(where, half.message, case.sent(identity, half.index))
    for half in case.model.halves():
        first = case.account(half.identity).lives[half.life].firsts[half.index]
        where = f"{half.identity} message {half.index} at half offset {half.half_offset}"
        if half is first:
            yield from _differences(where, half.message, case.sent(half.identity, half.index))
        elif half.first_stored_ms is not None:
            yield from _differences(where, half.message, [first.message])


def _differences(where: str, found: Message, sent: list[Message]) -> Iterator[str]:
    if sent and not any(_is_same(found, message) for message in sent):
        yield f"{where} is not as it was sent: {found}, but {sent}"


def _is_same(found: Message, sent: Message) -> bool:
    if (found.key, found.value_sha256, found.value_bytes) != (
        sent.key,
        sent.value_sha256,
        sent.value_bytes,
    ):
        return False
    return None in (found.headers, sent.headers) or found.headers == sent.headers


def double_terminal(case: Case) -> Iterator[str]:
    """Two endings: on its target and parked, parked twice, two marks for one half."""
    for identity in case.identities:
        life = case.account(identity).last
        kept = [half for half, _ in case.parked.messages.get(identity, [])]
        if identity in case.indexes_found and any(half.life == life.number for half in kept):
            yield f"{identity} is on its target and on the parked topic"
        if life.state == "rolled_back" and any(half.life == life.number for half in kept):
            yield f"{identity} was rolled back, and is on the parked topic"
        times = Counter((half.life, half.index) for half in kept)
        for (number, index), count in times.items():
            if count > 1:
                yield f"{identity} message {index} was parked {count} times in its life {number}"
        for each in case.account(identity).lives.values():
            if len(set(each.endings)) > 1:
                yield f"{identity} ended in more than one way: {each.endings}"
            marked = Counter(o for mark in each.done for o in mark.half_offsets)
            for half_offset, count in marked.items():
                if count > 1:
                    yield f"{identity}: the half at {half_offset} has {count} done marks"


def early_discarded(case: Case) -> Iterator[str]:
    """Given up before its checks or its time were used up, or parked although its target took."""
    for identity in case.identities:
        for life in case.account(identity).lives.values():
            winner = life.winner
            if winner is None:
                continue
            if winner.source == "policy" and winner.tag == GIVE_UP:
                checks = max(half.check_count for half in life.halves)
                age_ms = winner.stored_ms - life.halves[0].stored_ms
                old = age_ms + case.limits.clock_slack_ms >= case.limits.age_ms_max
                if checks < case.limits.check_count_max and not old:
                    yield f"{identity} was given up after {checks} checks and {age_ms} ms"
            elif UNDELIVERABLE in life.endings and life.is_whole:
                topics = {half.message.topic for half in life.halves}
                if not topics & case.limits.refusing_topics:
                    yield f"{identity} was parked, but nothing refused it: {sorted(topics)}"


def unfinished(case: Case) -> Iterator[str]:
    """Not at its end, although everything had the time."""
    if not case.limits.is_settled:
        return
    for identity in case.identities:
        account, truth = case.account(identity), case.truths.get(identity)
        if account.state == "unseen":
            if truth is not None and truth.prepared is Outcome.OK:
                yield f"{identity} was prepared and has no half"
        elif account.state == "pending":
            if not case.limits.may_be_pending(truth):
                yield f"{identity} is still undecided"
        elif not account.last.is_carried_out:
            yield f"{identity} is {account.state}, and that was not carried out"


CONTENT: dict[str, Judge] = {
    "lost": lost,
    "duplicate": duplicate,
    "phantom": phantom,
    "torn": torn,
    "misrouted": misrouted,
    "corrupted": corrupted,
    "double-terminal": double_terminal,
    "early-discarded": early_discarded,
    "unfinished": unfinished,
}
