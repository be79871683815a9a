"""A pytest plugin: several processes share the tests, and each counts the processor time it takes.

`tests/side_by_side.py` starts the processes, the lanes. Each takes the next file that nobody has
taken: the first to create a mark in a common folder has it. So no list says who runs what, and
nobody waits for the other at the end. Files that share a server which takes long to start are taken
together. A file is collected when it is taken: six processes that each collected everything spent
more than a tenth of all processor time on it.

What a layer takes is told in processor time of a quiet machine: seconds of the process and of its
children that have ended, divided by how much slower than there a fixed piece of work has just been.
Without that folder this plugin does nothing, as in a run of pytest's own.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import resource
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from coverage import Coverage

from harness.places import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

#: Names the folder with the marks; whoever sets it reads there what each lane has spent.
FOLDER_VARIABLE: Final = "HALFHITCH_TEST_LANES"
#: Begin of path: its files are taken together, for the first of them starts what all need.
TOGETHER: Final = ("tests/spark/", "tests/integration/test_barrier", "conformance/promises/")
#: Begin of path: whose tests cover the core and the wire formats, every line and branch. To be
#: traced makes a test two or three times as long, so no others are, unless all are asked for.
TRACED: Final = ("tests/unit/core/", "tests/unit/wire/", "tests/unit/service/", "tests/scenarios/")
#: What those are to cover to the last line.
COVERED: Final = ("halfhitch.core", "halfhitch.wire")
#: Of the environment, in a run that tells what all tests cover.
TRACE_ALL_VARIABLE: Final = "HALFHITCH_TEST_TRACE_ALL"
#: Not even then: lives by the hundred run what other tests have covered long before.
UNTRACED: Final = ("tests/simulation/", "tests/property/")
#: What `work` takes on the machine that the budgets were written on, when that is quiet.
QUIET_WORK_S: Final = 0.0021


@dataclass(slots=True)
class Spent:
    """What the tests of one layer, or one file, have taken."""

    count: int = 0
    wall_s: float = 0.0
    #: As it would be on a quiet machine.
    cpu_s: float = 0.0

    def add(self, more: Spent) -> None:
        """That of others too."""
        self.count += more.count
        self.wall_s += more.wall_s
        self.cpu_s += more.cpu_s


def work() -> float:
    """Processor seconds of a fixed piece of work, the best of three."""

    def once() -> float:
        began_s = time.process_time()
        total = 0
        for number in range(100_000):
            total += number & 7
        return time.process_time() - began_s

    return min(once() for _ in range(3))


def _cpu_s() -> float:
    """Processor seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def layer_of(path: str) -> str:
    """`tests/unit` of `tests/unit/core/test_x.py`."""
    return "/".join(path.split("/")[:2])


def is_traced(path: str) -> bool:
    """Whether the coverage of this file's tests is measured, where any is."""
    if os.environ.get(TRACE_ALL_VARIABLE):
        return not path.startswith(UNTRACED)
    return path.startswith(TRACED)


def unit_of(path: str) -> str:
    """What is taken in one piece: the file, or those that share a server."""
    return next((begin for begin in TOGETHER if path.startswith(begin)), path)


