"""The run: rounds, turns, and what is kept of them.

A round starts both coordinators anew; then, for each number of connections, they take turns. So a
pair of runs that is compared lies within a minute or two.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import machine, usage
from bench.children import BenchmarkError
from bench.dtm import page, results
from bench.dtm.account import Told, faults
from bench.dtm.plan import DTM, DTM_VERSION, HALF_HITCH, SCRIPTS, program, read_plan
from bench.dtm.sides import DataDoorSide, DtmSide
from halfhitch.embedded import unwind_on_sigterm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.dtm.account import Place
    from bench.dtm.plan import Plan
    from bench.dtm.sides import Side

_BUILD = Path(__file__).resolve().parents[2] / "build"
_SIDES = {DTM: DtmSide, HALF_HITCH: DataDoorSide}
_WRK_TIMEOUT_S = 10
#: Beyond its time wrk may need this long to come to its end.
_END_S = 60.0
#: A server that stood still has timers to catch up with.
_COME_ROUND_S = 1.0


@dataclass(slots=True)
class Director:
    """Carries a plan out."""

    plan: Plan
    folder: Path
    runs: list[results.Run] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def round(self, number: int) -> None:
        """All runs of one round, on servers of its own."""
        with ExitStack() as stack:
            sides = [self._start(stack, name, number) for name in self.plan.sides]
            for connections in self.plan.connections:
                # Who goes first meets a machine that has just worked for the other.
                for side in sides if number % 2 else sides[::-1]:
                    self._turn(side, number, connections)

    def _start(self, stack: ExitStack, name: str, number: int) -> Side:
        folder = self.folder / f"{name.replace(' ', '-').lower()}-{number}"
        folder.mkdir()
        side: Side = _SIDES[name](stack, self.plan, folder)
        side.sleep()
        if self.plan.first_warm_up_s:
            side.wake()
            self._load(side, max(self.plan.connections), self.plan.first_warm_up_s, number)
            side.sleep()
        return side

    def _turn(self, side: Side, number: int, connections: int) -> None:
        side.wake()
        try:
            time.sleep(_COME_ROUND_S)
            warm_up = self._load(side, connections, self.plan.warm_up_s, number)
            run = self._load(side, connections, self.plan.seconds, number)
        finally:
            side.sleep()
        self.runs.append(dataclasses.replace(run, faults=[*warm_up.faults, *run.faults]))
        print(results.line(self.runs[-1]), file=sys.stderr, flush=True)

    def _load(self, side: Side, connections: int, seconds: float, number: int) -> results.Run:
        batch = next(self._numbers)
        side.begin()
        pids = side.pids
        for pid in pids.values():
            usage.forget_peak(pid)
        children_s = os.times().children_user + os.times().children_system
        before_s = {name: usage.exact_cpu_s(pid) for name, pid in pids.items()}
        machine_s, began_s = usage.machine_busy_s(), time.monotonic()
        told = Told.read(self._wrk(side, batch, connections, seconds))
        wrk_s = os.times().children_user + os.times().children_system - children_s
        side.settle()
        elapsed_s = time.monotonic() - began_s
        spent_s = {name: usage.exact_cpu_s(pid) - before_s[name] for name, pid in pids.items()}
        spent_s["wrk"] = wrk_s
        busy_s = usage.machine_busy_s() - machine_s
        others_s = max(0.0, busy_s - sum(spent_s.values()))
        seen: list[Place] = side.seen()
        count = told.ended_count or 1
        return results.Run(
            side=side.name,
            round=number,
            connections=connections,
            per_s=told.per_s,
            transaction_count=told.ended_count,
            request_p50_ms=told.request_p50_ms,
            request_p99_ms=told.request_p99_ms,
            settled_s=elapsed_s,
            seconds=told.seconds,
            cpu_us={name: s / count * 1e6 for name, s in spent_s.items()},
            rss_mib={name: usage.rss_mib(pid)[1] for name, pid in pids.items()},
            others_percent=100 * others_s / (elapsed_s * (os.cpu_count() or 1)),
            seen_count=len(seen),
            faults=faults(batch, told, seen),
        )

    def _wrk(self, side: Side, batch: int, connections: int, seconds: float) -> str:
        path, environment = program("wrk")
        count = str(connections)  # a thread for each connection: see transaction.lua
        words = [str(path), "-t", count, "-c", count, "-d", f"{seconds:g}s", "--latency"]
        words += ["--timeout", f"{_WRK_TIMEOUT_S}s", "-s", str(SCRIPTS / side.script), side.url]
        words += ["--", str(batch), str(self.plan.body_bytes), side.argument]
        done = subprocess.run(
            words,
            env={**os.environ, **environment, "BENCH_DTM_FOLDER": str(SCRIPTS)},
            capture_output=True,
            check=False,
            text=True,
            timeout=seconds + _END_S,
        )
        if done.returncode:
            raise BenchmarkError(f"wrk ended with {done.returncode}: {done.stderr}{done.stdout}")
        return done.stdout

    def save(self, path: Path, facts: dict[str, Any]) -> None:
        """For programs."""
        plan = {k: v for k, v in dataclasses.asdict(self.plan).items() if k != "report"}
        runs = [dataclasses.asdict(run) for run in self.runs]
        path.write_text(json.dumps({"machine": facts, "plan": plan, "runs": runs}, indent=1) + "\n")


def _redis_version() -> str:
    from halfhitch.embedded.redis import redis_binary

    told = subprocess.run(
        [str(redis_binary()), "--version"], capture_output=True, text=True, check=True
    )
    return next(word[2:] for word in told.stdout.split() if word.startswith("v="))


def main() -> int:
    """1 when something was lost or doubled on either side, or when something broke."""
    plan = read_plan()
    if plan.report is not None:
        page.write(json.loads(plan.report.read_text()))
        return 0
    facts = {**machine.facts(), "dtm": DTM_VERSION, "redis": _redis_version()}
    _BUILD.mkdir(exist_ok=True)
    path = _BUILD / f"bench-dtm-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    try:
        with ExitStack() as stack:
            stack.enter_context(unwind_on_sigterm())
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hh-dtm-")))
            director = Director(plan, folder)
            for number in range(1, plan.rounds + 1):
                director.round(number)
                director.save(path, facts)
    except (BenchmarkError, TimeoutError, subprocess.TimeoutExpired) as error:
        print(f"the benchmark failed: {error}", file=sys.stderr)
        return 1
    print(results.report(director.runs))
    print(f"all runs: {path}")
    wrong = results.faults(director.runs)
    print("\n".join(wrong), file=sys.stderr)
    if plan.is_record and not wrong:
        page.write(page.record(path))
    return 1 if wrong else 0
