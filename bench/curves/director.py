"""The run: curve after curve, each kept as soon as it is measured."""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import machine, stage
from bench.beside_raw import fast_path
from bench.children import BenchmarkError, Child
from bench.curves import loaded, page, standing
from bench.curves.plan import read_plan
from bench.curves.points import Curve
from bench.director import Director
from bench.director import read_plan as bench_plan
from halfhitch.embedded import EmbeddedKafka, unwind_on_sigterm

if TYPE_CHECKING:
    from bench.curves.plan import Plan
    from bench.curves.points import Point

_BUILD: Final = Path(__file__).resolve().parents[2] / "build"
_MEASURED: Final = {
    "partitions": loaded.partitions,
    "payload": loaded.payload,
    "undecided": standing.undecided,
    "replay": standing.replay,
    "instances": loaded.instances,
}
#: So that bodies of 1,000 KiB go through.
_BROKER: Final = {"message.max.bytes": "2097152", "replica.fetch.max.bytes": "2097152"}


def measure(name: str, plan: Plan) -> list[Point]:
    """One curve, on a Kafka of its own."""
    with ExitStack() as stack:
        stack.enter_context(unwind_on_sigterm())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hh-curves-")))
        brokers = 3 if name == "instances" else 1
        kafka = stack.enter_context(EmbeddedKafka(brokers, properties=_BROKER))
        stage.make_topics(kafka.bootstrap)
        given = {
            "bootstrap": kafka.bootstrap,
            "topic": stage.TARGET,
            "partition_count": stage.PARTITION_COUNT,
        }
        watcher = stack.enter_context(Child("watcher", given, log=folder / "watcher.log"))
        director = Director(bench_plan([]), folder, kafka, watcher)
        points = _MEASURED[name](director, plan)
        if wrong := director.check_totals():
            raise BenchmarkError("; ".join(wrong))
        print(f"{name}: committed {sum(director.committed.values()):,}, each seen exactly once")
        return points


def main() -> int:
    """1 when a message was lost or doubled, or when something broke."""
    plan = read_plan()
    if plan.is_report_only:
        page.write()
        return 0
    facts = {**machine.facts(), "is_fast": bool(fast_path())}
    folder = page.RECORDS if plan.is_record else _BUILD / "curves"
    folder.mkdir(parents=True, exist_ok=True)
    failed = False
    for name in plan.places:
        try:
            points = measure(name, plan)
        except (BenchmarkError, TimeoutError) as error:
            print(f"the curve of {name} failed: {error}", file=sys.stderr)
            failed = True
            continue
        curve = Curve(name, facts, plan.seconds, points)
        path = folder / f"{name}.json"
        path.write_text(json.dumps(curve.as_dict(), indent=1) + "\n")
        print(f"{name}: {path}")
    if plan.is_record:
        page.write()
    return 1 if failed else 0
