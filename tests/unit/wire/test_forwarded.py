"""Headers of a target's record: whose message it is, or that it is somebody else's."""

from __future__ import annotations

from typing import Any

import pytest

from halfhitch.wire import headers as names
from halfhitch.wire.forwarded import Forwarded, producer_headers, read_forwarded

MARKER = b"1;2;1700000000000;pod-1;n=3;d=0123456789abcdef"
OURS: Any = [(names.UNIQ_KEY, b"T"), (names.PGROUP, b"shop"), (names.HALFHITCH, MARKER)]


def test_a_forwarded_record_names_its_transaction_behind_the_producers_headers() -> None:
    headers = [("kind", b"order"), ("kind", None), *OURS]
    assert read_forwarded(headers) == Forwarded("shop", "T", 2, 1_700_000_000_000, 3)
    assert producer_headers(headers) == headers[:2]
    earlier = [*OURS[:2], (names.HALFHITCH, b"1;2;1700000000000;pod-1")]
    assert read_forwarded(earlier) == Forwarded("shop", "T", 2, 1_700_000_000_000, 0)


@pytest.mark.parametrize(
    "headers",
    [
        None, [], OURS[:2], [*OURS, ("more", b"1")], [OURS[1], OURS[0], OURS[2]],
        [(names.UNIQ_KEY, None), *OURS[1:]], [OURS[0], (names.PGROUP, b""), OURS[2]],
        [*OURS[:2], (names.HALFHITCH, None)], [*OURS[:2], (names.HALFHITCH, b"1;2")],
        [*OURS[:2], (names.HALFHITCH, b"1;x;1;pod")],
        [*OURS[:2], (names.HALFHITCH, b"1;" + b"9" * 5_000 + b";1;pod")],
        [*OURS[:2], (names.HALFHITCH, b"2;1;1;pod")],
    ],
)  # fmt: skip
def test_what_another_producer_wrote_is_nobodys(headers: Any) -> None:
    assert read_forwarded(headers) is None


def test_names_that_are_no_text_are_no_error() -> None:
    found = read_forwarded([(names.UNIQ_KEY, b"\xff"), *OURS[1:]])
    assert found == Forwarded("shop", "\ufffd", 2, 1_700_000_000_000, 3)


@pytest.mark.parametrize("born", [b"x", b"", b"9" * 5_000])
def test_a_birth_that_cannot_be_read_does_not_make_it_somebody_elses(born: bytes) -> None:
    found = read_forwarded([*OURS[:2], (names.HALFHITCH, b"1;1;" + born + b";pod")])
    assert found == Forwarded("shop", "T", 1, None, 0)
