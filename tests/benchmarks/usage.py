"""What processes and the machine have used, from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """User and system time of all threads, ended ones included."""
    # The name in brackets may contain blanks and brackets.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


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


def forget_peak(pid: int) -> None:
    """Let the peak of resident memory begin anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor time of our processes and of the machine, up to one moment."""

    cpu_s: Mapping[str, float]
    machine_s: float

    @classmethod
    def of(cls, pids: Mapping[str, int]) -> Usage:
        """Until now."""
        return cls({name: cpu_s(pid) for name, pid in pids.items()}, machine_busy_s())

    def since(self, before: Usage) -> Usage:
        """What was used between the two."""
        spent = {name: self.cpu_s[name] - before.cpu_s[name] for name in self.cpu_s}
        return Usage(spent, self.machine_s - before.machine_s)

    def others_percent(self, elapsed_s: float, processor_count: int) -> float:
        """Share of the machine that others took while this was used."""
        others_s = max(0.0, self.machine_s - sum(self.cpu_s.values()))
        return 100 * others_s / (elapsed_s * processor_count)
