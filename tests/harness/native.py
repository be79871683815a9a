"""halfhitch-native as `make native` leaves it, for tests that compare it with its twin.

HALFHITCH_NATIVE_FOLDER names another build: `make fuzz-native` has one that is watched by
AddressSanitizer.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

from halfhitch.adapters.native.owner import way_of

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


@pytest.fixture(params=["interpreted", pytest.param("native", marks=needs_native)])
def owner_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Engines of this test read and forward so. The test runs once for each way."""
    way = None if request.param == "interpreted" else way_of(native)
    assert request.param == "interpreted" or way is not None
    monkeypatch.setattr("halfhitch.adapters.native.owner.load", lambda: way)
    name: str = request.param
    return name
