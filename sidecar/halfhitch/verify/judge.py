"""The judge: what is wrong with each transaction, from all that was read of it.

Theory. An owner forwards all messages of a committed transaction and writes its done mark (with the
number of messages) in one Kafka transaction. So every such mark must find its messages, each once,
and every forwarded record its mark; the mark must find its decision (endings.py), and a message
must be what was prepared (contents.py); whatever else is found is a violation. What time or
retention has deleted is told apart (excuses.py, bounds.py) and not judged.

Not judged is the order of commits of one key: decisions are forgotten when they are carried out.

Pure: no clock, no I/O.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from halfhitch.core.early import EARLY_MS
from halfhitch.core.model import GIVEN_UP, PARKED, ROLLED_BACK, Resolution
from halfhitch.verify.account import Account
from halfhitch.verify.bounds import CLOCK_MS, Bounds, Rules
from halfhitch.verify.contents import Contents
from halfhitch.verify.endings import Endings
from halfhitch.verify.excuses import Excuses
from halfhitch.verify.facts import Facts, Forward, Half
from halfhitch.verify.homes import Homes
from halfhitch.verify.report import Findings, Kind, Unfinished, Unjudged

_STATE_OF: Final = {
    Resolution.COMMIT: "committing",
    Resolution.ROLLBACK: "rolling_back",
    Resolution.PARK: "giving_up",
}
_BORN: Final = {b"c": Resolution.COMMIT, b"r": Resolution.ROLLBACK}
_ANOTHER: Final = (
    "neither op nor half log know of it: written by somebody else, or by another installation "
    "(topics.prefix)"
)


def judge(
    account: Account,
    rules: Rules | None = None,
    *,
    limit: int = 100,
    group: str | None = None,
    before: Findings | None = None,
) -> Findings:
    """All findings, by transaction; `group` limits them to one producer group.

    `before`: of an earlier look; what was not found then is left out.
    """
    rules = rules or Rules()
    seen = witness(account, account.facts.transactions(), rules)
    findings = Findings(limit, only=None if before is None else before.found)
    judged = _Judge(account, *_bounds(account, rules, seen), findings)
    for facts in account.facts.transactions():
        if group is None or facts.identity[0] == group:
            judged.transaction(facts)
    findings.pass_over_gone(account.gone_count)
    findings.finish()
    return findings


@dataclass(frozen=True, slots=True)
class Witnessed:
    """What transactions tell of the time of others: the attributes of Bounds and Homes."""

    surely_from: dict[int, int] = field(default_factory=dict)
    full_since_ms: dict[str, int] = field(default_factory=dict)

    def join(self, other: "Witnessed") -> None:
        """What other transactions tell."""
        for place, log_offset in other.surely_from.items():
            self.surely_from[place] = min(log_offset, self.surely_from.get(place, log_offset))
        for topic, time_ms in other.full_since_ms.items():
            self.full_since_ms[topic] = min(time_ms, self.full_since_ms.get(topic, time_ms))


def witness(account: Account, transactions: Iterable[Facts], rules: Rules) -> Witnessed:
    """What these tell; `account` knows all that was read, but for the facts."""
    bounds, homes = _bounds(account, rules, Witnessed())
    for facts in transactions:
        bounds.witness(facts)
        homes.witness(facts, account.places, account.topics)
    return Witnessed(bounds.surely_from, homes.full_since_ms)


def judge_groups(
    account: Account,
    transactions: Iterable[Facts],
    rules: Rules,
    seen: Witnessed,
    *,
    limit: int,
    only: Mapping[str, set[int]] | None = None,
) -> dict[str, Findings]:
    """The findings of these transactions, by producer group.

    `seen`: what all transactions tell. `only`: what was found before, by group.
    """
    parts = _bounds(account, rules, seen)
    found: dict[str, _Judge] = {}
    for facts in transactions:
        group = facts.identity[0]
        judged = found.get(group)
        if judged is None:
            before = None if only is None else only.get(group, set())
            judged = found[group] = _Judge(account, *parts, Findings(limit, only=before))
        judged.transaction(facts)
    return {group: judged.finish() for group, judged in found.items()}


def _bounds(account: Account, rules: Rules, seen: Witnessed) -> tuple[Bounds, Homes]:
    bounds = Bounds(account, rules)
    homes = Homes(account.layout.targets, CLOCK_MS, rules.grown_ms)
    bounds.surely_from.update(seen.surely_from)
    homes.full_since_ms.update(seen.full_since_ms)
    return bounds, homes


class _Judge(Excuses, Endings, Contents):
    def finish(self) -> Findings:
        """All that was found."""
        self._findings.finish()
        return self._findings

    def transaction(self, facts: Facts) -> None:
        """One transaction: each rule by itself."""
        self._findings.begin()
        # Partitions are read in any order; what is told of them is not to depend on it.
        facts.parked.sort(key=lambda part: (part.partition, part.log_offset))
        if self._account.op_gap:
            self._findings.pass_over(Unjudged.OP_GAP, facts.identity)
        by_index: dict[int, list[Forward]] = {}
        for forward in facts.forwards:
            by_index.setdefault(forward.index, []).append(forward)
        committed = max((mark.ending for mark in facts.dones if mark.ending > 0), default=0)
        self._count(facts, committed)
        self._doubled(facts, by_index)
        is_phantom = self._phantom(facts, committed)
        self._missing(facts, by_index, is_phantom=is_phantom)
        self._left_out(facts, committed)
        self._two_endings(facts)
        self._rolled_back_and_parked(facts)
        self._unlike_what_was_sent(facts, committed)
        self._parked_whole(facts)
        self._open(facts)
        self._findings.end(has_ended=any(mark.is_before_cut for mark in facts.dones))

    # -- rules -----------------------------------------------------------------------------------

    def _count(self, facts: Facts, committed: int) -> None:
        endings = self._findings.endings
        if committed:
            endings["committed"] += 1
        elif any(mark.ending in (PARKED, GIVEN_UP) for mark in facts.dones):
            endings["parked"] += 1
        elif facts.dones:
            endings["rolled_back"] += 1

    def _doubled(self, facts: Facts, by_index: dict[int, list[Forward]]) -> None:
        for index, found in sorted(by_index.items()):
            if len(found) > 1:
                same = len({forward.digest for forward in found}) == 1
                how = "the same record" if same else "records that differ"
                hint = "" if same else " (an id that was used for two transactions looks so too)"
                detail = f"{how}, {len(found)} times{hint}"
                self._violate(Kind.DOUBLED, facts, (index,), self._at(found), detail)
        parked_count = sum(not part.is_late for part in facts.parked)
        is_parked = parked_count > facts.resumed_count and not self._parked_is_open
        if facts.forwards and is_parked:
            last = facts.parked[-1]
            parked_at = self._parked_at(last.partition, last.log_offset)
            indexes = tuple(sorted(by_index))
            detail = "forwarded, and parked as well: put back, it would be sent again"
            where = (*self._at(facts.forwards), parked_at)
            self._violate(Kind.DOUBLED, facts, indexes, where, detail)

    def _phantom(self, facts: Facts, committed: int) -> bool:
        is_known = bool(facts.dones or facts.halves or facts.decisions)
        found: list[Forward] = []
        for forward in facts.forwards:
            if forward.index < committed:
                self._findings.forwards_judged += 1
            elif self._bounds.needs_mark(forward, is_known=is_known):
                self._findings.forwards_judged += 1
                found.append(forward)
            else:
                why = Unjudged.OP_GAP if self._account.op_gap else Unjudged.OLD_FORWARD
                self._findings.pass_over(why, facts.identity)
        if found:
            indexes = tuple(sorted({forward.index for forward in found}))
            detail = _why_not(facts, committed)
            self._violate(Kind.PHANTOM, facts, indexes, self._at(found), detail)
        return bool(found)

    def _missing(
        self, facts: Facts, by_index: dict[int, list[Forward]], *, is_phantom: bool
    ) -> None:
        """Against the done mark; without one, against what the forwarded records say."""
        marks = [mark for mark in facts.dones if mark.ending > 0]
        enforced = [mark for mark in marks if mark.is_before_cut]
        if enforced:
            count = max(mark.ending for mark in enforced)
            since_ms = min(mark.stored_ms for mark in marks)
        elif by_index and not marks and not is_phantom and not self._is_blind:
            count = max(max(f.message_count, f.index + 1) for f in facts.forwards)
            since_ms = min(f.time_ms for f in facts.forwards)
            if since_ms < self._account.since_ms:
                return  # the others may lie before where the reading began
        else:
            return  # marked when the targets had been read
        missing = [index for index in range(count) if index not in by_index]
        reasons = [self._why_unjudged(facts, index, since_ms) for index in missing]
        doubtful = [reason for reason in reasons if reason is not None]
        if enforced and not doubtful:
            self._findings.committed_judged += 1
        if doubtful:
            self._findings.pass_over(doubtful[0], facts.identity)
        surely = [i for i, reason in zip(missing, reasons, strict=True) if reason is None]
        if not surely:
            return
        kind = Kind.TORN if by_index else Kind.LOST
        named = sorted({t for i in surely if (t := self._topic(facts, i)) is not None})
        place = f"on {', '.join(named)}" if named else "on any allowed topic"
        mark = f"committed with {count} messages" if enforced else f"{count} messages at least"
        detail = f"{mark}, {len(surely)} not found {place}"
        last = max(marks, key=lambda m: m.op_offset, default=None)
        where = () if last is None else (self._op_at(last.half_partition, last.op_offset),)
        self._violate(kind, facts, tuple(surely), where + self._at(facts.forwards), detail)

    def _open(self, facts: Facts) -> None:
        """Halves that no done mark names; and decisions whose halves are gone."""
        done = self._account.is_done
        halves = [h for h in facts.halves if not done(h.half_partition, h.half_offset)]
        if halves:
            self._unfinished(facts, halves)
            return
        if facts.dones or facts.halves or facts.forwards:
            return
        commits = [d for d in facts.decisions if d.resolution is Resolution.COMMIT]
        for decided in commits:
            start = self._half_start(decided.half_partition)
            if not 0 <= decided.half_hint < start:
                continue  # a stranger's, or its half was stored when the half log had been read
            if done(decided.half_partition, decided.half_hint):
                continue  # the half that it names was another transaction's
            if self._is_blind or not self._bounds.op_is_complete:
                self._findings.pass_over(Unjudged.NO_MARK, facts.identity)
            else:
                detail = "committed; its half was deleted, and no done mark was ever written"
                where = (self._op_at(decided.half_partition, decided.op_offset),)
                self._violate(Kind.LOST, facts, (), where, detail)
            return

    def _unfinished(self, facts: Facts, halves: Sequence[Half]) -> None:
        watermarks = self._account.layout.watermarks
        passed = [h for h in halves if h.half_offset < watermarks.get(h.half_partition, 0)]
        if passed and not self._is_blind:
            indexes = tuple(sorted({half.index for half in passed}))
            where = tuple(self._half_at(half) for half in passed)
            detail = "passed over: it lies below the stored half watermark, and nothing ended it"
            self._violate(Kind.LOST, facts, indexes, where, detail)
            return
        first = min(halves, key=lambda half: half.half_offset)
        state, *why = _state(facts, first)
        self._findings.goes_on(
            Unfinished(
                *facts.identity,
                state,
                len({half.index for half in halves}),
                min(half.stored_ms for half in halves),
                self._half_at(first),
                *why,
            )
        )


def _state(facts: Facts, first: Half) -> tuple[str, str | None, str | None]:
    """How far an unfinished transaction has come: the first decision that is meant for it, and its
    reason with who gave it."""
    born = _BORN.get(first.born)
    if born is not None:
        return _STATE_OF[born], None, None
    for decided in sorted(facts.decisions, key=lambda d: d.op_offset):
        is_meant = (
            decided.half_hint >= first.half_offset
            or first.stored_ms <= decided.stored_ms + EARLY_MS
        )
        if is_meant and decided.op_offset > first.fence:
            return _STATE_OF[decided.resolution], decided.reason, decided.source
    return "undecided", None, None


def _why_not(facts: Facts, committed: int) -> str:
    """Why a record has no right to be there."""
    if committed:
        return f"its commit covers {committed} messages only"
    endings = {mark.ending for mark in facts.dones}
    if endings & {PARKED, GIVEN_UP}:
        return "it was parked"
    if ROLLED_BACK in endings:
        return "it was rolled back"
    decided = {decision.resolution for decision in facts.decisions}
    if Resolution.ROLLBACK in decided:
        return "it is being rolled back"
    if decided:
        return "it is decided, but no done mark was written with it"
    if facts.halves:
        return "it is undecided"
    return _ANOTHER
