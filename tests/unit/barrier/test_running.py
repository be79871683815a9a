"""Which blocks are running."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from halfhitch.barrier import running
from halfhitch.client import marks
from halfhitch.client.marks import Mark, held
from halfhitch.errors import InvalidRequest
from harness.strikes import strikes

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = ("halfhitch_barrier", "shop", "a")


@contextmanager
def block() -> Iterator[None]:
    mark = Mark()
    with mark.hold():
        running.block(KEY, mark)
        yield


def test_what_a_running_block_will_record_nobody_else_may() -> None:
    running.require_none(KEY)
    with block():
        running.require_none(("halfhitch_barrier", "shop", "b"))
        with pytest.raises(InvalidRequest, match="Leave this call out"):
            running.require_none(KEY)
    running.require_none(KEY)


def test_of_two_attempts_at_once_the_first_end_is_not_the_other_s() -> None:
    with block():
        with pytest.raises(LookupError), block():
            raise LookupError
        with pytest.raises(InvalidRequest):
            running.require_none(KEY)
    running.require_none(KEY)
    assert held(running._BLOCKS) == []


def test_a_handler_that_raised_as_a_block_began_left_its_id_running_for_good() -> None:
    for strike in strikes(running, marks, is_real=True):
        with strike, block():
            running.require_none(("halfhitch_barrier", "shop", "b"))
        running.require_none(KEY)
    assert held(running._BLOCKS) == []
