"""What do native threads save the data door? `make bench-native`: with them and without, in turns.

Two sidecars of one tree on one Kafka, one with halfhitch-native and one without; each serves the
same load for a few seconds, whoever begins changing from pair to pair. before.py compares two
trees in the same way.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import stage
from bench.before import Side, Turns, row, turn
from bench.children import BenchmarkError, plain_environment
from bench.figures import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.director import Director

_BUILT = Path(__file__).resolve().parents[1] / "build" / "native"
_HEAD = ("mode", "figure", "interpreted", "native", "ratio", "middle half", "pairs")
_FIGURES = (("commits/s", "committed_per_s"), ("CPU us/transaction", "cpu_us"))


@dataclass(frozen=True, slots=True)
class Compared:
    """One kind of load on both."""

    mode: str
    interpreted: Turns
    native: Turns


def compare(director: Director) -> list[Compared]:
    """Both ways: over both kinds of socket, raw and as JSON, with names of the caller's or not."""
    _require_built()
    found = []
    with ExitStack() as stack:
        sidecars = [
            stack.enter_context(
                stage.Sidecar(director.kafka.bootstrap, director.folder, f"{name}-", **more)
            )
            for name, more in {"off": {}, "on": {"PYTHONPATH": str(_BUILT)}}.items()
        ]
        load = stack.enter_context(director.child("load_http", director.arguments()))
        for mode, kind, more in _modes():
            sides = [
                Side(load, one.pid, {"address": one.address(kind), **more}) for one in sidecars
            ]
            for side in sides:
                director.warm_mode_up(load, side.more)
            for concurrency in director.plan.concurrencies:
                turns = Turns(), Turns()
                for pair in range(director.plan.pairs):
                    for place in (0, 1) if pair % 2 == 0 else (1, 0):
                        turn(director, sides[place], turns[place], concurrency)
                found.append(Compared(f"{mode}, {concurrency} callers", *turns))
                director.say(*report(found[-1:]))
    return found


def report(compared: Sequence[Compared]) -> list[str]:
    """For people."""
    if not compared:
        return []
    shown = [
        row(one.mode, name, getattr(one.interpreted, figure), getattr(one.native, figure))
        for one in compared
        for name, figure in _FIGURES
    ]
    return ["prepare and commit; CPU: of the sidecar", "", table(_HEAD, shown), ""]


def _modes() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for kind, socket in {"unix": "unix socket", "tcp": "TCP"}.items():
        for form in ("raw", "JSON"):
            for named in (True, False):
                mode = f"{form}, {socket}, {'named' if named else 'unnamed'}"
                yield mode, kind, {"named": named, "json": form == "JSON"}
    # Who does something meanwhile comes back neither at once nor with the others.
    for local_ms in ([0.2, 2.0], [2.0, 10.0]):
        mode = "raw, unix socket, local transactions of {} to {} ms".format(*local_ms)
        yield mode, "unix", {"local_ms": local_ms}


def _require_built() -> None:
    """Else both would be the same."""
    asked: Any = subprocess.run(
        [sys.executable, "-c", "import halfhitch_native"],
        env=plain_environment(PYTHONPATH=str(_BUILT)),
        check=False,
        capture_output=True,
    )
    without: Any = subprocess.run(
        [sys.executable, "-c", "import halfhitch_native"],
        env=plain_environment(),
        check=False,
        capture_output=True,
    )
    if asked.returncode:
        raise BenchmarkError("there are no native threads to compare: run `make native` first")
    if not without.returncode:
        raise BenchmarkError("halfhitch-native is installed here, so no sidecar is without it")
