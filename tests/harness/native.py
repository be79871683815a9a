"""halfhitch-native as `make native` leaves it, for tests that compare it with its twin.

HALFHITCH_NATIVE_FOLDER names another build: `make fuzz-native` has one that is watched by
AddressSanitizer.

Sidecars that a test starts find it where PYTHONPATH says; `go_native` says so for all of a process.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters.native.owner import way_of

if TYPE_CHECKING:
    from collections.abc import Collection

FOLDER = Path(
    os.environ.get("HALFHITCH_NATIVE_FOLDER") or Path(__file__).parents[2] / "build" / "native"
)


def _load() -> Any | None:
    for path in FOLDER.glob("halfhitch_native*"):
        spec = importlib.util.spec_from_file_location("halfhitch_native", path)
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    return None


native: Any = _load()

#: `make test` builds it where Rust is installed, as CI does.
needs_native = pytest.mark.skipif(
    native is None, reason="halfhitch-native is not built: make native"
)


def go_native() -> None:
    """Sidecars that this process starts from now on are native, their owners too."""
    if native is None or way_of(native) is None:
        raise SystemExit(f"{FOLDER} has no halfhitch-native whose owners fit: make native")
    told = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(FOLDER), told]))


def wrong_ways(ways: Collection[str]) -> str:
    """Of sidecars that were to be native and silently were not: they say nothing of native ones."""
    is_wanted = str(FOLDER) in os.environ.get("PYTHONPATH", "").split(os.pathsep)
    is_wrong = is_wanted and set(ways) != {"native"}
    return f"sidecars were to be native, and were {sorted(ways)}" if is_wrong else ""


def way_of_process(pid: int) -> str:
    """Whether it has loaded that module, or any: what `owner_way` calls these, asked from outside.

    Of a module that fits (`go_native`) owners are native wherever it is loaded.
    """
    maps = Path(f"/proc/{pid}/maps").read_text()
    return "native" if "/halfhitch_native." in maps else "interpreted"


@pytest.fixture(params=["interpreted", pytest.param("native", marks=needs_native)])
def owner_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Engines of this test read and forward so. The test runs once for each way."""
    way = None if request.param == "interpreted" else way_of(native)
    assert request.param == "interpreted" or way is not None
    monkeypatch.setattr("halfhitch.adapters.native.owner.load", lambda: way)
    name: str = request.param
    return name
