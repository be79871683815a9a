"""The parked topic for operators, on a real broker: listed, shown, put back once."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException, Producer

from halfhitch.adapters.kafka import clients, half_search, parked_store
from halfhitch.adapters.kafka.half_search import KafkaHalfSearch
from halfhitch.adapters.kafka.log_ends import LogEnds
from halfhitch.adapters.kafka.parked_resume import Resumption
from halfhitch.adapters.kafka.parked_store import KafkaParkedStore
from halfhitch.adapters.kafka.scan import LogTrimmed, records
from halfhitch.adapters.kafka.topics import ensure
from halfhitch.core.model import ProducerGroup, Resolution, TransactionId
from halfhitch.errors import InvalidRequest, KafkaUnavailable, OutcomeUnknown, TransactionNotFound
from halfhitch.service.operators.parts import FoundHalves
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import HalfRecord, read_record, system_headers
from halfhitch.wire.parked import (
    CHECKS_EXHAUSTED,
    UNDELIVERABLE,
    LateDecision,
    Parked,
    Resumed,
    note_headers,
    parked_headers,
    read_parked,
)
from halfhitch.wire.topics import InternalTopics
from harness.kafka import admin_client, fresh_name, is_settled, read_all, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from halfhitch.core.model import Identity
    from halfhitch.wire.half import Headers
    from harness.kafka import ReadRecord

pytestmark = pytest.mark.kafka

DEADLINE_S = 20.0
USER: Headers = [("trace", b"1"), ("trace", None), ("bin", b"\xff")]


def identity(name: str) -> Identity:
    return ProducerGroup("shop"), TransactionId(name)


@dataclass
class Parks:
    """Internal topics of one test, and records put there by hand."""

    bootstrap: str
    names: InternalTopics = field(default_factory=lambda: InternalTopics(fresh_name("parks") + "-"))

    def __post_init__(self) -> None:
        self.admin = admin_client(self.bootstrap)
        ensure(self.admin, self.names, partition_count=2, replication_factor=1)

    def config(self) -> clients.Config:
        return clients.base(self.bootstrap, "parked-test", {"log_level": 0})

    def producer(self, transactional_id: str) -> Producer:
        return clients.resume_producer(
            self.config(),
            transactional_id=transactional_id,
            transaction_timeout_ms=10_000,
        )

    @asynccontextmanager
    async def store(self, **more: Any) -> AsyncIterator[KafkaParkedStore]:
        store = KafkaParkedStore(
            lambda: clients.log_consumer(self.config(), group=self.names.owner_group),
            self.producer,
            lambda: self.admin,
            half_topic=self.names.half,
            op_topic=self.names.op,
            parked_topic=self.names.parked,
            owner_group=self.names.owner_group,
            transaction_timeout_ms=10_000,
            **more,
        )
        try:
            yield store
        finally:
            store.stop()

    def put(self, *records: tuple[int, bytes | None, bytes | None, Headers]) -> list[int]:
        """(partition, key, value, headers) on the parked topic, in one Kafka transaction."""
        places: list[int] = []
        producer: Any = self.producer(fresh_name("parking"))
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        for partition, key, value, headers in records:
            producer.produce(
                self.names.parked, value, key, partition,
                lambda _, message: places.append(message.offset()), headers=headers,
            )  # fmt: skip
        producer.commit_transaction(DEADLINE_S)
        producer.close()
        return places

    def park(
        self, name: str, *values: bytes, reason: str = CHECKS_EXHAUSTED, decision: str | None = None
    ) -> None:
        """One transaction with a message for each value, on alternating parked partitions."""
        records = []
        for index, value in enumerate(values):
            half = HalfRecord(
                name, "shop", index, 5, "node-1", "orders", immunity_s=9, check_count=15,
                first_half_offset=7, first_stored_ms=1_000,
            )  # fmt: skip
            why = Parked(
                reason, "nobody answered", 1, 40 + index, decision, 15, 1_000, "silent", "shop-1"
            )
            headers = parked_headers([*system_headers(half), *USER], why)
            records.append((index % 2, b"key", value, headers))
        self.put(*records)

    def halves(self) -> list[ReadRecord]:
        return self._read(self.names.half)

    def _read(self, topic: str) -> list[Any]:
        """Kafka answers an end before its markers lie in the partitions."""
        wait_until(lambda: is_settled(self.bootstrap, topic), 30.0)
        return read_all(self.bootstrap, topic)

    def ops(self) -> list[Any]:
        found: list[Any] = []
        for record in self._read(self.names.op):
            events = op_wire.read(record.offset, 0, record.value, list(record.headers))
            found.append((record, events))
        return found

    def notes(self) -> list[Resumed]:
        records = self._read(self.names.parked)
        read = [read_parked(record.offset, list(record.headers)) for record in records]
        return [note for note in read if isinstance(note, Resumed)]


@pytest.fixture
def parks(kafka: Any) -> Parks:
    return Parks(kafka.bootstrap)


async def put_back(store: KafkaParkedStore, name: str) -> Any:
    return await store.resume(identity(name), reason="it works again", operator="ann")


async def test_what_is_parked_is_listed_and_shown_with_its_content(parks: Parks) -> None:
    async with parks.store() as store:
        assert await store.parkings() == ([], 0)
        parks.park("T1", b"a", b"b", b"\xff")
        parks.park("T2", b"c", reason=UNDELIVERABLE, decision="c")
        found, left_out_count = await store.parkings()
        assert (left_out_count, [p.identity[1] for p in found]) == (0, ["T1", "T2"])
        assert (found[0].topics, found[0].half_partition) == (("orders",), 1)
        assert [p.decision for p in found] == [None, "c"]
        parking, messages = await store.content(identity("T1"))
        assert parking == found[0]
        assert [m.value for m in messages] == [b"a", b"b", b"\xff"]
        assert {m.key for m in messages} == {b"key"}
        assert all(m.headers == USER and m.topic == "orders" for m in messages)
        with pytest.raises(TransactionNotFound, match="parked list"):
            await store.content(identity("T9"))


async def test_where_the_topic_ends_is_another_place_after_each_change(parks: Parks) -> None:
    async with parks.store() as store:
        before = await store.extent()
        assert before == await store.extent()
        parks.park("T1", b"a")
        # Kafka writes a commit's markers after its answer.
        while (parked := await store.extent()) == before:
            await asyncio.sleep(0.02)
        await put_back(store, "T1")
        while await store.extent() == parked:
            await asyncio.sleep(0.02)


async def test_resuming_puts_the_halves_back_unchecked_and_young(parks: Parks) -> None:
    parks.park("T1", b"a", b"b", b"c")
    async with parks.store() as store:
        await put_back(store, "T1")
        assert await store.parkings() == ([], 0)
    halves = parks.halves()
    assert [(h.partition, h.key, h.value) for h in halves] == [
        (1, b"key", value) for value in (b"a", b"b", b"c")
    ]
    for index, record in enumerate(halves):
        headers = list(record.headers)
        assert headers[-3:] == USER
        assert not any(name == "HALFHITCH_PARKED" for name, _ in headers)
        half = read_record(record.offset, headers)
        assert isinstance(half, HalfRecord)
        assert (half.transaction_id, half.producer_group, half.index) == ("T1", "shop", index)
        assert (half.check_count, half.first_half_offset, half.immunity_s) == (0, 7, 9)
        assert (half.first_stored_ms, half.resumed_count) == (0, 1)  # its own time counts
        assert (half.fence, half.born, half.born_count) == (0, None, 0)
    [(record, events)] = parks.ops()
    assert (events, record.partition, record.offset) == ([], 1, 0)
    assert dict(record.headers) == {
        "TAGS": b"o", "HALFHITCH": b'1[["shop","T1","resume","ann","it works again"]]',
    }  # fmt: skip
    [note] = parks.notes()
    assert (note.reason, note.operator, note.resumed_count) == ("it works again", "ann", 1)
    assert len(note.parked_at) == 3


async def test_a_second_resume_finds_the_note_of_the_first(parks: Parks) -> None:
    parks.park("T1", b"a")
    async with parks.store() as store, parks.store() as other:
        assert len((await other.parkings())[0]) == 1
        await put_back(store, "T1")
        for asked in (store, other):
            with pytest.raises(TransactionNotFound, match="put back before"):
                await put_back(asked, "T1")
    async with parks.store() as fresh:
        with pytest.raises(TransactionNotFound):
            await put_back(fresh, "T1")
    assert len(parks.halves()) == 1


async def test_of_many_who_resume_at_once_exactly_one_does_it(parks: Parks) -> None:
    parks.park("T1", b"a", b"b")
    async with parks.store() as first, parks.store() as second, parks.store() as third:
        for _ in range(3):
            stores = (first, second, third)
            results = await asyncio.gather(
                *(put_back(store, "T1") for store in stores), return_exceptions=True
            )
            # A fenced rival is told to try again: then it finds the note.
            kinds = {type(result) for result in results if isinstance(result, BaseException)}
            assert kinds <= {TransactionNotFound, KafkaUnavailable}, results
        with pytest.raises(TransactionNotFound):
            await put_back(first, "T1")
    assert len(parks.notes()) == 1
    assert [h.value for h in parks.halves()] == [b"a", b"b"]


async def test_whoever_looked_before_a_rival_was_done_looks_again(
    parks: Parks, monkeypatch: pytest.MonkeyPatch
) -> None:
    parks.park("T1", b"a")
    loop = asyncio.get_running_loop()
    async with parks.store() as store, parks.store() as rival:
        fenced = store._fenced

        def overtaken(half_partition: int) -> Producer:
            if not overtaken_count:
                overtaken_count.append(1)
                asyncio.run_coroutine_threadsafe(put_back(rival, "T1"), loop).result(DEADLINE_S)
            return fenced(half_partition)

        overtaken_count: list[int] = []
        monkeypatch.setattr(store, "_fenced", overtaken)
        with pytest.raises(TransactionNotFound, match="put back before"):
            await put_back(store, "T1")
    assert len(parks.halves()) == 1


async def test_many_are_put_back_together_each_behind_its_own_fence(parks: Parks) -> None:
    names = [f"T{number}" for number in range(12)]
    for name in names:
        parks.park(name, name.encode(), b"more")
    async with parks.store() as store, parks.store() as rival:
        asked = [put_back(store, name) for name in [*names, "T0", "T99"]]
        results = await asyncio.gather(*asked, put_back(rival, "T3"), return_exceptions=True)
        refused = [r for r in results if isinstance(r, BaseException)]
        # T0 was asked for twice, T3 by two; nobody knows T99.
        assert {type(r) for r in refused} <= {TransactionNotFound, KafkaUnavailable}, refused
        for name in names:
            with pytest.raises(TransactionNotFound):
                await put_back(store, name)
        assert await store.parkings() == ([], 0)
    halves = [read_record(h.offset, list(h.headers)) for h in parks.halves()]
    fences: dict[str, set[int]] = {}
    for half in halves:
        assert isinstance(half, HalfRecord)
        fences.setdefault(half.transaction_id, set()).add(half.fence)
    assert len(halves) == 24
    assert sorted(fences) == sorted(names)
    notes = {
        record.offset: dict(record.headers)["HALFHITCH"].split(b'"')[3].decode()
        for record, _ in parks.ops()
    }
    assert {name: {notes[fence] for fence in found} for name, found in fences.items()} == {
        name: {name} for name in names
    }


@pytest.mark.parametrize("late", [False, True], ids=["parked with it", "it came later"])
async def test_a_decision_goes_along_behind_the_fence_of_the_note(late: bool, parks: Parks) -> None:
    if late:
        parks.park("T1", b"a", b"b")
        for op_offset, decision in ((9, "c"), (8, "r")):
            note = LateDecision("shop", "T1", decision, 1, op_offset)
            parks.put((0, None, None, note_headers(note)))
    else:
        parks.park("T1", b"a", b"b", reason=UNDELIVERABLE, decision="c")
    wanted = Resolution.ROLLBACK if late else Resolution.COMMIT
    for name in ("T8", "T9"):
        parks.park(name, b"x")
    async with parks.store() as store:
        for name in ("T8", "T9"):
            await put_back(store, name)
        parking = await put_back(store, "T1")
        assert parking.decision == wanted.value
    record, events = parks.ops()[-1]
    assert (events, record.partition) == ([], 1)
    assert record.offset > 2  # behind the notes of the others
    halves = [read_record(h.offset, list(h.headers)) for h in parks.halves()[-2:]]
    for half in halves:
        assert isinstance(half, HalfRecord)
        assert (half.resumed_count, half.fence) == (1, record.offset)
        assert (half.born, half.born_count) == (wanted, 2)
    assert [n.decision for n in parks.notes() if n.transaction_id == "T1"] == [wanted.value]


async def test_whoever_died_before_the_commit_left_nothing_behind(
    parks: Parks, monkeypatch: pytest.MonkeyPatch
) -> None:
    parks.park("T1", b"a")
    dead: list[Producer] = []

    def die(self: Resumption, producer: Producer) -> None:
        dead.append(producer)
        self._producer = None  # as if the process were gone: no abort, no close
        raise KafkaUnavailable("died")

    async with parks.store() as store, parks.store() as other:
        with monkeypatch.context() as patch:
            patch.setattr(Resumption, "_commit", die)
            with pytest.raises(KafkaUnavailable, match="died"):
                await put_back(store, "T1")
        await put_back(other, "T1")
        with pytest.raises(KafkaException):  # fenced: it comes too late
            dead[0].commit_transaction(DEADLINE_S)
        dead[0].purge()
        assert (await store.parkings())[0] == []
    assert [h.value for h in parks.halves()] == [b"a"]


@pytest.mark.parametrize("arrived", [True, False])
async def test_a_commit_without_an_answer_is_looked_up(
    arrived: bool, parks: Parks, monkeypatch: pytest.MonkeyPatch
) -> None:
    parks.park("T1", b"a")
    commit = Resumption._commit

    def unanswered(self: Resumption, producer: Producer) -> None:
        if arrived:
            commit(self, producer)
        raise OutcomeUnknown("no answer")

    async with parks.store() as store:
        with monkeypatch.context() as patch:
            patch.setattr(Resumption, "_commit", unanswered)
            if arrived:
                assert (await put_back(store, "T1")).identity == identity("T1")
            else:
                with pytest.raises(KafkaUnavailable, match="was not put back"):
                    await put_back(store, "T1")
        if not arrived:
            await put_back(store, "T1")
        with pytest.raises(TransactionNotFound):
            await put_back(store, "T1")
    assert len(parks.halves()) == 1


async def test_what_is_parked_again_after_a_resume_can_be_resumed_again(parks: Parks) -> None:
    async with parks.store() as store:
        parks.park("T1", b"a")
        await put_back(store, "T1")
        [record] = parks.halves()
        again = Parked(UNDELIVERABLE, "gone", 1, record.offset, "c")
        parks.put((1, record.key, record.value, parked_headers(list(record.headers), again)))
        [parking] = (await store.parkings())[0]
        assert parking.resumed_count == 1
        await put_back(store, "T1")
    first, second = (read_record(h.offset, list(h.headers)) for h in parks.halves())
    assert isinstance(first, HalfRecord)
    assert isinstance(second, HalfRecord)
    assert (first.resumed_count, first.born) == (1, None)
    assert (second.resumed_count, second.born) == (2, Resolution.COMMIT)
    assert second.fence > first.fence
    assert [name for name, _ in parks.halves()[1].headers].count("HALFHITCH_COPY") == 1


async def test_garbage_and_too_many_do_not_stand_in_the_way(parks: Parks) -> None:
    parks.put((0, None, b"x", []), (1, None, b"y", [("HALFHITCH_PARKED", b"9{}")]))
    for number in range(6):
        parks.park(f"T{number}", b"v")
    async with parks.store(kept_max=3) as store:
        found, left_out_count = await store.parkings()
        assert (len(found), left_out_count) == (3, 3)
        for number in reversed(range(6)):
            await put_back(store, f"T{number}")
        assert await store.parkings() == ([], 0)
    assert len(parks.halves()) == 6


async def test_each_resume_beyond_what_is_kept_read_the_whole_topic_twice(
    parks: Parks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was read until it took too long was read again, though the answer said otherwise."""
    readings: list[Identity | None] = []
    make = parked_store.KafkaParkedStore._new_reading

    def noted(store: Any, only: Identity | None = None) -> Any:
        readings.append(only)
        return make(store, only)

    monkeypatch.setattr(parked_store.KafkaParkedStore, "_new_reading", noted)
    for number in range(5):
        parks.park(f"T{number}", b"v")
    async with parks.store(kept_max=1) as store:
        for number in (4, 3):
            await put_back(store, f"T{number}")
    alone = [only for only in readings if only is not None]
    assert [identity[1] for identity in alone] == ["T4", "T3"]


