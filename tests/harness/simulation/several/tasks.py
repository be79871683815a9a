"""Threads of simulated processes, one at a time: who sleeps gives control back to the timeline.

A process can be stopped (its tasks go on where they were, later) and killed (they never do).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenlet import getcurrent, greenlet

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.simulation.several.life import SeveralTimeline


class Killed(BaseException):
    """The process of this task is gone."""


class Process:
    """What stops and dies as a whole."""

    def __init__(self, tasks: Tasks, name: str) -> None:
        self._tasks = tasks
        self.name = name
        self.is_dead = False
        self.stopped_until_ms = 0
        self.threads: list[Task] = []

    def stop_for(self, ms: int) -> None:
        """SIGSTOP, and SIGCONT that much later."""
        until_ms = self._tasks.timeline.now_ms + ms
        self.stopped_until_ms = max(self.stopped_until_ms, until_ms)

    @property
    def is_stopped(self) -> bool:
        return self._tasks.timeline.now_ms < self.stopped_until_ms

    def kill(self) -> None:
        """Every task ends where it is; who calls this from one of them must raise Killed."""
        self.is_dead = True
        for thread in self.threads:
            thread.wake()


class Task:
    """One thread."""

    def __init__(self, tasks: Tasks, process: Process, body: Callable[[], None]) -> None:
        self._tasks = tasks
        self._timeline = tasks.timeline
        self.process = process
        self._body = body
        self._greenlet = greenlet(self._run, parent=tasks.hub)
        self._turn = 0  # which wake-up is waited for; older ones are void
        self.has_ended = False
        process.threads.append(self)
        self._timeline.later(0, lambda: self._resume(0, is_woken=False))

    def _run(self, *_: Any) -> None:
        try:
            if not self.process.is_dead:
                self._body()
        except Killed:
            pass
        finally:
            self.has_ended = True
            self.process.threads.remove(self)

    def wait(self, ms: int) -> bool:
        """Let so much time pass, or less when somebody wakes it: True then."""
        if self.process.is_dead:
            raise Killed
        self._turn += 1
        turn = self._turn
        self._timeline.later(ms, lambda: self._resume(turn, is_woken=False))
        return bool(self._tasks.hub.switch())

    def wake(self) -> None:
        """End its waiting."""
        turn = self._turn
        self._timeline.later(0, lambda: self._resume(turn, is_woken=True))

    def unwind(self) -> None:
        """End it here and now; its process is dead."""
        self._turn += 1
        if self._greenlet:
            self._greenlet.throw(Killed)

    def _resume(self, turn: int, *, is_woken: bool) -> None:
        if turn != self._turn or self.has_ended:
            return
        process, now_ms = self.process, self._timeline.now_ms
        if not process.is_dead and now_ms < process.stopped_until_ms:
            later_ms = process.stopped_until_ms - now_ms + self._timeline.dice.randint(0, 30)
            self._timeline.later(later_ms, lambda: self._resume(turn, is_woken=is_woken))
            return
        self._turn += 1
        self._tasks.current = self
        try:
            if process.is_dead and self._greenlet:  # it has begun
                self._greenlet.throw(Killed)
            else:
                self._greenlet.switch(is_woken)
        finally:
            self._tasks.current = None


class Tasks:
    """All of them. The hub is whoever drives the timeline."""

    def __init__(self, timeline: SeveralTimeline) -> None:
        self.timeline = timeline
        self.hub = getcurrent()
        self.current: Task | None = None

    def start(self, process: Process, body: Callable[[], None]) -> Task:
        return Task(self, process, body)

    def sleep(self, ms: int) -> bool:
        """Of the task that calls it."""
        assert self.current is not None, "only tasks can wait"
        return self.current.wait(ms)


class Flag:
    """threading.Event, as far as workers and members use it."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._is_set = False
        self._waiting: list[Task] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        for task in self._waiting:
            task.wake()

    def wait(self, wait_s: float) -> bool:
        task = self._tasks.current
        if task is None or task.process.is_dead:
            raise Killed
        if not self._is_set:
            self._waiting.append(task)
            try:
                task.wait(int(wait_s * 1000))
            finally:
                self._waiting.remove(task)
        return self._is_set
