"""The tests in several processes side by side, over one Kafka: `make test`, `make test-all`.

Much of what tests on real servers take is waiting: for sessions of Kafka that end, for virtual
machines that start. While one process waits, another works. Each process, a lane, takes the next
file that nobody has taken (harness/lanes.py); the first lane begins with what thinks, the others
begin with what waits. So two processors are busy from beginning to end with no more than one lane
that never waits.

A folder of tests that stands in no list makes the run end before it begins. Each layer has a
budget of processor time; one that is over it has failed. What a test waits for is not in it, nor
what the Kafka takes that all share: those seconds say more of the machine than of the tests.

Few tests that failed are run once more, alone, on another Kafka: what fails there too has failed.
What passes only alone is named with its first failure, and counted in the last line. It was late
beside the others, or it met what comes to pass once in a hundred times: a fault of the test, or of
ours, that has to be looked for, and says nothing of the change that is being tried. Where many fail
together, nothing is tried again.

Lines come as they are written, each with its lane before it. What failed is told again at the end,
and the last line sums up: `7200 passed, 0 failed`, or `7199 passed, 0 failed, 1 only alone`.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.lanes import FOLDER_VARIABLE, Spent, all_spent, by_layer, over_budget
from harness.places import ROOT
from harness.servers import KAFKA_VARIABLE, WISH_VARIABLE, kafka_server

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

#: Whose folders hold tests.
TOPS: Final = ("tests", "bench", "chaos", "conformance")

#: What thinks, and how many seconds of a quiet processor it may take: two or three times what it
#: took when this was written, so that a busy machine is not blamed and a layer that swells is.
SHORT: Final[Mapping[str, float]] = {
    "tests/unit": 300,
    "tests/deploy": 150,
    "tests/scenarios": 40,
    "tests/tidy": 60,
    "bench/tests": 40,
    "chaos/tests": 200,
    "conformance/tests": 20,
}
#: What thinks long: few tests.
LIVES: Final[Mapping[str, float]] = {
    "tests/simulation": 400,
    "tests/property": 300,
}
#: What waits for servers. Spark's tests first: one lane has them all, and the others would wait for
#: it at the end.
WAITING: Final[Mapping[str, float]] = {
    "tests/spark": 330,
    "tests/acceptance": 350,
    "tests/integration": 650,
    "tests/contract": 60,
}
#: What `make test-all` adds: servers that are hurt, other people's clients.
MORE: Final[Mapping[str, float]] = {
    "chaos/promises": 600,
    "conformance/promises": 300,
}
#: More whole lives and stories, for `make test-all`. Their layers may take more.
ALL_LIVES: Final[Mapping[str, str]] = {
    "HALFHITCH_SEEDS": "2000",
    "HALFHITCH_SEVERAL_SEEDS": "500",
    "HALFHITCH_DETOUR_SEEDS": "80",
}
_LIVES_RATIO: Final = 5
#: What is long may take as much again as the others.
_LONG_RATIO: Final = 2
_NOT_LONG: Final = " and not long"
#: Most of what they do is waiting: with four, two processors were idle for two fifths of the time
#: (895 s where six took 729, one after the other on one machine).
LANES: Final = 6
#: So many of the files that took longest are told.
LONGEST: Final = 12
#: So many tests that failed may be tried again.
AGAIN_MAX: Final = 8
#: Where the tests take their seed from.
SEED_VARIABLE: Final = "HALFHITCH_TEST_SEED"

_COUNTED: Final = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")
#: Pytest's line about a test; a captured line of a log has its level in a wider column.
_TOLD_AGAIN: Final = re.compile(r"(FAILED|ERROR) \S")
#: Exit statuses of pytest.
_TESTS_FAILED: Final = 1
_NO_TESTS: Final = 5


@dataclass(slots=True)
class Lane:
    """One process: its name, what it runs, and what came of it."""

    name: str
    command: Sequence[str]
    seconds: float = 0.0
    status: int = 1
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    _process: subprocess.Popen[str] | None = None

    def run(self, environment: Mapping[str, str]) -> None:
        """To its end, its lines on our output. A process that did not end well has failed."""
        began_s = time.monotonic()
        with subprocess.Popen(
            self.command,
            env={**environment},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            self._process = process
            assert process.stdout is not None
            for line in process.stdout:
                self.hear(line.rstrip("\n"))
        self.status = process.returncode
        self.seconds = time.monotonic() - began_s

    def interrupt(self) -> None:
        """As Ctrl-C does, for a signal that has reached nobody but us."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def hear(self, line: str) -> None:
        """One line of pytest's: shown, and kept if it has to be told at the end."""
        print(f"{self.name} | {line}", flush=True)
        if _TOLD_AGAIN.match(line):
            self.failures.append(line)
        elif " in " in line and line.startswith("=") and line.endswith("="):
            self.counts = counted(line)

    @property
    def is_green(self) -> bool:
        """Ended well. It may have found that the others had taken everything."""
        return self.status in (0, _NO_TESTS)


