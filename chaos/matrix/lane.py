"""One lane of the matrix: a process that has imported everything, and forks a child for each life.

It reads jobs from a file, one JSON line each, and writes what came of them to another. A job is one
or two attempts at one order: the first is struck, the second is the same program begun again.
A paused child goes on when its transaction has been asked about, which a file of its id says.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg  # noqa: F401 - children find it imported
import sqlalchemy.dialects.postgresql.psycopg
import sqlalchemy.dialects.sqlite.aiosqlite
import sqlalchemy.ext.asyncio
import sqlalchemy.orm  # noqa: F401

import halfhitch.barrier
import halfhitch.client.aio_checks
import halfhitch.client.sync_checks  # noqa: F401
from chaos.matrix import life, programs
from chaos.matrix.life import PAUSE, Stroke
from chaos.matrix.points import Step
from chaos.matrix.stores import Store

_LIFE_S = 60.0
_ASKED_S = 8.0
_UNASKED_S = 0.2
_TOLD_BYTES = 1 << 20


@dataclass
class Job:
    """As it stands in the file."""

    number: int
    form: str
    store: tuple[str, str]
    group: str
    order_id: str
    address: str
    topics: dict[str, str]
    asked_folder: str
    action: str = ""
    place: str = ""
    visit: int = 0
    #: The second attempt under one's own id: same, fewer, more; empty: there is none.
    retry: str = ""
    misuse: str = ""
    is_recorded: bool = False
    #: A check can come while it is paused here.
    is_asked: bool = False

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @staticmethod
    def of(line: str) -> Job:
        """As it was written."""
        return Job(**json.loads(line))

    @property
    def title(self) -> str:
        """For people, and enough to repeat it."""
        told = f"{self.store[0]}, {self.form}, {self.action} at {self.place}#{self.visit}"
        more = ", ".join(filter(None, [self.retry and f"again: {self.retry}", self.misuse]))
        return f"{told}, {more}" if more else told


@dataclass
class Lived:
    """What came of a job."""

    number: int
    is_struck: bool = False
    was_asked: bool = False
    endings: list[str] = field(default_factory=list)
    child_ending: str = ""
    is_hung: bool = False
    steps: list[tuple[str, int]] = field(default_factory=list)
    seconds: float = 0.0


class Lane:
    """One job after the other."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def carry_out(self, job: Job) -> Lived:
        """All attempts of it."""
        began_s = time.monotonic()
        lived = Lived(job.number)
        stroke = Stroke(job.action, Step(job.place, job.visit)) if job.action else None
        self._attempt(job, programs.SAME, stroke, lived)
        if job.retry:
            self._attempt(job, job.retry, None, lived)
        lived.seconds = round(time.monotonic() - began_s, 2)
        return lived

    def _attempt(self, job: Job, attempt: str, stroke: Stroke | None, lived: Lived) -> None:
        own_id = job.order_id if job.retry else None
        filling = programs.Filling(job.group, job.topics, own_id, attempt, job.misuse)
        form = programs.BY_TITLE[job.form]
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _TOLD_BYTES)  # it is read when the child has ended
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            errors = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(errors, 1)
            os.dup2(errors, 2)
            live = form, Store(*job.store), filling, job.order_id, job.address, stroke, writing
            life.live(*live)
        os.close(writing)
        status = self._follow(pid, job, lived)
        with os.fdopen(reading) as told:
            # To its end: a child's own child holds it open, and is to be heard.
            self._note(told.read(), status, lived, is_recorded=job.is_recorded)

    def _follow(self, pid: int, job: Job, lived: Lived) -> int:
        """To its end; gives the status."""
        ends_s = time.monotonic() + _LIFE_S
        while True:
            found, status = os.waitpid(pid, os.WUNTRACED | os.WNOHANG)
            if found and not os.WIFSTOPPED(status):
                return status
            if found and job.action == PAUSE:
                lived.was_asked = self._await_question(job)
                os.kill(pid, signal.SIGCONT)
            elif time.monotonic() > ends_s:
                lived.is_hung = True
                os.kill(pid, signal.SIGKILL)
                ends_s += _LIFE_S
            time.sleep(0.002)

    def _await_question(self, job: Job) -> bool:
        asked = Path(job.asked_folder) / job.order_id
        ends_s = time.monotonic() + (_ASKED_S if job.is_asked else _UNASKED_S)
        while not asked.exists() and time.monotonic() < ends_s:
            time.sleep(0.02)
        return asked.exists()

    def _note(self, told: str, status: int, lived: Lived, *, is_recorded: bool) -> None:
        ending = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "silent"
        for line in told.splitlines():
            word, _, rest = line.partition(" ")
            if word == "struck":
                lived.is_struck = True
            elif word == "end":
                ending = rest
            elif word == "child-end":
                lived.child_ending = rest
            elif word == "step" and is_recorded:
                visit, _, place = rest.partition(" ")
                lived.steps.append((place, int(visit)))
        lived.endings.append(ending)


def main(arguments: list[str]) -> None:
    """Jobs, results, and where the programs' own words go."""
    jobs, results, log = map(Path, arguments)
    lane = Lane(log)
    with jobs.open() as given, results.open("a") as told:
        for line in given:
            lived = lane.carry_out(Job.of(line))
            told.write(json.dumps(asdict(lived)) + "\n")
            told.flush()


def read_lived(path: Path) -> list[Lived]:
    """What a lane has written so far."""

    def one(line: str) -> Lived:
        values: dict[str, Any] = json.loads(line)
        values["steps"] = [tuple(step) for step in values["steps"]]
        return Lived(**values)

    return [one(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    main(sys.argv[1:])
