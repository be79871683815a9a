"""All tests in two processes side by side, over one Kafka: `make test`.

Much of what tests on real servers take is waiting: for sessions of Kafka that end, for virtual
machines that start. While one process waits, another works. A group is a list of test folders; one
that stands in no group makes the run end before it begins.

Lines come as they are written, each with its group before it. What failed is told again at the end,
and the last line sums up: `7200 passed, 0 failed`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from halfhitch.embedded import EmbeddedKafka

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TESTS: Final = Path(__file__).parent

#: About as long as each other. Not more than two: a third one makes tests late on two processors.
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "pure": (
        *("unit", "property", "scenarios", "simulation", "tidy"),
        *("acceptance", "conformance", "spark"),
    ),
    "kafka": ("contract", "integration", "faults"),
}
#: They have no tests of their own.
KITS: Final = frozenset({"harness", "benchmarks", "fuzz"})

_COUNTED: Final = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")
_TOLD_AGAIN: Final = ("FAILED ", "ERROR ")


@dataclass(slots=True)
class Group:
    """One process: its name, what it runs, and what came of it."""

    name: str
    command: Sequence[str]
    seconds: float = 0.0
    status: int = 1
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def run(self, environment: Mapping[str, str]) -> None:
        """To its end, its lines on our output. A process that did not end well has failed."""
        began_s = time.monotonic()
        with subprocess.Popen(
            self.command,
            env={**environment},
            cwd=TESTS.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                self.hear(line.rstrip("\n"))
        self.status = process.returncode
        self.seconds = time.monotonic() - began_s

    def hear(self, line: str) -> None:
        """One line of pytest's: shown, and kept if it has to be told at the end."""
        print(f"{self.name:>5} | {line}", flush=True)
        if line.startswith(_TOLD_AGAIN):
            self.failures.append(line)
        elif " in " in line and line.startswith("=") and line.endswith("="):
            self.counts = counted(line)

    @property
    def is_green(self) -> bool:
        """Ended well, and something ran: a group that found no test is no success."""
        return self.status == 0 and self.counts["passed"] > 0


def counted(closing_line: str) -> Counter[str]:
    """What pytest's closing line counts: passed, failed (errors too), skipped."""
    counts: Counter[str] = Counter()
    for number, what in _COUNTED.findall(closing_line):
        counts["failed" if what.startswith("error") else what] += int(number)
    return counts


def left_out(groups: Mapping[str, Sequence[str]], folders: Sequence[str]) -> list[str]:
    """Of the test `folders`, those that no group runs."""
    run = {folder for group in groups.values() for folder in group}
    return sorted(set(folders) - run - KITS)


def summed_up(groups: Sequence[Group]) -> tuple[str, bool]:
    """The closing line, and whether all is well."""
    counts = sum((group.counts for group in groups), Counter[str]())
    # A process that broke off has failed even if no test of it has.
    failed = counts["failed"] + sum(
        1 for group in groups if not group.is_green and not group.counts["failed"]
    )
    line = f"{counts['passed']} passed, {failed} failed"
    if counts["skipped"]:
        line += f", {counts['skipped']} skipped"
    return line, failed == 0


def main() -> int:
    """Run them. The rest of the command line goes to each pytest."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--coverage", action="store_true", help="each under coverage")
    options, more = parser.parse_known_args()
    folders = [each.name for each in TESTS.iterdir() if each.is_dir() and each.name[0] not in "._"]
    if missing := left_out(GROUPS, folders):
        print(f"no group runs {', '.join(missing)}: name them in {Path(__file__).name}")
        return 2
    runner = ["-m", "coverage", "run", "-m", "pytest"] if options.coverage else ["-m", "pytest"]
    groups = [
        Group(name, [sys.executable, *runner, *(f"tests/{each}" for each in folders), *more])
        for name, folders in GROUPS.items()
    ]
    with EmbeddedKafka(short_lived=True) as kafka:
        environment = {**os.environ, "HALFHITCH_TEST_KAFKA": kafka.bootstrap}
        threads = [threading.Thread(target=each.run, args=(environment,)) for each in groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for group in groups:
        for failure in group.failures:
            print(f"{group.name:>5} | {failure}")
    for group in groups:
        print(f"{group.name:>5} | {group.seconds:.0f} s, ended with status {group.status}")
    line, is_well = summed_up(groups)
    print(line)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
