"""What the source needs is said in one sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["pyarrow", "confluent_kafka"])
def test_without_one_of_its_packages_the_import_names_the_extra(module: str) -> None:
    program = f"import sys; sys.modules[{module!r}] = None; import halfhitch_spark.source"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "pip install 'halfhitch[spark-source]'" in done.stderr