async def test_a_half_partition_that_is_gone_is_told_and_nothing_is_written(parks: Parks) -> None:
    half = HalfRecord("T1", "shop", 0, 5, "node-1", "orders")
    parks.put((0, None, b"v", parked_headers(system_headers(half), Parked("too_old", "", 7, 1))))
    async with parks.store() as store:
        with pytest.raises(InvalidRequest, match="half partition 7"):
            await put_back(store, "T1")
        assert len((await store.parkings())[0]) == 1


async def test_a_kafka_transaction_left_open_hides_nothing_else_and_stops_a_resume(
    parks: Parks, monkeypatch: pytest.MonkeyPatch
) -> None:
    parks.park("T1", b"a")
    hung: Any = parks.producer(fresh_name("hung"))
    hung.init_transactions(DEADLINE_S)
    hung.begin_transaction()
    hung.produce(parks.names.parked, b"?", partition=0)
    assert hung.flush(DEADLINE_S) == 0
    monkeypatch.setattr(parked_store, "_OPEN_S", 0.2)
    async with parks.store() as store:
        assert [p.identity[1] for p in (await store.parkings())[0]] == ["T1"]
        with monkeypatch.context() as patch:
            patch.setattr(parked_store, "_READ_S", 0.5)
            with pytest.raises(KafkaUnavailable, match="left open"):
                await put_back(store, "T1")
        assert parks.halves() == []
        hung.abort_transaction(DEADLINE_S)
        hung.close()
        await put_back(store, "T1")
    assert [h.value for h in parks.halves()] == [b"a"]


