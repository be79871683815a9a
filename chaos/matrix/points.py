"""Every step of a program's life: recorded once, then struck one at a time.

A step is a line of the program itself, of the client or of the barrier, or a call of a database
driver that begins or has ended. `Steps` is armed in the program's own process, in its main thread.
A step is named by its place and how often that was reached before, so a run in which something
takes longer is struck at the same place.

Nothing here knows what is done at a step.
"""

from __future__ import annotations

import linecache
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import halfhitch
from chaos.matrix.hook import HOOK

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

PROGRAM = "<program>"
#: Behind the place of a line that begins a block.
BARE = " (block)"

_HOME = Path(halfhitch.__file__).parent
_SHELL = ("sync", "sync_transactions", "sync_connections")
_CLIENT = (
    "conversation",
    "recorded",
    "turns",
    "aio_turns",
    *_SHELL,
    *(name.replace("sync", "aio") for name in _SHELL),
)
_OURS = {
    str(path): path.relative_to(_HOME).as_posix()
    for path in (
        *(_HOME / "client" / f"{name}.py" for name in _CLIENT),
        *sorted((_HOME / "barrier").glob("[a-z]*.py")),
    )
}
_DRIVERS = ("psycopg", "pymysql", "aiosqlite", "aiomysql")
_DRIVER_CALLS = frozenset({"execute", "commit", "rollback", "close"})


class Step(NamedTuple):
    """One of them."""

    place: str
    #: How often the place was reached before.
    visit: int

    @property
    def kind(self) -> str:
        """What is close to the outside world is struck more often than what lies between."""
        if self.place.startswith(PROGRAM) or self.place == HOOK:
            return "program"
        return "line" if ".py:" in self.place else "driver"

    @property
    def may_raise(self) -> bool:
        """Python looks for signals behind calls, not between a block and its beginning or end.

        A line that begins a `with` is reached a second time there; one that begins a `try` does
        nothing, and is outside of everything.
        """
        return not self.place.endswith(BARE)


class Steps:
    """Watches this thread; gives every step to `reached` before it is done."""

    def __init__(self, first_line: int, reached: Callable[[Step], None]) -> None:
        self._first_line = first_line
        self._reached = reached
        self._visits: Counter[str] = Counter()
        #: The block has been entered: what comes before it is nobody's transaction.
        self.has_begun = False

    def watch(self) -> None:
        """From now on."""
        sys.setprofile(self._profile)
        sys.settrace(self._trace)

    def stop(self) -> None:
        """No more."""
        sys.settrace(None)
        sys.setprofile(None)

    def _step(self, place: str) -> None:
        step = Step(place, self._visits[place])
        self._visits[place] += 1
        self._reached(step)

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        return self._lines if name == PROGRAM or name in _OURS else None

    def _lines(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            name = frame.f_code.co_filename
            if name == PROGRAM:
                self.has_begun |= frame.f_lineno >= self._first_line
            if self.has_begun:
                text = linecache.getline(name, frame.f_lineno).strip()
                mark = BARE if text.startswith(("with ", "async with ", "try:")) else ""
                self._step(f"{_OURS.get(name, name)}:{frame.f_lineno}{mark}")
        return self._lines

    def _profile(self, frame: FrameType, event: str, arg: Any) -> None:
        if not self.has_begun:
            return
        if event in ("call", "return"):
            code = frame.f_code
            if code.co_name in _DRIVER_CALLS:
                driver = _driver_of(code.co_filename)
                if driver is not None:
                    self._step(f"{event} of {driver} {code.co_name}")
        elif event in ("c_call", "c_return") and _is_sqlite(arg):
            self._step(f"{event[2:]} of sqlite3 {arg.__name__}")


def _is_sqlite(called: Any) -> bool:
    owner = type(getattr(called, "__self__", None))
    return called.__name__ in _DRIVER_CALLS and owner.__module__ == "sqlite3"


def _driver_of(file_name: str) -> str | None:
    folder = file_name.rpartition("/")[0].rpartition("/")[2]
    return folder if folder in _DRIVERS else None
