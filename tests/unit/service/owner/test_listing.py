"""What operators ask for, of payloads that are not in memory any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch.service.api import Filter, Undecided
from halfhitch.service.owner import listing
from harness.defaults import owner_limits
from harness.twin import Twin, turn_until_idle

if TYPE_CHECKING:
    from halfhitch.service.owner.turn import PartitionOwner


def many_pending(count: int = 30, value_bytes: int = 10) -> tuple[Twin, PartitionOwner]:
    """Every third is for points. Nothing of their payloads is kept."""
    twin = Twin(limits=owner_limits(payload_cache_bytes=0))
    owner = twin.working_owner()
    for number in range(count):
        topic = "orders" if number % 3 else "points"
        twin.half(f"T{number:02}", topic=topic, value=bytes(value_bytes))
    turn_until_idle(owner)
    twin.calls.clear()
    return twin, owner


def page(owner: PartitionOwner, wanted: Filter) -> tuple[list[Undecided], int]:
    asked = owner.checkback.undecided(wanted)
    owner.turn(0.0)
    return asked.result(0)


def fetches(twin: Twin) -> list[str]:
    return [call for call in twin.calls if call.startswith("fetch ")]


def test_a_page_is_one_reading_of_the_log() -> None:
    twin, owner = many_pending()
    found, count = page(owner, Filter(count_max=5))
    assert ([shown.transaction_id for shown in found], count) == (
        ["T00", "T01", "T02", "T03", "T04"], 30,
    )  # fmt: skip
    assert [shown.topics for shown in found[:2]] == [("points",), ("orders",)]
    assert fetches(twin) == ["fetch [0, 1, 2, 3, 4]"]


def test_a_filter_by_topic_read_the_log_anew_for_each_transaction() -> None:
    twin, owner = many_pending()
    found, count = page(owner, Filter(topic="points", count_max=2))
    assert ([shown.transaction_id for shown in found], count) == (["T00", "T03"], 10)
    assert len(fetches(twin)) == 2, "all of them once, and the page"
    twin.calls.clear()
    names = owner.checkback.names(Filter(topic="points", count_max=100))
    owner.turn(0.0)
    found_names, count = names.result(0)
    assert (len(found_names), count) == (10, 10)
    assert len(fetches(twin)) == 1


def test_a_page_of_large_messages_was_in_memory_all_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listing, "_AT_ONCE_BYTES", 20_000)
    twin, owner = many_pending(10, value_bytes=5_000)
    found, count = page(owner, Filter())
    assert (len(found), count) == (10, 10)
    sizes = [call.count(",") + 1 for call in fetches(twin)]
    assert max(sizes) <= 4
    assert sum(sizes) == 10


def test_one_that_is_larger_than_a_part_is_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_AT_ONCE_BYTES", 1)
    twin, owner = many_pending(2)
    assert [shown.transaction_id for shown in page(owner, Filter())[0]] == ["T00", "T01"]
    assert fetches(twin) == ["fetch [0]", "fetch [1]"]


def test_who_is_named_is_not_looked_for_among_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    twin, owner = many_pending(5)
    wanted = Filter(producer_group="group", transaction_id="T03")
    owner.checkback._numbers_s = twin.clock.monotonic_s()  # the count of a second looks at them all
    ledger = type(owner._ledger)
    monkeypatch.setattr(ledger, "pending", lambda _: pytest.fail("all were looked through"))
    assert [shown.transaction_id for shown in page(owner, wanted)[0]] == ["T03"]
    wanted = Filter(producer_group="group", transaction_id="T09")
    assert page(owner, wanted) == ([], 0)
