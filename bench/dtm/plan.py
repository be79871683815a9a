"""What is to be measured, from the command line."""

from __future__ import annotations

import argparse
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.rocketmq.plan import COMPILED, NATIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

DTM: Final = "dtm"
HALF_HITCH: Final = "Half Hitch"
SIDES: Final = {"dtm": DTM, "halfhitch": HALF_HITCH}
DTM_VERSION: Final = "1.19.0"
#: Where programs.sh has put its programs.
PROGRAMS: Final = COMPILED.with_name("bench-dtm")
SCRIPTS: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Plan:
    """All of it; `sides` take turns in this order."""

    sides: tuple[str, ...]
    rounds: int
    connections: tuple[int, ...]
    seconds: float
    warm_up_s: float
    #: Of a server that has just been started, before anything of it is measured.
    first_warm_up_s: float
    body_bytes: int
    #: Redis writes down what it is told before it is killed (appendonly, once a second).
    is_append_only: bool
    is_compiled: bool
    is_native: bool
    settings: tuple[str, ...]
    is_record: bool
    report: Path | None


def read_plan(words: Sequence[str] | None = None) -> Plan:
    """From the command line."""
    parser = argparse.ArgumentParser(
        prog="bench.dtm", description="Half Hitch's data door beside dtm, under wrk."
    )
    add = parser.add_argument
    add("--rounds", type=int, help="each with servers started anew (5; quick: 1)")
    add("--seconds", type=float, help="measured in each run (15; quick: 5)")
    add("--warm-up", type=float, metavar="S", help="of each run, not measured (8; quick: 4)")
    add("--first-warm-up", type=float, metavar="S", help="of new servers (25; quick: 0)")
    add("--connections", default="1,32,64", metavar="N,N", help="(1,32,64)")
    add("--body", type=int, default=1024, metavar="BYTES", help="(1024)")
    add("--only", choices=sorted(SIDES), help="one side alone")
    add("--append-only", action="store_true", help="Redis with its log, written once a second")
    add("--interpreted", action="store_true", help="Half Hitch without what `make compiled` makes")
    add("--no-native", action="store_true", help="Half Hitch without what `make native` makes")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="Half Hitch's settings")
    add("--quick", action="store_true", help="one short round")
    add("--record", action="store_true", help="write the record and docs/beside-dtm.md")
    add("--report-only", type=Path, metavar="JSON", help="only make the page, from this file")
    given = parser.parse_args(words)
    if given.body < 64:
        parser.error("--body must be 64 or more: a body says which transaction it is of")
    if given.record and given.only is not None:
        parser.error("--record needs both sides")
    if any("=" not in setting for setting in given.set):
        parser.error("--set takes NAME=VALUE, such as owner.batch_count_max=2000")
    for wanted, found, target in (
        (not given.interpreted, COMPILED.glob("halfhitch/**/*.so"), "compiled"),
        (not given.no_native, NATIVE.glob("*.so"), "native"),
    ):
        if wanted and given.report_only is None and not any(found):
            parser.error(f"a release has build/{target}: `make {target}` makes it")
    return Plan(
        sides=(SIDES[given.only],) if given.only else (DTM, HALF_HITCH),
        rounds=max(1, given.rounds or (1 if given.quick else 5)),
        connections=tuple(int(word) for word in given.connections.split(",")),
        seconds=given.seconds or (5.0 if given.quick else 15.0),
        warm_up_s=given.warm_up or (4.0 if given.quick else 8.0),
        first_warm_up_s=_first_warm_up_s(given),
        body_bytes=given.body,
        is_append_only=given.append_only,
        is_compiled=not given.interpreted,
        is_native=not given.no_native,
        settings=tuple(given.set),
        is_record=given.record,
        report=given.report_only,
    )


def _first_warm_up_s(given: argparse.Namespace) -> float:
    if given.first_warm_up is not None:
        return float(given.first_warm_up)
    return 0.0 if given.quick else 25.0


def program(name: str) -> tuple[Path, dict[str, str]]:
    """Of the machine, or of programs.sh; and what its environment needs."""
    found = shutil.which(name)
    if found:
        return Path(found), {}
    libraries = sorted((PROGRAMS / "debian/usr/lib").glob("*-linux-gnu*"))
    return PROGRAMS / "debian/usr/bin" / name, {"LD_LIBRARY_PATH": ":".join(map(str, libraries))}
