"""Lanes: each test runs in one of them, and what a layer takes is counted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest

from harness import lanes
from harness.lanes import (
    FOLDER_VARIABLE,
    Marks,
    Spent,
    all_spent,
    by_layer,
    over_budget,
    taken,
    work,
)
from harness.places import ROOT, python_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

ITEMS = [f"tests/unit/test_{name}.py::{number}" for name in "abc" for number in range(3)]


#: Exit status of pytest: no tests.
NOTHING_LEFT = 5
FILES = [f"tests/unit/test_{name}.py" for name in "abc"]


def collected(files: Sequence[str]) -> list[str]:
    return [item for item in ITEMS if item.startswith(tuple(files))]


def test_each_file_is_of_whoever_came_first(tmp_path: Path) -> None:
    marks = Marks(tmp_path)
    assert marks.take("tests/unit/test_a.py")
    assert not Marks(tmp_path).take("tests/unit/test_a.py")
    assert marks.take("tests/unit/test_b.py")


def test_two_lanes_run_everything_once(tmp_path: Path) -> None:
    one, other = (taken(FILES, str, Marks(tmp_path).take, collected) for _ in range(2))
    ran: list[list[str]] = [[], []]
    for _ in ITEMS:
        for lane, mine in zip((one, other), ran, strict=True):
            if (found := next(lane, None)) is not None:
                mine.append(found[0])
    assert all(ran)
    assert sorted(ran[0] + ran[1]) == ITEMS


def test_what_follows_is_what_this_lane_runs_next() -> None:
    def all_but_b(unit: str) -> bool:
        return "test_b" not in unit

    pairs = list(taken(FILES, str, all_but_b, collected))
    assert [item for item, _ in pairs] == [item for item in ITEMS if "test_b" not in item]
    assert [following for _, following in pairs] == [*(item for item, _ in pairs[1:]), None]


def test_a_file_is_collected_when_it_is_taken_and_by_nobody_else() -> None:
    asked: list[str] = []

    def note(files: Sequence[str]) -> list[str]:
        asked.extend(files)
        return [] if "test_b" in files[0] else collected(files)

    lane = taken(FILES, str, lambda unit: "test_a" not in unit, note)
    assert next(lane)[0] == ITEMS[6], "of the second file nothing was chosen"
    assert asked == FILES[1:]


def test_files_that_share_a_server_are_taken_together() -> None:
    units: list[str] = []

    def note(unit: str) -> bool:
        units.append(unit)
        return True

    files = ["tests/integration/test_barrier.py", "tests/integration/test_barrier_aio.py"]
    assert len(list(taken(files, str, note, lambda files: files))) == 2
    assert units == ["tests/integration/test_barrier"]


def test_all_that_is_to_be_covered_is_imported_before_anything_is_not_traced() -> None:
    program = (
        "import sys; from harness.lanes import import_covered; import_covered()\n"
        "print(*(name for name in sys.modules if name.startswith('halfhitch.')))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    root = ROOT / "sidecar"
    for package in ("core", "wire"):
        files = (root / "halfhitch" / package).rglob("[!_]*.py")
        names = {".".join(file.relative_to(root).with_suffix("").parts) for file in files}
        assert names
        assert names <= {*told}


def test_a_layer_over_its_budget_is_named() -> None:
    spent = {"tests/unit": Spent(cpu_s=11.0), "tests/tidy": Spent(cpu_s=9.0)}
    found = over_budget(spent.items(), {"tests/unit": 10, "tests/tidy": 10})
    assert len(found) == 1
    assert found[0].startswith("tests/unit took 11 s")


def test_what_covers_the_core_is_traced_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(lanes.TRACE_ALL_VARIABLE, raising=False)
    assert lanes.is_traced("tests/unit/core/test_ledger.py")
    assert not lanes.is_traced("tests/unit/doors/http/test_server.py")
    assert not lanes.is_traced("tests/simulation/test_lives.py")


def test_whole_lives_are_not_traced_where_all_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(lanes.TRACE_ALL_VARIABLE, "yes")
    assert lanes.is_traced("tests/unit/doors/http/test_server.py")
    assert not lanes.is_traced("tests/simulation/test_lives.py")


def test_what_comes_after_what_is_not_traced_is_traced_again() -> None:
    told: list[str] = []

    class Recorder:
        def start(self) -> None:
            told.append("start")

        def stop(self) -> None:
            told.append("stop")

    lane = lanes.Lane(ROOT)
    lane._tracing = lanes.Tracing(cast("Any", Recorder()))
    for path in ("tests/unit/core/a.py", "tests/simulation/a.py", "tests/simulation/b.py"):
        lane._pace(path)
    assert told == ["stop"]
    lane._pace("tests/unit/wire/b.py")
    assert told == ["stop", "start"]


def test_to_be_traced_again_ended_a_lane_that_had_tried_a_command_of_django() -> None:
    """Its file is named as the package is, and coverage warned of it: an error, in a lane."""
    program = (
        "import warnings; warnings.simplefilter('error')\n"
        "import halfhitch.django.management.commands.halfhitch\n"
        "from coverage import Coverage\n"
        "measured = Coverage(data_file=None)\n"
        "measured._warn_preimported_source = True  # as by `coverage run`\n"
        "measured.start(); measured.stop(); measured.start(); measured.stop()\n"
    )
    environment = os.environ | {"PYTHONPATH": python_path()}
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, check=True)


def test_a_slow_machine_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the fixed work takes and what a test takes grow alike."""
    monkeypatch.setattr(lanes, "QUIET_WORK_S", work() / 4)
    lane = lanes.Lane(ROOT)
    lane._pace("tests/unit/test_a.py")
    assert lane._slowness > 2


