"""What the benchmark prints, read. Pure: no clock, no files, no processes.

It takes a snapshot of its counters every second, keeps ten of them, and with `-ri 1000` prints
every second the difference between the newest and the oldest: each line tells of the last nine
seconds, and lines nine apart tell of everything once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Seconds that one line tells of, and which second the first line is printed in.
WINDOW_S: Final = 9
FIRST_S: Final = 10

_NUMBERS: Final = re.compile(
    r"Send TPS:\s*(\d+) \| Max RT\(ms\):\s*(\d+) \| AVG RT\(ms\):\s*([\d.]+|NaN)"
    r" \| Send Failed: (\d+) \| Check: (\d+) \| UnexpectedCheck: (\d+) \| DuplicatedCheck: (\d+)"
)
_UNEXPECTED: Final = " unexpected check: "
_RESENT: Final = "resend at once"
#: Of a request that is answered it says more between the two.
_LOST_END: Final = re.compile(r"send a request command to channel <[^>]*> failed\.")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of figures."""

    tps: int
    rt_max_ms: int  # since the line before
    rt_ms: float  # not a number when nothing was sent
    failed_count: int
    check_count: int
    unexpected_count: int
    duplicated_count: int

    @classmethod
    def read(cls, text: str) -> Self | None:
        """None for every other line."""
        found = _NUMBERS.search(text)
        if found is None:
            return None
        tps, rt_max_ms, rt_ms, *counts = found.groups()
        failed, checks, unexpected, duplicated = map(int, counts)
        return cls(int(tps), int(rt_max_ms), float(rt_ms), failed, checks, unexpected, duplicated)


def is_unexpected_check(text: str) -> bool:
    """Whether the benchmark says here that it was asked what it had no need to be asked."""
    return _UNEXPECTED in text


def is_resent(text: str) -> bool:
    """Whether the client says here that it sends a message again, under the same id."""
    return _RESENT in text


def is_lost_end(text: str) -> bool:
    """Whether the client says here that it could not send an end: its connection was closed."""
    return _LOST_END.search(text) is not None


def failed_in_life(lines: Sequence[Line]) -> int:
    """Sends that failed since the first second, those of the last few seconds perhaps twice."""
    chosen = [*lines[::WINDOW_S], *lines[-1:]]
    return sum(line.failed_count for line in chosen)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Which lines are looked at, counted from 0."""

    first: int  # the measured time begins when this one is printed
    window_count: int

    @classmethod
    def of(cls, warm_up_s: float, seconds: float) -> Self:
        """Rounded up to what the lines can tell."""
        first = max(0, -int(-(warm_up_s - FIRST_S) // 1))
        return cls(first, max(1, -int(-seconds // WINDOW_S)))

    @property
    def last(self) -> int:
        """The measured time ends when this one is printed."""
        return self.first + self.window_count * WINDOW_S

    @property
    def measured(self) -> range:
        """Lines that together tell of the measured time, each second of it once."""
        return range(self.first + WINDOW_S, self.last + 1, WINDOW_S)


@dataclass(frozen=True, slots=True)
class Sums:
    """What the lines of the measured time say together."""

    tps: float
    rt_ms: float
    rt_max_ms: int
    transaction_count: int
    failed_count: int
    check_count: int
    unexpected_count: int
    duplicated_count: int
    windows_tps: tuple[int, ...]

    @classmethod
    def of(cls, lines: Sequence[Line], schedule: Schedule) -> Self:
        """`lines` are all that were printed up to the last one of the schedule."""
        chosen = [lines[number] for number in schedule.measured]
        # In whole transactions; the line has cut off less than one in a second.
        counts = [line.tps * WINDOW_S for line in chosen]
        count = sum(counts)
        spent_ms = sum(n * line.rt_ms for n, line in zip(counts, chosen, strict=True) if n)
        return cls(
            tps=count / (WINDOW_S * len(chosen)),
            rt_ms=spent_ms / count if count else float("nan"),
            rt_max_ms=max(line.rt_max_ms for line in lines[schedule.first + 1 : schedule.last + 1]),
            transaction_count=count,
            failed_count=sum(line.failed_count for line in chosen),
            check_count=sum(line.check_count for line in chosen),
            unexpected_count=sum(line.unexpected_count for line in chosen),
            duplicated_count=sum(line.duplicated_count for line in chosen),
            windows_tps=tuple(line.tps for line in chosen),
        )
