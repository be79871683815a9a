"""What an ending says of its own beginning: anybody may have written its marker."""

from __future__ import annotations

import msgspec
import pytest

from halfhitch.wire.story_entries import Ended

ENDED = Ended(
    "shop", "order-1", 2, 0, "1;0;1700000000000;pod-7;d=00ff00ff00ff00ff", 1_700_000_000_100,
    1_700_000_000_900, 77, "check", "the row is there", 1, 2, 40,
)  # fmt: skip


def test_an_ending_knows_when_and_by_whom_it_was_taken() -> None:
    assert (ENDED.born_ms, ENDED.taken_by) == (1_700_000_000_000, "pod-7")
    older = msgspec.structs.replace(ENDED, marker="1;0;17;pod-7")
    assert (older.born_ms, older.taken_by) == (17, "pod-7")


@pytest.mark.parametrize("marker", ["", "1;0", "1;0;x;pod", "1;0;" + "9" * 30 + ";pod"])
def test_of_a_strangers_marker_nothing_is_believed(marker: str) -> None:
    assert msgspec.structs.replace(ENDED, marker=marker).born_ms == -1
    assert msgspec.structs.replace(ENDED, marker=marker).taken_by in ("", "pod")
