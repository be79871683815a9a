"""Is a message what was prepared, and where it was to go? From what it says itself, and its half.

A record says by a digest which message it is (wire/digest.py); where its half is still there, the
two are compared byte by byte. Only a half tells whether its producer chose the partition.
"""

from collections import Counter

from halfhitch.verify.facts import Facts, Forward, Half, is_repeat
from halfhitch.verify.report import Kind, Unjudged, Where
from halfhitch.verify.telling import Telling


class Contents(Telling):
    """Part of the judge."""

    def _unlike_what_was_sent(self, facts: Facts, committed: int) -> None:
        halves = self._halves_forwarded(facts)
        times = Counter(forward.index for forward in facts.forwards)
        for forward in facts.forwards:
            own = [half for half in halves if half.index == forward.index]
            if own and forward.index < committed and self._unlike_its_half(facts, forward, own):
                continue
            if forward.is_spoiled and times[forward.index] == 1:  # else it is said to be doubled
                detail = "it is not the message that it says it is: key, value, headers or topic"
                self._violate(Kind.CORRUPTED, facts, (forward.index,), self._at([forward]), detail)
        self._miscounted(facts, committed)

    def _miscounted(self, facts: Facts, committed: int) -> None:
        """A reader that waits for all of a transaction goes by what its records say."""
        endings = {mark.ending for mark in facts.dones if mark.ending > 0}
        for forward in facts.forwards:
            said = forward.message_count
            if said and forward.index < committed and said not in endings:
                detail = f"it says that there are {said} messages, but {committed} were committed"
                self._violate(Kind.CORRUPTED, facts, (forward.index,), self._at([forward]), detail)

    def _halves_forwarded(self, facts: Facts) -> list[Half]:
        """All, if the very halves that were forwarded were read, and not just later copies."""
        read = {(half.half_partition, half.half_offset) for half in facts.halves}
        is_read = any(
            mark.ending > 0 and (mark.half_partition, mark.lowest_half_offset) in read
            for mark in facts.dones
        )
        return facts.halves if is_read else []

    def _unlike_its_half(self, facts: Facts, forward: Forward, halves: list[Half]) -> bool:
        """Whether it was said that it is."""
        place = (forward.index,), (*self._at([forward]), self._half_at(halves[0]))
        topic, partition = self._account.places[forward.place].place
        is_home = [self._is_home(half, topic, partition, forward.time_ms) for half in halves]
        if not any(is_home) and None in is_home:
            self._findings.pass_over(Unjudged.TARGET_GROWN, facts.identity)
        elif not any(is_home):
            wanted, fixed = self._topic_named(halves[0]) or "?", halves[0].fixed_partition
            detail = f"its half names {wanted}" + (f"-{fixed}" if fixed >= 0 else "")
            if wanted == topic and fixed < 0:
                detail = f"its key leads to another partition of {wanted}"
            self._violate(Kind.MISROUTED, facts, *place, detail)
        is_other = not any(
            half.digest == forward.digest or is_repeat(half.digest, forward.digest)
            for half in halves
        )
        if is_other:
            detail = "key, value or headers are not those of its half"
            self._violate(Kind.CORRUPTED, facts, *place, detail)
        return is_other or not any(is_home)

    def _is_home(self, half: Half, topic: str, partition: int, time_ms: int) -> bool | None:
        """Whether the half leads there; None: it may have led there once."""
        if self._topic_named(half) != topic or half.fixed_partition not in (-1, partition):
            return False
        if half.fixed_partition >= 0 or half.key_hash < 0:
            return True
        homes = self._homes.of_key(topic, half.key_hash, time_ms)
        if half.key_hash % self._account.layout.targets[topic] == partition:
            return True
        return None if partition in homes else False

    def _parked_whole(self, facts: Facts) -> None:
        """What a done mark calls parked must lie on the parked topic: all of it, as it was."""
        if any(part.is_spoiled for part in facts.parked):
            spoiled = [part for part in facts.parked if part.is_spoiled]
            indexes = tuple(sorted({part.index for part in spoiled}))
            where = tuple(self._parked_at(p.partition, p.log_offset) for p in spoiled)
            detail = "the parked message is not the one that it says it is"
            self._violate(Kind.CORRUPTED, facts, indexes, where, detail)
        missing = self._not_parked(facts)
        marks = [mark for mark in facts.dones if mark.ending < 0 and mark.is_before_cut]
        if not marks or (facts.parked and not missing):
            return
        if any(place.is_trimmed for place in self._parked):
            self._findings.pass_over(Unjudged.PARKED_TRIMMED, facts.identity)
        elif self._parked_is_open:
            self._findings.pass_over(Unjudged.TARGET_OPEN, facts.identity)
        else:
            at = self._op_at(marks[0].half_partition, marks[0].op_offset)
            topic = self._account.layout.parked_topic
            if facts.parked:
                found = [self._parked_at(p.partition, p.log_offset) for p in facts.parked]
                detail = f"parked, and {len(missing)} of its messages not found on {topic}"
                self._violate(Kind.TORN, facts, tuple(missing), (at, *found), detail)
            else:
                self._violate(Kind.LOST, facts, (), (at,), f"parked, and not found on {topic}")

    @staticmethod
    def _not_parked(facts: Facts) -> list[int]:
        """Indexes that must be there beside those that are; each life keeps what the last one had.

        How many there are is told by the marks, and by parked messages whose commit counts them.
        """
        lives: dict[int, set[int]] = {}
        for part in facts.parked:
            lives.setdefault(part.life, set()).add(part.index)
        counts = [mark.message_count for mark in facts.dones if mark.ending < 0]
        counts += [part.together_count for part in facts.parked]
        wanted = set(range(max(counts, default=0)))
        before: set[int] = set()
        missing: set[int] = set()
        for life, there in sorted(lives.items()):
            first = min(part.half for part in facts.parked if part.life == life)
            # What was added late is parked by itself, or has joined this life.
            there |= {
                part.index
                for part in facts.parked
                if part.life < life and (part.is_late or part.half > first)
            }
            missing |= before - there
            before |= there
            if life == max(lives):
                missing |= wanted - there
        return sorted(missing)

    def _parked_at(self, partition: int, log_offset: int) -> Where:
        return Where(self._account.layout.parked_topic, partition, log_offset)
