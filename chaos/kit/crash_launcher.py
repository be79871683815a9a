"""`halfhitch serve`, with a crash point armed: `python -m chaos.kit.crash_launcher`.

FAULTS_CRASH_POINT names the point, FAULTS_CRASH_VISIT says at which visit the process kills itself,
FAULTS_CRASH_TRIGGER is a file: visits count from when it exists, so that the scenario chooses the
time. Beside it, `<trigger>.reached` is written before the kill: a point that was never reached is
no crash that was survived.

FAULTS_CRASH_HOW says what happens there, separated by commas: KILL (the default), STOP (the process
stands still until somebody sends SIGCONT), or seconds for which only that thread stands still.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
from pathlib import Path

from halfhitch import crash_points

_POLL_S = 0.02


def main() -> None:
    """Arm, then be the sidecar."""
    point = os.environ["FAULTS_CRASH_POINT"]
    visit = int(os.environ["FAULTS_CRASH_VISIT"])
    trigger = Path(os.environ["FAULTS_CRASH_TRIGGER"])
    how = os.environ.get("FAULTS_CRASH_HOW", "KILL")
    if point not in (*crash_points.NAMES, *crash_points.RESUME_NAMES):
        raise SystemExit(f"there is no crash point {point!r}")
    visits = itertools.count(1)
    armed = threading.Event()

    def hook(name: str) -> None:
        if name == point and armed.is_set() and next(visits) == visit:
            trigger.with_suffix(".reached").write_text(name)
            for one in how.split(","):
                if one in ("KILL", "STOP"):
                    os.kill(os.getpid(), signal.Signals[f"SIG{one}"])
                else:
                    time.sleep(float(one))

    def watch() -> None:
        while not trigger.exists():
            time.sleep(_POLL_S)
        armed.set()

    threading.Thread(target=watch, daemon=True).start()
    crash_points.arm(hook)
    from halfhitch_cli.app import main as program

    sys.argv = ["halfhitch", "serve"]
    sys.exit(program())


if __name__ == "__main__":
    main()
