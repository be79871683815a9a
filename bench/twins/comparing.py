"""The trees, their turns, and the table."""

from __future__ import annotations

import argparse
import gc
import importlib
import logging
import sys
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path(__file__).resolve().parents[2]
_TESTS = str(_ROOT / "tests")
_COMPILED = _ROOT / "build" / "compiled"
#: What each tree has of its own.
_OURS = ("halfhitch", "harness", "bench.twins.owner")
#: Module of this package, function in it.
_PARTS: Final = (("owner", "owner_us"),)


class Tree:
    """One source tree and its modules; `entered` makes them the ones that are imported."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._paths = [str(path), _TESTS]
        self._modules: dict[str, Any] = {}

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Nothing of the other tree is in sight meanwhile."""
        sys.path[:0] = self._paths
        sys.modules.update(self._modules)
        try:
            yield
        finally:
            del sys.path[: len(self._paths)]
            for name in [each for each in sys.modules if _is_ours(each)]:
                self._modules[name] = sys.modules.pop(name)


def _is_ours(module: str) -> bool:
    return any(module == each or module.startswith(each + ".") for each in _OURS)


def measured(tree: Tree, module: str, function: str, count: int) -> dict[str, float]:
    """Microseconds of each transaction, once, in this tree."""
    with tree.entered():
        part = getattr(importlib.import_module(f"bench.twins.{module}"), function)
        gc.collect()
        gc.disable()
        try:
            found: dict[str, float] = part(count)
            return found
        finally:
            gc.enable()


def main() -> int:
    """Prints a table."""
    parser = argparse.ArgumentParser(prog="bench.twins", description="Interpreted and compiled.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=4_000, help="transactions of each round")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if not any(_COMPILED.glob("halfhitch/**/*.so")):
        print("nothing is compiled: `make compiled` does it", file=sys.stderr)
        return 1
    trees = [Tree("interpreted", _ROOT / "sidecar"), Tree("compiled", _COMPILED)]
    taken: dict[str, dict[str, list[float]]] = {}
    for number in range(given.rounds):
        for module, function in _PARTS:
            for tree in trees if number % 2 == 0 else reversed(trees):
                for name, microseconds in measured(tree, module, function, given.count).items():
                    taken.setdefault(name, {}).setdefault(tree.name, []).append(microseconds)
    print(f"{'us for each transaction':<26}{'interpreted':>12}{'compiled':>12}{'ratio':>8}")
    for name, of_trees in taken.items():
        before, now = of_trees["interpreted"], of_trees["compiled"]
        ratio = median(one / other for one, other in zip(before, now, strict=True))
        print(f"{name:<26}{median(before):12.2f}{median(now):12.2f}{ratio:8.2f}")
    return 0
