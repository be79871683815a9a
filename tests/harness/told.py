"""service.operators.stories.StoryLog without a Kafka: what is told is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from halfhitch.service.operators.landings import Landed, Landing
from halfhitch.service.operators.stories import Found, StoriesService, Told
from halfhitch.wire import story
from halfhitch.wire.story import ANSWERED, ASKED, Ended, Event, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halfhitch.service.operators.landings import Showing, Wanted
    from halfhitch.service.operators.stories import Search
    from harness.fake_operations import FakeOperations

#: When everything happens; tests say how much later.
BEGAN_MS = 1_700_000_000_000


def ended(name: str = "E1", group: str = "shop", key: bytes | None = b"k", **more: Any) -> Ended:
    """A commit by its producer, seven seconds after the prepare."""
    hashed = 0 if key is None else story.key_hash(b"orders", key)
    plain = Ended(
        group, name, 1, 0, f"1;0;{BEGAN_MS};pod-7;d=0123456789abcdef", BEGAN_MS + 5,
        BEGAN_MS + 7_000, 77, "producer", None, 0, 1, 40, [Target("orders", None, hashed)],
    )  # fmt: skip
    return msgspec.structs.replace(plain, **more)


def asked(name: str = "E1", number: int = 1, after_ms: int = 6_000) -> Event:
    return Event("shop", name, ASKED, BEGAN_MS + after_ms, number)


def answered(name: str = "E1", number: int = 1, after_ms: int = 6_500, **more: Any) -> Event:
    plain = Event(
        "shop", name, ANSWERED, BEGAN_MS + after_ms, number, "pod-8", "unknown", "not yet", 480
    )
    return msgspec.structs.replace(plain, **more)


@dataclass
class Targets:
    """service.operators.landings.TargetLogs: all messages lie on partition 2, from offset 17 on."""

    value: bytes = b"{}"
    trouble: str | None = None
    asked: list[Wanted] = field(default_factory=list)

    async def find(self, wanted: Sequence[Wanted], showing: Showing) -> list[Landed]:
        self.asked += wanted
        return [
            Landed(
                [self._landing(each, n, showing) for n in range(each.message_count)], self.trouble
            )
            for each in wanted
        ]

    def _landing(self, wanted: Wanted, index: int, showing: Showing) -> Landing:
        headers = [("kind", b"order"), ("raw", b"\xff")]
        content = showing.shown(b"k", self.value, headers) if wanted.shows_content else None
        topic = min(wanted.places)[0]
        return Landing(
            topic=topic, partition=2, log_offset=17 + index, stored_ms=wanted.forwarded_ms + 3,
            index=index, content=content,
        )  # fmt: skip


@dataclass
class ToldLog:
    """`found` is what it says besides; entries are told a second one after the other."""

    entries: list[Ended | Event] = field(default_factory=list)
    found: dict[str, Any] = field(default_factory=lambda: {"kept_since_ms": BEGAN_MS})
    trouble: str | None = None
    searches: list[Search] = field(default_factory=list)
    targets: Targets = field(default_factory=Targets)

    async def find(self, search: Search) -> Found:
        told: list[Told] = []
        wanted: Search | None = search
        while wanted is not None:
            self.searches.append(wanted)
            told = self._told(wanted)
            for each in told:
                assert any(needle in story.encode(each.entry) for needle in wanted.needles)
            wanted = wanted.then and wanted.then(told)
        return Found(told, **self.found)

    async def latest(self, search: Search) -> Found:
        self.searches.append(search)
        told = self._told(search)[::-1]
        found = Found(told[: search.count_max], **self.found)
        found.is_cut = len(told) > search.count_max
        return found

    def _told(self, search: Search) -> list[Told]:
        return [
            Told(1, place, BEGAN_MS + 7_000 + 1_000 * place, "pod-9", entry)
            for place, entry in enumerate(self.entries)
            if search.accepts(entry)
        ]


def stories_service(log: ToldLog, operations: FakeOperations) -> StoriesService:
    """The real one over fakes."""
    return StoriesService(
        log, operations, log.targets, lambda: log.trouble, lambda: BEGAN_MS + 100_000
    )
