"""The audit on Spark without Spark and Kafka: of a world (verify_world.py), in one process."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from chaos.kit.losing import RULES
from halfhitch.wire.topics import InternalTopics
from halfhitch_spark.audit.plan import Plan, Wanted, make_plan
from halfhitch_spark.audit.run import Given, Result, look
from halfhitch_spark.audit.taking import SEEN, Seen, taken
from harness.verify_world import HALF, OP, PARKED_TOPIC, TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from halfhitch.verify.account import Place
    from halfhitch_spark.audit.judging import Case
    from harness.verify_world import Stored, World

TASKS = 3
NAMES = InternalTopics()
OWN = {HALF: NAMES.half, OP: NAMES.op, PARKED_TOPIC: NAMES.parked}


class WorldOffsets:
    """halfhitch_spark.audit.plan.Offsets of a world."""

    def __init__(self, world: World, compacted: dict[str, int] | None = None) -> None:
        self._logs = {(OWN.get(place[0], place[0]), place[1]): place for place in world.logs}
        self._world = world
        self._compacted = dict(compacted or {})
        self.asked: list[str] = []

    def log(self, place: Place) -> Any:
        return self._world.logs[self._logs[place]]

    def partitions(self) -> dict[str, int]:
        counts: dict[str, int] = {"__consumer_offsets": 50}
        for topic, partition in self._logs:
            counts[topic] = max(counts.get(topic, 0), partition + 1)
        return counts

    def starts(self, places: Collection[Place]) -> dict[Place, int]:
        return {place: self.log(place).start for place in places}

    def at_time(self, places: Collection[Place], since_ms: int) -> dict[Place, int]:
        return {
            place: next((r.at for r in self.log(place).records if r.time_ms >= since_ms), -1)
            for place in places
        }

    def ends(self, places: Collection[Place]) -> dict[Place, int]:
        self.asked += sorted({topic for topic, _ in places})
        return {place: len(self.log(place).records) for place in places}

    def stable_ends(self, places: Collection[Place]) -> dict[Place, int]:
        return {place: self.log(place).stable_end for place in places}

    def watermarks(self, group: str, topic: str) -> dict[int, int]:
        assert (group, topic) == (NAMES.owner_group, NAMES.half)
        return dict(self._world.watermarks)

    def compacted(self, topics: Collection[str]) -> dict[str, int]:
        return {topic: self._compacted[topic] for topic in topics if topic in self._compacted}


def row_of(record: Stored) -> tuple[Any, ...]:
    """As Spark gives it: numbers of time types are one less, bytes are bytearrays."""
    topic, partition = record.place
    raw = [None if value is None else bytearray(value) for _, value in record.stored_headers]
    key, value = record.stored_key, record.stored_value
    return (
        *(OWN.get(topic, topic), partition, record.at, record.time_ms, record.kind - 1),
        *(None if each is None else bytearray(each) for each in (key, value)),
        *([name for name, _ in record.stored_headers], raw),
    )


class WorldPieces:
    """halfhitch_spark.audit.run.Pieces; what goes from task to task is pickled, as on Spark."""

    def __init__(self, world: World, plan: Plan) -> None:
        self._found: list[list[tuple[int, Any]]] = [[] for _ in range(TASKS + 1)]
        for (topic, partition), log in world.logs.items():
            place = OWN.get(topic, topic), partition
            first, end = plan.starts[place][0], plan.ends[place]
            rows = [row_of(r) for r in log.records[first:end] if r.state == "visible"]
            for bucket, found in taken(pickle.loads(pickle.dumps(plan)), rows):
                sent = pickle.loads(pickle.dumps((bucket, found)))
                self._found[TASKS if bucket == SEEN else bucket % TASKS].append(sent)

    def seen(self) -> list[Seen]:
        return [found for _, found in self._found[TASKS]]

    def each(self, judge: Callable[[Case, Any], Iterator[Any]], case: Case) -> list[Any]:
        raw = pickle.dumps(case)
        return [one for part in self._found[:TASKS] for one in judge(pickle.loads(raw), iter(part))]


def by_spark(world: World, compacted: dict[str, int] | None = None, **more: Any) -> Result:
    """One look; `more`: of Wanted, and `group` and `limit` of Given."""
    group, limit = more.pop("group", None), more.pop("limit", 1_000)
    wanted = Wanted(NAMES, tuple(TARGETS), **more)
    kafka = WorldOffsets(world, compacted)
    plan = make_plan(kafka, wanted, sleep=lambda _: None)
    given = Given("nowhere:1", wanted, RULES, group, limit)
    return look(WorldPieces(world, plan), kafka, given, plan)
