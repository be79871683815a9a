"""A question made out of half records: whole, or not at all."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from halfhitch.service.checking.halves import filled_check
from halfhitch.wire.check import CheckMessage
from halfhitch.wire.half import HalfRecord, system_headers
from harness.desks import check

if TYPE_CHECKING:
    from halfhitch.wire.handle import Handle

ASKED = replace(check("T1"), handle="", messages=(), half_offsets=(40, 17))


def record(index: int = 0, transaction_id: str = "T1", group: str = "orders") -> Any:
    headers = system_headers(
        HalfRecord(transaction_id, group, index, 1_000, "i", f"topic-{index}", 3)
    )
    headers.append(("trace", b"1"))
    return SimpleNamespace(key=lambda: b"k", value=lambda: b"v%d" % index, headers=lambda: headers)


def sign(handle: Handle) -> str:
    return f"{handle.partition} {handle.half_offsets} {handle.topics}"


def test_messages_and_handle_are_in_the_order_of_the_indexes() -> None:
    found = filled_check(ASKED, {17: record(0), 40: record(1)}, sign)
    assert found is not None
    assert found.handle == "0 (17, 40) ('topic-0', 'topic-1')"
    assert found.messages == [
        CheckMessage(f"topic-{index}", b"k", b"v%d" % index, [("trace", b"1")], 3)
        for index in (0, 1)
    ]
    assert replace(found, handle="", messages=()) == ASKED


def test_with_one_missing_in_between_the_handle_counts_up_to_the_last() -> None:
    found = filled_check(ASKED, {17: record(0), 40: record(2)}, sign)
    assert found is not None
    assert found.handle.startswith("0 (17, 40, 40) ")


def test_what_the_half_log_does_not_hold_is_not_asked() -> None:
    """Whoever writes to Redis can name any place; only a half of that transaction is believed."""
    for records in (
        {},
        {17: record(0)},
        {17: record(0), 40: record(1, transaction_id="T2")},
        {17: record(0), 40: record(1, group="bank")},
        {17: record(0), 40: record(0)},
        {17: record(0), 40: SimpleNamespace(headers=lambda: None)},
    ):
        assert filled_check(ASKED, records, sign) is None
    assert filled_check(replace(ASKED, half_offsets=()), {}, sign) is None
