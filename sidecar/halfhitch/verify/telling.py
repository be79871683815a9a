"""What the judge's parts have in common: what they look at, and how they say what they found."""

from collections.abc import Iterable

from halfhitch.verify.account import Account, PlaceAccount
from halfhitch.verify.bounds import Bounds
from halfhitch.verify.facts import Facts, Forward, Half
from halfhitch.verify.homes import Homes
from halfhitch.verify.report import Findings, Kind, Violation, Where


class Telling:
    """See the module's text."""

    def __init__(self, account: Account, bounds: Bounds, homes: Homes, findings: Findings) -> None:
        self._account = account
        self._bounds = bounds
        self._homes = homes
        self._findings = findings
        #: Not all of the op log could be read: what was not found there may be there.
        self._is_blind = account.op_gap or bounds.op_is_open
        self._parked = account.of_topic(account.layout.parked_topic)
        self._parked_is_open = any(place.is_open for place in self._parked)

    def _violate(
        self,
        kind: Kind,
        facts: Facts,
        indexes: tuple[int, ...],
        where: tuple[Where, ...],
        detail: str,
    ) -> None:
        self._findings.violate(Violation(kind, *facts.identity, indexes, where, detail))

    def _topic_named(self, half: Half) -> str | None:
        """Where its half sends it; None: its half could not be read."""
        return self._account.topics[half.topic] if half.topic >= 0 else None

    def _at(self, forwards: Iterable[Forward]) -> tuple[Where, ...]:
        places = self._account.places
        found = [(*places[f.place].place, f.log_offset) for f in forwards]
        return tuple(Where(*place) for place in sorted(found))

    def _half_at(self, half: Half) -> Where:
        return Where(self._account.layout.half_topic, half.half_partition, half.half_offset)

    def _op_at(self, partition: int, op_offset: int) -> Where:
        return Where(self._account.layout.op_topic, partition, op_offset)

    def _half_start(self, partition: int) -> int:
        return self._places(self._account.layout.half_topic, (partition,))[0].first_log_offset

    def _places(self, topic: str, partitions: Iterable[int]) -> list[PlaceAccount]:
        return [self._account.place((topic, partition)) for partition in partitions]
