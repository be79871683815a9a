"""A block begins and ends with the program's `with`, whatever a signal's handler interrupts."""

from __future__ import annotations

import asyncio
import gc
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.barrier import statement, statement_aio
from halfhitch.client import LocalTransactionState
from halfhitch.client.errors import TransactionMisused
from harness.strikes import Struck, strikes

if TYPE_CHECKING:
    from collections.abc import Callable

    from halfhitch.client.marks import Mark


class Messages:
    """A producer's transaction."""

    id = "a"

    def __init__(self, said: list[str]) -> None:
        self.said = said
        self.mark: Mark | None = None

    @property
    def is_held(self) -> bool:
        return self.mark is not None and self.mark.is_held

    def hold(self, mark: Mark) -> None:
        self.mark = mark

    def assert_can_commit(self) -> None:
        assert self.is_held

    seal = assert_can_commit

    def follow(self) -> None:
        assert self.is_held
        self.said.append("follow")

    def drop(self, _: BaseException) -> None:
        self.said.append("messages dropped")


class Work:
    """A local transaction."""

    is_new = True
    local = "session"

    def __init__(self, *, is_inherited: bool = False, **raises: BaseException) -> None:
        self.said: list[str] = []
        self.messages = Messages(self.said)
        self.is_inherited = is_inherited
        self.is_open = False
        self.raises = raises

    def say(self, what: str) -> None:
        self.said.append(what)
        if what in self.raises:
            raise self.raises[what]

    def begin(self, mark: Mark) -> None:
        assert mark.is_held
        self.say("begin")

    def use(self) -> None:
        self.is_open = True
        self.say("use")

    def record(self) -> None:
        self.say("record")

    def commit(self, before: Callable[[], None]) -> None:
        before()
        self.say("commit")
        self.is_open = False

    def drop(self) -> None:
        self.say("drop")
        self.is_open = False

    def ask(self) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def close(self) -> None:
        self.say("close")


class Awaited:
    """The same, to be awaited."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if isinstance(found, Messages):
            return Awaited(found)
        if not callable(found) or name in ("hold", "assert_can_commit", "seal"):
            return found

        async def call(*args: Any) -> Any:
            return found(*args)

        return call


class Shell:
    """A block, with threads or with tasks."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def block(self, work: Work) -> Any:
        if self.module is statement:
            return statement.Block(lambda: work)
        made: Any = Awaited(work)
        return statement_aio.AsyncBlock(lambda: made)

    def run(self, work: Work, body: Callable[[], None], *, by_stack: bool = False) -> None:
        """The program."""
        if self.module is statement:
            if by_stack:
                with ExitStack() as stack:
                    _, local = stack.enter_context(self.block(work))
                    body()
                return
            with self.block(work) as (_, local):
                assert local == "session"
                body()
            return

        async def main() -> None:
            if by_stack:
                async with AsyncExitStack() as stack:
                    await stack.enter_async_context(self.block(work))
                    body()
                return
            async with self.block(work) as (_, local):
                assert local == "session"
                body()

        coroutine = main()
        try:
            coroutine.send(None)
        except StopIteration:
            return
        finally:
            coroutine.close()
        raise AssertionError("nothing here waits")


@pytest.fixture(params=[statement, statement_aio], ids=["blocking", "asyncio"])
def shell(request: pytest.FixtureRequest) -> Shell:
    return Shell(request.param)


def nothing() -> None:
    pass


def fail() -> None:
    raise LookupError


@pytest.mark.parametrize("by_stack", [False, True])
def test_a_block_is_held_from_its_begin_to_its_end(shell: Shell, *, by_stack: bool) -> None:
    work = Work()

    def body() -> None:
        gc.collect()
        assert work.messages.is_held

    shell.run(work, body, by_stack=by_stack)
    assert work.said == ["begin", "use", "record", "commit", "follow", "close"]
    assert not work.messages.is_held


