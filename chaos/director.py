"""Runs scenarios one after the other on one stage, keeps every result, writes the report.

Owns the course of a scenario (warm up, fault, go on, quiet, decided, judged), the limits of
recovery, and the record `results.jsonl`: one line for each run. Lines of a scenario are taken out
only when it begins anew after a repair.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
import traceback
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos import crashes, outages, soak
from chaos.kit import upgrades
from chaos.kit.judging import HOLD_MS_MAX, judge
from chaos.kit.scenarios import SCENARIOS, Scenario, mix
from chaos.kit.stage import IMMUNITY_S, SESSION_TIMEOUT_MS, Stage
from chaos.report import write_report
from halfhitch.embedded import unwind_on_sigterm
from harness.native import go_native, wrong_ways

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.kit.stage import Scene

RESULTS = Path(__file__).with_name("results.jsonl")
REPORT = Path(__file__).resolve().parents[1] / "docs" / "reliability.md"

WARM_UP_S = 3.0
DECIDED_S_MAX = 60.0
#: Seconds that a recovery may take at most, by its name in `scene.recovery`.
LIMITS_S = {
    "takeover after kill -9": SESSION_TIMEOUT_MS / 1000 + 5,
    "takeover after SIGTERM": 3.0,
    upgrades.UP: 3.0,
    upgrades.DOWN: 3.0,
    # What a stop waits for is older than that, or is asked about.
    "ends waited for after SIGTERM": IMMUNITY_S + 1.0,
    "all decided after the fault": DECIDED_S_MAX,
    "readers held": HOLD_MS_MAX / 1000,
}
_SENTENCES_MAX = 10


@dataclass(slots=True)
class Result:
    """One run, as it stands in the record."""

    scenario: str
    row: str
    column: str
    seed: int
    at: str
    verdict: str = "not run"
    reason: str = ""
    seconds: float = 0.0
    machine_load: float = 0.0  # of the last minute: figures of a busy machine are worse
    faults: list[str] = field(default_factory=list)
    recovery: dict[str, float] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    invariants: list[str] = field(default_factory=list)
    violations: dict[str, list[str]] = field(default_factory=dict)
    brokers: int = 3
    ways: list[str] = field(default_factory=list)  # of the sidecars; [] in older lines: interpreted

    def to_json(self) -> str:
        """One line."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})


