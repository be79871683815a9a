"""Server processes that leave nothing behind.

Owns `ServerProcess`: one server under its own supervisor (see supervise.py), in a session of its
own, so that Ctrl-C in the terminal reaches the owner alone and the owner stops its servers in
order. However the owner ends, SIGKILL included, the server ends within seconds.

It does not know what the server is or when it is ready.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from halfhitch.embedded.errors import EmbeddedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType

_SUPERVISOR = Path(__file__).with_name("supervise.py")
_ANSWER_S = 10.0
_SLICE_S = 0.1
_LOG_TAIL_LINES = 30


class ServerProcess:
    """One server process; started once, then terminated, killed, paused or resumed.

    Safe to use from several threads. The object stays usable for questions after the end.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        grace_s: float = 10.0,
        sweep: Path | None = None,
        keep_open: Sequence[int] = (),
    ) -> None:
        """Start it at once.

        `grace_s` is how long the server may take to end in good order once its owner is gone.
        `sweep` names a temporary folder to remove in that case (the server is then killed at
        once, since nobody will read its data again).
        `keep_open` are descriptors (of file locks) that the server holds for as long as it lives.
        """
        self.name = name
        self.log = log
        self._lock = threading.RLock()
        self._unread = b""
        self._is_paused = False
        self._exit_status: int | None = None
        log.parent.mkdir(parents=True, exist_ok=True)
        arguments = ["--owner", str(os.getpid()), "--log", str(log), "--grace-s", str(grace_s)]
        if sweep is not None:
            arguments += ["--sweep", str(sweep)]
        self._supervisor = subprocess.Popen(
            # -I and -S: nothing of the user's environment can slow down or change the supervisor.
            [sys.executable, "-I", "-S", str(_SUPERVISOR), *arguments, "--", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(environment) if environment is not None else None,
            start_new_session=True,
            pass_fds=tuple(keep_open),
            bufsize=0,
        )
        try:
            self.pid = self._wait_for_start()
        except BaseException:
            self._abandon()
            raise

    @property
    def exit_status(self) -> int | None:
        """None while it runs; else its exit code, or the negative number of the fatal signal."""
        with self._lock:
            self._read_reports(0.0)
            return self._exit_status

    @property
    def is_running(self) -> bool:
        """Whether the process exists (a paused one does)."""
        return self.exit_status is None

    @property
    def ending(self) -> str | None:
        """How it ended, and where its log is; None while it runs."""
        status = self.exit_status
        if status is None:
            return None
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"{how}; its log is {self.log}"

    def terminate(self, *, grace_s: float) -> None:
        """SIGTERM, then SIGKILL after `grace_s`; returns when the process is gone."""
        self.request_termination()
        if not self.wait(at_most_s=grace_s):
            self.kill()

    def request_termination(self) -> None:
        """SIGTERM without waiting, so that several servers can end side by side."""
        # A paused server could not act on the signal.
        self._order(b"CT")

    def kill(self) -> None:
        """SIGKILL; returns when the process is gone."""
        self._order(b"K")
        if not self.wait(at_most_s=_ANSWER_S):
            raise EmbeddedError(
                f"{self.name} (process {self.pid}) did not die within {_ANSWER_S:.0f} s of SIGKILL."
                " It waits in the kernel, most likely for a disk; look at `dmesg`."
            )

    def pause(self) -> None:
        """SIGSTOP; returns when the process has stopped running, its sockets stay open."""
        with self._lock:
            if not self._is_paused:
                self._order(b"S")
                self._expect(paused=True)

    def resume(self) -> None:
        """SIGCONT; returns when the process runs again."""
        with self._lock:
            if self._is_paused:
                self._order(b"C")
                self._expect(paused=False)

    def wait(self, *, at_most_s: float) -> bool:
        """Wait for the end; False if the process still runs after `at_most_s`."""
        deadline_s = time.monotonic() + at_most_s
        while True:
            # In slices, so that another thread may give orders meanwhile.
            with self._lock:
                left_s = max(0.0, deadline_s - time.monotonic())
                self._read_reports(min(left_s, _SLICE_S))
                if self._exit_status is not None:
                    return True
            if left_s == 0.0:
                return False

    def log_tail(self) -> str:
        """The last lines that the server wrote, for error messages."""
        return tail(self.log)

    def _wait_for_start(self) -> int:
        deadline_s = time.monotonic() + _ANSWER_S
        while b"\n" not in self._unread:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not self._read_more(left_s):
                raise EmbeddedError(
                    f"{self.name}: its supervisor did not start. Is {sys.executable} still there,"
                    f" and is {self.log.parent} writable?"
                )
        line, self._unread = self._unread.split(b"\n", 1)
        return int(line.split()[1])

    def _order(self, orders: bytes) -> None:
        with self._lock:
            if self._exit_status is not None or self._supervisor.stdin is None:
                return
            try:
                self._supervisor.stdin.write(orders)
            except BrokenPipeError:
                # The supervisor has gone, and the server with it; the next read tells.
                pass

    def _expect(self, *, paused: bool) -> None:
        deadline_s = time.monotonic() + _ANSWER_S
        while self._is_paused is not paused:
            left_s = deadline_s - time.monotonic()
            if self._exit_status is not None or left_s <= 0:
                raise EmbeddedError(
                    f"{self.name} (process {self.pid}) could not be"
                    f" {'paused' if paused else 'resumed'}: it"
                    f" {'is gone' if self._exit_status is not None else 'does not answer'}."
                    f" See {self.log}"
                )
            self._read_reports(left_s)

    def _read_reports(self, at_most_s: float) -> None:
        """Read what the supervisor has said, waiting for news at most `at_most_s`."""
        if self._exit_status is not None:
            return
        is_open = self._read_more(at_most_s)
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            word, _, rest = line.partition(b" ")
            if word == b"paused":
                self._is_paused = True
            elif word == b"resumed":
                self._is_paused = False
            elif word == b"exited":
                self._finish(int(rest))
        if not is_open and self._exit_status is None:
            # Killed supervisor: the kernel killed the server along with it.
            self._finish(-signal.SIGKILL)

    def _read_more(self, at_most_s: float) -> bool:
        """False when the supervisor has closed its side."""
        reports = self._supervisor.stdout
        if reports is None or reports.closed:
            return False
        # poll and not select: the owner may have more than 1024 files open.
        poll = select.poll()
        poll.register(reports, select.POLLIN | select.POLLHUP)
        if not poll.poll(at_most_s * 1000):
            return True
        piece = os.read(reports.fileno(), 4096)
        self._unread += piece
        return bool(piece)

    def _finish(self, exit_status: int) -> None:
        self._exit_status = exit_status
        self._is_paused = False
        self._abandon()

    def _abandon(self) -> None:
        """Close both pipes (which ends the supervisor) and reap it."""
        for pipe in (self._supervisor.stdin, self._supervisor.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._supervisor.wait(_ANSWER_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait(_ANSWER_S)


def tail(log: Path, line_count: int = _LOG_TAIL_LINES) -> str:
    """The last lines of a log file; a note instead if there is none."""
    try:
        lines = log.read_text("utf-8", "replace").splitlines()
    except OSError as problem:
        return f"(no log: {problem})"
    return "\n".join(lines[-line_count:]) or "(the log is empty)"


@contextlib.contextmanager
def unwind_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into SystemExit, so that `with` blocks stop their servers in order.

    Without it SIGTERM ends the owner at once and the supervisors clean up. Main thread only.
    """

    def unwind(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
