"""Ends a process that hangs, with a traceback of every thread, so that its supervisor restarts it.

Kafka's client has calls whose time bound is not kept, and one (`begin_transaction`) that can wait
for ever while it holds the interpreter lock: no thread, no signal handler and no health probe runs
then. What still runs is a timer in C (`faulthandler`), which ends the process unless it is set back
in time. A thread of ours sets it back, and does so only while every watched thread makes progress.

A thread is watched from its first `progress()` until its `resting()`. Between two of its signs of
life at most `hung_s` may pass, so `progress` stands before every call that may block, and each of
those is bounded by less. Both cost a dictionary entry, whether a watchdog runs or not.

A process that was stopped from outside (SIGSTOP) for longer than `hung_s` is taken for hung when it
goes on: whatever it owned is lost by then.

It does not say what to do about the hang, and it restarts nothing.
"""

import faulthandler
import logging
import os
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Final, TextIO

logger = logging.getLogger(__name__)

HUNG_S: Final = 30.0
#: So often in `hung_s` the timer is set back.
_ROUNDS: Final = 8
#: What faulthandler's own end gives, too.
EXIT_CODE: Final = 1

#: thread id -> when it was last seen alive, and the thread itself, for ids are used again. At most
#: one entry for each thread.
_seen: dict[int, tuple[float, threading.Thread]] = {}


def progress() -> None:
    """This thread is alive, and about to do something that may block."""
    _seen[threading.get_ident()] = (time.monotonic(), threading.current_thread())


def resting() -> None:
    """This thread ends, or waits for something that may take as long as it wants."""
    _seen.pop(threading.get_ident(), None)


def _where(frame: FrameType | None) -> str:
    """In words, of a thread's innermost frame in Python: it is what called what hangs."""
    if frame is None:
        return ""
    code = frame.f_code
    return f" (in {code.co_name}, {Path(code.co_filename).name} line {frame.f_lineno})"


class Watchdog:
    """One for each process, as there is one such timer. `file` must have a file descriptor."""

    def __init__(self, hung_s: float = HUNG_S, *, file: TextIO | None = None) -> None:
        self._hung_s = hung_s
        # The number, taken once: what becomes of the object later must not stop the timer.
        self._fd = (file if file is not None else sys.stderr).fileno()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """From now on a hang ends the process."""
        self._set_back()
        self._thread.start()

    def stop(self) -> None:
        """No more; returns at once."""
        self._stopping.set()
        self._thread.join()
        faulthandler.cancel_dump_traceback_later()

    def _run(self) -> None:
        while not self._stopping.wait(self._hung_s / _ROUNDS):
            self._set_back()
            hung = self._hung()
            if hung:
                self._end(hung)

    def _set_back(self) -> None:
        try:
            faulthandler.dump_traceback_later(self._hung_s, exit=True, file=self._fd)
        except RuntimeError as error:  # no thread can be started: then there is no timer either
            logger.warning(
                "the watchdog's timer could not be set: %s",
                error,
                extra={"action": "watchdog_failed"},
            )

    def _hung(self) -> list[str]:
        """The watched threads that have given no sign of life for too long, and where they are."""
        now_s = time.monotonic()
        frames = sys._current_frames()  # noqa: SLF001 - the only way there is
        hung = []
        for thread_id, (seen_s, thread) in list(_seen.items()):
            if now_s - seen_s <= self._hung_s:
                continue
            if thread.is_alive():
                hung.append(f"{thread.name}{_where(frames.get(thread_id))}")
            else:
                _seen.pop(thread_id, None)  # it has ended without a word
        return sorted(hung)

    def _end(self, hung: list[str]) -> None:
        logger.critical(
            "thread %s has been hanging in one call for more than %g s; this process ends now, to "
            "be restarted: look whether all brokers answer; the tracebacks of all threads stand on "
            "stderr",
            ", ".join(hung),
            self._hung_s,
            extra={"action": "watchdog_ends_process"},
        )
        faulthandler.dump_traceback(file=self._fd, all_threads=True)
        os._exit(EXIT_CODE)
