"""The run: rounds, turns, and what is kept of them.

A round starts both servers anew and warms them; then, for every load and number of threads, the
sides take turns. So a pair of runs that is compared lies within two minutes, and what the machine
does to one it does to the other; and no server's luck at its start lasts longer than a round.
"""

from __future__ import annotations

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

from bench import machine, usage
from bench.children import BenchmarkError
from bench.rocketmq import page, profile, results
from bench.rocketmq.load import Load
from bench.rocketmq.plan import HALF_HITCH, LOADS, ROCKETMQ, read_plan
from bench.rocketmq.printed import Schedule
from bench.rocketmq.reading import RunReader
from bench.rocketmq.sides import HalfHitchSide, RocketMQSide, version
from halfhitch.embedded import unwind_on_sigterm
from harness import rocketmq

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.rocketmq.account import Forwarded
    from bench.rocketmq.load import Measured
    from bench.rocketmq.plan import Plan
    from bench.rocketmq.sides import Side

_BUILD = Path(__file__).resolve().parents[2] / "build"
_SIDES = {ROCKETMQ: RocketMQSide, HALF_HITCH: HalfHitchSide}
_WARM_UP_THREADS = 32
_WARM_UP_BYTES = 1_024
#: A server that stood still has timers to catch up with.
_COME_ROUND_S = 2.0


@dataclass(slots=True)
class Director:
    """Carries a plan out."""

    plan: Plan
    folder: Path
    runs: list[results.Run] = field(default_factory=list)
    _batches: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def round(self, number: int) -> None:
        """All runs of one round, on servers of its own."""
        with ExitStack() as stack:
            sides = [self._start(stack, name, number) for name in self.plan.sides]
            for load, threads in itertools.product(self.plan.loads, self.plan.threads):
                for side in sides:
                    self._turn(side, number, load, threads)

    def _start(self, stack: ExitStack, name: str, number: int) -> Side:
        folder = self.folder / f"{name.replace(' ', '-').lower()}-{number}"
        folder.mkdir()
        side: Side = _SIDES[name](stack, self.plan, folder)
        side.sleep()
        if self.plan.first_warm_up_s:
            side.wake()
            # Java compiles what is called often, and large bodies come seldom: with them a minute
            # was not enough, and what was measured was a compiler.
            small = min(self.plan.body_bytes, _WARM_UP_BYTES)
            with self._load(side, "commit", _WARM_UP_THREADS, next(self._batches), small) as load:
                load.warm_up(self.plan.first_warm_up_s, side.pids["broker"])
            side.sleep()
        return side

    def _load(
        self, side: Side, load: str, threads: int, batch: int, body_bytes: int | None = None
    ) -> Load:
        size_bytes = self.plan.body_bytes if body_bytes is None else body_bytes
        of = Load(self.plan, load, threads, side.address, batch, size_bytes)
        return of.run_in(self.folder, f"{side.name.replace(' ', '-').lower()}-load-{batch}")

    def _turn(self, side: Side, number: int, load: str, threads: int) -> None:
        side.wake()
        try:
            time.sleep(_COME_ROUND_S)
            run = self._run(side, number, load, threads)
        finally:
            side.sleep()
        self.runs.append(run)
        print("  ".join(results.line(run)), file=sys.stderr)

    def _run(self, side: Side, number: int, load_name: str, threads: int) -> results.Run:
        batch = next(self._batches)
        schedule = Schedule.of(self.plan.warm_up_s, self.plan.seconds)
        reader = RunReader(side, self.plan.topic) if isinstance(side, HalfHitchSide) else None
        for pid in side.pids.values():
            usage.forget_peak(pid)
        with self._load(side, load_name, threads, batch) as load, ExitStack() as stack:
            watch = profile.quiet
            if self.plan.is_profile:
                watch = stack.enter_context(profile.Watch(side, load.pid, schedule, _BUILD))
            measured = load.follow(schedule, side.pids, watch)
            load.stop_and_read(measured.printed)
        forwarded = None
        if reader is not None:
            # Each thread may have been stopped between a half and its end.
            unended_max = threads + measured.printed.doubtful_count
            forwarded = reader.account(
                batch, unended_count_max=unended_max, commits_all=not LOADS[load_name]
            )
        return _as_run(side.name, number, load_name, threads, measured, forwarded)

    def save(self, path: Path, facts: dict[str, Any]) -> None:
        """For programs."""
        _BUILD.mkdir(exist_ok=True)
        plan = {k: v for k, v in dataclasses.asdict(self.plan).items() if k != "report"}
        runs = [dataclasses.asdict(run) for run in self.runs]
        path.write_text(json.dumps({"machine": facts, "plan": plan, "runs": runs}, indent=1) + "\n")


def _as_run(
    side: str,
    number: int,
    load: str,
    threads: int,
    measured: Measured,
    forwarded: Forwarded | None,
) -> results.Run:
    sums, spent, printed = measured.sums, measured.spent, measured.printed
    count = sums.transaction_count or 1
    return results.Run(
        side=side,
        round=number,
        load=load,
        threads=threads,
        tps=sums.tps,
        windows_tps=sums.windows_tps,
        rt_ms=sums.rt_ms,
        rt_max_ms=sums.rt_max_ms,
        transaction_count=sums.transaction_count,
        failed_count=sums.failed_count,
        check_count=sums.check_count,
        unexpected_count=max(sums.unexpected_count, printed.unexpected_count),
        duplicated_count=sums.duplicated_count,
        doubtful_count=printed.doubtful_count,
        given_up_count=printed.given_up_count,
        odd_lines=tuple(printed.odd_lines),
        cpu_us={name: s / count * 1e6 for name, s in spent.cpu_s.items()},
        compiling_us=spent.compiling_s / count * 1e6,
        rss_mib=measured.rss_mib,
        others_percent=spent.others_percent(measured.elapsed_s, os.cpu_count() or 1),
        forwarded=forwarded and dataclasses.asdict(forwarded) | {"faults": forwarded.faults},
    )


def main() -> int:
    """1 when something was lost, doubled or asked for no reason, or when something broke."""
    plan = read_plan()
    if plan.report is not None:
        page.write(json.loads(plan.report.read_text()))
        return 0
    facts = {**machine.facts(), "halfhitch": version(plan), "rocketmq": rocketmq.VERSION}
    print(f"Half Hitch {facts['halfhitch']}", file=sys.stderr)
    path = _BUILD / f"bench-rocketmq-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    try:
        with ExitStack() as stack:
            stack.enter_context(unwind_on_sigterm())
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hh-bench-")))
            director = Director(plan, folder)
            for number in range(1, plan.rounds + 1):
                director.round(number)
                director.save(path, facts)
    except (BenchmarkError, rocketmq.MavenUnavailable, TimeoutError) as error:
        print(f"the benchmark failed: {error}", file=sys.stderr)
        return 1
    print(results.report(facts, director.runs))
    print(f"all runs: {path}")
    if plan.is_record:
        page.write(page.record(path))
    wrong = results.faults(director.runs)
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0
