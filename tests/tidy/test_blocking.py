"""The blocking shells are what `tools/blocking.py` makes of the asyncio ones, to the letter."""

import importlib.util
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location(
    "blocking", Path(__file__).resolve().parents[2] / "tools" / "blocking.py"
)
blocking = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(blocking)

SOURCE = """\
# sync_x.py is made of this by tools/blocking.py.
\"\"\"The asyncio producer, beside the blocking
producer.\"\"\"

import asyncio
import sys
from collections.abc import Awaitable, Callable

from halfhitch.client.aio_y import AsyncOther


class AsyncThing:
    #| \"\"\"For threads.
    #|
    #| And more, unlike AsyncThing, which wants `await`.
    #| \"\"\"
    # asyncio only
    \"\"\"For tasks.\"\"\"

    def __init__(self, told: Callable[[], Awaitable[AsyncOther]]) -> None:
        self._told = told
        self._lock = asyncio.Lock()
        # asyncio only: sockets belong to it
        self._loop = asyncio.get_running_loop()

    # asyncio only
    @property
    def loop(self) -> object:
        return sys.intern(
            str(self._loop)
        )

    async def told(self) -> AsyncOther:
        \"\"\"For an `async with` block.\"\"\"
        async with self._lock:
            #| self.sleep(1)
            # asyncio only
            await asyncio.sleep(1)
            return await self._told()
"""

SHELL = """\
# Made of aio_x.py by tools/blocking.py: change that one, then `make format`.
\"\"\"The blocking producer, beside the asyncio
producer.\"\"\"

import threading
from collections.abc import Callable

from halfhitch.client.sync_y import Other


class Thing:
    \"\"\"For threads.

    And more, unlike AsyncThing, which wants `await`.
    \"\"\"

    def __init__(self, told: Callable[[], Other]) -> None:
        self._told = told
        self._lock = threading.Lock()

    def told(self) -> Other:
        \"\"\"For a `with` block.\"\"\"
        with self._lock:
            self.sleep(1)
            return self._told()
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "aio_x.py").write_text(SOURCE)
    (tmp_path / "sync_x.py").write_text(SHELL)
    return tmp_path


def test_every_shell_is_what_its_source_makes_of_it():
    assert [str(shell) for shell, _ in blocking.stale()] == []
    assert list(blocking.orphans()) == []
    assert len(list(blocking.sources())) >= 2


def test_what_is_made_of_a_source(folder):
    (folder / "sync_x.py").unlink()
    assert list(blocking.stale(folder)) == [(folder / "sync_x.py", SHELL)]


def test_a_shell_that_was_changed_by_hand_is_found(folder):
    assert list(blocking.stale(folder)) == []
    (folder / "sync_x.py").write_text(SHELL.replace("sleep(1)", "sleep(2)"))
    assert [shell.name for shell, _ in blocking.stale(folder)] == ["sync_x.py"]


def test_a_shell_whose_source_is_gone_is_found(folder):
    assert list(blocking.orphans(folder)) == []
    (folder / "aio_x.py").unlink()
    assert list(blocking.orphans(folder)) == [folder / "sync_x.py"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = asyncio.Event()\n", "not for threads: x = asyncio.Event()"),
        ('"""To be awaited."""\n', "not for threads"),
        ("x = loop.time()\n", "not for threads"),
        ("x = 1  # of the task\n", "not for threads"),
        ("# asyncio only\n\nx = 1\n", "x.py:1: no statement begins below this mark"),
        ("x = 1\n# asyncio only\n", "x.py:2: no statement begins below this mark"),
    ],
)
def test_what_is_no_text_for_threads_is_refused(text, said):
    with pytest.raises(blocking.NotBlocking, match=said.replace("(", r"\(").replace(")", r"\)")):
        blocking.blocking(text, "x.py")
