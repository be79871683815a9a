"""The run: which cells there are, in which order, and what is reported of them.

A cell is one closed loop: one mode, one number of callers. Each begins with a warm-up that is not
measured; both end only when everything committed has been seen by the watcher. One mode runs after
the other, so that no idle coordinator takes part in what is measured.

Whatever was committed must have been seen exactly once at the end of the run, warm-ups included:
figures of a coordinator that loses or doubles messages would be worthless.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import before, beside_raw, checkback, figures, machine, native, stage, stamps, usage
from bench.children import BenchmarkError, Child
from bench.figures import Figures, Spread
from bench.page import with_part
from halfhitch.embedded import EmbeddedKafka, unwind_on_sigterm

if TYPE_CHECKING:
    from collections.abc import Iterator

_BUILD = Path(__file__).resolve().parents[1] / "build"
_PAGE = _BUILD.with_name("docs") / "performance.md"
_CONCURRENCIES = (1, 8, 32, 64, 256)
_MODES = ("raw", "engine", "http", *checkback.MODES)
_IDLE_S = 3.0
_MODE_WARM_UP_CONCURRENCY = 64
#: Java compiles what it is asked for again and again, and is slow until it has. Compiling that
#: takes less than this share of a processor is taken for its end.
_COMPILED_SHARE = 0.1
_LATENCIES = "latencies in ms; visible: from the acknowledged commit to the consumer's read"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure."""

    modes: tuple[str, ...]
    concurrencies: tuple[int, ...]
    seconds: float
    warm_up_s: float
    mode_warm_up_s: float
    repeats: int
    keyed: bool
    is_quick: bool
    before: str | None
    native: bool
    pairs: int
    turn_s: float
    beside_raw: bool
    rounds: int
    is_record: bool


def read_plan(words: list[str] | None = None) -> Plan:
    """From the command line."""
    parser = argparse.ArgumentParser(
        prog="bench", description="Throughput and latency on the embedded Kafka."
    )
    parser.add_argument("--quick", action="store_true", help="short cells at 1 and 64 callers")
    parser.add_argument(
        "--only", metavar="MODES", default=",".join(_MODES), help=f"some of: {','.join(_MODES)}"
    )
    parser.add_argument("--seconds", type=float, help="length of each cell (4; quick: 1.5)")
    parser.add_argument("--concurrency", metavar="N,N,...", type=_counts, help="numbers of callers")
    parser.add_argument(
        "--repeat", type=int, default=1, help="runs of each cell; the middle one is shown"
    )
    parser.add_argument(
        "--keyed", action="store_true", help="random keys: all half partitions share the work"
    )
    parser.add_argument(
        "--before", metavar="REV", help="only compare this tree with that commit, alternately"
    )
    parser.add_argument(
        "--native", action="store_true", help="only compare native threads with the interpreter"
    )
    parser.add_argument("--pairs", type=int, help="of a comparison, for each mode (30; quick: 4)")
    parser.add_argument(
        "--beside-raw", action="store_true", help="only compare each way with raw Kafka, in turns"
    )
    parser.add_argument("--rounds", type=int, help="of --beside-raw (15; quick: 3)")
    parser.add_argument(
        "--record", action="store_true", help="write --beside-raw's table into the page"
    )
    given = parser.parse_args(words)
    modes = tuple(given.only.split(","))
    if not set(modes) <= set(_MODES):
        parser.error(f"--only takes some of {', '.join(_MODES)}")
    return Plan(
        modes=modes,
        concurrencies=given.concurrency or ((1, 64) if given.quick else _CONCURRENCIES),
        seconds=given.seconds or (1.5 if given.quick else 4.0),
        warm_up_s=0.5 if given.quick else 1.0,
        mode_warm_up_s=4.0 if given.quick else 20.0,
        repeats=max(1, given.repeat),
        keyed=given.keyed,
        is_quick=given.quick,
        before=given.before,
        native=given.native,
        pairs=given.pairs or (4 if given.quick else 30),
        turn_s=given.seconds or (3.0 if given.beside_raw and not given.quick else 1.5),
        beside_raw=given.beside_raw,
        rounds=given.rounds or (3 if given.quick else 15),
        is_record=given.record,
    )


