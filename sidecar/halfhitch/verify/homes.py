"""In which partitions of its target a message may lie: the fixed one, the one of its key, or any.

Owns `Homes`. A topic may have had fewer partitions when a message was sent, and
Kafka does not tell since when it has as many as now. Our own records do: one whose key leads to
its partition only because there are so many (a witness) says that there were as many by then.
Pure.
"""

from collections.abc import Mapping, Sequence

from halfhitch.verify.account import PlaceAccount
from halfhitch.verify.facts import Facts


class Homes:
    """Needs one pass over all transactions (`witness`).

    `clock_ms`: so wrong a clock may be. `grown_ms`: so late owners may hear of new partitions.
    """

    def __init__(self, counts: Mapping[str, int], clock_ms: int, grown_ms: int) -> None:
        self._counts = counts
        self._clock_ms, self._grown_ms = clock_ms, grown_ms
        #: By topic: since when it surely has as many partitions as now.
        self.full_since_ms: dict[str, int] = {}

    def witness(self, facts: Facts, places: Sequence[PlaceAccount], topics: Sequence[str]) -> None:
        """What its records tell whose halves are there; `places` and `topics` by their numbers."""
        if not facts.halves or not facts.forwards:
            return
        hashes = {
            (half.index, topics[half.topic]): half.key_hash
            for half in facts.halves
            if half.key_hash >= 0 and half.fixed_partition < 0 and half.topic >= 0
        }
        for forward in facts.forwards:
            topic, partition = places[forward.place].place
            hashed = hashes.get((forward.index, topic))
            known_ms = self.full_since_ms.get(topic)
            if hashed is None or (known_ms is not None and known_ms <= forward.time_ms):
                continue
            count = self._counts[topic]
            if hashed % count == partition and not self._was_at(hashed, count, partition):
                doubt_ms = 0 if forward.is_broker_time else self._clock_ms
                since_ms = forward.time_ms + doubt_ms + self._grown_ms
                self.full_since_ms[topic] = min(since_ms, known_ms or since_ms)

    def of_key(self, topic: str, hashed: int, time_ms: int) -> frozenset[int]:
        """Where a message with such a key can have gone at this time."""
        count = self._counts[topic]
        if time_ms >= self.full_since_ms.get(topic, time_ms + 1):
            return frozenset((hashed % count,))
        return frozenset(hashed % fewer for fewer in range(1, count + 1))

    @staticmethod
    def _was_at(hashed: int, count: int, partition: int) -> bool:
        """Whether it would have gone there with fewer partitions, too."""
        return any(hashed % fewer == partition for fewer in range(1, count))
