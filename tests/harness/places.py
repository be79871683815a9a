"""Where things lie, and where a child process looks for the modules of tests and kits."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Of the kits (bench, chaos, conformance), and of the harness.
_FOLDERS = (ROOT, ROOT / "tests")


def python_path(*first: str) -> str:
    """For a child process: `first`, then the kits and the harness, then as this one was told."""
    told = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(filter(None, [*first, *map(str, _FOLDERS), told]))