def _counts(text: str) -> tuple[int, ...]:
    if not all(word.isdecimal() and int(word) > 0 for word in text.split(",")):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of numbers of callers: give, say, 1,64"
        )
    return tuple(map(int, text.split(",")))


@dataclass(slots=True)
class Director:
    """Carries a plan out. `committed` is what must have been seen at the end, by cell."""

    plan: Plan
    folder: Path
    kafka: EmbeddedKafka
    watcher: Child
    results: list[list[Figures]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)  # of the check-back
    compared: list[before.Compared] = field(default_factory=list)
    ways: list[native.Compared] = field(default_factory=list)
    beside: list[beside_raw.Beside] = field(default_factory=list)
    idle: dict[str, dict[str, float]] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    # -- modes -----------------------------------------------------------------------------------

    def run(self) -> None:
        """All modes."""
        self._measure_idle("broker alone", {})
        for mode in self.plan.modes:
            if mode in checkback.MODES:
                self.rows += checkback.run(mode, self)
            else:
                {"raw": self._raw, "engine": self._engine, "http": self._http}[mode]()

    def _raw(self) -> None:
        given = self.arguments(half_topic=stage.RAW_HALF, op_topic=stage.RAW_OP)
        with self.child("load_raw", given) as load:
            pids = {"client": load.pid}
            self.warm_mode_up(load, {})
            for concurrency in self.plan.concurrencies:
                self._measure("raw Kafka", load, pids, concurrency, {})

    def _engine(self) -> None:
        with self.child("load_engine", self.arguments(prefix="engine-")) as load:
            pids = {"sidecar": load.pid}
            load.order({})  # answered as soon as it is ready
            self._measure_idle("in process", pids)
            self.warm_mode_up(load, {})
            for concurrency in self.plan.concurrencies:
                self._measure("in process", load, pids, concurrency, {})
            self._measure("in process, wait=visible", load, pids, 1, {"wait": True})

    def _http(self) -> None:
        with ExitStack() as stack:
            sidecar = stack.enter_context(stage.Sidecar(self.kafka.bootstrap, self.folder, "http-"))
            load = stack.enter_context(self.child("load_http", self.arguments()))
            pids = {"sidecar": sidecar.pid, "client": load.pid}
            unix = {"address": sidecar.address("unix")}
            tcp = {"address": sidecar.address("tcp")}
            self._measure_idle("sidecar", pids)
            self.warm_mode_up(load, unix)
            for concurrency in self.plan.concurrencies:
                self._measure("HTTP, unix socket", load, pids, concurrency, unix)
            if 64 in self.plan.concurrencies:
                self._measure("HTTP, TCP", load, pids, 64, tcp)
            self._measure("HTTP, wait=visible", load, pids, 1, {**unix, "wait": True})

    def say(self, *lines: str) -> None:
        """While it goes on."""
        for line in lines:
            print(line, file=sys.stderr)

    def child(self, module: str, given: dict[str, Any], **more: str) -> Child:
        """A process; `more` is what else its environment is to have."""
        return Child(module, given, log=self.folder / f"{module}.log", **more)

    def arguments(self, **more: Any) -> dict[str, Any]:
        """What every load is told."""
        return {
            "bootstrap": self.kafka.bootstrap,
            "topic": stage.TARGET,
            "partition_count": stage.PARTITION_COUNT,
            **more,
        }

    # -- cells -----------------------------------------------------------------------------------

    def _measure(
        self, mode: str, load: Child, pids: dict[str, int], concurrency: int, more: dict[str, Any]
    ) -> None:
        name = f"{mode}, keyed" if self.plan.keyed else mode
        runs = []
        for _ in range(self.plan.repeats):
            self.load(load, concurrency, self.plan.warm_up_s, more)
            runs.append(self._one_run(name, load, pids, concurrency, more))
        self.results.append(runs)
        self.say("  ".join(figures.row(figures.typical(runs))))

    def _one_run(
        self, mode: str, load: Child, pids: dict[str, int], concurrency: int, more: dict[str, Any]
    ) -> Figures:
        # Who runs the coordinator is asked for its memory; raw Kafka has its client alone.
        held_by = pids.get("sidecar") or pids["client"]
        pids = {**pids, "broker": self.kafka.broker_pid(), "watcher": self.watcher.pid}
        usage.forget_peak(held_by)
        began_s, before = time.monotonic(), usage.Usage.of(pids)
        answer, tally, arrived_at_s = self.load(load, concurrency, self.plan.seconds, more)
        spent = usage.Usage.of(pids).since(before)
        elapsed_s = time.monotonic() - began_s
        rss_mib, rss_peak_mib = usage.rss_mib(held_by)
        count = answer["count"]
        return Figures(
            mode=mode,
            concurrency=concurrency,
            transaction_count=count,
            forwarded_per_s=figures.forwarded_per_s(answer["started_s"], arrived_at_s),
            committed_per_s=count / (answer["ended_s"] - answer["started_s"]),
            prepare=Spread.of(tally.prepare_s),
            commit=Spread.of(tally.commit_s),
            visible=Spread.of(figures.delays_s(tally.acknowledged_at_s, arrived_at_s)),
            cpu_us={name: cpu_s / count * 1e6 for name, cpu_s in spent.cpu_s.items()},
            broker_compiling_us=spent.compiling_s / count * 1e6,
            rss_mib=rss_mib,
            rss_peak_mib=rss_peak_mib,
            others_percent=spent.others_percent(elapsed_s, os.cpu_count() or 1),
        )

    def warm_mode_up(self, load: Child, more: dict[str, Any]) -> None:
        """Until the broker's Java has compiled most of what this mode needs, within bounds."""
        broker = self.kafka.broker_pid()
        give_up_s = time.monotonic() + self.plan.mode_warm_up_s
        while True:
            began_s, before_s = time.monotonic(), usage.compiling_s(broker)
            self.load(load, _MODE_WARM_UP_CONCURRENCY, self.plan.warm_up_s * 2, more)
            now_s = time.monotonic()
            share = (usage.compiling_s(broker) - before_s) / (now_s - began_s)
            if share < _COMPILED_SHARE or now_s > give_up_s:
                return

    def load(
        self, load: Child, concurrency: int, seconds: float, more: dict[str, Any]
    ) -> tuple[dict[str, Any], stamps.Tally, Any]:
        """One closed loop, until everything it committed has been seen."""
        order = self.closed_loop(concurrency, seconds)
        answer = load.order({**order, **more})
        arrived_at_s = self.arrivals(order["cell"], answer["count"])
        return answer, stamps.Tally.load(Path(order["stamps"])), arrived_at_s

    def closed_loop(self, concurrency: int, seconds: float) -> dict[str, Any]:
        """The order to run one."""
        cell = self.new_cell()
        return {
            "cell": cell,
            "concurrency": concurrency,
            "seconds": seconds,
            "keyed": self.plan.keyed,
            "wait": False,
            "stamps": str(self.folder / f"{cell}.sent"),
        }

    def new_cell(self) -> int:
        """A number that no other cell has."""
        return next(self._numbers)

    def arrivals(self, cell: int, count: int) -> Any:
        """When each of so many messages was seen; waits until all were."""
        seen = self.folder / f"{cell}.seen"
        self.committed[cell] = count
        self.watcher.order({"cell": cell, "count": count, "stamps": str(seen)})
        return stamps.load(seen)

    def _measure_idle(self, what: str, pids: dict[str, int]) -> None:
        """What is used while nothing is asked for, in percent of one processor."""
        pids = {**pids, "broker": self.kafka.broker_pid()}
        began_s, before = time.monotonic(), usage.Usage.of(pids)
        time.sleep(_IDLE_S)
        spent = usage.Usage.of(pids).since(before)
        elapsed_s = time.monotonic() - began_s
        self.idle[what] = {name: 100 * s / elapsed_s for name, s in spent.cpu_s.items()}

    # -- the end ---------------------------------------------------------------------------------

    def check_totals(self) -> list[str]:
        """Every difference between what was committed and what was seen; none is what we want."""
        seen = self.watcher.order({"totals": True})
        wrong = [
            f"cell {cell}: {count} committed, {seen.get(str(cell), [0, 0])} seen and doubled"
            for cell, count in self.committed.items()
            if seen.get(str(cell)) != [count, 0]
        ]
        strange = [cell for cell in seen if int(cell) not in self.committed]
        return wrong + [f"messages of a cell {cell} that never ran" for cell in strange]

    def report(self, facts: dict[str, Any]) -> str:
        """For people."""
        shown = [figures.row(figures.typical(runs)) for runs in self.results]
        cells = ["", figures.table(figures.HEAD, shown), "", _LATENCIES] if shown else []
        idle = "; ".join(
            f"{what}: " + ", ".join(f"{name} {percent:.1f} %" for name, percent in used.items())
            for what, used in self.idle.items()
        )
        return "\n".join(
            [
                ", ".join(f"{name} {fact}" for name, fact in facts.items()),
                *cells,
                "",
                *checkback.report(self.rows),
                *before.report(self.compared),
                *native.report(self.ways),
                *beside_raw.report(self.beside),
                *([f"idle, in percent of one processor: {idle}"] if idle else []),
                f"committed {sum(self.committed.values()):,}, each seen exactly once",
            ]
        )

    def save(self, facts: dict[str, Any]) -> Path:
        """For programs."""
        _BUILD.mkdir(exist_ok=True)
        path = _BUILD / f"bench-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
        content = {
            "machine": facts,
            "plan": dataclasses.asdict(self.plan),
            "idle_percent": self.idle,
            "check_back": self.rows,
            "compared": [dataclasses.asdict(compared) for compared in self.compared],
            "ways": [dataclasses.asdict(compared) for compared in self.ways],
            "beside_raw": [dataclasses.asdict(beside) for beside in self.beside],
            "cells": [[dataclasses.asdict(run) for run in runs] for runs in self.results],
        }
        path.write_text(json.dumps(content, indent=1) + "\n")
        return path


