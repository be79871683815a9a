"""`halfhitch verify` on a real Kafka with the real engine: quiet at work, sees what is wrong.

What is wrong is made by strangers: plain producers and DeleteRecords.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from halfhitch.adapters.kafka.brokers import describe_cluster
from halfhitch.core.model import DoneMark, HalfOffset, ProducerGroup, Resolution, TransactionId
from halfhitch.verify.kafka_logs import KafkaVerifyLogs, verify_consumer
from halfhitch.verify.kafka_targets import Wanted
from halfhitch.wire import op as op_wire
from halfhitch_cli.app import main
from harness.admin_door import admin_door
from harness.checkers import Fate
from harness.engines import DEADLINE_S, GROUP, Site, until, until_idle
from harness.fake_operations import FakeOperations
from harness.kafka import admin_client, fresh_name

pytestmark = pytest.mark.kafka

FATES = (Fate.COMMITTED, Fate.COMMITTED, Fate.ROLLED_BACK, Fate.COMMITTED, Fate.PENDING)


@pytest.fixture
def site(kafka: Any) -> Site:
    made = Site(kafka.bootstrap)
    made.create_targets()
    return made


@pytest.fixture
def verify(site: Site, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command, as somebody would run it; gives exit code, JSON and stderr."""

    async def verify(*more: str, output: str = "json") -> tuple[int, Any, str]:
        common = ["--kafka-bootstrap", site.bootstrap, "--topics-prefix", site.prefix]
        allow = ["--topics-allow", site.prefix + "*"]
        given = ["verify", *common, *allow, "-o", output, *more]
        code = await asyncio.to_thread(main, given)
        captured = capsys.readouterr()
        shown = json.loads(captured.out) if output == "json" and captured.out else captured.out
        return code, shown, captured.err

    return verify


async def work(site: Site, engine: Any, count: int = 4) -> None:
    """Pairs of messages with every fate."""
    for number in range(count):
        for place, fate in enumerate(FATES):
            await site.run(engine, site.pair(f"{number}-{place}"), fate)
    await until_idle(engine)


@pytest.fixture
async def worked(site: Site) -> Site:
    """A system that has worked, and is stopped now."""
    async with site.engine() as engine:
        await work(site, engine)
        await site.until_faultless()  # an owner that has not read it yet is idle, too
    return site


def write(site: Site, topic: str, value: bytes | None, headers: Any, **more: Any) -> None:
    """What a stranger writes."""
    producer = Producer({"bootstrap.servers": site.bootstrap, "acks": "all"})
    produce: Any = producer.produce
    produce(topic, value, headers=list(headers), **more)
    assert producer.flush(DEADLINE_S) == 0


def of(site: Site, fate: Fate) -> str:
    return next(truth.transaction_id for truth in site.truths if truth.fate is fate)


def a_record(site: Site, transaction_id: str) -> Any:
    wanted = ("UNIQ_KEY", transaction_id.encode())
    return next(record for record in site.read(site.orders) if wanted in record.headers)


def mark_done(site: Site, transaction_id: str, count: int) -> None:
    identity = ProducerGroup(GROUP), TransactionId(transaction_id)
    (mark,) = op_wire.write_step([DoneMark(identity, count, [HalfOffset(0)])], [])
    write(site, site.names.op, mark.value, mark.headers, partition=0)


async def test_a_system_that_worked_is_clean_and_was_judged_whole(
    worked: Site, verify: Any
) -> None:
    code, found, err = await verify()
    assert (code, err) == (0, "")
    assert (found["verdict"], found["clean"], found["complete"]) == ("clean", True, True)
    assert (found["ended"], found["judged"], found["judged_share"]) == (16, 16, 1.0)
    assert found["contents_judged"] == 24
    assert found["violations"] == []
    assert found["not_judged"] == []
    assert found["transactions"] == {
        "found": 20,
        "committed": 12,
        "committed_and_judged_whole": 12,
        "rolled_back": 4,
        "parked": 0,
        "contrary_decisions": 0,
        "messages_of_reused_ids": 0,
        "unfinished": {"undecided": 4},
    }
    assert found["forwards_judged"] == 24
    assert {row["transaction_id"] for row in found["unfinished"]} == {
        truth.transaction_id for truth in worked.truths if truth.fate is Fate.PENDING
    }
    code, shown, _ = await verify(output="table")
    assert code == 0
    for words in ("clean", "4 undecided", worked.orders, worked.names.half, "Not ended"):
        assert words in shown
    assert (await verify(output="yaml"))[1].startswith('verdict: "clean"')
    for given, words in (
        (["--since", "yesterday"], "--since"),
        (["--topic", "no-such-topic"], "no-such-topic"),
        (["--limit", "0"], "--limit"),
    ):
        code, _, err = await verify(*given)
        assert code == 2
        assert words in err
        assert err.count("\n") == 1