async def test_halves_of_a_transaction_are_found_in_a_half_log(
    parks: Parks, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer: Any = Producer({"bootstrap.servers": parks.bootstrap, "log_level": 0})

    def put(name: str, index: int) -> None:
        half = HalfRecord(name, "shop", index, 5, "node-1", "orders")
        producer.produce(parks.names.half, b"v", partition=1, headers=system_headers(half))

    for name, index in (("T1", 0), ("T2", 0), ("T1", 1), ("T2", 0), ("T3", 0), ("T3", 2)):
        put(name, index)
    producer.produce(parks.names.half, b"garbage", partition=1)
    assert producer.flush(DEADLINE_S) == 0
    producer.close()
    search = KafkaHalfSearch(
        lambda: clients.log_consumer(parks.config(), group=parks.names.owner_group),
        LogEnds(parks.admin),
        half_topic=parks.names.half,
    )

    async def found(partitions: Any, name: str, hints: dict[int, int]) -> FoundHalves | None:
        searched = await search.find(partitions, [identity(name)], hints)
        assert searched.trouble is None
        return searched.found.get(identity(name))

    both = (0, 1)
    assert await found(both, "T1", {}) == FoundHalves(1, (0, 2), 2)
    # The copy that was appended last stands for the transaction.
    assert await found(both, "T2", {1: 1}) == FoundHalves(1, (3,), 1)
    # A hint that leaves out the beginning is not believed.
    assert await found(both, "T1", {1: 2}) == FoundHalves(1, (0, 2), 2)
    assert await found(both, "T1", {1: 99}) == FoundHalves(1, (0, 2), 2)
    # What has a gap is covered whole, or the rest would pass for all.
    assert await found(both, "T3", {}) == FoundHalves(1, (4, 5), 3)
    assert await found(both, "T9", {}) is None
    assert await found((0,), "T1", {}) is None
    # Of many at once those are found where a hint leads, and the others from the start.
    many = await search.find(both, [identity(f"T{n}") for n in range(9)], {1: 1})
    assert many.found == {
        identity("T1"): FoundHalves(1, (0, 2), 2),
        identity("T2"): FoundHalves(1, (3,), 1),
        identity("T3"): FoundHalves(1, (4, 5), 3),
    }

    def trimmed_once(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(half_search, "records", records)
        raise LogTrimmed("as its owner does with what is done")

    monkeypatch.setattr(half_search, "records", trimmed_once)
    assert await found(both, "T1", {}) == FoundHalves(1, (0, 2), 2)
