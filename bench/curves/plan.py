"""What is to be measured, from the command line."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The curves, and where each is looked at.
PLACES: Final[dict[str, tuple[float, ...]]] = {
    "partitions": (1, 2, 4, 8, 16, 32, 64),
    "payload": (0.1, 1, 4, 16, 64, 256, 1_000),  # KiB
    "undecided": (1_000, 10_000, 100_000, 1_000_000),
    "replay": (10_000, 30_000, 100_000, 300_000),  # transactions in the log
    "instances": (1, 2, 3, 4),
}
#: What `--quick` leaves.
_QUICK: Final[dict[str, tuple[float, ...]]] = {
    "partitions": (1, 4, 16, 64),
    "payload": (0.1, 1, 16, 1_000),
    "undecided": (1_000, 10_000),
    "replay": (2_000, 10_000),
    "instances": (1, 2),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """All of it."""

    places: dict[str, tuple[float, ...]]
    seconds: float
    warm_up_s: float
    repeats: int
    is_record: bool
    is_report_only: bool


def read_plan(words: Sequence[str] | None = None) -> Plan:
    """From the command line."""
    parser = argparse.ArgumentParser(
        prog="bench.curves", description="How cost grows with what is asked for."
    )
    add = parser.add_argument
    add("--only", default=",".join(PLACES), metavar="CURVES", help=f"({','.join(PLACES)})")
    add("--most", type=float, metavar="N", help="of --only's one curve, no place beyond this")
    add("--seconds", type=float, help="of each cell (6; quick: 2)")
    add("--repeat", type=int, help="cells of each place; the middle one counts (3; quick: 1)")
    add("--quick", action="store_true", help="few places, short cells")
    add("--record", action="store_true", help="keep what is measured, for the pictures and tables")
    add("--report-only", action="store_true", help="only make the tables, from what is kept")
    given = parser.parse_args(words)
    names = given.only.split(",")
    if not set(names) <= set(PLACES):
        parser.error(f"--only takes some of {', '.join(PLACES)}")
    if given.most is not None and len(names) != 1:
        parser.error("--most needs one curve: say which with --only")
    places = _QUICK if given.quick else PLACES
    most = float("inf") if given.most is None else given.most
    return Plan(
        places={name: tuple(p for p in places[name] if p <= most) for name in names},
        seconds=given.seconds or (2.0 if given.quick else 6.0),
        warm_up_s=2.0 if given.quick else 5.0,
        repeats=given.repeat or (1 if given.quick else 3),
        is_record=given.record,
        is_report_only=given.report_only,
    )