@pytest.mark.parametrize("by_stack", [False, True])
def test_an_exception_rolls_back(shell: Shell, *, by_stack: bool) -> None:
    work = Work()
    with pytest.raises(LookupError):
        shell.run(work, fail, by_stack=by_stack)
    assert work.said == ["begin", "use", "drop", "messages dropped", "close"]
    assert not work.messages.is_held


def test_what_fails_before_the_block_drops_nothing(shell: Shell) -> None:
    work = Work(begin=LookupError())
    with pytest.raises(LookupError):
        shell.run(work, fail)
    assert work.said == ["begin", "close"]
    assert not work.messages.is_held


def test_the_first_step_s_failure_is_the_block_s(shell: Shell) -> None:
    work = Work(use=LookupError())
    with pytest.raises(LookupError):
        shell.run(work, nothing)
    assert work.said == ["begin", "use", "drop", "messages dropped", "close"]


def test_a_forked_child_s_end_says_nothing_to_the_database(shell: Shell) -> None:
    work = Work(is_inherited=True)
    with pytest.raises(LookupError):
        shell.run(work, fail)
    assert work.said == ["begin", "use", "close"]


def test_a_rollback_that_failed_is_tried_once_more(shell: Shell) -> None:
    work = Work(drop=OSError())
    with pytest.raises(LookupError):
        shell.run(work, fail)
    assert work.said == ["begin", "use", "drop", "messages dropped", "drop", "close"]


def test_a_block_is_entered_once() -> None:
    work = Work()
    block: Any = statement.Block(lambda: work)
    with block:
        with pytest.raises(TransactionMisused, match="entered before"), block:
            pass
        assert work.messages.is_held
    with pytest.raises(TransactionMisused, match="entered before"):
        block.__enter__()
    assert not work.messages.is_held


def test_a_block_by_hand(shell: Shell) -> None:
    """As a test's fixture may write it."""
    work = Work()
    block = shell.block(work)
    if shell.module is statement:
        block.__enter__()
        assert work.messages.is_held
        block.__exit__(None, None, None)
        block.__exit__(None, None, None)
    else:

        async def main() -> None:
            await block.__aenter__()
            assert work.messages.is_held
            await block.__aexit__(None, None, None)

        asyncio.run(main())
    assert work.said == ["begin", "use", "record", "commit", "follow", "close"]
    assert not work.messages.is_held


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")  # struck before its await
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_handler_that_raised_as_a_block_was_left_kept_it_running(shell: Shell) -> None:
    """As long as somebody kept the exception, whose traceback had contextlib's generator."""
    kept = []
    struck_at = set()
    for strike in strikes(shell.module, is_real=True):
        work = Work()
        with strike:
            try:
                shell.run(work, nothing)
            except Struck as struck:
                kept.append(struck)
                assert not work.messages.is_held, strike.place
                said = list(work.said)
                assert not work.is_open or shell.module is statement_aio, strike.place
                raise
        if strike.place:
            struck_at.add(strike.place.partition(":")[0])
            assert work.said == said
            kept.clear()
            gc.collect()
            assert work.said == said, "closed later, in the middle of something else"
    assert {"end", "enter", "leave", "_close"} <= struck_at


def test_an_end_that_was_struck_before_its_first_line_rolled_nothing_back() -> None:
    for strike in strikes(statement, is_real=True):
        work = Work()
        with strike:
            shell = Shell(statement)
            shell.run(work, fail)
        if strike.place.startswith("leave:"):
            assert work.said[-2:] == ["drop", "close"]
            break
    else:
        pytest.fail("leave was not struck")


def test_a_generator_in_a_cycle_is_closed_before_its_block_is_given_up() -> None:
    """The collector tells of the mark's end first."""
    work = Work()

    def program(_: object) -> Any:
        with statement.Block(lambda: work):
            try:
                yield
            finally:
                assert work.messages.is_held
                work.say("finally")

    cycle: list[object] = []
    generator = program(cycle)
    cycle.append(generator)
    next(generator)
    del generator, cycle
    gc.collect()
    assert work.said == ["begin", "use", "finally", "drop", "messages dropped", "close"]
