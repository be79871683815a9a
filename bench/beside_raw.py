"""The ways of preparing and committing beside raw Kafka, in turns: `python bench --beside-raw`.

All four stand at once, and one of them works: a cell of raw Kafka, one in process, one over the
unix socket and one over TCP, and again, in an order that turns around. Each is compared with the
cell of raw Kafka of its own round. What stands idle takes a few percent of a core from each alike.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench import figures, stage, usage
from bench.figures import Ratio
from bench.rocketmq.plan import COMPILED, NATIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.children import Child
    from bench.director import Director

RAW: Final = "raw Kafka"
_ONE: Final = "HTTP, unix socket"
_HEAD: Final = (
    "mode", "callers", "commits/s", "to raw Kafka", "middle half", "us/tx client side",
    "us/tx Kafka", "p50 of both ms", "to raw's", "rounds",
)  # fmt: skip


class Way(NamedTuple):
    """One of them; `pids` are whose processor time stands beside Kafka's."""

    name: str
    load: Child
    pids: dict[str, int]
    more: dict[str, Any]


@dataclass(slots=True)
class Beside:
    """Of one way and one number of callers, in the order of rounds."""

    mode: str
    callers: int
    per_s: list[float] = field(default_factory=list)
    both_p50_ms: list[float] = field(default_factory=list)  # prepare and commit together
    own_us: list[float] = field(default_factory=list)
    kafka_us: list[float] = field(default_factory=list)
    others_percent: list[float] = field(default_factory=list)


def measure(director: Director, rounds: int) -> list[Beside]:
    """All of them, with 64 callers and with one."""
    with ExitStack() as stack:
        ways = _open(stack, director)
        for way in ways:
            director.warm_mode_up(way.load, way.more)
        found = {
            (way.name, callers): Beside(way.name, callers)
            for callers in (64, 1)
            for way in ways
            if callers == 64 or way.name in (RAW, _ONE)
        }
        for number in range(rounds):
            for callers in (64, 1):
                of_these = [way for way in ways if (way.name, callers) in found]
                for way in of_these if number % 2 == 0 else reversed(of_these):
                    _cell(director, way, found[way.name, callers])
            shown = [f"{b.mode} ({b.callers}) {b.per_s[-1]:,.0f}" for b in found.values()]
            director.say(f"round {number + 1}: " + ", ".join(shown))
    return list(found.values())


def _open(stack: ExitStack, director: Director) -> list[Way]:
    path = fast_path()
    raw = stack.enter_context(
        director.child(
            "load_raw", director.arguments(half_topic=stage.RAW_HALF, op_topic=stage.RAW_OP)
        )
    )
    given = director.arguments(prefix="beside-engine-")
    engine = stack.enter_context(director.child("load_engine", given, **path))
    engine.order({})  # answered as soon as it is ready
    sidecar = stack.enter_context(
        stage.Sidecar(director.kafka.bootstrap, director.folder, "beside-http-", **path)
    )
    client = stack.enter_context(director.child("load_http", director.arguments()))
    pids = {"sidecar": sidecar.pid, "client": client.pid}
    return [
        Way(RAW, raw, {"client": raw.pid}, {}),
        Way("in process", engine, {"sidecar": engine.pid}, {}),
        Way(_ONE, client, pids, {"address": sidecar.address("unix")}),
        Way("HTTP, TCP", client, pids, {"address": sidecar.address("tcp")}),
    ]


def fast_path() -> dict[str, str]:
    """What a release has: the hot path in C and the native module, as far as they are built."""
    folders = [
        str(folder)
        for folder, parts in ((COMPILED, "halfhitch/**/*.so"), (NATIVE, "*.so"))
        if any(folder.glob(parts))
    ]
    return {"PYTHONPATH": os.pathsep.join(folders)} if folders else {}


def _cell(director: Director, way: Way, beside: Beside) -> None:
    pids = {**way.pids, "broker": director.kafka.broker_pid(), "watcher": director.watcher.pid}
    before = usage.Usage.of(pids)
    answer, tally, arrived_at_s = director.load(
        way.load, beside.callers, director.plan.turn_s, way.more
    )
    spent = usage.Usage.of(pids).since(before)
    count = answer["count"]
    both_s = [p + c for p, c in zip(tally.prepare_s, tally.commit_s, strict=True)]
    beside.per_s.append(count / (answer["ended_s"] - answer["started_s"]))
    beside.both_p50_ms.append(figures.percentile(sorted(both_s), 50) * 1000)
    beside.own_us.append(sum(spent.cpu_s[name] for name in way.pids) / count * 1e6)
    beside.kafka_us.append(spent.cpu_s["broker"] / count * 1e6)
    elapsed_s = max(arrived_at_s) - answer["started_s"]
    beside.others_percent.append(spent.others_percent(elapsed_s, os.cpu_count() or 1))


def rows(found: Sequence[Beside]) -> list[tuple[str, ...]]:
    """As _HEAD says."""
    raw = {beside.callers: beside for beside in found if beside.mode == RAW}
    return [_row(beside, raw[beside.callers]) for beside in found]


def _row(beside: Beside, raw: Beside) -> tuple[str, ...]:
    rate = Ratio.of(raw.per_s, beside.per_s)
    wait = Ratio.of(raw.both_p50_ms, beside.both_p50_ms)
    is_raw = beside is raw
    return (
        beside.mode,
        str(beside.callers),
        f"{median(beside.per_s):,.0f}",
        "" if is_raw else f"{rate.median:.2f}",
        "" if is_raw else f"{rate.low:.2f} to {rate.high:.2f}",
        f"{median(beside.own_us):.0f}",
        f"{median(beside.kafka_us):.0f}",
        f"{median(beside.both_p50_ms):.1f}",
        "" if is_raw else f"{wait.median:.2f}",
        str(rate.count),
    )


def report(found: Sequence[Beside]) -> list[str]:
    """For people."""
    if not found:
        return []
    shares = [share for beside in found for share in beside.others_percent]
    middle = f"others took {median(shares):.0f} % of the machine (median of the cells)"
    return [figures.table(_HEAD, rows(found)), "", middle, ""]


def markdown(found: Sequence[Beside], facts: dict[str, Any], seconds: float) -> str:
    """For the page."""
    shares = [share for beside in found for share in beside.others_percent]
    head, *lines = [f"| {' | '.join(row)} |" for row in (_HEAD, *rows(found))]
    return (
        f"{len(found[0].per_s)} rounds of cells of {seconds:g} s; {facts['cores']} cores "
        f"({facts['processor']}) shared by callers and servers, Kafka {facts['kafka']}, librdkafka "
        f"{facts['librdkafka']}; 1,024 bytes. Other programs took {median(shares):.0f} % of the "
        f"machine in the middle cell.\n\n" + "\n".join([head, "|---" * len(_HEAD) + "|", *lines])
    )
