"""What is known of one place of a curve, and of the whole curve. Pure, and kept as JSON.

It stands alone: the pictures are drawn by a Python that has a plotting library and nothing of ours.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

_THREADS_MAX = 6
_THREAD_SHARE_MIN = 0.03


@dataclass(frozen=True, slots=True)
class Point:
    """One place. What a curve does not ask for is absent from `values`."""

    at: float
    values: dict[str, float]
    #: Busiest threads of the servers, by their share of the servers' processor time.
    threads: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Curve:
    """All places of one, and of what machine."""

    name: str
    machine: dict[str, Any]
    seconds: float
    points: list[Point]

    def as_dict(self) -> dict[str, Any]:
        """For the file."""
        return asdict(self)

    @classmethod
    def read(cls, content: dict[str, Any]) -> Curve:
        """What `as_dict` made."""
        points = [Point(**point) for point in content["points"]]
        return cls(content["name"], content["machine"], content["seconds"], points)

    def values(self, name: str) -> tuple[list[float], list[float]]:
        """Places, and the value at each that has it."""
        known = [point for point in self.points if name in point.values]
        return [point.at for point in known], [point.values[name] for point in known]


def middle(points: list[Point], by: str) -> Point:
    """Of repeats at one place the middle one (of an even number, the lower); with the least and the
    most of what they were ordered by."""
    ordered = sorted(points, key=lambda point: point.values[by])
    found = ordered[(len(ordered) - 1) // 2]
    spread = {f"{by}_low": ordered[0].values[by], f"{by}_high": ordered[-1].values[by]}
    return Point(found.at, {**found.values, **spread}, found.threads)


def busiest(spent_s: dict[str, dict[str, float]]) -> dict[str, float]:
    """Shares of threads, from the time of each by process and name; numbered ones together."""
    sums: dict[str, float] = {}
    for process, threads in spent_s.items():
        for thread, seconds in threads.items():
            name = f"{process}: {thread.rstrip('0123456789-#:').strip() or thread}"
            sums[name] = sums.get(name, 0.0) + seconds
    total = sum(sums.values())
    ordered = sorted(sums, key=lambda name: -sums[name])[:_THREADS_MAX]
    return {
        name: round(sums[name] / total, 3)
        for name in ordered
        if total and sums[name] / total >= _THREAD_SHARE_MIN
    }