async def test_every_wrong_that_strangers_do_is_found(worked: Site, verify: Any) -> None:
    committed = [t.transaction_id for t in worked.truths if t.fate is Fate.COMMITTED]
    record = a_record(worked, committed[0])
    write(
        worked, worked.orders, record.value, record.headers,
        key=record.key, partition=record.partition,
    )  # fmt: skip
    phantoms = [of(worked, Fate.ROLLED_BACK), of(worked, Fate.PENDING), "forged"]
    for transaction_id in phantoms:
        names = [("UNIQ_KEY", transaction_id.encode()), ("PGROUP", GROUP.encode())]
        write(worked, worked.points, b"v", [*names, ("HALFHITCH", b"1;0;0;i")])
    mark_done(worked, "gone", 2)
    mark_done(worked, committed[1], 3)
    code, found, _ = await verify()
    assert code == 3
    assert found["clean"] is False
    kinds = {v["transaction_id"]: (v["kind"], v["message_indexes"]) for v in found["violations"]}
    assert kinds == {
        committed[0]: ("doubled", [0]),
        **dict.fromkeys(phantoms, ("phantom", [0])),
        "gone": ("lost", [0, 1]),
        committed[1]: ("torn", [2]),
    }
    counts = found["violation_counts"]
    assert [counts[kind] for kind in ("doubled", "phantom", "lost", "torn")] == [1, 3, 1, 1]
    doubled = next(v for v in found["violations"] if v["kind"] == "doubled")
    assert doubled["producer_group"] == GROUP
    place = {"topic": worked.orders, "partition": record.partition, "offset": record.offset}
    assert place in doubled["where"]

    code, shown, _ = await verify(output="table")
    assert code == 3
    assert "NOT CLEAN" in shown
    assert f"{worked.orders}-{record.partition}@{record.offset}" in shown
    code, found, err = await verify("--group", "nobody")
    assert (code, found) == (2, "")
    assert "'nobody'" in err


async def test_deleted_records_are_not_called_lost(worked: Site, verify: Any) -> None:
    admin = admin_client(worked.bootstrap)
    for topic in worked.targets:
        everything = [TopicPartition(topic, partition, -1) for partition in range(3)]
        for future in admin.delete_records(everything).values():
            future.result(DEADLINE_S)
    code, found, err = await verify()
    assert (code, found["verdict"], found["clean"]) == (4, "not_judged", True)
    assert "4 of 16 that have ended could be judged" in err
    assert found["transactions"]["committed_and_judged_whole"] == 0
    (row,) = found["not_judged"]
    assert (row["reason"], row["count"]) == ("target_trimmed", 12)


async def test_an_open_kafka_transaction_leaves_the_question_open(
    worked: Site, verify: Any
) -> None:
    mark_done(worked, "gone", 1)
    producer = Producer(
        {"bootstrap.servers": worked.bootstrap, "transactional.id": fresh_name("open")}
    )
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(worked.orders, b"hidden", partition=0)
    producer.flush(DEADLINE_S)
    code, found, err = await verify("--open-wait-s", "1")
    assert code == 4
    assert "leave a question open" in err
    assert [row["reason"] for row in found["not_judged"]] == ["target_open"]
    producer.abort_transaction(DEADLINE_S)
    code, found, _ = await verify("--open-wait-s", "1")
    assert code == 3
    assert [v["transaction_id"] for v in found["violations"]] == ["gone"]


async def test_a_system_at_work_gives_no_false_alarm(site: Site, verify: Any) -> None:
    is_over = asyncio.Event()
    ends: list[Fate] = []

    async def produce(engine: Any, number: int) -> None:
        done = 0
        while not is_over.is_set():
            fate = FATES[(number + done) % len(FATES)]
            prepared = await site.prepare(engine, site.pair(f"{number}-{done}"))
            if fate in (Fate.COMMITTED, Fate.ROLLED_BACK):
                resolution = Resolution.COMMIT if fate is Fate.COMMITTED else Resolution.ROLLBACK
                await engine.transactions.end(prepared.handle, resolution)
            done += 1
            ends.append(fate)

    async with site.engine() as engine:
        producers = [asyncio.ensure_future(produce(engine, number)) for number in range(8)]
        judged = 0
        for _ in range(5):
            enough = len(ends) + 100
            await until(lambda: len(ends) >= enough, "some work")  # noqa: B023 - awaited here
            code, found, err = await verify()
            assert code == 0, (found, err)
            assert found["transactions"]["committed_and_judged_whole"] > judged
            judged = found["transactions"]["committed_and_judged_whole"]
        is_over.set()
        await asyncio.gather(*producers)
        await until_idle(engine)
    code, found, _ = await verify()
    assert code == 0
    # Only done marks that the op log still has count here; halves of the pending ones hold it.
    assert found["transactions"]["committed"] == ends.count(Fate.COMMITTED)