def counted(closing_line: str) -> Counter[str]:
    """What pytest's closing line counts: passed, failed (errors too), skipped."""
    counts: Counter[str] = Counter()
    for number, what in _COUNTED.findall(closing_line):
        counts["failed" if what.startswith("error") else what] += int(number)
    return counts


def test_folders() -> set[str]:
    """Where there are tests, in `tests` and in the kits: two names deep."""
    places = (place for top in TOPS for place in (ROOT / top).glob("*/"))
    return {f"{it.parent.name}/{it.name}" for it in places if any(it.rglob("test_*.py"))}


def left_out(listed: Collection[str], folders: Collection[str]) -> list[str]:
    """Of the test `folders`, those that stand in no list."""
    return sorted(set(folders).difference(listed))


def orders(is_all: bool) -> list[list[str]]:
    """The folders of each lane, in the order in which it takes them."""
    waiting = [*(MORE if is_all else ()), *WAITING]
    return [[*SHORT, *LIVES, *waiting], *[[*waiting, *LIVES, *SHORT]] * (LANES - 1)]


def chosen(is_all: bool) -> list[str]:
    """Arguments of pytest: by itself it leaves out what is long (pyproject.toml)."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        usual = tomllib.load(file)["tool"]["pytest"]["ini_options"]["addopts"]
    marks = usual[usual.index("-m") + 1]
    assert marks.endswith(_NOT_LONG), marks
    return ["-m", marks.removesuffix(_NOT_LONG)] if is_all else []


def budgets(is_all: bool) -> dict[str, float]:
    """Seconds of a quiet processor, by layer."""
    listed = {**SHORT, **LIVES, **WAITING, **MORE}
    if not is_all:
        return listed
    ratio = dict.fromkeys(LIVES, _LIVES_RATIO) | dict.fromkeys(WAITING, _LONG_RATIO)
    return {layer: budget_s * ratio.get(layer, 1) for layer, budget_s in listed.items()}


def layer_lines(spent: Mapping[str, Spent], allowed: Mapping[str, float]) -> list[str]:
    """What each layer took, the longest first."""
    rows = sorted(spent.items(), key=lambda row: -row[1].wall_s)
    return [
        f"{layer:21} {one.count:6,d} tests {one.wall_s:6.0f} s, processor {one.cpu_s:5.0f} s"
        f" of {allowed[layer]:.0f} s"
        for layer, one in rows
    ]


def file_lines(spent: Mapping[str, Spent], count: int = LONGEST) -> list[str]:
    """The files that took longest, whatever they waited for."""
    rows = sorted(spent.items(), key=lambda row: -row[1].wall_s)[:count]
    return [f"{one.wall_s:6.0f} s, processor {one.cpu_s:4.0f} s  {path}" for path, one in rows]


def to_try_again(lanes: Sequence[Lane]) -> list[str]:
    """The names of the tests that failed, if they are few and nothing else went wrong."""
    names = [name_of(failure) for lane in lanes for failure in lane.failures]
    failed = sum(lane.counts["failed"] for lane in lanes)
    are_all_named = failed == len(set(names))
    broke_off = any(lane.status not in (0, _TESTS_FAILED, _NO_TESTS) for lane in lanes)
    return names if names and are_all_named and failed <= AGAIN_MAX and not broke_off else []


def name_of(failure: str) -> str:
    """`tests/a.py::b[c]` of pytest's line about it."""
    return failure.partition(" ")[2].partition(" - ")[0]


