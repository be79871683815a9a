"""Where signals may strike."""

from __future__ import annotations

import asyncio
import dis
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest

from harness import strikes as judge
from harness.strikes import is_of_coverage, strikes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: What is struck: a resource that a function's first line takes care of, and no earlier one.
WORK = """
def inner(taken):
    try:
        pass
    finally:
        taken.clear()

def outer(taken):
    taken.append(1)
    inner(taken)

async def awaited(taken):
    taken.append(1)
    await later(taken)

async def later(taken):
    taken.clear()

def generator():
    yield 1
    yield 2
"""


def module(file: str = "/struck/work.py") -> Any:
    made: Any = types.ModuleType("work")
    made.__file__ = file
    exec(compile(WORK, file, "exec"), made.__dict__)
    return made


def places(run: Callable[[Any], object]) -> list[str]:
    """Where each strike hit."""
    found = []
    work = module()
    for strike in strikes(work, is_real=True):
        with strike:
            run(work)
        found.append(strike.place.partition("+")[0].partition(":")[0])
    return found[:-1]


def test_the_beginning_of_a_function_was_never_struck() -> None:
    """RESUME has no event of its own: what a function's first line should care for stayed taken."""
    left = []
    for strike in strikes(work := module(), is_real=True):
        taken: list[int] = []
        with strike:
            work.outer(taken)
        left.append((strike.place.split(":")[0], bool(taken)))
    assert ("inner", True) in left
    assert left[0] == ("outer", False), "before its first line"
    assert left[-1] == ("", False)


def test_without_that_look_the_judge_is_blind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "_looks_as_it_begins", lambda _: False)
    left = []
    for strike in strikes(work := module(), is_real=True):
        taken: list[int] = []
        with strike:
            work.outer(taken)
        left.append((strike.place.split(":")[0], bool(taken)))
    assert ("inner", True) not in left


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")  # struck before its await
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_coroutine_begins_but_does_not_begin_again_behind_an_await() -> None:
    found = places(lambda work: asyncio.run(work.awaited([])))
    begun = dict.fromkeys(found)
    assert list(begun) == ["awaited", "later"]
    code = module().awaited.__code__
    resumes = [one.arg for one in dis.get_instructions(code) if one.opname == "RESUME"]
    assert resumes == [0, 3]


def test_a_generator_is_struck_behind_each_yield() -> None:
    def run(work: Any) -> None:
        numbers: Iterator[int] = work.generator()
        assert list(numbers) == [1, 2]

    assert places(run) == ["generator"] * 3


def test_a_signal_in_the_handler_of_another_was_not_taken_for_one_in_the_coverage() -> None:
    """A lane of the tests hung for good: what measures its coverage never let its lock go."""

    def called_by(file: str) -> bool:
        def handler() -> bool:
            return is_of_coverage(sys._getframe())

        within: dict[str, Any] = {"handler": handler}
        exec(compile("found = handler()", f"/lib/coverage/{file}", "exec"), within)
        return bool(within["found"])

    assert called_by("collector.py")
    assert not called_by("execfile.py"), "at the bottom of each stack"
