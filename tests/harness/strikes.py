"""An exception at every step of some code, as a signal's handler raises it between two of them.

Random signals hit what takes long; here each opcode is hit in turn, and the list of them is made by
running the code. `every` strikes at more points than a signal can: CPython looks for signals behind
a call, at the beginning of a function and when it jumps back, and `real` keeps to these. What holds
a plain lock by `with` stands the second only.
"""

from __future__ import annotations

import dis
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

#: Here an exception would find the interpreter's own stack in disorder.
_NEVER = frozenset({"PUSH_EXC_INFO", "COPY", "POP_EXCEPT", "RERAISE", "WITH_EXCEPT_START"})
#: Where a program begins that is run under it.
_BEGINS = frozenset({"__main__.py", "cmdline.py", "execfile.py"})
_LOOKS = frozenset({"RESUME", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD"})


class Struck(BaseException):
    """What the handler raises."""


class Exit(Struck, SystemExit):
    """One that ends asyncio's loop, whatever runs in it."""


class Strike:
    """Strikes once, at the given step of what is run in it in these files; counted from 1."""

    def __init__(
        self, at: int, files: frozenset[str], *, is_real: bool, kind: type[Struck]
    ) -> None:
        self._left = at
        self._files = files
        self._is_real = is_real
        self._kind = kind
        #: By identity: who keeps a frame keeps what is in its variables.
        self._last: dict[int, int] = {}
        #: Where it has struck.
        self.place = ""

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        sys.settrace(self._before)
        self._last.clear()
        return kind is self._kind

    def _called(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        self._last.pop(id(frame), None)
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        if self._is_real and not self.place and _looks_as_it_begins(frame):
            self._strike(frame)
        return self._step

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "opcode" and not self.place:
            last = self._last.get(id(frame))
            self._last[id(frame)] = frame.f_lasti
            if self._is_point(frame, last):
                self._strike(frame)
        return self._step

    def _strike(self, frame: FrameType) -> None:
        """If it is this one's turn."""
        self._left -= 1
        if not self._left:
            self.place = f"{frame.f_code.co_name}:{frame.f_lineno}+{frame.f_lasti}"
            raise self._kind(self.place)

    def _is_point(self, frame: FrameType, last: int | None) -> bool:
        code = frame.f_code
        if _opcode(code, frame.f_lasti) in _NEVER:
            return False
        if not self._is_real:
            return True
        if last is None or _opcode(code, last) not in _LOOKS:
            return False
        # A signal raises in the step that looked, and this in the next one: the same to the code
        # unless the end of a `with` or `try` is in between.
        return _handler(code, last) == _handler(code, frame.f_lasti)


def _looks_as_it_begins(frame: FrameType) -> bool:
    """RESUME itself has no opcode event, but the call's: there its exception comes out of it.

    It looks for signals as a function begins and behind a `yield`, but not behind an `await`.
    """
    code, at = frame.f_code, frame.f_lasti
    return _opcode(code, at) == "RESUME" and code.co_code[at + 1] & 3 < 2


def _opcode(code: CodeType, at: int) -> str:
    return dis.opname[code.co_code[at]]


def _handler(code: CodeType, at: int) -> int | None:
    for entry in dis._parse_exception_table(code):
        if entry.start <= at < entry.end:
            return entry.target
    return None


def is_of_coverage(frame: FrameType | None) -> bool:
    """What measures the coverage holds a lock just then: who raises there stops every thread.

    It may lie far down: on a busy machine a signal comes while the handler of the one before it
    still runs, and to raise in that one is to raise in what it has interrupted.
    """
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.parent.name == "coverage" and path.name not in _BEGINS:
            return True
        frame = frame.f_back
    return False


def strikes(
    *modules: Any, is_real: bool = False, kind: type[Struck] = Struck, every: int = 1
) -> Iterator[Strike]:
    """One after the other, until what is run in one ends before it strikes.

    for strike in strikes(module):
        with strike:
            work()
        assert all is well, strike.place

    `every` step, or each third one say, where a work takes long.
    """
    files = frozenset(str(module.__file__) for module in modules)
    strike = None
    at = 1 - every
    while strike is None or strike.place:
        at += every
        strike = Strike(at, files, is_real=is_real, kind=kind)
        yield strike
    assert at > 3, "hardly anything was run in these modules"
