"""What happens in each second, and where the time goes: for one side alone, while it is measured.

Prints a line for each one of the benchmark, with the processor time and memory of every process
since the line before and, of Half Hitch, how many halves were stored in Kafka meanwhile; at the end
the busiest threads of the measured time. If py-spy is installed, every process of Half Hitch is
recorded for the measured time.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from bench import usage
from bench.rocketmq.sides import HalfHitchSide
from harness.kafka import bounds

if TYPE_CHECKING:
    from types import TracebackType

    from bench.rocketmq.printed import Line, Schedule
    from bench.rocketmq.sides import Side

_END_S = 30.0
_THREADS_MAX = 10


def quiet(_line: Line) -> None:
    """Nothing is printed."""


class Watch:
    """Call it with each line."""

    def __init__(self, side: Side, client_pid: int, schedule: Schedule, folder: Path) -> None:
        self._side = side
        self._schedule = schedule
        self._folder = folder
        self._pids = {**side.pids, "client": client_pid}
        self._number = -1
        self._at_s, self._cpu_s, self._halves = self._look()
        self._recorders: list[subprocess.Popen[bytes]] = []
        self._threads_s: dict[str, dict[str, float]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for recorder in self._recorders:
            try:
                recorder.wait(_END_S if error is None else 0.0)
            except subprocess.TimeoutExpired:
                recorder.terminate()
                recorder.wait()

    def __call__(self, line: Line) -> None:
        """One line of the benchmark's has come."""
        self._number += 1
        at_s, cpu_s, halves = self._look()
        elapsed_s = at_s - self._at_s
        used = "  ".join(
            f"{name} {100 * (cpu_s[name] - self._cpu_s[name]) / elapsed_s:3.0f} % "
            f"{usage.rss_mib(pid)[0]:,.0f} MiB"
            for name, pid in self._pids.items()
        )
        stored = f"halves/s {(halves - self._halves) / elapsed_s:7,.0f}  " if halves else ""
        mark = "*" if self._number > self._schedule.first else " "
        print(
            f"{mark} {stored}TPS of 9 s {line.tps:6,}  "
            f"RT {line.rt_ms:.1f} (max {line.rt_max_ms}) ms  "
            f"failed {line.failed_count}  checks {line.check_count}  {used}",
            file=sys.stderr,
        )
        self._at_s, self._cpu_s, self._halves = at_s, cpu_s, halves
        if self._number == self._schedule.first:
            self._threads_s = {name: usage.thread_cpu_s(pid) for name, pid in self._pids.items()}
            self._record()
        if self._number == self._schedule.last:
            self._say_threads()

    def _say_threads(self) -> None:
        elapsed_s = self._schedule.last - self._schedule.first
        for name, pid in self._pids.items():
            before = self._threads_s[name]
            spent = {
                thread: cpu_s - before.get(thread, 0.0)
                for thread, cpu_s in usage.thread_cpu_s(pid).items()
            }
            busiest = sorted(spent, key=lambda thread: -spent[thread])[:_THREADS_MAX]
            shares = [f"{thread} {100 * spent[thread] / elapsed_s:.1f} %" for thread in busiest]
            print(f"threads of {name}: {', '.join(shares)}", file=sys.stderr)

    def _look(self) -> tuple[float, dict[str, float], int]:
        halves = 0
        if isinstance(self._side, HalfHitchSide):
            ends = bounds(self._side.kafka.bootstrap, self._side.half_topic, "read_uncommitted")[1]
            halves = sum(ends.values())
        cpu_s = {name: usage.exact_cpu_s(pid) for name, pid in self._pids.items()}
        return time.monotonic(), cpu_s, halves

    def _record(self) -> None:
        spy = shutil.which("py-spy") or shutil.which(
            "py-spy", path=str(Path(sys.executable).parent)
        )
        if spy is None or not isinstance(self._side, HalfHitchSide):
            return
        self._folder.mkdir(exist_ok=True)
        seconds = self._schedule.last - self._schedule.first
        for name, pid in self._side.sidecar_pids.items():
            path = self._folder / f"profile-{name}.raw"
            words = ["record", "-p", str(pid), "-d", str(seconds), "-f", "raw", "-o", str(path)]
            self._recorders.append(
                subprocess.Popen(
                    [spy, *words, "--threads"],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
            print(f"py-spy of {name}: {path}", file=sys.stderr)
