"""Is it slower than before? The same load on two source trees alternately: `make bench-before`.

One tree is that of a commit, the other one that which lies here; both are copied first, so that
neither changes on the way. Their coordinators live side by side on one Kafka, and take turns of a
second or two, whoever begins changing from pair to pair. What the machine does to one it does to
the other, so the ratio within a pair stands where no single rate would; processor time for each
transaction is what a busy machine disturbs least.

Of two processes that run the same code, one may be slower by some percent as long as it lives: how
its memory came to lie is chance. So the coordinators are started anew after some pairs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from bench import figures, stage, usage
from bench.children import BenchmarkError, Child, plain_environment
from bench.figures import Ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.director import Director

_ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = ("sidecar", "cli")
_CONCURRENCY = 64
_PAIRS_EACH = 3  # of one start
_HEAD = ("mode", "figure", "before", "now", "ratio", "middle half", "pairs")


@dataclass(frozen=True, slots=True)
class Turns:
    """What the turns of one tree have shown, one after the other."""

    committed_per_s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)  # of the coordinator, for each transaction


@dataclass(frozen=True, slots=True)
class Compared:
    """One mode of both trees."""

    rev: str
    mode: str
    before: Turns
    now: Turns


class Side(NamedTuple):
    """One tree at work."""

    load: Child
    coordinator_pid: int
    more: dict[str, Any]


def compare(director: Director, rev: str) -> list[Compared]:
    """Both trees in all modes asked for."""
    trees = [_committed(director, rev), _present(director)]
    return [
        Compared(rev, mode, *_alternate(director, trees, open_side))
        for mode, open_side in {"engine": _engine, "http": _http}.items()
        if mode in director.plan.modes
    ]


def report(compared: Sequence[Compared]) -> list[str]:
    """For people."""
    if not compared:
        return []
    shown = [
        row(one.mode, name, getattr(one.before, figure), getattr(one.now, figure))
        for one in compared
        for name, figure in (("commits/s", "committed_per_s"), ("CPU us/transaction", "cpu_us"))
    ]
    revs = {one.rev for one in compared}
    return [
        f"before: {', '.join(revs)}; now: the tree as it lay there; {_CONCURRENCY} callers",
        "",
        figures.table(_HEAD, shown),
        "",
    ]


def row(mode: str, name: str, before: list[float], now: list[float]) -> tuple[str, ...]:
    """Of a report: the middle of both, and how they stand to each other within pairs."""
    ratio = Ratio.of(before, now)
    return (
        mode,
        name,
        f"{median(before):,.0f}",
        f"{median(now):,.0f}",
        f"{ratio.median:.3f}",
        f"{ratio.low:.3f} to {ratio.high:.3f}",
        str(ratio.count),
    )


def _alternate(
    director: Director,
    trees: list[Path],
    open_side: Callable[[ExitStack, Director, Path], Side],
) -> tuple[Turns, Turns]:
    turns = Turns(), Turns()
    for first in range(0, director.plan.pairs, _PAIRS_EACH):
        with ExitStack() as stack:
            sides = [open_side(stack, director, tree) for tree in trees]
            for side in sides:
                director.warm_mode_up(side.load, side.more)
            for pair in range(first, min(first + _PAIRS_EACH, director.plan.pairs)):
                for place in (0, 1) if pair % 2 == 0 else (1, 0):
                    turn(director, sides[place], turns[place])
                shown = [
                    f"{side.committed_per_s[-1]:,.0f}/s {side.cpu_us[-1]:.1f} us" for side in turns
                ]
                director.say(f"pair {pair + 1}: " + ", then ".join(shown))
    return turns


def turn(director: Director, side: Side, turns: Turns, concurrency: int = _CONCURRENCY) -> None:
    """Load one side for a moment."""
    before_s = usage.exact_cpu_s(side.coordinator_pid)
    answer, _, _ = director.load(side.load, concurrency, director.plan.turn_s, side.more)
    spent_s = usage.exact_cpu_s(side.coordinator_pid) - before_s
    count = answer["count"]
    turns.committed_per_s.append(count / (answer["ended_s"] - answer["started_s"]))
    turns.cpu_us.append(spent_s / count * 1e6)


def _engine(stack: ExitStack, director: Director, tree: Path) -> Side:
    given = director.arguments(prefix=f"{tree.name}-engine-")
    load = stack.enter_context(director.child("load_engine", given, PYTHONPATH=_path(tree)))
    load.order({})  # answered as soon as it is ready
    return Side(load, load.pid, {})


def _http(stack: ExitStack, director: Director, tree: Path) -> Side:
    sidecar = stack.enter_context(
        stage.Sidecar(
            director.kafka.bootstrap,
            director.folder,
            f"{tree.name}-http-",
            PYTHONPATH=_path(tree),
        )
    )
    load = stack.enter_context(director.child("load_http", director.arguments()))
    return Side(load, sidecar.pid, {"address": sidecar.address("unix")})


# -- trees ---------------------------------------------------------------------------------------


def _committed(director: Director, rev: str) -> Path:
    tree, packed = director.folder / "before", director.folder / "before.tar"
    done = subprocess.run(
        ["git", "archive", "-o", str(packed), rev, *_PACKAGES],
        cwd=_ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise BenchmarkError(f"{rev} cannot be taken out: {done.stderr.strip()}")
    with tarfile.open(packed) as archive:
        archive.extractall(tree, filter="data")
    return _checked(tree)


def _present(director: Director) -> Path:
    tree = director.folder / "now"
    for package in _PACKAGES:
        shutil.copytree(
            _ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    return _checked(tree)


def _checked(tree: Path) -> Path:
    """Whether a process with its path really runs its code: else both would be the same."""
    asked = [sys.executable, "-c", "import halfhitch; print(halfhitch.__file__)"]
    environment = plain_environment(PYTHONPATH=_path(tree))
    found = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True)
    if not found.stdout.startswith(str(tree)):
        raise BenchmarkError(f"{tree} is not what runs: {found.stdout.strip()} is")
    return tree


def _path(tree: Path) -> str:
    return os.pathsep.join(str(tree / package) for package in _PACKAGES)
