"""Kits that are told to run natively do, or say that they did not."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from harness import native as found
from harness.check_sidecars import clock_settings
from harness.native import FOLDER, go_native, native, needs_native, way_of_process, wrong_ways

if TYPE_CHECKING:
    from pathlib import Path

linux = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")


def _way_of_a_child(settings: dict[str, str]) -> str:
    import_it = "import importlib.util as u; u.find_spec('halfhitch_native') and __import__"
    waits = f"{import_it}('halfhitch_native'); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", waits],
        env=os.environ | settings,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        way = way_of_process(child.pid)
        child.communicate(b"\n")
    return way


@linux
@needs_native
def test_a_process_says_its_way_by_what_it_has_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "")
    assert _way_of_a_child({}) == "interpreted"
    go_native()
    assert _way_of_a_child({}) == "native"
    # Such sidecars were interpreted ones for good, for their path was the clock's alone.
    assert _way_of_a_child(clock_settings(tmp_path, 3_600)) == "native"


def test_a_run_that_was_to_be_native_and_was_not_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    assert [wrong_ways(ways) for ways in ([], ["interpreted"], ["native"])] == ["", "", ""]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["elsewhere", str(FOLDER)]))
    assert wrong_ways(["native"]) == ""
    for ways in ([], ["interpreted"], ["interpreted", "native"]):
        assert f"to be native, and were {ways}" in wrong_ways(ways)


def test_nothing_goes_native_where_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found, "native", None)
    with pytest.raises(SystemExit, match="make native"):
        go_native()
    if native is not None:
        monkeypatch.setattr(found, "native", native)
        monkeypatch.setattr(found, "way_of", lambda _: None)
        with pytest.raises(SystemExit, match="whose owners fit"):
            go_native()