def summed_up(
    lanes: Sequence[Lane], too_long: Sequence[str] = (), only_alone: int = 0
) -> tuple[str, bool]:
    """The closing line, and whether all is well: if nothing ran, it is not.

    `only_alone`: so many of the failed have passed when they were tried again.
    """
    counts = sum((lane.counts for lane in lanes), Counter[str]())
    # A process that broke off has failed even if no test of it has.
    broken_off = sum(1 for lane in lanes if not lane.is_green and not lane.counts["failed"])
    failed = counts["failed"] + broken_off + len(too_long) + (not counts["passed"]) - only_alone
    line = f"{counts['passed'] + only_alone} passed, {failed} failed"
    if only_alone:
        line += f", {only_alone} only alone"
    if counts["skipped"]:
        line += f", {counts['skipped']} skipped"
    return line, failed == 0


def run(lanes: Sequence[Lane], environment: Mapping[str, str]) -> dict[str, Spent]:
    """All of them to their ends; what their files took."""
    with (
        tempfile.TemporaryDirectory(prefix="halfhitch-lanes-") as folder,
        kafka_server(environment, short_lived=False) as kafka,
    ):
        told = {**environment, KAFKA_VARIABLE: kafka.bootstrap, FOLDER_VARIABLE: folder}
        threads = [threading.Thread(target=lane.run, args=(told,)) for lane in lanes]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        finally:
            for lane, thread in zip(lanes, threads, strict=True):
                lane.interrupt()
                thread.join()
        return all_spent(Path(folder))


def with_defaults(environment: Mapping[str, str]) -> dict[str, str]:
    """The same seed for all lanes, so that what is tried again meets what it has failed on.

    And embedded servers, whatever images are left on this machine: the budgets are of those.
    """
    drawn = random.SystemRandom().randrange(2**32)
    defaults = {SEED_VARIABLE: str(drawn), WISH_VARIABLE: "no"}
    return {**environment, **{k: environment.get(k) or v for k, v in defaults.items()}}


def main() -> int:
    """Run them. The rest of the command line goes to each pytest."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--coverage", action="store_true", help="each under coverage")
    parser.add_argument(
        "--all", action="store_true", help="promises of the kits, all lives, what is long"
    )
    options, more = parser.parse_known_args()
    if missing := left_out([*SHORT, *LIVES, *WAITING, *MORE], test_folders()):
        print(f"no lane runs {', '.join(missing)}: name them in {Path(__file__).name}")
        return 2
    runner = ["-m", "coverage", "run", "-m", "pytest"] if options.coverage else ["-m", "pytest"]
    runner += ["-o", "console_output_style=classic"]  # of how many tests is not known in a lane
    more += chosen(options.all)
    lanes = [
        Lane(str(number), [sys.executable, *runner, *folders, *more])
        for number, folders in enumerate(orders(options.all), 1)
    ]
    began_s = time.monotonic()
    environment = with_defaults(os.environ | (ALL_LIVES if options.all else {}))
    spent = run(lanes, environment)
    alone = Lane("alone", [sys.executable, *runner, *(again := to_try_again(lanes)), *more])
    if again:
        print("tried again, alone:", *again, sep="\n  ", flush=True)
        run([alone], environment)
    for lane in lanes:
        print(f"{lane.name} | {lane.seconds:.0f} s, ended with status {lane.status}")
    allowed = budgets(options.all)
    layers = by_layer(spent)
    print(*file_lines(spent), *layer_lines(layers, allowed), sep="\n")
    too_long = over_budget(layers.items(), allowed)
    print(*too_long, sep="\n", end="\n" if too_long else "")
    # Last, for whoever is shown no more than the end.
    for lane in [*lanes, alone]:
        for failure in lane.failures:
            print(f"{lane.name} | {failure}")
    print(f"{time.monotonic() - began_s:.0f} s in all")
    has_ended = alone.status in (0, _TESTS_FAILED)
    line, is_well = summed_up(lanes, too_long, alone.counts["passed"] if has_ended else 0)
    print(line)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
