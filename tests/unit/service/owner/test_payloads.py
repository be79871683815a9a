"""Payloads under a budget, as an owner uses them."""

from __future__ import annotations

import pytest

from halfhitch.service.owner.payloads import PayloadCache, PayloadLostError, payload_of
from harness.defaults import owner_limits
from harness.twin import Twin, turn_until_idle


def test_payloads_beyond_the_budget_are_read_back_when_they_are_needed() -> None:
    twin = Twin(limits=owner_limits(payload_cache_bytes=20_000))
    owner = twin.working_owner()
    for n in range(10):
        twin.half(f"T{n}", key=b"k%d" % n, value=bytes([n]) * 5_000, headers=[("n", b"%d" % n)])
    turn_until_idle(owner)
    twin.commit(*[f"T{n}" for n in range(10)])
    turn_until_idle(owner)
    (fetch,) = [call for call in twin.calls if call.startswith("fetch ")]
    assert "0" in fetch
    assert "9" not in fetch, "the newest are still in memory"
    records = sorted(twin.kafka.committed("orders"), key=lambda record: record.key() or b"")
    assert [(r.key(), r.value(), (r.headers() or [])[0]) for r in records] == [
        (b"k%d" % n, bytes([n]) * 5_000, ("n", b"%d" % n)) for n in range(10)
    ]


def test_messages_that_are_nothing_but_headers_count_against_the_budget_too() -> None:
    twin = Twin(limits=owner_limits(payload_cache_bytes=20_000))
    owner = twin.working_owner()
    for n in range(10):
        twin.half(f"T{n}", value=None, headers=[("h", bytes(5_000))])
    turn_until_idle(owner)
    twin.commit(*[f"T{n}" for n in range(10)])
    turn_until_idle(owner)
    assert [call for call in twin.calls if call.startswith("fetch [0, ")]


def test_a_replay_keeps_no_payloads_of_what_is_done() -> None:
    twin = Twin(limits=owner_limits(payload_cache_bytes=45_000))
    first = twin.working_owner()
    twin.half("pending", value=bytes(5_000))
    for n in range(10):
        twin.half(f"T{n}", value=bytes(2_000))
        twin.commit(f"T{n}")
    turn_until_idle(first)
    second = twin.working_owner()
    for n in range(10, 18):
        twin.half(f"T{n}", value=bytes(3_000))
    turn_until_idle(second)
    twin.commit("pending")
    turn_until_idle(second)
    assert len(twin.values()) == 11
    assert not [call for call in twin.calls if call.startswith("fetch ")]


def test_a_payload_that_is_gone_from_the_log_is_never_taken_for_an_empty_one() -> None:
    twin = Twin(limits=owner_limits(payload_cache_bytes=0))
    owner = twin.working_owner()
    twin.half("T1")
    turn_until_idle(owner)
    twin.half("T2")
    twin.kafka.delete_below(twin.kafka.half_topic, 0, 1)
    twin.commit("T1")
    with pytest.raises(PayloadLostError, match="no longer in the half log"):
        turn_until_idle(owner)
    assert twin.written_values() == []


def test_the_oldest_go_first_and_what_is_let_go_of_frees_its_room() -> None:
    twin = Twin()
    for n in range(4):
        twin.half(f"T{n}", value=bytes(1_000))
    records = twin.kafka.committed(twin.kafka.half_topic)
    cache = PayloadCache(7_000)  # room for three: each takes a good thousand on top
    for record in records[:3]:
        cache.put(record.offset(), payload_of(record))
    assert len(cache) == 3
    cache.let_go([1, 99])
    cache.put(3, payload_of(records[3]))
    assert len(cache) == 3
    twin.calls.clear()
    reader = twin.owner()._reader
    found = cache.all_of([0, 1, 2, 3], reader)
    assert sorted(found) == [0, 1, 2, 3]
    assert twin.calls == ["fetch [1]"]
    cache.clear()
    assert len(cache) == 0
