"""How large a transaction may become, whoever knows how large it is."""

from __future__ import annotations

import pytest

from halfhitch.adapters.memory import AppendFault
from halfhitch.core.model import Identity, ProducerGroup, Resolution, TransactionId
from halfhitch.errors import OutcomeUnknown, TransactionTooLarge
from halfhitch.service.transactions import sizes
from halfhitch.service.transactions.sizes import TransactionSizes
from harness.coordinator import Coordinator, message
from harness.twin import GROUP

MAX = 100_000


def identity(name: str) -> Identity:
    return ProducerGroup("shop"), TransactionId(name)


def of(size_bytes: int) -> list[object]:
    return [message(value=b"x" * size_bytes)]


def test_all_messages_count_with_keys_values_and_headers() -> None:
    it = TransactionSizes(20)
    messages = [message(key=b"key", value=b"value", headers=[("a", b"1"), ("b", None)])] * 2
    messages[0] = message(key=None, value=None)
    assert it.begins(messages) == 3 + 5 + 2 + 1
    assert it.begins([message(value=b"x" * 20)]) == 20
    with pytest.raises(TransactionTooLarge, match=r"21 bytes.*at most 20.*transaction_bytes_max"):
        it.begins([message(value=b"x" * 20), message(value=b"x")])


def test_what_went_through_here_counts_where_no_owner_knows_the_size() -> None:
    it = TransactionSizes(MAX)
    it.stored(identity("T1"), it.begins(of(60_000)))
    with pytest.raises(TransactionTooLarge):
        it.grows(identity("T1"), 0, of(40_001))
    it.stored(identity("T1"), it.grows(identity("T1"), 0, of(40_000)), has_grown=True)
    with pytest.raises(TransactionTooLarge):
        it.grows(identity("T1"), 0, of(1))
    assert it.grows(identity("T2"), 0, of(40_001)) == 40_001, "another one has its own size"


def test_what_the_owner_has_read_counts_if_it_is_more() -> None:
    it = TransactionSizes(MAX)
    it.stored(identity("T1"), it.begins(of(10_000)))
    assert it.grows(identity("T1"), 90_000, of(10_000)) == MAX
    with pytest.raises(TransactionTooLarge):
        it.grows(identity("T1"), 90_001, of(10_000))


def test_many_small_messages_one_by_one_come_to_the_bound_too() -> None:
    it = TransactionSizes(MAX)
    it.stored(identity("T1"), it.begins(of(99)))
    for _ in range(MAX // 99 - 1):
        it.stored(identity("T1"), it.grows(identity("T1"), 0, of(99)), has_grown=True)
    assert it.grows(identity("T1"), 0, of(99)) <= MAX, "but for the first one, which was small"
    it.stored(identity("T1"), it.grows(identity("T1"), 0, of(99)), has_grown=True)
    with pytest.raises(TransactionTooLarge):
        it.grows(identity("T1"), 0, of(99))


def test_the_memory_is_bounded_and_small_beginnings_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sizes, "_REMEMBERED_MAX", 2)
    it = TransactionSizes(MAX)
    it.stored(identity("T1"), 60_000)
    it.stored(identity("T2"), 60_000)
    it.stored(identity("small"), 99)
    it.stored(identity("T1"), 60_000)
    it.stored(identity("T3"), 60_000)
    assert it.grows(identity("T2"), 0, of(60_000)) == 60_000, "the one longest not heard of is out"
    for name in ("T1", "T3"):
        with pytest.raises(TransactionTooLarge):
            it.grows(identity(name), 0, of(60_000))


async def test_a_transaction_too_large_for_one_kafka_transaction_is_refused_whole() -> None:
    it = Coordinator(transaction_bytes_max=10_000)
    with pytest.raises(TransactionTooLarge):
        await it.service.prepare(producer_group=GROUP, messages=[message(value=b"x" * 2_001)] * 5)
    assert it.halves() == []
    assert it.observer.of("prepare_refused") == [("transaction_too_large",)]


@pytest.mark.parametrize("owns", [[0, 1], []], ids=["owned here", "owned elsewhere"])
async def test_a_message_more_than_a_transaction_may_have_is_refused_and_the_rest_can_be_committed(
    owns: list[int],
) -> None:
    it = Coordinator(owns=owns, transaction_bytes_max=10_000)
    first = await it.service.prepare(
        producer_group=GROUP, messages=[message(value=b"x" * 6_000)], transaction_id="T1"
    )
    it.carry_out()
    if owns:  # then it need not have gone through this instance
        it.service._parts.sizes._remembered.clear()
    with pytest.raises(TransactionTooLarge):
        await it.service.add(first.handle, [message(value=b"x" * 4_001)])
    assert it.observer.of("prepare_refused") == [("transaction_too_large",)]
    grown = await it.service.add(first.handle, [message(value=b"x" * 3_000)])
    await it.service.end(grown.handle, Resolution.COMMIT)
    if owns:
        it.carry_out()
        assert [len(value or b"") for value in it.twin.written_values()] == [6_000, 3_000]


@pytest.mark.parametrize("owns", [(0, 1), ()])
async def test_an_add_that_came_again_counted_twice_and_was_too_large(
    owns: tuple[int, ...],
) -> None:
    """Its answer had been lost."""
    it = Coordinator(owns=owns, transaction_bytes_max=10_000)
    handle = await it.prepared("T1")
    added = [message("points", value=b"x" * 6_000)]
    it.kafka.faults.appends = [AppendFault.ANSWER_LOST]
    with pytest.raises(OutcomeUnknown):
        await it.service.add(handle, added)
    for _ in range(2):
        again = await it.service.add(handle, added)
    with pytest.raises(TransactionTooLarge):
        await it.service.add(again.handle, added)
    assert it.handles.decode(again.handle).half_offsets[0] == 0