class Marks:
    """Who was first: one file for each unit that was taken."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, unit: str) -> bool:
        """Whether it is ours now."""
        name = unit.replace("/", ".")
        try:
            (self._folder / f"{name}.taken").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def files_of(node: pytest.Item | pytest.Collector) -> Iterator[Any]:
    """What pytest finds in a folder, before it reads a file; of anything else only that."""
    if not isinstance(node, pytest.Directory):
        yield node
        return
    report = node.ihook.pytest_make_collect_report(collector=node)
    for each in report.result or ():
        yield from files_of(each)
    node.ihook.pytest_collectreport(report=report)


def taken(
    nodes: Iterable[Any],
    path_of: Callable[[Any], str],
    take: Callable[[str], bool],
    collect: Callable[[Sequence[Any]], Sequence[Any]],
) -> Iterator[tuple[Any, Any | None]]:
    """Each item of the units that are ours, with the one that follows it.

    A unit is asked for when the last item before it begins, for pytest wants to know what follows.
    """
    ours = (
        item
        for unit, group in groupby(nodes, lambda node: unit_of(path_of(node)))
        if take(unit)
        for item in collect(list(group))
    )
    item = next(ours, None)
    while item is not None:
        following = next(ours, None)
        yield item, following
        item = following


def import_covered() -> None:
    """While it is traced: what is imported first by a test that is not would count as missed."""
    for name in COVERED:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(module.name)


class Tracing:
    """Of coverage, if this process is run under it."""

    def __init__(self, coverage: Coverage | None) -> None:
        self._coverage, self._is_on = coverage, True

    def set(self, is_wanted: bool) -> None:
        """On or off, from here on."""
        if self._coverage is not None and is_wanted is not self._is_on:
            self._is_on = is_wanted
            (self._coverage.start if is_wanted else self._coverage.stop)()


class Lane:
    """The plugin of one process."""

    def __init__(self, folder: Path) -> None:
        self._tracing = Tracing(Coverage.current())
        self._marks = Marks(folder)
        self._found: list[Any] = []
        self._is_finding = False
        self._report = folder / f"{os.getpid()}.spent.json"
        self.spent: defaultdict[str, Spent] = defaultdict(Spent)
        self._path, self._slowness = "", 1.0

    def pytest_collection(self, session: pytest.Session) -> bool:
        """Folders, and no files: each is read by the lane that takes it."""
        self._is_finding = True
        session.perform_collect(genitems=False)
        self._is_finding = False
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        # Here, for after it pytest forgets what the conftest.py of a folder has that nobody looked
        # into; and before -k and -m, which are about tests, see folders.
        if self._is_finding:
            self._found = [file for node in items for file in files_of(node)]
            items.clear()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        def collect(nodes: Sequence[Any]) -> list[pytest.Item]:
            items = [item for node in nodes for item in session.genitems(node)]
            session.config.hook.pytest_collection_modifyitems(
                session=session, config=session.config, items=items
            )
            session.testscollected += len(items)
            return items

        for item, following in taken(self._found, path_of, self._marks.take, collect):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, bool, bool]:
        path = path_of(item)
        self._pace(path)
        began_s, began_cpu_s = time.monotonic(), _cpu_s()
        try:
            return (yield)
        finally:
            cpu_s = (_cpu_s() - began_cpu_s) / self._slowness
            self.spent[path].add(Spent(1, time.monotonic() - began_s, cpu_s))

    def _pace(self, path: str) -> None:
        """How slow is the machine now? Asked for each file."""
        if path != self._path:
            self._tracing.set(is_traced(path))
            self._path, self._slowness = path, work() / QUIET_WORK_S

    def pytest_sessionfinish(self) -> None:
        spent = {path: asdict(one) for path, one in self.spent.items()}
        self._report.write_text(json.dumps(spent))


def path_of(node: pytest.Item | pytest.File) -> str:
    return node.path.relative_to(ROOT).as_posix()


def all_spent(folder: Path) -> dict[str, Spent]:
    """By file, of all lanes."""
    found: defaultdict[str, Spent] = defaultdict(Spent)
    for report in sorted(folder.glob("*.spent.json")):
        for path, more in json.loads(report.read_text()).items():
            found[path].add(Spent(**more))
    return dict(found)


def by_layer(spent: Mapping[str, Spent]) -> dict[str, Spent]:
    """Of files, what their layers took."""
    found: defaultdict[str, Spent] = defaultdict(Spent)
    for path, one in spent.items():
        found[layer_of(path)].add(one)
    return dict(found)


def over_budget(spent: Iterable[tuple[str, Spent]], budgets: dict[str, float]) -> list[str]:
    """What to say of each layer that has taken more than it may."""
    return [
        f"{layer} took {one.cpu_s:.0f} s of processor time, as a quiet machine counts it, and "
        f"{budgets[layer]:.0f} s are allowed: see --durations, and what make test-all is for"
        for layer, one in spent
        if one.cpu_s > budgets[layer]
    ]


def pytest_configure(config: pytest.Config) -> None:
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder and not config.option.collectonly:
        config.pluginmanager.register(Lane(Path(folder)), "halfhitch-lane")
        if Coverage.current() is not None:
            import_covered()
