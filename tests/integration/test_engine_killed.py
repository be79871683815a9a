"""An engine that is killed, or stands still, without a warning: the next one keeps its promises."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import harness.engine_process
from halfhitch.core.model import Resolution
from harness.checkers import Fate
from harness.engine_process import FATES
from harness.engines import DEADLINE_S, Site, until_idle
from harness.hearing import said_before_its_end

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

pytestmark = pytest.mark.kafka

_SCRIPT = Path(harness.engine_process.__file__)
COUNT = 400


@pytest.fixture
def site(kafka: Any) -> Site:
    made = Site(kafka.bootstrap)
    made.create_targets()
    return made


@contextmanager
def running(site: Site) -> Iterator[subprocess.Popen[str]]:
    """The process, killed at the end if it is still there."""
    process = subprocess.Popen(
        [sys.executable, str(_SCRIPT), site.bootstrap, site.prefix, str(COUNT)],
        env={**os.environ, "PYTHONPATH": str(_SCRIPT.parent.parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(DEADLINE_S)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()


class Story:
    """What the process said."""

    def __init__(self) -> None:
        self.handles: dict[int, tuple[str, str]] = {}
        self.asked: set[int] = set()
        self.ended: set[int] = set()
        self.is_working = self.is_finished = False

    def line(self, text: str) -> None:
        what, *rest = json.loads(text)
        if what == "prepared":
            n, transaction_id, handle = rest
            self.handles[n] = transaction_id, handle
        elif what == "asked":
            self.asked.add(rest[0])
        elif what == "ended":
            self.ended.add(rest[0])
        self.is_working |= what == "working"
        self.is_finished |= what == "finished"

    def fate(self, n: int) -> Fate:
        planned = FATES[n % len(FATES)]
        if n in self.ended:
            return planned
        if n in self.asked:
            return Fate.UNKNOWN if planned is Fate.COMMITTED else planned
        return Fate.PENDING


@pytest.mark.timeout(120)
async def test_what_was_acknowledged_before_a_kill_is_carried_out_by_the_next_engine(
    site: Site, rng: random.Random
) -> None:
    story = Story()
    kill_after = rng.randrange(20, 250)
    with running(site) as process:
        assert process.stdout is not None
        for text in process.stdout:
            story.line(text)
            if len(story.ended) >= kill_after:
                process.send_signal(signal.SIGKILL)
                break
        for text in await asyncio.to_thread(said_before_its_end, process):
            story.line(text)
        assert await asyncio.to_thread(process.wait, DEADLINE_S) == -signal.SIGKILL
    assert story.is_working
    assert not story.is_finished
    for n, (transaction_id, _) in story.handles.items():
        site.note(transaction_id, site.pair(f"P{n}"), story.fate(n))
    async with site.engine() as engine:
        await until_idle(engine)
        # Halves of prepares that were not acknowledged are there too; nobody has committed them.
        await site.until_faultless()
        # The handles are good for the next engine, and what was unknown is settled by asking again.
        for n, (transaction_id, handle) in story.handles.items():
            if n in story.ended:
                continue
            back = story.fate(n) is Fate.ROLLED_BACK
            resolution = Resolution.ROLLBACK if back else Resolution.COMMIT
            await engine.transactions.end(handle, resolution, wait_visible=True)
            fate = Fate.ROLLED_BACK if back else Fate.COMMITTED
            site.note(transaction_id, site.pair(f"P{n}"), fate)
        await site.until_faultless()
    fates = [story.fate(n) for n in story.handles]
    assert fates.count(Fate.COMMITTED) > 0
    assert fates.count(Fate.PENDING) > 0
    takeovers = site.observer.of("takeover")
    assert sum(replayed for _, _, replayed in takeovers) > 0, "there was something to replay"


@pytest.mark.timeout(150)
async def test_an_engine_that_stood_still_while_another_took_over_does_no_harm_when_it_wakes(
    site: Site, rng: random.Random
) -> None:
    """It wakes as an owner that is none any more, in the middle of whatever it was doing."""
    story = Story()
    pause_after = rng.randrange(20, 150)
    with running(site) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        for text in process.stdout:
            story.line(text)
            if len(story.ended) >= pause_after:
                process.send_signal(signal.SIGSTOP)
                break
        async with site.engine() as successor:
            assert not story.is_finished
            await until_idle(successor)
            process.send_signal(signal.SIGCONT)
            while not story.is_finished:
                text = await asyncio.to_thread(process.stdout.readline)
                assert text, "the process has ended early"
                story.line(text)
            for n, (transaction_id, _) in story.handles.items():
                site.note(transaction_id, site.pair(f"P{n}"), story.fate(n))
            await site.until_faultless()
            process.stdin.close()
            assert await asyncio.to_thread(process.wait, DEADLINE_S) == 0
            await site.until_faultless()
    assert len(story.handles) == COUNT
    assert {story.fate(n) for n in story.handles} == set(FATES)
