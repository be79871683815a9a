"""Keeps one server from outliving the process that asked for it.

Runs as a small process of its own between the owner and the server, started by file path with the
standard library alone. Invariants:

* stdin is a pipe from the owner. When it closes, or when the owner is no longer the parent, the
  owner is gone (even by SIGKILL) and the whole process group of the server is brought down.
* only this process signals the server, and only before it has been reaped, so a process id that
  the system has given to somebody else is never hit.
* if this process itself is killed, Linux kills the server (parent-death signal).

Orders, one byte each on stdin: T terminate, K kill, S stop (pause), C continue.
Reports, one line each on stdout: `started PID`, `paused`, `resumed`, `exited STATUS`.

It does not restart anything and does not judge whether the server is healthy.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import select
import signal
import sys
import time
from pathlib import Path

_SIGNAL_OF_ORDER = {
    ord("T"): signal.SIGTERM,
    ord("K"): signal.SIGKILL,
    ord("S"): signal.SIGSTOP,
    ord("C"): signal.SIGCONT,
}
_PR_SET_PDEATHSIG = 1
_OWNER_CHECK_S = 0.5


def main(arguments: list[str]) -> int:
    """Start the server named by `arguments` and stay until it is gone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--owner", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--grace-s", type=float, required=True)
    parser.add_argument("--sweep", type=Path, help="remove this folder if the owner vanishes")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)

    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_read, False)
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _only_wake_up)
    # Ctrl-C and a closing terminal are the owner's business: it stops the servers in its order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # A broken report pipe means that the owner is gone: seen as an error, not as our death.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    server = _Server(_start(options.command, options.log))
    signal.signal(signal.SIGTERM, lambda _signal, _frame: server.send(signal.SIGTERM))
    _report(f"started {server.pid}")
    owner_is_alive = _obey_owner(server, options.owner, wakeup_read)
    if not owner_is_alive:
        # Temporary data is about to be deleted, so there is nothing to close in good order.
        _bring_down(server, 0.0 if options.sweep else options.grace_s, wakeup_read)
        if options.sweep:
            import shutil

            shutil.rmtree(options.sweep, ignore_errors=True)
    return 0


class _Server:
    """The one child; `exit_status` is None until it has been reaped."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.exit_status: int | None = None

    def send(self, signal_number: int) -> None:
        """Signal the server's group, unless it has been reaped."""
        if self.exit_status is not None:
            return
        try:
            os.killpg(self.pid, signal_number)
        except (ProcessLookupError, PermissionError):
            # The group is gone or (macOS) holds only a zombie: the coming SIGCHLD reaps it.
            pass

    def collect(self) -> None:
        """Reap and report every change of state that the kernel has for us."""
        while self.exit_status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                _report("paused")
            elif os.WIFCONTINUED(status):
                _report("resumed")
            else:
                # Whatever the server left behind in its group goes with it. The group's number is
                # free from here on, but is not handed out again within microseconds.
                try:
                    os.killpg(self.pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
                self.exit_status = os.waitstatus_to_exitcode(status)
                _report(f"exited {self.exit_status}")


def _obey_owner(server: _Server, owner_pid: int, wakeup: int) -> bool:
    """Carry out orders until the server is gone; False when the owner went first."""
    while True:
        readable, _, _ = select.select([0, wakeup], [], [], _OWNER_CHECK_S)
        if wakeup in readable:
            os.read(wakeup, 4096)
            server.collect()
        if server.exit_status is not None:
            return True
        if 0 in readable:
            orders = os.read(0, 64)
            if not orders:
                return False
            for order in orders:
                signal_number = _SIGNAL_OF_ORDER.get(order)
                if signal_number is not None:
                    server.send(signal_number)
        # A fork of the owner may keep the pipe open after the owner's death.
        if os.getppid() != owner_pid:
            return False


def _bring_down(server: _Server, grace_s: float, wakeup: int) -> None:
    """Terminate politely for `grace_s`, then kill; return when the server is reaped."""
    if grace_s > 0:
        server.send(signal.SIGTERM)
        server.send(signal.SIGCONT)  # a paused server could not act on the SIGTERM
        _wait(server, grace_s, wakeup)
    server.send(signal.SIGKILL)
    _wait(server, 10.0, wakeup)


def _wait(server: _Server, at_most_s: float, wakeup: int) -> None:
    deadline_s = time.monotonic() + at_most_s
    server.collect()
    while server.exit_status is None:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            return
        select.select([wakeup], [], [], left_s)
        try:
            os.read(wakeup, 4096)
        except BlockingIOError:
            pass
        server.collect()


def _start(command: list[str], log: Path) -> int:
    """Fork and exec; this process has one thread, so the work between the two is safe."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    log_fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null_fd = os.open(os.devnull, os.O_RDONLY)
    supervisor_pid = os.getpid()
    pid = os.fork()
    if pid != 0:
        # Both sides set the group, so that it exists before the first order arrives.
        try:
            os.setpgid(pid, pid)
        except (PermissionError, ProcessLookupError):
            pass
        os.close(null_fd)
        os.dup2(log_fd, 2)
        os.close(log_fd)
        return pid
    try:
        os.setpgid(0, 0)
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
            if os.getppid() != supervisor_pid:  # it died before the line above took effect
                os._exit(1)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(null_fd, 0)
        os.dup2(log_fd, 1)
        os.dup2(log_fd, 2)
        os.execvp(command[0], command)  # noqa: S606 - an argument list of ours, no shell wanted
    except BaseException as problem:  # noqa: BLE001 - nothing may return into the parent's code
        os.write(2, f"cannot start {command[0]}: {problem}\n".encode())
    finally:
        os._exit(127)


def _only_wake_up(_signal: int, _frame: object) -> None:
    """A handler must exist for the wake-up descriptor to be written."""


def _report(line: str) -> None:
    try:
        os.write(1, f"{line}\n".encode())
    except BrokenPipeError:
        # The owner is gone; the main loop notices by itself.
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
