"""The engine on a real Kafka: what is promised to producers, judged by readers of the topics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from halfhitch.core.model import (
    ConflictKind,
    ConflictRead,
    DecisionRead,
    DoneRead,
    Resolution,
    ResolutionSource,
)
from halfhitch.errors import (
    ContraryDecision,
    InvalidHandle,
    KafkaUnavailable,
    TransactionParked,
    TransactionReused,
)
from halfhitch.service.api import Ended, TransactionState
from halfhitch.wire import op as op_wire
from halfhitch.wire.parked import Parked, read_parked
from harness.checkers import Fate, misrouted, torn
from harness.engines import (
    DEADLINE_S,
    GROUP,
    PARTITION_COUNT,
    TARGET_PARTITION_COUNT,
    Site,
    until,
    until_idle,
    until_working,
)
from harness.kafka import admin_client, bounds, create_topics, values

if TYPE_CHECKING:
    import random

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("owner_way")]

C, R = Resolution.COMMIT, Resolution.ROLLBACK


@pytest.fixture
def site(kafka: Any) -> Site:
    made = Site(kafka.bootstrap)
    made.create_targets()
    return made


async def until_stable(site: Site, topic: str) -> None:
    """Kafka answers a commit before its markers are in the logs; wait for those."""

    def is_stable() -> bool:
        levels = ("read_committed", "read_uncommitted")
        committed, uncommitted = (bounds(site.bootstrap, topic, level) for level in levels)
        return committed == uncommitted

    await until(is_stable, f"the markers of {topic}")


# -- exactly once --------------------------------------------------------------------------------


async def test_committed_transactions_become_visible_exactly_once_and_nothing_else_does(
    site: Site, rng: random.Random
) -> None:
    async with site.engine() as engine:

        async def one(n: int) -> None:
            fate = rng.choice([Fate.COMMITTED, Fate.COMMITTED, Fate.ROLLED_BACK, Fate.PENDING])
            key = rng.choice([None, b"", b"key-%d" % (n % 7)])
            messages = [
                site.message(site.orders, key, b"order %d" % n, [("n", b"%d" % n), ("n", None)]),
                site.message(site.points, None, rng.choice([None, b"", rng.randbytes(300)])),
            ][: rng.choice([1, 2])]
            await site.run(engine, messages, fate, wait_visible=rng.random() < 0.3)

        await asyncio.gather(*[one(n) for n in range(200)])
        await until_idle(engine)
        records = await site.until_faultless()
        fates = {truth.fate for truth in site.truths}
        assert fates == {Fate.COMMITTED, Fate.ROLLED_BACK, Fate.PENDING}
        expected = sum(len(t.messages) for t in site.truths if t.fate is Fate.COMMITTED)
        assert sum(map(len, records.values())) == expected > 100
        assert misrouted(site.truths, records, TARGET_PARTITION_COUNT) == []
        assert len({r.partition for r in records[site.orders] if r.key}) > 1
    assert {call[1] for call in site.observer.of("kafka_transaction")} == {"ok"}
    assert site.faults() == {}, "after the engine has stopped"


async def test_what_is_rolled_back_or_pending_is_never_even_written(site: Site) -> None:
    async with site.engine() as engine:
        await site.run(engine, site.pair("back"), Fate.ROLLED_BACK, wait_visible=True)
        await site.run(engine, site.pair("open"), Fate.PENDING)
        await site.run(engine, site.pair("done"), Fate.COMMITTED, wait_visible=True)
        await site.until_faultless()
        written = site.records("read_uncommitted")
    assert values(written[site.orders]) == [b"order done"]
    assert values(written[site.points]) == [b"points done"]


async def test_the_answer_to_whoever_waits_comes_after_the_done_mark(site: Site) -> None:
    async with site.engine() as engine:
        for fate in (Fate.COMMITTED, Fate.ROLLED_BACK):
            handle = await site.run(engine, site.pair(fate.name), fate, wait_visible=True)
            view = await engine.transactions.view(handle)
            assert view.visible
        await until_stable(site, site.names.op)
        done = [entry for entry in site.ops() if isinstance(entry, DoneRead)]
        assert sorted(entry.ending for entry in done) == [0, 2]


async def test_whoever_was_told_that_it_is_visible_finds_it_at_once(site: Site) -> None:
    async with site.engine() as engine:
        for n in range(25):
            await site.run(engine, site.pair(f"T{n}"), Fate.COMMITTED, wait_visible=True)
            assert await asyncio.to_thread(site.faults) == {}, f"after commit {n}"


async def test_a_prepare_that_is_retried_under_its_id_is_forwarded_once(site: Site) -> None:
    async with site.engine() as engine:
        messages = site.pair("T1")
        handles = [(await site.prepare(engine, messages, "T1")).handle for _ in range(3)]
        site.note("T1", messages, Fate.COMMITTED)
        await engine.transactions.end(handles[1], C, wait_visible=True)
        await site.prepare(engine, messages, "T1")
        await engine.transactions.end(handles[0], C, wait_visible=True)
        await until_idle(engine)
        await site.until_faultless()
    assert site.read(site.names.half)[-1].offset == 7, "the copies were really stored"


async def test_a_commit_that_is_repeated_is_answered_alike_and_forwarded_once(site: Site) -> None:
    async with site.engine() as engine:
        messages = site.pair("T1")
        prepared = await site.prepare(engine, messages)
        site.note(prepared.transaction_id, messages, Fate.COMMITTED)
        answers = await asyncio.gather(
            *[
                engine.transactions.end(prepared.handle, C, wait_visible=n % 2 == 0)
                for n in range(6)
            ]
        )
        answers.append(await engine.transactions.end(prepared.handle, C, wait_visible=True))
        assert {answer.state for answer in answers} == {TransactionState.COMMITTED}
        await until_idle(engine)
        await site.until_faultless()


@pytest.mark.parametrize(("first", "second"), [(C, R), (R, C)])
async def test_a_contrary_end_is_refused_and_recorded_and_changes_nothing(
    site: Site, first: Resolution, second: Resolution
) -> None:
    async with site.engine() as engine:
        messages = site.pair("T1")
        prepared = await site.prepare(engine, messages)
        fate = Fate.COMMITTED if first is C else Fate.ROLLED_BACK
        site.note(prepared.transaction_id, messages, fate)
        await engine.transactions.end(prepared.handle, first, wait_visible=True)
        with pytest.raises(ContraryDecision):
            await engine.transactions.end(prepared.handle, second, wait_visible=True)
        await until(
            lambda: any(isinstance(entry, ConflictRead) for entry in site.ops()), "the x record"
        )
        (conflict,) = [entry for entry in site.ops() if isinstance(entry, ConflictRead)]
        assert conflict.kind is ConflictKind.CONTRARY
        assert conflict.identity == (GROUP, prepared.transaction_id)
        loser = [e for e in site.ops() if isinstance(e, DecisionRead) and e.resolution is second]
        assert [entry.op_offset for entry in loser] == [conflict.losing_op_offset]
        await site.until_faultless()
    assert site.observer.of("conflict") == [(ConflictKind.CONTRARY, 1)]


async def test_messages_that_were_added_are_part_of_the_transaction(site: Site) -> None:
    async with site.engine() as engine:
        messages = [site.message(site.orders, b"k", b"first")]
        prepared = await site.prepare(engine, messages)
        for n in range(3):
            more = [site.message(site.points, b"k%d" % n, b"added %d" % n)]
            prepared = await engine.transactions.add(prepared.handle, more)
            messages += more
        site.note(prepared.transaction_id, messages, Fate.COMMITTED)
        await engine.transactions.end(prepared.handle, C, wait_visible=True)
        records = await site.until_faultless()
    assert sum(map(len, records.values())) == 4


# -- all or none ---------------------------------------------------------------------------------


async def test_if_one_message_cannot_be_delivered_all_of_its_transaction_are_parked(
    site: Site,
) -> None:
    admin = admin_client(site.bootstrap)
    async with site.engine() as engine:
        messages = site.pair("T1")
        prepared = await site.prepare(engine, messages)
        for future in admin.delete_topics([site.points], operation_timeout=DEADLINE_S).values():
            future.result(DEADLINE_S)
        with pytest.raises(TransactionParked):
            await engine.transactions.end(prepared.handle, C, wait_visible=True)
        site.note("other", [site.message(site.orders, b"T1", b"behind it")], Fate.COMMITTED)
        other = await site.prepare(engine, site.truths[0].messages, "other")
        await engine.transactions.end(other.handle, C, wait_visible=True)
        assert values(site.read(site.orders)) == [b"behind it"]
        await until_stable(site, site.names.parked)
        records = site.read(site.names.parked)
        assert sorted(values(records), key=str) == [b"order T1", b"points T1"]
        why = [read_parked(record.offset, list(record.headers)) for record in records]
        assert all(isinstance(w, Parked) and site.points in w.detail for w in why), why
    assert "fail" in {call[1] for call in site.observer.of("kafka_transaction")}
    assert values(site.read(site.orders, "read_uncommitted")).count(b"order T1") >= 1, (
        "the try was real"
    )


async def test_one_message_too_large_for_its_topic_does_not_take_others_along(site: Site) -> None:
    tight = site.prefix + "tight"
    create_topics(site.bootstrap, {tight: 1}, {"max.message.bytes": "20000"})
    async with site.engine() as engine:
        handles = []
        for n in range(12):
            value = bytes(50_000) if n == 7 else b"%d" % n
            prepared = await site.prepare(engine, [site.message(tight, None, value)])
            handles.append(prepared.handle)
        ends = [engine.transactions.end(handle, C, wait_visible=True) for handle in handles]
        answers = await asyncio.gather(*ends, return_exceptions=True)
        assert [n for n, a in enumerate(answers) if isinstance(a, TransactionParked)] == [7]
        assert all(isinstance(a, Ended) for n, a in enumerate(answers) if n != 7), answers
        visible = sorted(values(site.read(tight)), key=str)
        assert visible == sorted((b"%d" % n for n in range(12) if n != 7), key=str)
        await until_stable(site, site.names.parked)
        assert values(site.read(site.names.parked)) == [bytes(50_000)]


async def test_a_reader_who_reads_along_never_finds_more_torn_than_is_under_way(
    site: Site,
) -> None:
    """Markers reach two topics one after the other; whatever a reader finds torn must heal."""
    async with site.engine() as engine:
        ever_torn = 0
        for n in range(15):
            await site.run(engine, site.pair(f"T{n}"), Fate.COMMITTED)
            records = await asyncio.to_thread(site.records)
            found = torn(site.truths, records)
            ever_torn = max(ever_torn, len(found))
            if found:
                await until(lambda: not torn(site.truths, site.records()), "healing", 5.0)
        await site.until_faultless()


# -- what a consumer is given --------------------------------------------------------------------


async def test_a_forwarded_record_has_the_users_bytes_and_headers_and_then_ours(
    site: Site,
) -> None:
    user: list[tuple[str, bytes | None]] = [
        ("a", b"1"), ("b", None), ("a", b"2"), ("a", b"1"), ("", b""), ("bin", bytes(range(256))),
    ]  # fmt: skip
    messages = [
        site.message(site.orders, b"\x00key", b"\xff" * 1000, user),
        site.message(site.orders, None, None),
        site.message(site.points, b"", b""),
    ]
    async with site.engine() as engine:
        handle = await site.run(engine, messages, Fate.COMMITTED, wait_visible=True)
        transaction_id = (await engine.transactions.view(handle)).transaction_id
        records = await site.until_faultless()
    by_index = {}
    for record in [*records[site.orders], *records[site.points]]:
        *theirs, (id_name, raw_id), (group_name, group), (marker_name, marker) = record.headers
        assert (id_name, group_name, marker_name) == ("UNIQ_KEY", "PGROUP", "HALFHITCH")
        assert (raw_id, group) == (transaction_id.encode(), GROUP.encode())
        version, index, born_ms, instance, count, digest = (marker or b"").split(b";")
        assert count == b"n=3"
        assert digest.startswith(b"d=")
        assert version == b"1"
        assert int(born_ms) > 1_600_000_000_000
        assert instance.startswith(b"instance-")
        by_index[int(index)] = (record.key, record.value, theirs)
    assert by_index == {
        0: (b"\x00key", b"\xff" * 1000, user),
        1: (None, None, []),
        2: (b"", b"", []),
    }


async def test_keys_choose_the_partition_as_a_java_producer_does_unless_it_is_fixed(
    site: Site,
) -> None:
    keys = [b"21", b"foobar", b"a-little-bit-long-string", b"abc", b"", b"k1", b"k2", b"k3"]
    messages = [site.message(site.orders, key, b"by key") for key in keys]
    messages += [
        site.message(site.points, key, b"fixed", partition=n % TARGET_PARTITION_COUNT)
        for n, key in enumerate([*keys, None])
    ]
    async with site.engine() as engine:
        await site.run(engine, messages, Fate.COMMITTED, wait_visible=True)
        records = await site.until_faultless()
    assert len(records[site.orders]) == len(keys)
    assert misrouted(site.truths, records, TARGET_PARTITION_COUNT) == []
    assert len({record.partition for record in records[site.orders]}) == TARGET_PARTITION_COUNT


# -- strangers -----------------------------------------------------------------------------------


async def test_a_handle_signed_with_another_key_is_refused(site: Site) -> None:
    async with site.engine() as engine:
        prepared = await site.prepare(engine, site.pair("T1"))
        async with site.engine(
            working=None, handle_keys=(b"x" * 32,), owner_enabled=False
        ) as other:
            await until(lambda: not other.unready_reasons(), "the other engine is ready")
            with pytest.raises(InvalidHandle):
                await other.transactions.end(prepared.handle, C)
        async with site.engine(
            working=None, handle_keys=(b"x" * 32, b"k" * 32), owner_enabled=False
        ) as rotated:
            await until(lambda: not rotated.unready_reasons(), "the rotated engine is ready")
            answer = await rotated.transactions.end(prepared.handle, C, wait_visible=True)
            assert answer.visible
    site.note(prepared.transaction_id, site.pair("T1"), Fate.COMMITTED)
    await site.until_faultless()


async def test_a_decision_in_an_aborted_kafka_transaction_decides_nothing(site: Site) -> None:
    async with site.engine() as engine:
        handles = [await site.run(engine, site.pair(f"T{n}"), Fate.PENDING) for n in range(2)]
        known = [engine.transactions._parts.handles.decode(handle) for handle in handles]
        stranger: Any = Producer(
            {
                "bootstrap.servers": site.bootstrap,
                "transactional.id": site.prefix + "stranger",
                "log_level": 0,
            }
        )
        stranger.init_transactions(DEADLINE_S)
        stranger.begin_transaction()
        for handle in known:
            entry = op_wire.DecisionEntry(
                GROUP, handle.transaction_id, 2, 0, ResolutionSource.PRODUCER
            )
            value, headers = op_wire.write(op_wire.tag_of(C), [entry], [])
            stranger.produce(site.names.op, value, partition=handle.partition, headers=headers)
        assert stranger.flush(DEADLINE_S) == 0
        stranger.abort_transaction(DEADLINE_S)
        stranger.close()
        # Behind it in the same op partitions: when these are carried out, it has been passed.
        for handle in handles:
            await engine.transactions.end(handle, R, wait_visible=True)
        site.truths.clear()
        assert {topic: len(there) for topic, there in site.records("read_uncommitted").items()} == {
            site.orders: 0,
            site.points: 0,
        }


async def test_garbage_in_the_internal_topics_stops_nobody(site: Site) -> None:
    async with site.engine() as engine:
        stranger: Any = Producer({"bootstrap.servers": site.bootstrap, "log_level": 0})
        for topic in (site.names.half, site.names.op):
            for partition in range(PARTITION_COUNT):
                stranger.produce(topic, b"garbage", partition=partition)
                stranger.produce(topic, None, partition=partition, headers=[("HALFHITCH", None)])
        assert stranger.flush(DEADLINE_S) == 0
        stranger.close()
        for n in range(10):
            await site.run(engine, site.pair(f"T{n}"), Fate.COMMITTED, wait_visible=True)
        await site.until_faultless()
    garbage = site.observer.of("garbage")
    assert sum(count for role, count in garbage if role == "half") == 2 * PARTITION_COUNT
    assert sum(count for role, count in garbage if role == "op") == 2 * PARTITION_COUNT


# -- coming and going ----------------------------------------------------------------------------


async def test_a_restart_carries_on_where_the_engine_left_off(site: Site) -> None:
    async with site.engine() as engine:
        for n in range(10):
            await site.run(engine, site.pair(f"done-{n}"), Fate.COMMITTED)
            await site.run(engine, site.pair(f"back-{n}"), Fate.ROLLED_BACK)
        pending = [await site.prepare(engine, site.pair(f"open-{n}")) for n in range(10)]
    async with site.engine(owner_enabled=False, working=None) as deciding:
        # Nobody owns the partitions: decisions are stored and wait.
        await until(lambda: not deciding.unready_reasons(), "ready")
        for n, prepared in enumerate(pending[:8]):
            which, fate = (C, Fate.COMMITTED) if n % 2 else (R, Fate.ROLLED_BACK)
            await deciding.transactions.end(prepared.handle, which)
            site.note(prepared.transaction_id, site.pair(f"open-{n}"), fate)
    async with site.engine() as engine:
        await until_idle(engine)
        await site.until_faultless()
        for n, prepared in enumerate(pending[8:], 8):
            await engine.transactions.end(prepared.handle, C, wait_visible=True)
            site.note(prepared.transaction_id, site.pair(f"open-{n}"), Fate.COMMITTED)
        await site.until_faultless()
    takeovers = site.observer.of("takeover")
    assert len(takeovers) == 2 * PARTITION_COUNT


async def test_with_kafka_away_a_prepare_is_refused_and_the_engine_stops_in_time() -> None:
    nowhere = Site("127.0.0.1:1")
    async with nowhere.engine(working=None) as engine:
        assert engine.unready_reasons()
        with pytest.raises(KafkaUnavailable):
            await nowhere.prepare(engine, nowhere.pair("T1"))


# -- two instances -------------------------------------------------------------------------------


async def test_two_instances_share_the_partitions_and_any_of_them_ends_any_transaction(
    site: Site,
) -> None:
    async with site.engine() as first, site.engine(working=1) as second:
        await until_working(first, 1)
        owned = [{s.partition for s in engine.partitions()} for engine in (first, second)]
        assert sorted(map(len, owned)) == [1, 1]
        assert owned[0] | owned[1] == set(range(PARTITION_COUNT))
        engines = (first, second)

        async def one(n: int) -> None:
            preparing, ending = engines[n % 2], engines[n // 2 % 2]
            fate = Fate.ROLLED_BACK if n % 5 == 0 else Fate.COMMITTED
            await site.run(
                preparing, site.pair(f"T{n}"), fate, ended_by=ending, wait_visible=n % 3 == 0
            )

        await asyncio.gather(*[one(n) for n in range(80)])
        await until_idle(first, second)
        await site.until_faultless()
        half_partitions = {record.partition for record in site.read(site.names.half)}
        assert half_partitions == set(range(PARTITION_COUNT))


async def test_an_instance_that_owns_nothing_takes_waits_for_and_shows_transactions(
    site: Site,
) -> None:
    async with (
        site.engine() as owner,
        site.engine(owner_enabled=False, working=None) as other,
    ):
        await until(lambda: not other.unready_reasons(), "ready")
        handle = await site.run(other, site.pair("T1"), Fate.PENDING)
        for engine in (owner, other):
            view = await engine.transactions.view(handle)
            assert (view.state, view.visible) == (TransactionState.PENDING, False)
        site.truths.clear()
        for n in range(5):
            fate = Fate.ROLLED_BACK if n == 3 else Fate.COMMITTED
            handle = await site.run(other, site.pair(f"W{n}"), fate, wait_visible=True)
            view = await other.transactions.view(handle)
            expected = (
                TransactionState.ROLLED_BACK
                if fate is Fate.ROLLED_BACK
                else TransactionState.COMMITTED
            )
            assert (view.state, view.visible) == (expected, True)
        contrary = Resolution.COMMIT if fate is Fate.ROLLED_BACK else Resolution.ROLLBACK
        with pytest.raises(ContraryDecision):
            await other.transactions.end(handle, contrary, wait_visible=True)
        await site.until_faultless()


async def test_an_id_that_is_used_again_is_told_by_the_owner_and_by_who_does_not_own_it(
    site: Site,
) -> None:
    """The owner's instance refuses it at once; another one takes it, and tells it at the end."""
    first, second = ([site.message(site.orders, b"k", value)] for value in (b"first", b"second"))
    async with (
        site.engine() as owner,
        site.engine(owner_enabled=False, working=None) as other,
    ):
        await until(lambda: not other.unready_reasons(), "ready")
        prepared = await site.prepare(owner, first, "R")
        with pytest.raises(TransactionReused) as refused:
            await site.prepare(owner, second, "R")
        assert refused.value.code == "transaction_id_reused"
        unknowing = await site.prepare(other, second, "R")
        with pytest.raises(TransactionReused):
            await other.transactions.end(unknowing.handle, C, wait_visible=True)
        # The decision is about the id, under which the first message stands.
        site.note("R", first, Fate.COMMITTED)
        await site.until_faultless()
        ended = await owner.transactions.end(prepared.handle, C, wait_visible=True)
        assert ended.visible
        await until_idle(owner)
    reused = [entry for entry in site.ops() if isinstance(entry, ConflictRead)]
    assert {entry.kind for entry in reused} == {ConflictKind.REUSED}
    assert values(site.records("read_uncommitted")[site.orders]) == [b"first"]