async def test_what_could_not_be_judged_is_no_success(site: Site, verify: Any) -> None:
    code, _, err = await verify()
    assert code == 1
    assert "does not exist: is topics.prefix" in err
    async with site.engine():
        pass
    code, found, err = await verify()
    assert code == 4
    assert found["transactions"]["found"] == 0
    assert "Not judged: no transaction was found" in err


async def test_a_misspelled_allow_list_was_taken_for_a_loss(worked: Site, verify: Any) -> None:
    for misspelled in (worked.prefix + "ordrs", worked.prefix + "x.*"):
        code, found, err = await verify("--topics-allow", misspelled)
        assert (code, found) == (2, "")
        assert f"{misspelled!r}, which matches no topic" in err
        assert err.count("\n") == 1
    code, _, err = await verify("--topics-allow", worked.prefix + "ordrs")
    assert f"did you mean {worked.orders!r}?" in err


async def test_a_half_for_a_topic_outside_the_allow_list_says_that_not_all_was_read(
    worked: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that are undecided have halves still, and name the other topic."""
    given = ["--kafka-bootstrap", worked.bootstrap, "--topics-prefix", worked.prefix]
    given += ["--topics-allow", worked.orders, "-o", "json"]
    code = await asyncio.to_thread(main, ["verify", *given])
    found = json.loads(capsys.readouterr().out)
    assert (code, found["violations"]) == (4, [])
    assert found["window"]["all_targets_read"] is False
    reasons = {row["reason"]: row["count"] for row in found["not_judged"]}
    assert sum(reasons.values()) == 12, reasons
    assert reasons.keys() <= {"target_outside", "target_unknown"}


async def test_the_sidecar_that_answers_knows_prefix_and_allow_list(
    worked: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster_id = describe_cluster(admin_client(worked.bootstrap)).cluster_id
    theirs = {"topics.prefix": worked.prefix, "topics.allow": worked.prefix + "*"}
    with admin_door(FakeOperations(), theirs, info={"kafka_cluster_id": cluster_id}) as port:
        given = ["--kafka-bootstrap", worked.bootstrap, "--admin-port", str(port), "-o", "json"]
        code = await asyncio.to_thread(main, ["verify", *given])
        found = json.loads(capsys.readouterr().out)
        assert (code, found["transactions"]["committed_and_judged_whole"]) == (0, 12)
        assert found["window"]["settings_of"] == f"http://127.0.0.1:{port}"
        assert found["window"]["topics_allow"] == [worked.prefix + "*"]
        given += ["--topics-allow", worked.orders]
        code = await asyncio.to_thread(main, ["verify", *given])
        found = json.loads(capsys.readouterr().out)
        assert (code, found["violations"]) == (4, []), "narrower than the sidecar's"
        assert sum(row["count"] for row in found["not_judged"]) == 12


async def test_reading_goes_on_where_the_log_begins_now_when_it_was_trimmed_meanwhile(
    worked: Site,
) -> None:
    """The op log is trimmed while the system works, also while somebody reads it."""
    names = worked.names
    config = {"bootstrap.servers": worked.bootstrap}
    consumer = verify_consumer(config, group=names.owner_group)
    admin = admin_client(worked.bootstrap)
    logs = KafkaVerifyLogs(consumer, admin, names=names, wanted=Wanted(allow=[worked.prefix + "*"]))
    skipped: list[tuple[tuple[str, int], int]] = []
    records: list[Any] = []
    try:
        layout = logs.layout()
        assert set(layout.targets) == set(worked.targets)
        assert set(layout.watermarks) == {0, 1}
        starts = logs.starts(names.op, 0)
        place = names.op, 0
        where = TopicPartition(*place, 3)
        for future in admin.delete_records([where]).values():
            future.result(DEADLINE_S)
        logs.follow({place: starts[place][0]})
        ends = {place: logs.ends([names.op])[place]}
        hidden = logs.read_to(ends, records.extend, lambda *what: skipped.append(what))
    finally:
        consumer.close()
    assert hidden == frozenset()
    assert skipped == [(place, 3)]
    assert min(record.offset() for record in records) >= 3


async def test_since_reads_less_and_finds_as_much(worked: Site, verify: Any) -> None:
    mark_done(worked, "gone", 1)
    code, found, _ = await verify("--since", "1h")
    assert code == 3
    assert [v["transaction_id"] for v in found["violations"]] == ["gone"]
    assert found["transactions"]["committed_and_judged_whole"] == 13
    code, found, _ = await verify("--since", "2099-01-01")
    assert found["transactions"]["committed_and_judged_whole"] == 0
    assert sum(row["records"] for row in found["window"]["topics"] if row["role"] == "target") == 0
