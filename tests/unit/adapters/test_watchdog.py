"""A process that hangs is ended, even when nothing of Python can run in it any more."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from halfhitch.adapters import watchdog

DEADLINE_S = 30.0

_BEGIN = """
import ctypes, logging, threading, time
from halfhitch.adapters.watchdog import Watchdog, progress, resting
logging.basicConfig()
dog = Watchdog(hung_s=HUNG_S)
dog.start()
"""


def run(script: str, *, hung_s: float = 1.0) -> tuple[subprocess.CompletedProcess[str], float]:
    began_s = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", _BEGIN.replace("HUNG_S", str(hung_s)) + script],
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    return ended, time.monotonic() - began_s


def test_a_call_that_keeps_the_interpreter_lock_ends_the_process_with_a_traceback() -> None:
    """A C function called without letting the lock go, as begin_transaction is."""
    ended, took_s = run("""
def hung_call():
    progress()
    ctypes.PyDLL(None).sleep(60)
threading.Thread(target=hung_call, name="half-0").start()
""")
    assert ended.returncode == watchdog.EXIT_CODE
    assert took_s < 20
    assert "Timeout (0:00:01)!" in ended.stderr
    assert "in hung_call" in ended.stderr


def test_a_call_that_hangs_alone_ends_the_process_and_the_thread_is_named() -> None:
    ended, took_s = run("""
def hung_call():
    progress()
    time.sleep(60)
threading.Thread(target=hung_call, name="half-7").start()
""")
    assert ended.returncode == watchdog.EXIT_CODE
    assert took_s < 20
    assert "thread half-7 (in hung_call, <string> line 10) has been hanging" in ended.stderr
    assert "in hung_call" in ended.stderr


def test_threads_that_make_progress_rest_or_end_are_left_alone() -> None:
    """For longer than the bound, which is a wide one: a busy machine is no hang."""
    ended, _ = run(
        """
def ends():
    progress()
def rests():
    progress()
    resting()
    time.sleep(60)
def works():
    for _ in range(40):
        progress()
        time.sleep(0.1)
for target in (ends, rests):
    threading.Thread(target=target, daemon=True).start()
worker = threading.Thread(target=works)
worker.start()
worker.join()
dog.stop()
print("still there")
""",
        hung_s=3.0,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "still there\n", "")


def test_after_its_stop_nothing_is_watched() -> None:
    ended, _ = run("""
dog.stop()
progress()
ctypes.PyDLL(None).sleep(2)
print("still there")
""")
    assert (ended.returncode, ended.stdout) == (0, "still there\n")


@pytest.mark.parametrize("times", [1, 2])
def test_resting_without_having_been_watched_is_harmless(times: int) -> None:
    for _ in range(times):
        watchdog.resting()
    assert threading.get_ident() not in watchdog._seen
