"""What processes and the machine have used, from /proc."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
#: Low bits of a clock's number: CPU time of all threads, as the scheduler counts it.
_OF_PROCESS = 2


def cpu_s(pid: int) -> float:
    """User and system time of all threads, ended ones included."""
    # The name in brackets may contain blanks and brackets.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def exact_cpu_s(pid: int) -> float:
    """The same from the kernel's own clock of the process, which does not count in ticks."""
    return time.clock_gettime((~pid << 3) | _OF_PROCESS)


def family_ticks(parent: int, without: Sequence[int] = ()) -> dict[int, int]:
    """Of the processor, by a process and each below it; `without` these and what is below them.

    Spark's processes end without being waited for: the kernel tells nobody what they took, so who
    wants their sum has to look again and again.
    """
    below: dict[int, list[int]] = {}
    taken: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        pid = int(status.parent.name)
        below.setdefault(int(after_name[1]), []).append(pid)
        taken[pid] = int(after_name[11]) + int(after_name[12])
    found: dict[int, int] = {}
    left = [parent]
    while left:
        pid = left.pop()
        if pid not in without:
            found[pid] = taken.get(pid, 0)
            left += below.get(pid, [])
    return found


def compiling_s(java_pid: int) -> float:
    """Part of a Java's time that went into compiling: it fades as the process gets older."""
    spent_s = 0.0
    for task in Path(f"/proc/{java_pid}/task").iterdir():
        try:
            if (task / "comm").read_text().startswith(("C1 Compiler", "C2 Compiler")):
                spent_s += int((task / "schedstat").read_text().split()[0]) / 1e9
        except OSError:
            continue  # the thread has just ended
    return spent_s


def thread_cpu_s(pid: int) -> dict[str, float]:
    """By the name of the thread; threads of one name together, ended ones left out."""
    spent_s: dict[str, float] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name = (task / "comm").read_text().strip()
            own_s = int((task / "schedstat").read_text().split()[0]) / 1e9
        except OSError:
            continue  # the thread has just ended
        spent_s[name] = spent_s.get(name, 0.0) + own_s
    return spent_s


def machine_busy_s() -> float:
    """Time of all processors that was not idle; time that a hypervisor took away counts."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    idle, iowait = fields[3], fields[4]
    return (sum(fields[:8]) - idle - iowait) / _TICKS_PER_S


def rss_mib(pid: int) -> tuple[float, float]:
    """Resident memory now, and at its peak since `forget_peak`."""
    status = Path(f"/proc/{pid}/status").read_text()
    now, peak = (
        int(status.split(f"{name}:", 1)[1].split(None, 1)[0]) for name in ("VmRSS", "VmHWM")
    )
    return now / 1024, peak / 1024


def anonymous_mib(pid: int) -> float:
    """Resident memory that no file backs: without the log files that a broker has mapped."""
    return int(Path(f"/proc/{pid}/status").read_text().split("RssAnon:", 1)[1].split()[0]) / 1024


def forget_peak(pid: int) -> None:
    """Let the peak of resident memory begin anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor time of our processes and of the machine, up to one moment."""

    cpu_s: Mapping[str, float]
    compiling_s: float  # of the broker's
    machine_s: float

    @classmethod
    def of(cls, pids: Mapping[str, int]) -> Usage:
        """Until now; `pids` has the broker and whoever else is ours."""
        spent = {name: cpu_s(pid) for name, pid in pids.items()}
        return cls(spent, compiling_s(pids["broker"]), machine_busy_s())

    def since(self, before: Usage) -> Usage:
        """What was used between the two."""
        spent = {name: self.cpu_s[name] - before.cpu_s[name] for name in self.cpu_s}
        # A compiler thread that has ended takes its account with it.
        compiling_s = max(0.0, self.compiling_s - before.compiling_s)
        return Usage(spent, compiling_s, self.machine_s - before.machine_s)

    def others_percent(self, elapsed_s: float, processor_count: int) -> float:
        """Share of the machine that others took while this was used."""
        others_s = max(0.0, self.machine_s - sum(self.cpu_s.values()))
        return 100 * others_s / (elapsed_s * processor_count)
