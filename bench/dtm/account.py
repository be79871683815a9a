"""What became of the transactions of one load, by caller and number. Pure.

A caller of wrk ends one transaction after the other, numbered from 1. So what must be there is
known exactly: each of 1 to as many as were answered, once, and the next one if its end was under
way when the load was cut off.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

_TOLD: Final = "told "
_FAULTS_MAX: Final = 5
#: Of a body of ours: run, caller, number.
_RUN, _CALLER, _NUMBER = slice(0, 8), slice(8, 16), slice(16, 32)

#: A transaction: the run it is of, its caller, its number there.
Place = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Told:
    """What wrk says of a load."""

    seconds: float
    request_p50_ms: float
    request_p99_ms: float
    failed_count: int  # answers that were none of those one wants
    broken_count: int  # connections refused, cut off, or without an answer in time
    #: Of each caller: how many of its transactions were ended, and whether one more may have been.
    callers: tuple[tuple[int, bool], ...]

    @classmethod
    def read(cls, output: str) -> Self:
        """From everything that wrk has printed."""
        lines = [line for line in output.splitlines() if line.startswith(_TOLD)]
        if len(lines) != 1:
            raise ValueError(f"wrk has not told how it went; it printed:\n{output}")
        told = json.loads(lines[0].removeprefix(_TOLD))
        return cls(
            seconds=told["seconds"],
            request_p50_ms=told["request_p50_ms"],
            request_p99_ms=told["request_p99_ms"],
            failed_count=told["failed"],
            broken_count=told["broken"],
            callers=tuple((ended, bool(more)) for ended, more in told["callers"]),
        )

    @property
    def ended_count(self) -> int:
        """Transactions whose end was answered."""
        return sum(ended for ended, _ in self.callers)

    @property
    def per_s(self) -> float:
        """Transactions in a second."""
        return self.ended_count / self.seconds


def place_of_body(body: bytes) -> Place:
    """Of a message of ours."""
    return int(body[_RUN]), int(body[_CALLER]), int(body[_NUMBER])


def place_of_gid(gid: str) -> Place:
    """Of a transaction of dtm's."""
    run, caller, number = gid.split("-")
    return int(run), int(caller), int(number)


def faults(run: int, told: Told, seen: Iterable[Place]) -> list[str]:
    """Everything that must not be: lost, doubled, never ended, of another run, answered wrongly."""
    counts = Counter(seen)
    wanted = {
        (run, caller, number)
        for caller, (ended, _) in enumerate(told.callers, 1)
        for number in range(1, ended + 1)
    }
    allowed = {
        (run, caller, ended + 1)
        for caller, (ended, may_be_more) in enumerate(told.callers, 1)
        if may_be_more
    }
    found = {
        "lost": sorted(wanted - counts.keys()),
        "doubled": sorted(place for place, count in counts.items() if count > 1),
        "never ended": sorted(counts.keys() - wanted - allowed),
    }
    wrong = [
        f"{len(places)} {what}, such as {places[:_FAULTS_MAX]}"
        for what, places in found.items()
        if places
    ]
    if told.failed_count or told.broken_count:
        wrong.append(f"{told.failed_count} wrong answers, {told.broken_count} broken connections")
    return wrong
