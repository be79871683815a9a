"""How a transaction ended, against what its commits say: did the first one count, and cover all?

The done mark is written by the owner, whose mistakes are looked for: so it is held against the
decisions. A producer's commit counts the messages of its handle, all of which were acknowledged: a
mark that counts fewer tears the transaction. A commit by anybody else is about all messages that
lay in the half log by then. Beyond that the log does not tell: a message whose add failed lies in
the half log like one that was acknowledged, and a commit leaves it out lawfully.
"""

from halfhitch.verify.facts import Commit, Done, Facts
from halfhitch.verify.report import Kind, Unjudged, Where
from halfhitch.verify.telling import Telling


class Endings(Telling):
    """Part of the judge."""

    def _left_out(self, facts: Facts, committed: int) -> None:
        """Messages of a committed transaction that its done mark does not count."""
        if not committed or facts.reused_count:
            return  # what was left out is other messages under the same id: they are counted
        was_parked = any(mark.ending < 0 for mark in facts.dones) or facts.resumed_count
        commits = [] if was_parked else facts.all_commits
        counted = max(
            (commit for commit in commits if not commit.is_about_all),
            key=lambda commit: commit.covered_count,
            default=None,
        )
        beyond = self._beyond(facts, committed)
        if counted is not None and counted.covered_count > committed:
            indexes = tuple(range(committed, counted.covered_count))
            told = f"its producer's commit counts {counted.covered_count}"
            where = (self._op_at(counted.half_partition, counted.op_offset), *beyond.values())
            self._torn(facts, committed, indexes, told, where)
            return
        for commit in commits:
            indexes = self._known_then(facts, committed, commit)
            if commit.is_about_all and indexes:
                told = "its commit is about all, and they lay in the half log when it was taken"
                where = (
                    self._op_at(commit.half_partition, commit.op_offset),
                    *(beyond[index] for index in indexes),
                )
                self._torn(facts, committed, indexes, told, where)
                return
        there_were = max((mark.message_count for mark in facts.dones), default=0)
        if facts.dropped or beyond or there_were > committed:
            self._findings.pass_over(Unjudged.LEFT_OUT, facts.identity)

    def _torn(
        self,
        facts: Facts,
        committed: int,
        indexes: tuple[int, ...],
        told: str,
        where: tuple[Where, ...],
    ) -> None:
        dropped = tuple(self._op_at(d.half_partition, d.op_offset) for d in facts.dropped)
        detail = f"committed with {committed} messages, {len(indexes)} left out: {told}"
        self._violate(Kind.TORN, facts, indexes, tuple(dict.fromkeys(dropped + where)), detail)

    def _beyond(self, facts: Facts, committed: int) -> dict[int, Where]:
        """Halves that need nothing more, and that the mark does not count."""
        done = self._account.is_done
        return {
            half.index: self._half_at(half)
            for half in sorted(facts.halves, key=lambda half: half.half_offset, reverse=True)
            if half.index >= committed and done(half.half_partition, half.half_offset)
        }

    def _known_then(self, facts: Facts, committed: int, commit: Commit) -> tuple[int, ...]:
        """Indexes without a gap whose halves were stored before this decision."""
        then_ms = commit.stored_ms - self._bounds.step_ms  # two brokers, two clocks
        early = {half.index for half in facts.halves if half.stored_ms < then_ms}
        index = committed
        while index in early:
            index += 1
        return tuple(range(committed, index))

    def _rolled_back_and_parked(self, facts: Facts) -> None:
        """Put back, it could be committed."""
        marks = [mark for mark in facts.dones if mark.ending == 0]
        lowest = {(mark.half_partition, mark.lowest_half_offset) for mark in marks}
        found = [part for part in facts.parked if part.half in lowest]
        if found:
            topic = self._account.layout.parked_topic
            where = tuple(Where(topic, part.partition, part.log_offset) for part in found)
            detail = "it was rolled back, and is on the parked topic"
            indexes = tuple(sorted({part.index for part in found}))
            self._violate(Kind.PHANTOM, facts, indexes, where, detail)

    def _two_endings(self, facts: Facts) -> None:
        """A roll back that came first, and a commit that was carried out."""
        marks = [mark for mark in facts.dones if mark.ending > 0]
        others = [mark for mark in facts.dones if mark.ending == 0]
        if not marks:
            return
        first = min(marks, key=lambda mark: mark.op_offset)
        for commit in facts.commits:
            if not commit.is_second or commit.op_offset > first.op_offset or facts.reused_count:
                continue
            if not self._bounds.reaches_back(commit.stored_ms):
                # Its first mark may have been trimmed, and this be an answer to who came late.
                self._findings.pass_over(Unjudged.TWO_ENDINGS, facts.identity)
            else:
                where = (self._op_at(commit.half_partition, commit.op_offset),)
                detail = "a roll back lies before its commit, and the first decision counts"
                self._violate(Kind.PHANTOM, facts, (), where + self._at(facts.forwards), detail)
            return
        if any(_are_of_one(mark, other) for mark in marks for other in others):
            both = tuple(self._op_at(m.half_partition, m.op_offset) for m in (first, others[0]))
            detail = "the same halves are marked as rolled back and as committed"
            self._violate(Kind.PHANTOM, facts, (), both + self._at(facts.forwards), detail)
        elif others and not facts.resumed_count:
            self._findings.pass_over(Unjudged.TWO_ENDINGS, facts.identity)


def _are_of_one(mark: Done, other: Done) -> bool:
    is_same = mark.lowest_half_offset == other.lowest_half_offset >= 0
    return is_same and mark.half_partition == other.half_partition