@pytest.fixture
def lane_of(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """A lane of pytest's over some files of ours."""

    def start(*files: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": python_path(), FOLDER_VARIABLE: str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        )

    return start


def test_real_lanes_share_real_files(
    lane_of: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """One is given a folder, whose files share a conftest.py, and the other its files."""
    folder = "tests/unit/adapters/memory"
    files = sorted(it.relative_to(ROOT).as_posix() for it in (ROOT / folder).glob("test_*.py"))
    both = [lane_of("bench/tests/test_rows.py", folder), lane_of(*reversed(files))]
    files.append("bench/tests/test_rows.py")
    said = [lane.communicate()[0] for lane in both]
    assert all(lane.returncode in (0, NOTHING_LEFT) for lane in both), said
    marks = {path.name for path in tmp_path.glob("*.taken")}
    assert marks == {file.replace("/", ".") + ".taken" for file in files}
    spent = all_spent(tmp_path)
    assert set(spent) == {*files}
    layers = by_layer(spent)
    assert layers["tests/unit"].count == sum(spent[file].count for file in files[:-1])
    assert set(layers) == {"tests/unit", "bench/tests"}
    assert all(one.count > 0 and one.cpu_s > 0 and one.wall_s > 0 for one in spent.values())
    passed = sum(int(text.rsplit(" passed", 1)[0].split()[-1]) for text in said if "passed" in text)
    assert passed == sum(one.count for one in spent.values())


def test_a_lane_takes_a_test_by_its_name_and_no_other_of_its_file(
    lane_of: Callable[..., subprocess.Popen[str]],
) -> None:
    file = "tests/unit/harness/test_lanes.py"
    name = "test_each_file_is_of_whoever_came_first"
    lane = lane_of(f"{file}::{name}")
    assert "\n1 passed" in lane.communicate()[0]
    lane = lane_of(f"{file}::test_nothing")
    said, _ = lane.communicate()
    assert lane.returncode == 4, said


def test_a_file_that_cannot_be_read_fails_and_the_next_is_run(
    lane_of: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    broken = ROOT / "build" / tmp_path.name / "test_broken.py"
    broken.parent.mkdir(parents=True)
    broken.write_text("import no_such_module\n")
    try:
        lane = lane_of(str(broken), "bench/tests/test_rows.py")
        said, _ = lane.communicate()
    finally:
        shutil.rmtree(broken.parent)
    assert lane.returncode == 1, said
    assert "1 error" in said
    assert " passed" in said
