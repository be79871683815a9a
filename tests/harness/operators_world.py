"""Everything around what operators do, over fakes: who is asked, what is written."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from halfhitch.core.model import (
    Identity,
    ProducerGroup,
    Resolution,
    TransactionId,
)
from halfhitch.core.standing import Standing
from halfhitch.errors import BackendError, HalfHitchError
from halfhitch.ports import Doubt, ParkedContent
from halfhitch.service.api import Filter, Undecided
from halfhitch.service.checking import inbox
from halfhitch.service.operators.many import ManyOperations
from halfhitch.service.operators.parts import FoundHalves, OperationsParts, Searched
from halfhitch.service.transactions.first import FirstDecisions, LookedUp, Place
from halfhitch.service.transactions.op_appends import Decision
from halfhitch.wire.parked import CHECKS_EXHAUSTED, Parked
from halfhitch.wire.parked_fold import ParkedHalf, Parking
from harness.twin import RecordingObserver

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

NOW_MS = 1_000_000_000
C, R = Resolution.COMMIT, Resolution.ROLLBACK


def identity(name: str) -> Identity:
    return ProducerGroup("shop"), TransactionId(name)


def pending(name: str, partition: int = 0, age_s: float = 10.0, **more: Any) -> Undecided:
    values: dict[str, Any] = {
        "topics": ("orders",), "message_count": 2, "half_offsets": (4, 5), "check_count": 1,
        "check_max": 15, "delivered": True, "next_check_s": 3.0, "last_answer": None, "asked": None,
    }  # fmt: skip
    return Undecided(
        transaction_id=name, producer_group="shop", partition=partition, age_s=age_s,
        stored_ms=NOW_MS - int(age_s * 1000),
        **{**values, **more},
    )  # fmt: skip


def doubt(name: str, age_s: float = 20.0, **more: Any) -> Doubt:
    values: dict[str, Any] = {
        "topics": ("orders",), "message_count": 9, "half_offsets": (70, 71), "check_count": 2,
        "immune_until_ms": 0, "due_ms": NOW_MS + 5_000, "delivered": 1,
    }  # fmt: skip
    return Doubt(identity=identity(name), born_ms=NOW_MS - int(age_s * 1000), **{**values, **more})


def parking(name: str, **more: Any) -> Parking:
    why = Parked(CHECKS_EXHAUSTED, "nobody answered", 2, 7, None, 15, NOW_MS - 90_000, "silent")
    first = ParkedHalf(
        (0, 3), NOW_MS - 60_000, 10, identity(name), 0, more.pop("topic", "orders"), None, 1, why
    )
    return Parking(identity(name), 2, [first], more.pop("decision", None))


@dataclass
class World:
    """All the neighbours of the service."""

    owned_here: set[int] = field(default_factory=lambda: {0, 1})
    pending: list[Undecided] = field(default_factory=list)
    standings: dict[str, Standing] = field(default_factory=dict)
    doubts: dict[int, list[Doubt] | Exception] = field(default_factory=dict)
    owner_of: dict[int, str] = field(default_factory=lambda: {2: "node-2", 3: "node-2"})
    #: What Redis gives for the whole list's mark, one after the other; the last one again.
    marks: dict[int, list[str | None]] = field(default_factory=dict)
    partition_total: int = 4
    found: FoundHalves | HalfHitchError | None = None
    first: Resolution | HalfHitchError | None = None
    gone: set[int] = field(default_factory=set)  # while the decision was on its way
    fails: Exception | None = None
    parked: list[Parking] = field(default_factory=list)
    redis: bool = True
    posted: bool = True

    def __post_init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.decisions: list[tuple[int, Decision]] = []
        self.observer = RecordingObserver()
        self.service = ManyOperations(
            OperationsParts(
                owners=self, decisions=self, halves=self, inquiry=self, parked=Store(self),
                firsts=FirstDecisions(self, self, wait_s=10.0),
                index=Index(self) if self.redis else None, presence=self if self.redis else None,
                observer=self.observer, clock=self, check_count_max=15,
                partition_count=lambda: self.partition_total,
            )  # type: ignore[arg-type]
        )  # fmt: skip

    def wall_ms(self) -> int:
        return NOW_MS

    def monotonic_s(self) -> float:
        return 1.0

    # owners
    def owned(self) -> set[int]:
        return self.owned_here

    async def undecided(self, wanted: Filter) -> tuple[list[Undecided], int]:
        found = [
            p
            for p in self.pending
            if wanted.transaction_id in (None, p.transaction_id)
            and wanted.producer_group in (None, p.producer_group)
        ]
        found.sort(key=lambda shown: -shown.age_s)
        return found[: wanted.count_max], len(found)

    async def names(self, wanted: Filter) -> tuple[list[tuple[int, Identity]], int]:
        found, count = await self.undecided(wanted)
        named = [(NOW_MS - int(p.age_s * 1000), identity(p.transaction_id)) for p in found]
        return named, count

    async def halves_of(self, identities: Any) -> dict[Identity, tuple[int, tuple[int, ...], int]]:
        self.asked.append(("halves_of", len(identities)))
        return {
            identity(p.transaction_id): (p.partition, p.half_offsets, p.message_count)
            for p in self.pending
            if identity(p.transaction_id) in identities
        }

    async def check_now(self, partition: int, identity: Identity) -> bool:
        self.asked.append(("check_now", partition, identity[1]))
        return any(p.transaction_id == identity[1] for p in self.pending)

    def standing(self, partition: int, identity: Identity, half_offset: int) -> Standing | None:
        first = next((it for _, it in self.decisions if it.identity == identity), None)
        default = Standing.UNKNOWN if first is None else Standing.of_resolution(first.resolution)
        return self.standings.get(identity[1], default)

    # decisions
    def append(self, partition: int, decision: Decision) -> asyncio.Future[int]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self.fails is not None:
            future.set_exception(self.fails)
        else:
            self.decisions.append((partition, decision))
            future.set_result(1)
        return future

    def has_read(self, place: Place) -> bool | None:
        return True if place.partition in self.owned_here - self.gone else None

    # halves, inquiry, presence
    async def find(
        self, partitions: Any, identities: Collection[Identity], hints: Mapping[int, int]
    ) -> Searched:
        names = ", ".join(name for _, name in identities)
        self.asked.append(("find", tuple(partitions), names, hints))
        if isinstance(self.found, HalfHitchError):
            return Searched({}, self.found)
        found = self.found
        return Searched({} if found is None else dict.fromkeys(identities, found))

    async def look_up(
        self, partition: int, identity: Identity, half_offset: int
    ) -> tuple[Resolution | None, bool]:
        self.asked.append(("look_up", partition, half_offset))
        if isinstance(self.first, Exception):
            raise self.first
        return self.first, False

    async def look_up_many(
        self, partition: int, half_offsets: Mapping[Identity, int], seen_ms: int | None = None
    ) -> dict[Identity, LookedUp]:
        self.asked.append(("look_up_many", partition, len(half_offsets)))
        if isinstance(self.first, BackendError):
            raise self.first
        return {
            identity: self.first if isinstance(self.first, HalfHitchError) else (self.first, False)
            for identity in half_offsets
        }

    def post(self, instance: str, kind: str, body: bytes) -> bool:
        self.asked.append(("post", instance, kind, inbox.read_check_now(body)))
        return self.posted

    async def decide(self, name: str, resolution: Resolution = C) -> Any:
        return await self.service.decide(
            "shop", name, resolution, reason="asked the shop", operator="ann"
        )


@dataclass
class Index:
    world: World

    async def list(self, partition: int, *, count_max: int) -> list[Doubt]:
        found = self.world.doubts.get(partition, [])
        if isinstance(found, Exception):
            raise found
        return found

    async def find(self, partition: int, identities: list[Identity]) -> list[Doubt]:
        self.world.asked.append(("known", partition, [name for _, name in identities]))
        return [d for d in await self.list(partition, count_max=9) if d.identity in identities]

    async def whole(self, partition: int) -> str | None:
        marks = self.world.marks.setdefault(partition, ["one"])
        return marks.pop(0) if len(marks) > 1 else marks[0]

    async def owner(self, partition: int) -> str | None:
        return self.world.owner_of.get(partition)


@dataclass
class Store:
    world: World

    async def parkings(self, identity: Identity | None = None) -> tuple[list[Parking], int]:
        self.world.asked.append(("parkings", identity))
        return [p for p in self.world.parked if identity in (None, p.identity)], 3

    async def content(self, identity: Identity) -> tuple[Parking, list[ParkedContent]]:
        return self.world.parked[0], [ParkedContent("orders", None, b"k", b"v", [("a", None)])]

    async def resume(self, identity: Identity, *, reason: str, operator: str) -> Parking:
        self.world.asked.append(("resume", identity[1], reason, operator))
        return self.world.parked[0]