def run_scenario(stage: Stage, scenario: Scenario, seed: int) -> Result:
    """One run from a fresh scene to its verdict. Never raises what a fault has caused."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    result = Result(scenario.name, scenario.row, scenario.column, seed, at)
    result.brokers = len(stage.kafka.broker_ids)
    began_s = time.monotonic()
    try:
        stage.repair()
        with stage.scene(seed, **scenario.options) as scene:
            _course(scene, scenario, result)
    except LookupError as reason:
        result.reason = str(reason.args[0])
    except Exception as error:  # noqa: BLE001 - a run that broke off is a result
        traceback.print_exc()
        result.verdict = "red"
        result.reason = f"{type(error).__name__}: {error}"[:2_000]
        result.invariants = sorted({*result.invariants, "I11"})
    result.machine_load = round(os.getloadavg()[0], 1)
    result.seconds = round(time.monotonic() - began_s, 1)
    return result


def _course(scene: Scene, scenario: Scenario, result: Result) -> None:
    rng = random.Random(scene.seed)
    result.faults, result.recovery = scene.faults, scene.recovery
    scene.go_on(WARM_UP_S)
    scenario.act(scene, rng)
    healed_s = time.monotonic()
    scene.go_on(scenario.after_s)
    scene.quieten()
    problem = ""
    try:
        scene.wait_decided(DECIDED_S_MAX)
    except TimeoutError as late:
        problem = str(late)
    scene.recovery["all decided after the fault"] = round(time.monotonic() - healed_s, 2)
    for app in scene.apps:
        app.close()
    report = judge(scene, scenario)
    scene.recovery["readers held"] = round(scene.committed.longest_stall_ms / 1000, 2)
    result.verdict, result.counters = report.verdict, report.counters
    result.invariants = report.invariants
    result.violations = {
        name: [str(one) for one in found[:_SENTENCES_MAX]]
        for name, found in report.violations.items()
    }
    if report.verdict == "not run":
        result.reason = f"zero: {', '.join(report.empty)}; {'; '.join(report.doubts)}"[:1_000]
    print(report, flush=True)
    late = [
        f"{name}: {scene.recovery[name]:g} s, {limit_s:g} s are allowed"
        for name, limit_s in LIMITS_S.items()
        if scene.recovery.get(name, 0.0) > limit_s
    ]
    crashed = [told for told in scene.revived if "status -" in told]
    if crashed:
        # Started again, as it would be anywhere; but nobody but us may send it a signal.
        result.verdict = "red"
        result.violations["crashed"] = crashed
    result.ways = scene.ways()
    if wrong := wrong_ways(result.ways):
        result.verdict = "red"
        result.violations["way"] = [wrong]
    if problem or late:
        result.verdict = "red"
        result.invariants = sorted({*result.invariants, "I11"}, key=lambda name: int(name[1:]))
        result.violations["slow-recovery"] = [*late, *([problem] if problem else [])]
    if result.verdict == "red":
        scene.keep()


def keep(result: Result) -> None:
    """Append it to the record."""
    with RESULTS.open("a") as file:
        file.write(result.to_json() + "\n")


def recorded() -> list[dict[str, Any]]:
    """All runs that are on record."""
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines() if line]


def chosen(arguments: argparse.Namespace) -> list[Scenario]:
    """What shall be run."""
    if arguments.only:
        names = arguments.only.split(",")
        unknown = [name for name in names if name not in SCENARIOS]
        if unknown:
            raise SystemExit(f"there is no scenario {unknown}; there are: {', '.join(SCENARIOS)}")
        scenarios = [SCENARIOS[name] for name in names]
    else:
        scenarios = [] if arguments.mixes_only else list(SCENARIOS.values())
    return [*scenarios, *(mix(arguments.seed + n) for n in range(arguments.mixes))]


def main(given: Sequence[str] | None = None) -> int:
    """The command; 1 when a run was red."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--only", help="names of scenarios, separated by commas")
    parser.add_argument("--mixes", type=int, default=0, help="how many seeded mixes to run")
    parser.add_argument("--mixes-only", action="store_true", help="no single-fault scenarios")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, default=REPORT)
    parser.add_argument("--report-only", action="store_true", help="from the record as it is")
    parser.add_argument("--soak", type=int, help="so many transactions in one run, and no scenario")
    parser.add_argument(
        "--crashes", type=int, help="the crash matrix: so many steps of each class, 0 for all"
    )
    parser.add_argument(
        "--unrecorded", action="store_true", help="no line in the record, no report"
    )
    parser.add_argument(
        "--brokers",
        type=int,
        choices=(1, 3),
        default=3,
        help="1 for a machine that has not the power for three; the report tells them apart",
    )
    parser.add_argument(
        "--native", action="store_true", help="sidecars with halfhitch-native (`make native`)"
    )
    parser.add_argument("--list", action="store_true", help="name the scenarios and end")
    arguments = parser.parse_args(given)
    if arguments.list:
        print("\n".join(f"{s.name}: {s.row}, {s.column}" for s in SCENARIOS.values()))
        return 0
    if arguments.native:
        go_native()
    if arguments.unrecorded:
        if arguments.crashes is not None:
            parser.error("the crash matrix is known by its record")
        if arguments.soak:
            return int(_soak(arguments.soak, arguments.seed, is_recorded=False) > 0)
        scenarios, brokers = chosen(arguments), arguments.brokers
        return int(_run_all(scenarios, arguments.seed, brokers, is_recorded=False) > 0)
    if arguments.report_only:
        red_count = 0
    elif arguments.crashes is not None:
        red_count = _crash(arguments.crashes, arguments.seed)
    elif arguments.soak:
        red_count = _soak(arguments.soak, arguments.seed)
    else:
        red_count = _run_all(chosen(arguments), arguments.seed, arguments.brokers)
    others = outages.recorded(), soak.recorded(), crashes.recorded()
    write_report(arguments.report, recorded(), LIMITS_S, *others)
    return 1 if red_count else 0


def _crash(share: int, seed: int) -> int:
    with unwind_on_sigterm():
        result = crashes.run(seed, share or None)
    crashes.keep(result)
    print(result, flush=True)
    return int(result.verdict == "red")


def _soak(count: int, seed: int, *, is_recorded: bool = True) -> int:
    with unwind_on_sigterm():
        result = soak.soak(count, seed)
    if is_recorded:
        soak.keep(result)
    print(result, flush=True)
    return int(result.verdict == "red")


def _run_all(
    scenarios: list[Scenario], seed: int, brokers: int = 3, *, is_recorded: bool = True
) -> int:
    red_count = 0
    with unwind_on_sigterm(), Stage(brokers=brokers, disk_mib=256 if brokers == 3 else 0) as stage:
        for number, scenario in enumerate(scenarios, 1):
            own = seed if scenario.seed is None else scenario.seed
            print(f"[{number}/{len(scenarios)}] {scenario.name} (seed {own})", flush=True)
            result = run_scenario(stage, scenario, own)
            if is_recorded:
                keep(result)
            red_count += result.verdict == "red"
            told = f"{result.verdict} in {result.seconds} s {result.recovery} {result.reason}"
            print(f"    {told}", file=sys.stdout, flush=True)
    return red_count
