# Made of statement_aio.py by tools/blocking.py: change that one, then `make format`.
"""A barrier's block, as the program's `with` takes it. No I/O of its own.

A signal's handler may raise as the block is left, before the first line of what is called then. A
generator of contextlib's would stay suspended: its block went on as long as somebody kept the
exception, and was closed later, in the middle of whatever the program did with its session by then.

Here what the statement keeps on its stack to call at its end is C code (`_End`), so no frame, and
no traceback, has it in a variable. It ends with the statement, whoever was interrupted, and the
block's mark with it. What is still open then is rolled back by a callback, or refused to be
committed where nobody can wait for that (asyncio).
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from weakref import ref

from halfhitch.barrier.block import LocalWork, Messages, drop, fail, finish
from halfhitch.barrier.ends import before_commit
from halfhitch.client.errors import TransactionMisused
from halfhitch.client.marks import Mark

M_co = TypeVar("M_co", bound=Messages, covariant=True)
G_co = TypeVar("G_co", covariant=True)


class Work(LocalWork, Protocol[M_co, G_co]):
    """The local transaction and the messages of one block; made when the block is entered."""

    @property
    def messages(self) -> M_co:
        """What the program sends with."""

    @property
    def local(self) -> G_co:
        """What the program works on."""

    @property
    def is_new(self) -> bool:
        """The id was made for this block."""

    @property
    def is_open(self) -> bool:
        """The local transaction has something of the block's in it, and has not ended."""

    def begin(self, mark: Mark) -> None:
        """Before anything is sent. Who raises leaves nothing."""

    def use(self) -> None:
        """The first step of the local transaction; who raises fails the block."""

    def close(self) -> None:
        """Behind the block. A forked child says nothing to the database."""


class _End(partial[Any]):
    """What the statement calls at its end."""

    #: As long as the statement runs.
    view: memoryview


class _Exit:
    """A block's `__exit__`: `with` looks it up before it begins."""

    def __get__(self, block: "Block[Any, Any] | None", kind: "type[Block[Any, Any]]") -> Any:
        if block is None:  # an ExitStack asks the class, and has the block in a variable
            return kind.left
        return block.end()


class Block(Generic[M_co, G_co]):
    """Made by `transaction()` of a barrier; for one `with`."""

    def __init__(self, make: Callable[[], Work[M_co, G_co]]) -> None:
        self._course = Course(make)
        self._view: memoryview | None = None

    def __enter__(self) -> tuple[M_co, G_co]:
        course = self._course
        course.require_new()
        if not course.mark.is_held:  # not by a statement
            self._view = course.mark.hold()
        try:
            return course.enter()
        except BaseException:
            self._view = None
            raise

    if TYPE_CHECKING:

        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            traceback: TracebackType | None,
        ) -> None:
            """The end."""

    else:
        __exit__ = _Exit()

    def end(self) -> _End:
        """For the statement."""
        return self._course.end()

    def left(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """The end, by hand."""
        self._course.leave(kind, error, traceback)


class Course(Generic[M_co, G_co]):
    """What becomes of a block. Who holds this does not hold its mark."""

    def __init__(self, make: Callable[[], Work[M_co, G_co]]) -> None:
        self.mark = Mark()
        self._make: Callable[[], Work[M_co, G_co]] | None = make
        self._work: Work[M_co, G_co] | None = None
        self._thread_id = threading.get_ident()
        self._watch: ref[memoryview] | None = None

    def end(self) -> _End:
        """What ends the block: by its call, or else by its own end."""
        end = _End(self.leave)
        if self._make is not None:
            end.view = self.mark.hold()
            self._watch = ref(end.view, self._lost)
        return end

    def require_new(self) -> None:
        """Raises TransactionMisused."""
        if self._make is None:
            raise TransactionMisused(
                "this block of a barrier was entered before: call barrier.transaction() for each"
            )

    def enter(self) -> tuple[M_co, G_co]:
        """Gives what the program works with."""
        assert self._make is not None
        make, self._make = self._make, None
        self._thread_id = threading.get_ident()
        self._work = work = make()
        try:
            work.begin(self.mark)
            work.messages.hold(self.mark)
        except BaseException as error:
            self._close(error)
            raise
        try:
            work.use()
        except BaseException as error:
            self.leave(type(error), error, None)
            raise
        return work.messages, work.local

    def leave(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """By `error`, or at the block's end."""
        work = self._work
        if work is None:
            return
        try:
            with self.mark.hold():  # asyncio's statement has let go of it by now
                if error is None:
                    finish(work, work.messages, is_new=work.is_new)
                else:
                    failure = before_commit(error, is_new=work.is_new)
                    fail(work, work.messages, error, failure)
        except BaseException as raised:
            self._close(raised)
            raise
        self._close(error)

    def _close(self, error: BaseException | None) -> None:
        """Nothing of the block stays open, wherever it was interrupted."""
        work, self._work = self._work, None
        self._watch = None
        self.mark.forget()
        if work is None:
            return
        try:
            if error is not None and work.is_open and not work.is_inherited:
                drop(work, error)
        finally:
            work.close()

    def _lost(self, _: object) -> None:
        """The statement is over, and its end was interrupted before the first line of `leave`.

        Or the collector of cycles has found it, and will close what it is in: then it is held.
        """
        if not self.mark.is_held and self._thread_id == threading.get_ident():
            with suppress(Exception):
                self._close(InterruptedError())
