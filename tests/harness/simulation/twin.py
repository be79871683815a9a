"""Redis as the owner and the desk know it: what it says about deliveries, and how it fails.

Nothing it says may make a difference but one: a number that it knows to be delivered need not be
delivered again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halfhitch.core.model import Identity
    from halfhitch.ports import Doubt
    from harness.simulation.cluster import Cluster


class Twin:
    """ports.DoubtIndex, as far as owners and desks use it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._doubts: dict[Identity, Doubt] = {}
        self._dumps: list[dict[Identity, Doubt]] = []
        self._wants_all = False
        self.is_away = False
        self.is_lying = False

    # -- ports.DoubtIndex -------------------------------------------------------------------------

    def doubtful(self, partition: int, doubts: Sequence[Doubt]) -> None:
        self._cluster.crash_point("while Redis is told")
        if not self.is_away:
            for doubt in doubts:
                self._doubts[doubt.identity] = replace(doubt)

    def settled(self, partition: int, identities: Sequence[Identity]) -> None:
        if not self.is_away:
            for identity in identities:
                self._doubts.pop(identity, None)

    def owns(self, partition: int, *, is_owned: bool, by: object = None) -> None:
        self._wants_all = is_owned

    def wants_all(self, partition: int) -> bool:
        wants, self._wants_all = self._wants_all, False
        return wants

    def has_room(self, count: int) -> bool:
        return self._cluster.timeline.chance(0.9)

    def told_all(self, partition: int) -> None:
        """Nobody lists here."""

    def known(self, identity: Identity) -> Doubt | None:
        """What it says now, true or not."""
        if self.is_away:
            return None
        doubt = self._doubts.get(identity)
        if self.is_lying and doubt is not None:
            self._cluster.timeline.count["lies of Redis"] += 1
            lie = self._cluster.timeline.dice.choice([0, 1, 15, 10_000])
            # Not one that names the very copies: nobody could tell that from the truth, and it
            # keeps a check from being delivered once. Redis must be trusted so far.
            about = (lie,) if (lie,) != doubt.half_offsets else (lie + 1,)
            doubt = replace(doubt, delivered=lie, half_offsets=about)
        return doubt

    # -- trouble ----------------------------------------------------------------------------------

    def fail(self) -> None:
        """One of the things that happen to a Redis."""
        timeline = self._cluster.timeline
        if not self._cluster.is_faulty:
            return
        what = timeline.dice.choice(["wiped", "dumped", "restored", "restored", "away", "lies"])
        timeline.count[f"redis {what}"] += 1
        timeline.note("redis {}", what)
        if what == "wiped":
            self._doubts.clear()
            self._wants_all = True
        elif what == "dumped":
            self._dumps.append(dict(self._doubts))
        elif what == "restored" and self._dumps:
            self._doubts = dict(timeline.dice.choice(self._dumps))
            self._wants_all = timeline.chance(0.7)  # else nobody has noticed
        elif what == "away":
            self.is_away = True
            timeline.after(timeline.dice.randint(1_000, 60_000), self._be_back)
        elif what == "lies":
            self.is_lying = True
            timeline.after(timeline.dice.randint(1_000, 60_000), self._be_honest)

    def _be_back(self) -> None:
        self.is_away, self._wants_all = False, True

    def _be_honest(self) -> None:
        self.is_lying = False
