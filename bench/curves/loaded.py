"""Curves of what goes through: half partitions, payload, instances."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bench import stage, usage
from bench.beside_raw import fast_path
from bench.curves.measuring import Ground, cell, idle_percent
from bench.curves.points import middle
from harness.kafka import wait_until

if TYPE_CHECKING:
    from bench.curves.plan import Plan
    from bench.curves.points import Point
    from bench.director import Director

_CALLERS: Final = 64
#: Large bodies: what is under way must fit into memory.
_CALLERS_LARGE: Final = 8
_LARGE_KIB: Final = 64
_IDLE_S: Final = 5.0
_SHARED_S: Final = 60.0
#: Compiling that takes less than this share of a processor is taken for its end; no warm-up is
#: longer than so many times its length for each broker.
_COMPILED_SHARE: Final = 0.1
_COMPILED_AFTER: Final = 6
_BY: Final = "commits_per_s"


def partitions(director: Director, plan: Plan) -> list[Point]:
    """Keys are random, so all half partitions have work."""
    director.plan = replace(director.plan, keyed=True)
    found = []
    for count in plan.places["partitions"]:
        more = {"HALFHITCH_TOPICS_PARTITIONS": str(int(count))}
        with ExitStack() as stack:
            ground = _ground(stack, director, f"partitions-{int(count)}-", more)
            _warm_up(ground, plan)
            idle = idle_percent(ground.sidecars[0], _IDLE_S)
            point = _typical(ground, plan, count, _CALLERS)
            point.values["idle_percent"] = idle
            found.append(_say(director, "partitions", point))
    return found


def payload(director: Director, plan: Plan) -> list[Point]:
    """Bodies of so many KiB; from 64 KiB on eight callers instead of 64."""
    found = []
    with ExitStack() as stack:
        more = {"HALFHITCH_MESSAGES_BYTES_MAX": "1100000"}
        ground = _ground(stack, director, "payload-", more)
        _warm_up(ground, plan)
        for kib in plan.places["payload"]:
            callers = _CALLERS_LARGE if kib >= _LARGE_KIB else _CALLERS
            size = int(kib * 1024)
            ground.run(callers, plan.warm_up_s / 2, body_bytes=size)
            point = _typical(ground, plan, kib, callers, body_bytes=size)
            point.values["mib_per_s"] = point.values["forwarded_per_s"] * size / 2**20
            found.append(_say(director, "payload", point))
    return found


def instances(director: Director, plan: Plan) -> list[Point]:
    """So many sidecars, which share four half partitions; the callers are shared too."""
    director.plan = replace(director.plan, keyed=True)
    found = []
    for count in plan.places["instances"]:
        with ExitStack() as stack:
            prefix = f"instances-{int(count)}-"
            ground = _ground(stack, director, prefix, {}, instance_count=int(count))
            _warm_up(ground, plan)
            found.append(_say(director, "instances", _typical(ground, plan, count, _CALLERS)))
    return found


def _ground(
    stack: ExitStack,
    director: Director,
    prefix: str,
    more: dict[str, str],
    instance_count: int = 1,
) -> Ground:
    factor = str(len(director.kafka.broker_ids))
    settings = {**fast_path(), "HALFHITCH_TOPICS_REPLICATION_FACTOR": factor, **more}
    sidecars = [
        stack.enter_context(
            stage.Sidecar(
                director.kafka.bootstrap,
                director.folder,
                prefix,
                awaits_all=instance_count == 1,
                HALFHITCH_INSTANCE_ID=f"bench-{number}",
                **settings,
            )
        )
        for number in range(instance_count)
    ]
    if instance_count > 1:
        wait_until(
            lambda: (
                [s.working_count() for s in sidecars].count(0) == 0
                and sum(s.working_count() for s in sidecars) == stage.PARTITION_COUNT
            ),
            _SHARED_S,
            interval_s=0.2,
            what=f"{instance_count} instances that share the half partitions",
        )
    loads = [
        stack.enter_context(director.child("load_http", director.arguments())) for _ in sidecars
    ]
    return Ground(director, sidecars, loads)


def _warm_up(ground: Ground, plan: Plan) -> None:
    """The first place of a curve would pay for what Java compiles, and the last would not."""
    kafka = ground.director.kafka
    brokers = [kafka.broker_pid(number) for number in kafka.broker_ids]
    give_up_s = time.monotonic() + _COMPILED_AFTER * plan.warm_up_s * len(brokers)
    while True:
        began_s, before_s = time.monotonic(), sum(map(usage.compiling_s, brokers))
        ground.run(_CALLERS, plan.warm_up_s)
        now_s = time.monotonic()
        spent_s = sum(map(usage.compiling_s, brokers)) - before_s
        if spent_s < _COMPILED_SHARE * (now_s - began_s) or now_s > give_up_s:
            return


def _typical(ground: Ground, plan: Plan, at: float, callers: int, **more: int) -> Point:
    cells = [cell(ground, at, callers, plan.seconds, **more) for _ in range(plan.repeats)]
    return middle(cells, _BY)


def _say(director: Director, name: str, point: Point) -> Point:
    shown = ", ".join(f"{what} {value:,.1f}" for what, value in point.values.items())
    director.say(f"{name} {point.at:g}: {shown}; {point.threads}")
    return point
