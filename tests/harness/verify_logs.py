"""A world (verify_world.py) as `halfhitch verify` reads it: verify.run.Logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfhitch.verify.account import Layout, Place
from halfhitch.verify.report import Unjudged
from harness.verify_world import HALF, OP, PARKED_TOPIC, TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from harness.verify_world import World


class WorldLogs:
    """verify.run.Logs; the world goes on meanwhile, unless `still`.

    `narrowed`: targets that are not read, and why; of those in `unclear` it is not known whether
    they are compacted. `elsewhere`: other topics that halves may name, and why they are not read.
    """

    def __init__(
        self,
        world: World,
        *,
        still: bool = True,
        only: Collection[str] = (),
        narrowed: Mapping[str, Unjudged] | None = None,
        unclear: Collection[str] = (),
        compacted: Mapping[str, int] | None = None,
        elsewhere: Mapping[str, Unjudged] | None = None,
        patience: int = 400,
    ) -> None:
        self.world = world
        self._still = still
        self._only = tuple(only)
        self._narrowed = dict(narrowed or {})
        self._unclear = frozenset(unclear)
        self._compacted = dict(compacted or {})
        self._elsewhere = dict(elsewhere or {})
        self._patience = patience
        self._position: dict[Place, int] = {}
        self._followed: set[Place] = set()

    def _time_passes(self, most: int = 6) -> None:
        if not self._still:
            self.world.run(self.world.rng.randrange(most))

    def layout(self) -> Layout:
        targets = {t: c for t, c in TARGETS.items() if not self._only or t in self._only}
        targets = {t: c for t, c in targets.items() if t not in self._narrowed}
        watermarks = dict(self.world.watermarks)
        self._time_passes()
        unreadable = [t for t, why in self._narrowed.items() if why is Unjudged.TARGET_UNREADABLE]
        return Layout(
            HALF, OP, PARKED_TOPIC, targets,
            has_all_targets=not self._only and not unreadable, watermarks=watermarks,
            unreadable=frozenset(unreadable), unclear=self._unclear, compacted=self._compacted,
        )  # fmt: skip

    def watermarks(self) -> Mapping[int, int]:
        self._time_passes()
        return dict(self.world.watermarks)

    def unread(self, topics: Collection[str]) -> Mapping[str, Unjudged]:
        why = {topic: self._narrowed.get(topic, Unjudged.TARGET_NOT_READ) for topic in TARGETS}
        return {topic: (why | self._elsewhere)[topic] for topic in topics
                if topic in why or topic in self._elsewhere}  # fmt: skip

    def starts(self, topic: str, since_ms: int) -> Mapping[Place, tuple[int, bool]]:
        self._time_passes()
        found: dict[Place, tuple[int, bool]] = {}
        for place, log in self.world.logs.items():
            if place[0] == topic:
                later = (r.at for r in log.records if r.time_ms >= since_ms)
                first = max(log.start, next(later, len(log.records)))
                found[place] = first, first == log.start > 0
        return found

    def ends(self, topics: Collection[str]) -> dict[Place, int]:
        self._time_passes()
        logs = self.world.logs
        return {place: len(logs[place].records) for place in logs if place[0] in topics}

    def follow(self, starts: Mapping[Place, int]) -> None:
        for place, start in starts.items():
            self._position[place] = max(start, self._position.get(place, 0))
        self._followed |= starts.keys()
        self._time_passes()

    def leave(self, topics: Collection[str]) -> None:
        self._followed = {place for place in self._followed if place[0] not in topics}

    def pause(self) -> None:
        self._time_passes(20)

    def read_to(
        self, ends: Mapping[Place, int], take: Callable, skipped: Callable
    ) -> frozenset[Place]:
        for _ in range(self._patience):
            places = sorted(self._followed)
            self.world.rng.shuffle(places)
            for place in places:
                self._some(place, take, skipped)
                self._time_passes(3)
            if all(self._position[place] >= end for place, end in ends.items()):
                return frozenset()
        return frozenset(p for p, end in ends.items() if self._position[p] < end)

    def _some(self, place: Place, take: Callable, skipped: Callable) -> None:
        log = self.world.logs[place]
        if self._position[place] < log.start:
            skipped(place, log.start)
            self._position[place] = log.start
        upto = min(log.stable_end, self._position[place] + self.world.rng.randrange(1, 50))
        chunk = log.records[self._position[place] : upto]
        take([record for record in chunk if record.state == "visible"])
        self._position[place] = max(upto, self._position[place])