def main() -> int:
    """The benchmark; 1 when a message was lost or doubled, or when something broke."""
    plan = read_plan()
    facts = machine.facts()
    try:
        with ExitStack() as stack:
            stack.enter_context(unwind_on_sigterm())
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hh-bench-")))
            kafka = stack.enter_context(EmbeddedKafka())
            stage.make_topics(kafka.bootstrap)
            given = {
                "bootstrap": kafka.bootstrap,
                "topic": stage.TARGET,
                "partition_count": stage.PARTITION_COUNT,
            }
            watcher = stack.enter_context(Child("watcher", given, log=folder / "watcher.log"))
            director = Director(plan, folder, kafka, watcher)
            if plan.native:
                director.ways = native.compare(director)
            elif plan.beside_raw:
                director.beside = beside_raw.measure(director, plan.rounds)
            elif plan.before is not None:
                director.compared = before.compare(director, plan.before)
            else:
                director.run()
            wrong = director.check_totals()
            path = director.save(facts)
            if wrong:
                print("\n".join(wrong), file=sys.stderr)
                return 1
            print(director.report(facts))
            print(f"all runs: {path}")
            if plan.is_record and director.beside:
                table = beside_raw.markdown(director.beside, facts, plan.turn_s)
                _PAGE.write_text(with_part(_PAGE.read_text(), "make bench-raw", table))
            return 0
    except BenchmarkError as error:
        print(f"the benchmark failed: {error}", file=sys.stderr)
        return 1
