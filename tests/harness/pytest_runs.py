"""A run of pytest's own, as a user has it: this package's plugin, and nothing else of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from harness.places import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def run_pytest(
    folder: Path, text: str, *options: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """`text` as the only test file of `folder`."""
    (folder / "test_shown.py").write_text(text)
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("COVERAGE", "HALFHITCH_"))},
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "sidecar"), str(ROOT / "cli")]),
        **variables,
    }
    command = [sys.executable, "-m", "pytest", "-p", "halfhitch.testing.plugin", "-q", *options]
    return subprocess.run(
        [*command, "--strict-markers", "-p", "no:cacheprovider", "--rootdir", folder, folder],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
