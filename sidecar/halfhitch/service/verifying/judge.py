"""The judge: what is wrong with each transaction, from all that was read of it.

Theory. An owner forwards all messages of a committed transaction and writes its done mark (with the
number of messages) in one Kafka transaction. So every such mark must find its messages, each once,
and every forwarded record its mark; whatever else is found is a violation. What time or retention
has deleted is told apart (bounds.py) and not judged.

Pure: no clock, no I/O.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from halfhitch.core.early import EARLY_MS
from halfhitch.core.model import GIVEN_UP, PARKED, ROLLED_BACK, Resolution
from halfhitch.service.verifying.account import Account
from halfhitch.service.verifying.bounds import Bounds, Rules
from halfhitch.service.verifying.facts import Facts, Forward, Half
from halfhitch.service.verifying.report import (
    Findings,
    Kind,
    Unfinished,
    Unjudged,
    Violation,
    Where,
)

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
    bounds = Bounds(account, rules or Rules())
    for facts in account.facts.transactions():
        bounds.witness(facts)
    findings = Findings(limit, only=None if before is None else before.found)
    judged = _Judge(account, bounds, findings)
    for facts in account.facts.transactions():
        if group is None or facts.identity[0] == group:
            judged.transaction(facts)
    findings.finish()
    return findings


class _Judge:
    def __init__(self, account: Account, bounds: Bounds, findings: Findings) -> None:
        self._account = account
        self._bounds = bounds
        self._findings = findings
        layout = account.layout
        #: Halves that name a topic which was not read say that others may have gone there too.
        self._has_all = layout.has_all_targets and not account.unread
        is_readable = not layout.unreadable | layout.unclear
        self._unknown = Unjudged.TARGET_UNKNOWN if is_readable else Unjudged.TARGET_UNREADABLE
        self._parked = account.of_topic(account.layout.parked_topic)
        self._parked_is_open = any(place.is_open for place in self._parked)
        #: Not all of the op log could be read: what was not found there may be there.
        self._is_blind = account.op_gap or bounds.op_is_open

    def transaction(self, facts: Facts) -> None:
        """One transaction: each rule by itself."""
        if self._account.op_gap:
            self._findings.pass_over(Unjudged.OP_GAP, facts.identity)
        self._findings.transactions += 1
        by_index: dict[int, list[Forward]] = {}
        for forward in facts.forwards:
            by_index.setdefault(forward.index, []).append(forward)
        committed = max((mark.ending for mark in facts.dones if mark.ending > 0), default=0)
        self._count(facts, committed)
        self._doubled(facts, by_index)
        is_phantom = self._phantom(facts, committed)
        self._missing(facts, by_index, is_phantom=is_phantom)
        self._left_out(facts, committed)
        self._unlike_its_half(facts, committed)
        self._parked_away(facts)
        self._open(facts)

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
        is_parked = facts.parked_count > facts.resumed_count and not self._parked_is_open
        if facts.forwards and is_parked:
            partition, log_offset = facts.parked_at or (0, 0)
            parked_at = Where(self._account.layout.parked_topic, partition, log_offset)
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
        """Against the done mark; without one, against the highest index that was forwarded."""
        marks = [mark for mark in facts.dones if mark.ending > 0]
        enforced = [mark for mark in marks if mark.is_before_cut]
        if enforced:
            count = max(mark.ending for mark in enforced)
            since_ms = min(mark.stored_ms for mark in marks)
        elif by_index and not marks and not is_phantom and not self._is_blind:
            count, since_ms = max(by_index) + 1, min(f.time_ms for f in facts.forwards)
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
        mark = f"committed with {count} messages" if enforced else f"message {count - 1} is there"
        detail = f"{mark}, {len(surely)} not found {place}"
        last = max(marks, key=lambda m: m.op_offset, default=None)
        where = () if last is None else (self._op_at(last.half_partition, last.op_offset),)
        self._violate(kind, facts, tuple(surely), where + self._at(facts.forwards), detail)

    def _left_out(self, facts: Facts, committed: int) -> None:
        """The done mark counts what its commit covers, so it cannot tell of what it does not."""
        if not committed:
            return
        for dropped in facts.dropped:
            halves = [
                half
                for half in facts.halves
                if half.half_partition == dropped.half_partition
                and half.half_offset >= dropped.lowest_half_offset
                and half.index >= committed
            ]
            op_at = self._op_at(dropped.half_partition, dropped.op_offset)
            detail = (
                f"committed with {committed} messages; {dropped.message_count} more lay in the"
                " half log and were dropped"
            )
            where = (op_at, *(self._half_at(half) for half in halves))
            indexes = tuple(sorted({half.index for half in halves}))
            self._violate(Kind.TORN, facts, indexes, where, detail)

    def _why_unjudged(self, facts: Facts, index: int, since_ms: int) -> Unjudged | None:
        """Why this message may be missing from what was read without being lost."""
        topic = self._topic(facts, index)
        layout = self._account.layout
        if topic is None and (layout.unclear or not self._has_all):
            return self._unknown
        if topic is not None and topic not in layout.targets:
            return self._account.unread.get(topic, Unjudged.TARGET_GONE)
        if topic in layout.unclear:
            return Unjudged.TARGET_UNREADABLE
        if self._bounds.is_open(topic):
            return Unjudged.TARGET_OPEN
        kept_since = self._bounds.kept_since(topic)
        if since_ms < kept_since:
            return Unjudged.TARGET_TRIMMED
        return None

    def _topic(self, facts: Facts, index: int) -> str | None:
        """Where the message was to go, if its half is still there."""
        topics = {half.topic for half in facts.halves if half.index == index}
        if len(topics) != 1 or -1 in topics:
            return None
        return self._account.topics[topics.pop()]

    def _unlike_its_half(self, facts: Facts, committed: int) -> None:
        """Only where the very half that was forwarded was read, and not just a later copy."""
        read = {(half.half_partition, half.half_offset) for half in facts.halves}
        if not any(
            mark.ending > 0 and (mark.half_partition, mark.lowest_half_offset) in read
            for mark in facts.dones
        ):
            return
        for forward in facts.forwards:
            halves = [half for half in facts.halves if half.index == forward.index]
            if not halves or forward.index >= committed:
                continue
            place = (forward.index,), (*self._at([forward]), self._half_at(halves[0]))
            topic, partition = self._account.places[forward.place].place
            if not any(self._leads_to(half, topic, partition) for half in halves):
                wanted = self._account.topics[halves[0].topic] if halves[0].topic >= 0 else "?"
                fixed = halves[0].fixed_partition
                detail = f"its half names {wanted}" + (f"-{fixed}" if fixed >= 0 else "")
                self._violate(Kind.MISROUTED, facts, *place, detail)
            if all(half.digest != forward.digest for half in halves):
                detail = "key, value or headers are not those of its half"
                self._violate(Kind.CORRUPTED, facts, *place, detail)

    def _leads_to(self, half: Half, topic: str, partition: int) -> bool:
        named = half.topic >= 0 and self._account.topics[half.topic] == topic
        return named and half.fixed_partition in (-1, partition)

    def _parked_away(self, facts: Facts) -> None:
        """What a done mark calls parked must lie on the parked topic."""
        marks = [m for m in facts.dones if m.ending in (PARKED, GIVEN_UP) and m.is_before_cut]
        if not marks or facts.parked_count:
            return
        if any(place.is_trimmed for place in self._parked):
            self._findings.pass_over(Unjudged.PARKED_TRIMMED, facts.identity)
        elif self._parked_is_open:
            self._findings.pass_over(Unjudged.TARGET_OPEN, facts.identity)
        else:
            where = (self._op_at(marks[0].half_partition, marks[0].op_offset),)
            detail = f"parked, and not found on {self._account.layout.parked_topic}"
            self._violate(Kind.LOST, facts, (), where, detail)

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
        state, reason = _state(facts, first)
        self._findings.goes_on(
            Unfinished(
                *facts.identity,
                state,
                len({half.index for half in halves}),
                min(half.stored_ms for half in halves),
                self._half_at(first),
                reason,
            )
        )

    # -- words -----------------------------------------------------------------------------------

    def _violate(
        self,
        kind: Kind,
        facts: Facts,
        indexes: tuple[int, ...],
        where: tuple[Where, ...],
        detail: str,
    ) -> None:
        self._findings.violate(Violation(kind, *facts.identity, indexes, where, detail))

    def _at(self, forwards: Iterable[Forward]) -> tuple[Where, ...]:
        places = self._account.places
        found = [(*places[f.place].place, f.log_offset) for f in forwards]
        return tuple(Where(*place) for place in sorted(found))

    def _half_at(self, half: Half) -> Where:
        return Where(self._account.layout.half_topic, half.half_partition, half.half_offset)

    def _op_at(self, partition: int, op_offset: int) -> Where:
        return Where(self._account.layout.op_topic, partition, op_offset)

    def _half_start(self, partition: int) -> int:
        return self._account.place((self._account.layout.half_topic, partition)).first_log_offset


def _state(facts: Facts, first: Half) -> tuple[str, str | None]:
    """How far an unfinished transaction has come: the first decision that is meant for it, and its
    reason."""
    born = _BORN.get(first.born)
    if born is not None:
        return _STATE_OF[born], None
    for decided in sorted(facts.decisions, key=lambda d: d.op_offset):
        is_meant = (
            decided.half_hint >= first.half_offset
            or first.stored_ms <= decided.stored_ms + EARLY_MS
        )
        if is_meant and decided.op_offset > first.fence:
            return _STATE_OF[decided.resolution], decided.reason
    return "undecided", None


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
