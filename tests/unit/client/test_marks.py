"""Whether a block is running."""

from __future__ import annotations

import gc
import os
import threading
from typing import TYPE_CHECKING

from halfhitch.client import marks
from halfhitch.client.marks import Mark, held
from harness.strikes import Struck, strikes

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_a_mark_is_held_as_long_as_its_with() -> None:
    mark = Mark()
    assert not mark.is_held
    with mark.hold():
        assert mark.is_held
        assert mark.is_held
    assert not mark.is_held
    with mark.hold():
        assert mark.is_held
    view = mark.hold()
    del view
    assert not mark.is_held


def test_what_a_block_holds_is_found_as_long_as_it_runs() -> None:
    registry: dict[Mark, str] = {}
    first, second = Mark(), Mark()
    with first.hold():
        first.note(registry, "a")
        with second.hold():
            second.note(registry, "b")
            assert held(registry) == ["a", "b"]
        assert held(registry) == ["a"]
        assert registry == {first: "a"}
        first.forget()
        assert registry == {}
        first.forget()


def test_a_generator_in_a_cycle_had_lost_its_mark_before_it_was_closed() -> None:
    said = []
    mark = Mark()

    def work(_: object) -> Iterator[None]:
        with mark.hold():
            try:
                yield
            finally:
                said.append(mark.is_held)

    cycle: list[object] = []
    generator = work(cycle)
    cycle.append(generator)
    next(generator)
    del generator, cycle
    gc.collect()
    assert said == [True]
    assert not mark.is_held


def test_a_handler_that_raised_left_a_mark_held_for_good() -> None:
    kept = []  # a traceback has the variables of its frames
    registry: dict[Mark, str] = {}
    for strike in strikes(marks, is_real=True):
        mark = Mark()
        with strike:
            try:
                with mark.hold():
                    mark.note(registry, "a")
                    assert held(registry) == ["a"]
                mark.forget()
            except Struck as struck:
                kept.append(struck)
                raise
        assert not mark.is_held, strike.place
        assert held(registry) == []


def test_a_mark_that_other_threads_look_at_is_held_from_the_first_moment() -> None:
    """The bytes that a look finds free stay as they are until they are held anew."""
    mark = Mark()
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            _ = mark.is_held

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2_000):
            with mark.hold():
                assert mark.is_held
            assert not mark.is_held
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def test_a_forked_child_sees_what_its_parent_held() -> None:
    mark = Mark()
    with mark.hold():
        child = os.fork()
        if not child:
            os._exit(0 if mark.is_held else 1)
        assert os.waitpid(child, 0)[1] == 0
