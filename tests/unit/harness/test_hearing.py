"""Nothing that a process has said is lost, whoever began to listen."""

from __future__ import annotations

import subprocess
import sys

from harness.hearing import said_before_its_end


def test_lines_that_were_read_ahead_were_lost() -> None:
    """All of them come in one piece, the first is taken, and the process ends by a signal."""
    script = "import os; os.write(1, b'one\\ntwo\\nthree\\nfou'); os.kill(os.getpid(), 9)"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "one\n"
        assert said_before_its_end(process) == ["two", "three"]
    assert process.returncode == -9
