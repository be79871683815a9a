"""Why a message that was not found need not be lost. Whatever is doubtful is an excuse.

A message is sought everywhere, but it can only have been deleted where it was: on its fixed
partition, on the one of its key, or, when its half is gone and nothing tells where it went, on any.
A topic without any message of ours excuses nothing by itself: see `TARGET_UNTOLD`.
"""

from typing import Final

from halfhitch.verify.account import PlaceAccount
from halfhitch.verify.facts import Facts, Half
from halfhitch.verify.report import Unjudged
from halfhitch.verify.telling import Telling

#: What lies nowhere hides nothing.
_NO_TOPICS: Final = frozenset({Unjudged.TARGET_IMPOSSIBLE})


class Excuses(Telling):
    """Part of the judge."""

    def _why_unjudged(self, facts: Facts, index: int, since_ms: int) -> Unjudged | None:
        """Why this message may be missing from what was read without being lost; None: it is."""
        half = self._half_of(facts, index)
        topic = None if half is None else self._topic_named(half)
        why = self._why_unread(topic)
        if why is not None:
            return why
        places = self._where_it_was(half, topic, since_ms)
        if self._bounds.is_open(places):
            return Unjudged.TARGET_OPEN
        if topic is not None:
            return self._why_deleted(places, half, since_ms)
        # Any topic may have had it. One on which nothing of ours lies (a registry's, a stream
        # job's) explains no loss, so that with it alone nobody says clean.
        used = {place.place[0] for place in places if place.first_ms is not None}
        near = [place for place in places if place.place[0] in used]
        why = self._why_deleted(near, half, since_ms)
        if why is None and self._why_deleted(places, half, since_ms) is not None:
            return Unjudged.TARGET_UNTOLD
        return why

    def _why_deleted(
        self, places: list[PlaceAccount], half: Half | None, since_ms: int
    ) -> Unjudged | None:
        """Why one of these may have lost it lawfully."""
        if self._bounds.may_be_trimmed(places, since_ms):
            return Unjudged.TARGET_TRIMMED
        topics = {place.place[0] for place in places}
        if any(self._bounds.may_be_compacted(one, half, since_ms) for one in topics):
            return Unjudged.TARGET_COMPACTED
        return None

    def _why_unread(self, topic: str | None) -> Unjudged | None:
        """Why it may lie where nothing was read."""
        layout, unread = self._account.layout, self._account.unread
        if topic is None:
            if layout.unreadable or layout.unclear:
                return Unjudged.TARGET_UNREADABLE
            # Halves that name a topic that was not read: others may have gone there, too.
            is_all = layout.has_all_targets and set(unread.values()) <= _NO_TOPICS
            return None if is_all else Unjudged.TARGET_UNKNOWN
        if topic not in layout.targets:
            return unread.get(topic, Unjudged.TARGET_GONE)
        return Unjudged.TARGET_UNREADABLE if topic in layout.unclear else None

    def _where_it_was(
        self, half: Half | None, topic: str | None, since_ms: int
    ) -> list[PlaceAccount]:
        """The partitions that it can have been on."""
        targets = self._account.layout.targets
        if topic is None or half is None:
            return [place for place in self._account.places if place.place[0] in targets]
        if half.fixed_partition >= 0:
            return self._places(topic, (half.fixed_partition,))
        if half.key_hash >= 0:
            early_ms = since_ms - self._bounds.memory_ms - self._bounds.step_ms
            return self._places(topic, self._homes.of_key(topic, half.key_hash, early_ms))
        return self._account.of_topic(topic)

    def _topic(self, facts: Facts, index: int) -> str | None:
        """Where the message was to go, if its half is still there."""
        half = self._half_of(facts, index)
        return None if half is None else self._topic_named(half)

    def _half_of(self, facts: Facts, index: int) -> Half | None:
        """Its half, if it is still there and there is no other one of this index."""
        halves = [half for half in facts.halves if half.index == index]
        same = {(h.topic, h.fixed_partition, h.key_digest) for h in halves}
        return halves[0] if len(same) == 1 and halves[0].topic >= 0 else None
