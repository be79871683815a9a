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
