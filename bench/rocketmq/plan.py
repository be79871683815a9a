"""What is to be measured, from the command line."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

ROCKETMQ: Final = "RocketMQ"
HALF_HITCH: Final = "Half Hitch"
_SIDES: Final = {"rocketmq": ROCKETMQ, "halfhitch": HALF_HITCH}

#: What the load is told of how transactions end.
LOADS: Final = {
    "commit": (),
    "mix": ("-su", "0.01", "-sr", "0.05", "-cu", "0.2", "-cr", "0.1"),
}
COMPILED: Final = Path(__file__).resolve().parents[2] / "build" / "compiled"
NATIVE: Final = COMPILED.with_name("native")
#: The benchmark prints nothing before its tenth second.
_WARM_UP_S_MIN: Final = 10.0


@dataclass(frozen=True, slots=True)
class Plan:
    """All of it; `sides` take turns in this order."""

    sides: tuple[str, ...]
    rounds: int
    loads: tuple[str, ...]
    threads: tuple[int, ...]
    seconds: float
    warm_up_s: float
    #: Of a server that has just been started, before anything of it is measured.
    first_warm_up_s: float
    body_bytes: int
    heap_mib: int
    topic: str
    target_partitions: int
    half_partitions: int
    owner_apart: bool
    settings: tuple[str, ...]  # more of Half Hitch's, as NAME=VALUE
    #: Half Hitch from build/compiled, its hot path in C.
    is_compiled: bool
    #: Half Hitch with build/native, its hot requests on native threads.
    is_native: bool
    is_profile: bool
    is_record: bool
    #: Make the page from this file of results instead of measuring.
    report: Path | None


def read_plan(words: Sequence[str] | None = None) -> Plan:
    """From the command line."""
    parser = _parser()
    given = parser.parse_args(words)
    if given.only is not None and given.only not in _SIDES:
        parser.error(f"--only takes one of {', '.join(_SIDES)}")
    if not set(given.loads) <= set(LOADS):
        parser.error(f"--loads takes some of {', '.join(LOADS)}")
    warm_up_s = given.warm_up or (_WARM_UP_S_MIN if given.quick else 20.0)
    if warm_up_s < _WARM_UP_S_MIN:
        parser.error(f"--warm-up must be {_WARM_UP_S_MIN:g} or more: nothing is printed before")
    if any("=" not in setting for setting in given.set):
        parser.error("--set takes NAME=VALUE, such as owner.batch_count_max=2000")
    if given.compiled and not any(COMPILED.glob("halfhitch/**/*.so")):
        parser.error("--compiled needs build/compiled: `make compiled` makes it")
    if given.native and not any(NATIVE.glob("*.so")):
        parser.error("--native needs build/native: `make native` makes it")
    if given.record and given.only is not None:
        parser.error("--record needs both sides")
    return Plan(
        sides=(_SIDES[given.only],) if given.only else (ROCKETMQ, HALF_HITCH),
        rounds=max(1, given.rounds or (1 if given.quick else 5)),
        loads=given.loads,
        threads=tuple(map(int, given.threads)),
        seconds=given.seconds or (9.0 if given.quick else 27.0),
        warm_up_s=warm_up_s,
        first_warm_up_s=_first_warm_up_s(given),
        body_bytes=given.body,
        heap_mib=given.heap,
        topic=given.topic,
        target_partitions=given.target_partitions,
        half_partitions=given.partitions,
        owner_apart=given.owner == "apart",
        settings=tuple(given.set),
        is_compiled=given.compiled,
        is_native=given.native,
        is_profile=given.profile,
        is_record=given.record,
        report=given.report_only,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench.rocketmq",
        description="RocketMQ's TransactionProducer against RocketMQ and against Half Hitch.",
    )
    add = parser.add_argument
    add("--rounds", type=int, help="each with servers started anew (5; quick: 1)")
    add("--seconds", type=float, help="measured in each run, rounded up to nines (27; quick: 9)")
    add("--warm-up", type=float, metavar="S", help="of each run, not measured (20; quick: 10)")
    add("--first-warm-up", type=float, metavar="S", help="at least, of a new server (30; quick: 0)")
    add("--threads", type=_list, default=("8", "32", "64"), metavar="N,N", help="(8,32,64)")
    add("--loads", type=_list, default=tuple(LOADS), metavar="LOADS", help="(commit,mix)")
    add("--only", metavar="SIDE", help="rocketmq or halfhitch")
    add("--quick", action="store_true", help="one short round")
    add("--body", type=int, default=1024, metavar="BYTES", help="(1024)")
    add(
        "--heap", type=int, default=1024, metavar="MIB", help="of each broker and the client (1024)"
    )
    add("--topic", default="BenchmarkTest", help="(BenchmarkTest, as the benchmark has it)")
    add("--target-partitions", type=int, default=4, metavar="N", help="of the Kafka topic (4)")
    add("--partitions", type=int, default=4, metavar="N", help="half partitions (4)")
    add("--owner", choices=("inside", "apart"), default="inside", help="apart: a second process")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="Half Hitch's settings")
    add("--compiled", action="store_true", help="Half Hitch with its hot path in C (make compiled)")
    add("--native", action="store_true", help="its hot requests on native threads (make native)")
    add("--profile", action="store_true", help="figures of each second; py-spy if it is there")
    add("--record", action="store_true", help="write the record and docs/performance.md")
    add("--report-only", type=Path, metavar="JSON", help="only make the page, from this file")
    return parser


def _first_warm_up_s(given: argparse.Namespace) -> float:
    if given.first_warm_up is not None:
        return float(given.first_warm_up)
    return 0.0 if given.quick else 30.0


def _list(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))