@pytest.mark.parametrize("before", ["pending", "committed", "rolled back"])
async def test_a_prepare_that_is_repeated_at_an_instance_that_neither_took_it_nor_owns_it(
    site: Site, before: str
) -> None:
    """Its answer was lost, and the retry came elsewhere. It is one transaction, which has one end.

    What ended meanwhile is not known there: the repeat is told "pending". A commit that asks with
    wait=visible learns the truth, and one that does not is put on record.
    """
    messages = [site.message(site.orders, b"k", b"first")]
    apart = {"owner_enabled": False, "working": None}
    async with site.engine() as owner, site.engine(**apart) as taker, site.engine(**apart) as third:
        await until(lambda: not (taker.unready_reasons() or third.unready_reasons()), "ready")
        lost = await site.prepare(taker, messages, "R")
        if before != "pending":
            end = C if before == "committed" else R
            await taker.transactions.end(lost.handle, end, wait_visible=True)
        again = await site.prepare(third, messages, "R")
        assert again.state is TransactionState.PENDING
        site.note("R", messages, Fate.ROLLED_BACK if before == "rolled back" else Fate.COMMITTED)
        if before == "rolled back":
            assert (await third.transactions.end(again.handle, C)).state == "committed"
            with pytest.raises(ContraryDecision):
                await third.transactions.end(again.handle, C, wait_visible=True)
            with pytest.raises(ContraryDecision):
                await site.prepare(owner, messages, "R")
        else:
            assert (await third.transactions.end(again.handle, C, wait_visible=True)).visible
        await until_idle(owner)
        await site.until_faultless()
    conflicts = {entry.kind for entry in site.ops() if isinstance(entry, ConflictRead)}
    assert conflicts == ({ConflictKind.CONTRARY} if before == "rolled back" else set())


async def test_an_instance_that_leaves_hands_its_partitions_over_at_once(site: Site) -> None:
    async with site.engine() as staying:
        async with site.engine(working=1) as leaving:
            await until_working(staying, 1)
            pending = [await site.prepare(leaving, site.pair(f"T{n}")) for n in range(6)]
        await until_working(staying)
        for n, prepared in enumerate(pending):
            await staying.transactions.end(prepared.handle, C, wait_visible=True)
            site.note(prepared.transaction_id, site.pair(f"T{n}"), Fate.COMMITTED)
        await site.until_faultless()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_an_engine_whose_appending_thread_has_died_says_that_only_a_restart_helps(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site.engine() as engine:
        assert engine.death_reasons() == []

        def progress() -> None:
            raise NameError("a bug")

        monkeypatch.setattr("halfhitch.adapters.kafka.record_log.progress", progress)
        await until(engine.death_reasons, "somebody notices")
        assert ["appends" in reason for reason in engine.death_reasons()] == [True]
