"""A check ends in time, whatever becomes of the database.

A database that works ends waits for locks by itself. A pool that is used up, a server that takes a
question and says nothing, a COMMIT that waits for a standby: none of these knows when to stop. So a
check has one deadline over all it does. When that is over, whoever asked goes on (the answer is
UNKNOWN), and what hangs is cut off from its server, which makes it end.

- Blocking checks run in a thread each: nothing else can leave a driver that waits. Asyncio's run in
  a task (`deadline_aio`).
- So many that hang all the same are left behind, and no more: then checks are not begun at all,
  until one of those ends.
- SQLite does not wait for every lock: it gives up at once where two want to go on from reading to
  writing, as when both switch a file to WAL. Such a check begins again.
- Nobody cuts off a connection that is not the check's any more: what is cut is a copy of its
  socket's descriptor, made and given up by the check itself.
"""

import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable
from contextvars import copy_context
from threading import Event, Lock, Thread
from typing import Any, Final, Generic, TypeVar

from halfhitch.barrier.guards import descriptor_of, is_busy_file
from halfhitch.errors import BackendError

T = TypeVar("T")

#: Checks that hang beyond their time, at once.
LEFT_BEHIND_MAX: Final = 8
#: The database is told to give up a little earlier, for then the connection can be used again.
_PATIENCE: Final = 0.8
#: Of a check's time: for so long one that met a lock may begin again, and so long it pauses before.
_BEGINS_AGAIN: Final = 0.5
_PAUSE: Final = 0.01


class Overdue(BackendError):
    """The time for a check is over; says what for."""


class Watch:
    """One check's time, and its hold on the connection it uses."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._end_s = time.monotonic() + wait_s
        self._lock = Lock()
        self._socket: socket.socket | None = None
        #: Nobody waits for this check any more, and its connection is not to be used again.
        self.is_cut = False
        #: A row of the id; whether it is sure is another question.
        self.has_seen = False

    def patience_ms(self) -> int:
        """How long the database may wait for a lock. Raises Overdue."""
        left_s = self._end_s - time.monotonic()
        if self.is_cut or left_s <= 0:
            raise self.overdue()
        return max(1, int(left_s * 1000 * _PATIENCE))

    def pause_s(self, error: BaseException) -> float | None:
        """How long to wait before the check begins again; None if this error is its end.

        One that has waited for its lock has taken more than half of the time.
        """
        left_s = self._end_s - time.monotonic()
        if self.is_cut or not is_busy_file(error) or left_s < self._wait_s * _BEGINS_AGAIN:
            return None
        return self._wait_s * _PAUSE

    def overdue(self) -> Overdue:
        """To be raised."""
        return Overdue(f"no answer within {self._wait_s:g} s (wait_s)")

    def hold(self, driver_connection: Any) -> None:
        """From now on this is what hangs, if anything does. Raises Overdue."""
        copied = _copied(descriptor_of(driver_connection))
        with self._lock:
            if not self.is_cut:
                self._socket = copied
                return
        if copied is not None:
            copied.close()
        raise self.overdue()

    def cut(self) -> None:
        """From anywhere: end what the check is waiting for."""
        with self._lock:
            self.is_cut = True
            if self._socket is not None:
                with contextlib.suppress(OSError):  # closed by the other side
                    self._socket.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """The check has ended."""
        with self._lock:
            found, self._socket = self._socket, None
        if found is not None:
            found.close()


class Deadline:
    """Runs checks, for `wait_s` each."""

    def __init__(self, wait_s: float) -> None:
        self.wait_s = wait_s
        self._process_id = os.getpid()
        self._running: set[Watch] = set()

    def run(self, check: Callable[[Watch], T]) -> T:
        """In a thread of its own. Raises Overdue, and what `check` raises."""
        if sys.is_finalizing():
            # Such a thread never gets the interpreter lock, and its start waits for it: a block of
            # a generator that the last garbage collection closes would keep the process for ever.
            raise Overdue("the interpreter is ending; the check-back asks another process")
        watch = self.begin()
        errand = _Errand(check, watch, self)
        # Whatever the application traces by context goes with it.
        run = copy_context().run
        try:
            Thread(
                target=run, args=(errand.run,), name="halfhitch-barrier-check", daemon=True
            ).start()
        except BaseException:  # the interpreter ends, or there are no threads left
            self.ended(watch)
            raise
        is_done = False
        try:
            is_done = errand.done.wait(self.wait_s)
        finally:
            if not is_done:
                watch.cut()
        if not is_done:
            raise watch.overdue()
        return errand.result()

    def begin(self) -> Watch:
        """For this package. Raises Overdue."""
        if self._process_id != os.getpid():  # what hangs, hangs in the parent
            self._running = set()
            self._process_id = os.getpid()
        left_behind = sum(watch.is_cut for watch in tuple(self._running))
        if left_behind >= LEFT_BEHIND_MAX:
            raise Overdue(
                f"{left_behind} earlier checks still hang in the database's driver or its pool;"
                " look whether the database answers at all, and give connecting a time limit"
            )
        watch = Watch(self.wait_s)
        self._running.add(watch)
        return watch

    def ended(self, watch: Watch) -> None:
        """For this package: of a check that was begun."""
        watch.release()
        self._running.discard(watch)


class _Errand(Generic[T]):
    """A check in its thread."""

    def __init__(self, check: Callable[[Watch], T], watch: Watch, deadline: Deadline) -> None:
        self._check = check
        self._watch = watch
        self._deadline = deadline
        self._answer: list[T] = []
        self._error: BaseException | None = None
        self.done = Event()

    def run(self) -> None:
        """Raises nothing."""
        try:
            self._answer.append(self._persist())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error
        finally:
            self._deadline.ended(self._watch)
            self.done.set()

    def _persist(self) -> T:
        while True:
            try:
                return self._check(self._watch)
            except Exception as error:
                pause_s = self._watch.pause_s(error)
                if pause_s is None:
                    raise
            time.sleep(pause_s)

    def result(self) -> T:
        """After `done`."""
        if self._error is not None:
            raise self._error
        return self._answer[0]


def _copied(descriptor: int | None) -> socket.socket | None:
    if descriptor is None:
        return None
    try:
        copy = os.dup(descriptor)
    except OSError:
        return None
    try:
        return socket.socket(fileno=copy)
    except OSError:  # no socket
        os.close(copy)
        return None
