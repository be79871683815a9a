"""What a RocketMQ producer asks in its life: messages, ends, batches; on a Kafka in memory."""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters.memory import AppendFault
from halfhitch.core.model import DecisionRead, Resolution, ResolutionSource
from halfhitch.core.partitioning import half_partition
from halfhitch.errors import TransactionGone
from halfhitch.service.checking.api import CheckOutcome
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.requests import Form
from harness.coordinator import PARTITION_COUNT
from harness.remoting_client import Sent

if TYPE_CHECKING:
    from harness.remoting_client import RemotingClient

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
C, R = Resolution.COMMIT, Resolution.ROLLBACK
GROUP = "shop"


async def test_a_half_message_is_stored_invisible_under_the_clients_own_id(
    stage: Any, client: RemotingClient
) -> None:
    properties = {"TAGS": "a", "KEYS": "k1 k2", "WAIT": "true", "color": "blau ü"}
    sent = await client.half(GROUP, "orders", b"hello", properties, unique="U1", e="2")
    assert (sent.code, sent.fields["queueId"], sent.fields["transactionId"]) == (0, "2", "U1")
    ((record, half),) = stage.it.halves()
    partition = half_partition(None, "U1", PARTITION_COUNT)
    assert (record.partition, record.offset()) == (partition, 0)
    seal = stage.it.handles.seals.make(partition, 0, GROUP, "U1")
    assert (sent.state_offset, sent.commit_log_offset) == (seal, partition << 48)
    assert len(sent.fields["msgId"]) == 32
    assert (record.key(), record.value()) == (b"k1 k2", b"hello")
    assert (half.transaction_id, half.producer_group, half.target_topic) == ("U1", GROUP, "orders")
    assert (half.target_partition, half.immunity_s) == (2, None)
    assert dict(record.headers()[-4:]) == {
        "TAGS": b"a",
        "KEYS": b"k1 k2",
        "WAIT": b"true",
        "color": "blau ü".encode(),
    }
    assert stage.stored() == []


async def test_the_next_try_of_a_message_may_go_to_another_queue(client: RemotingClient) -> None:
    """Java's clients choose another one for each; it was taken for another message under one id."""
    for queue_id in ("0", "2"):
        sent = await client.half(GROUP, "orders", b"x", unique="U1", e=queue_id)
        assert (sent.code, sent.remark) == (0, None)
    other = await client.half(GROUP, "orders", b"y", unique="U1")
    assert other.code == codes.MESSAGE_ILLEGAL


async def test_the_messages_of_one_client_process_share_a_half_partition(
    stage: Any, client: RemotingClient
) -> None:
    process = "7F0000011A2B18B4AAC2"
    for n in range(8):
        properties = {"KEYS": f"order-{n}"}
        await client.half(GROUP, "orders", b"m", properties, unique=f"{process}{n:012X}")
    assert len({record.partition for record, _ in stage.it.halves()}) == 1
    for n in range(8):
        await client.half(GROUP, "orders", b"m", unique=f"7F000001{n:04X}18B4AAC2{1:012X}")
    assert len({record.partition for record, _ in stage.it.halves()}) > 1


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("code", [codes.SEND_MESSAGE, codes.SEND_MESSAGE_V2])
async def test_a_commit_makes_it_visible_and_a_rollback_does_not(
    stage: Any, form: Form, code: int
) -> None:
    client = await stage.client(await stage.open(), form=form)
    first = await client.half(GROUP, "orders", b"one", unique="U1", code=code)
    second = await client.half(GROUP, "orders", b"two", unique="U2", code=code)
    client.end(GROUP, first, COMMIT)
    client.end(GROUP, second, ROLLBACK)
    await stage.until(lambda: len(stage.it.decided()) == 2, "two decisions")
    stage.it.carry_out()
    assert [record.value() for record in stage.stored()] == [b"one"]
    names = [name for name, _ in stage.stored()[0].headers()]
    assert names[-3:] == ["UNIQ_KEY", "PGROUP", "HALFHITCH"]


@pytest.mark.parametrize("form", list(Form))
async def test_the_remark_of_an_end_was_lost(stage: Any, form: Form) -> None:
    """RocketMQ's clients put there what the local transaction, or its check, has thrown."""
    client = await stage.client(await stage.open(), form=form)
    first = await client.half(GROUP, "orders", b"one", unique="U1")
    second = await client.half(GROUP, "orders", b"two", unique="U2")
    client.end(GROUP, first, ROLLBACK, "checkLocalTransactionState Exception: \x1b[2J\nno stock é")
    client.end(GROUP, second, COMMIT)
    await stage.until(lambda: len(stage.it.decided()) == 2, "two decisions")
    reasons = {e.identity[1]: e.reason for e in stage.it.twin.ops() if isinstance(e, DecisionRead)}
    assert reasons == {"U1": "checkLocalTransactionState Exception: [2J no stock é", "U2": None}


async def test_a_one_way_end_is_stored_before_the_door_has_stopped_though_its_client_is_gone(
    stage: Any, client: RemotingClient
) -> None:
    sent = await client.half(GROUP, "orders", b"one", unique="U1")
    client.end(GROUP, sent, COMMIT)
    door = stage.doors[0]
    await stage.until(
        lambda: door.snapshot().in_flight_count or stage.it.decided(), "the end to arrive"
    )
    await client.__aexit__(None, None, None)
    await door.stop(drain_s=5)
    assert len(stage.it.decided()) == 1


async def test_any_connection_may_end_and_a_repeated_end_is_answered_alike(
    stage: Any, client: RemotingClient
) -> None:
    sent = await client.half(GROUP, "orders", b"one", unique="U1")
    other = await stage.client(stage.doors[0])
    for _ in range(2):
        assert (await other.end_sync(GROUP, sent, COMMIT)).code == 0
        stage.it.carry_out()
    assert [record.value() for record in stage.stored()] == [b"one"]


async def test_a_retried_half_message_is_forwarded_once(stage: Any, client: RemotingClient) -> None:
    sent = [await client.half(GROUP, "orders", b"one", unique="U1") for _ in range(2)]
    assert (await client.end_sync(GROUP, sent[1], COMMIT)).code == 0
    stage.it.carry_out()
    assert [record.value() for record in stage.stored()] == [b"one"]


async def test_the_first_decision_stands_and_the_contrary_one_is_told_so(
    stage: Any, client: RemotingClient
) -> None:
    sent = await client.half(GROUP, "orders", b"one", unique="U1")
    assert (await client.end_sync(GROUP, sent, ROLLBACK)).code == 0
    stage.it.carry_out()
    answer = await client.end_sync(GROUP, sent, COMMIT)
    assert answer.code == codes.ILLEGAL_OPERATION
    assert "contrary_decision" in (answer.remark or "")
    assert stage.stored() == []
    again = await client.half(GROUP, "orders", b"one", unique="U1")
    assert again.code == codes.ILLEGAL_OPERATION
    assert again.fields == {}


async def test_an_end_by_another_group_right_behind_the_message_is_refused(
    stage: Any, client: RemotingClient
) -> None:
    sent = await client.half(GROUP, "orders", b"one", unique="U1")
    stage.it.look_up_answer = TransactionGone("there is no such transaction")
    assert (await client.end_sync("another", sent, COMMIT)).code == codes.SYSTEM_ERROR
    stage.it.carry_out()
    assert stage.stored() == []


async def test_a_message_without_an_id_of_its_own_gets_one(
    stage: Any, client: RemotingClient
) -> None:
    sent = await client.half(GROUP, "orders", b"one")
    assert sent.fields["transactionId"] == "made-1"
    assert (await client.end_sync(GROUP, sent, COMMIT)).code == 0
    stage.it.carry_out()
    assert [record.value() for record in stage.stored()] == [b"one"]


async def test_an_unknown_end_is_answered_and_decides_nothing(
    stage: Any, client: RemotingClient
) -> None:
    sent = await client.half(GROUP, "orders", b"one", unique="U1")
    assert (await client.end_sync(GROUP, sent, UNKNOWN)).code == 0
    client.end(GROUP, sent, UNKNOWN)
    assert (await client.heartbeat(GROUP)).code == 0
    assert stage.it.decided() == []
    assert stage.desk.settled == []


async def test_the_unknown_of_a_check_settles_it_and_a_decision_is_marked_as_its_answer(
    stage: Any, client: RemotingClient
) -> None:
    sent = await client.half(GROUP, "orders", b"one", unique="U1")
    answer = await client.end_sync(GROUP, sent, UNKNOWN, fromTransactionCheck="true")
    assert answer.code == 0
    assert stage.desk.settled == [((GROUP, "U1"), CheckOutcome.UNKNOWN)]
    assert stage.desk.reasons == [None]
    assert (await client.end_sync(GROUP, sent, COMMIT, fromTransactionCheck="true")).code == 0
    assert stage.it.told[-1] == ((GROUP, "U1"), C, ResolutionSource.CHECK)


async def test_what_a_check_has_thrown_is_the_reason_of_its_unknown(
    stage: Any, client: RemotingClient
) -> None:
    sent = await client.half(GROUP, "orders", b"one", unique="U1")
    thrown = "checkLocalTransactionState Exception: java.lang.IllegalState,\nno database"
    client.end(GROUP, sent, UNKNOWN, thrown, fromTransactionCheck="true")
    await stage.until(lambda: stage.desk.settled, "the answer")
    kept = "checkLocalTransactionState Exception: java.lang.IllegalState, no database"
    assert stage.desk.reasons == [kept]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"tranStateTableOffset": "7"}, "tranStateTableOffset 7"),
        ({"commitLogOffset": "-1"}, "commitLogOffset -1"),
        ({"commitLogOffset": str(99 << 48)}, "is not what the message of transaction 'U1'"),
        ({"transactionId": "", "msgId": ""}, "which transaction"),
        ({"commitOrRollback": "9"}, "commitOrRollback is 9"),
        ({"producerGroup": ""}, "producerGroup is missing"),
    ],
)
async def test_an_end_that_contradicts_itself_is_refused_with_the_reason(
    stage: Any, client: RemotingClient, wrong: dict[str, str], words: str
) -> None:
    sent = await client.half(GROUP, "orders", b"one", unique="U1")
    answer = await client.end_sync(GROUP, sent, COMMIT, **wrong)
    assert answer.code != 0
    assert words in (answer.remark or "")
    assert stage.it.decided() == []


async def test_an_end_by_another_group_finds_nothing(stage: Any, client: RemotingClient) -> None:
    sent = await client.half(GROUP, "orders", b"one", unique="U1")
    stage.it.carry_out()
    answer = await client.end_sync("others", sent, COMMIT)
    assert answer.code == codes.SYSTEM_ERROR
    stage.it.carry_out()
    assert stage.stored() == []


async def test_a_one_way_end_that_fails_is_counted_and_told_in_the_log(
    stage: Any, client: RemotingClient, caplog: pytest.LogCaptureFixture
) -> None:
    sent = await client.half(GROUP, "orders", b"one", unique="U1")
    stage.kafka.faults.appends = [AppendFault.LOST, AppendFault.LOST]
    client.end(GROUP, sent, COMMIT)
    door = stage.doors[0]
    await stage.until(
        lambda: door.snapshot().failed_one_way_ends == {"outcome_unknown": 1}, "the count"
    )
    await stage.until(lambda: "one-way ends" in caplog.text, "the line in the log")
    assert door.snapshot().requests["end_transaction", codes.SYSTEM_ERROR] == 1


# -- what is in a message ------------------------------------------------------------------------


async def test_a_compressed_body_is_stored_as_the_application_gave_it(
    stage: Any, client: RemotingClient
) -> None:
    body = b"0123456789" * 700
    sent = await client.half(
        GROUP, "orders", zlib.compress(body), unique="U1", f=str(4 | 1 | 0x300)
    )
    assert sent.code == 0
    assert stage.it.halves()[0][0].value() == body


async def test_a_body_that_inflates_beyond_the_limit_is_refused(stage: Any) -> None:
    client = await stage.client(await stage.open(limits={"body_bytes_max": 5_000}))
    bomb = zlib.compress(bytes(10_000_000))
    assert len(bomb) < 20_000
    sent = await client.half(GROUP, "orders", bomb, unique="U1", f=str(4 | 1 | 0x300))
    assert sent.code == codes.MESSAGE_ILLEGAL
    assert "5000 bytes" in (sent.remark or "")
    assert stage.it.halves() == []


async def test_immunity_flag_and_a_free_queue_are_kept(stage: Any, client: RemotingClient) -> None:
    properties = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "30"}
    sent = await client.half(GROUP, "orders", b"x", properties, unique="U1", h="7", e="-1")
    assert (sent.code, sent.fields["queueId"]) == (0, "0")
    ((record, half),) = stage.it.halves()
    assert (half.immunity_s, half.target_partition) == (30, None)
    assert record.headers()[-1] == ("ROCKETMQ_FLAG", b"7")


@pytest.mark.parametrize("value", ["", "x", "-1", "1.5", "99999999999", "²"])
async def test_an_immunity_that_is_no_number_counts_as_none(
    stage: Any, client: RemotingClient, value: str
) -> None:
    properties = {"CHECK_IMMUNITY_TIME_IN_SECONDS": value} if value else {}
    assert (await client.half(GROUP, "orders", b"x", properties, unique="U1")).code == 0
    assert stage.it.halves()[0][1].immunity_s is None


@pytest.mark.parametrize("name", ["DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
@pytest.mark.parametrize("transactional", [True, False])
async def test_a_delay_is_refused_because_kafka_has_none(
    stage: Any, client: RemotingClient, name: str, *, transactional: bool
) -> None:
    sent = await client.put(GROUP, "orders", b"x", {name: "3"}, transactional=transactional)
    assert sent.code == codes.MESSAGE_ILLEGAL
    assert name in (sent.remark or "")
    assert stage.it.halves() == [] == stage.stored()


async def test_the_bit_alone_makes_a_message_transactional_too(
    stage: Any, client: RemotingClient
) -> None:
    sent = await client.put(GROUP, "orders", b"x", unique="U1", f="4")
    assert sent.code == 0
    assert len(stage.it.halves()) == 1
    refused = await client.put(GROUP, "orders", b"x", unique="U2", f="8")
    assert refused.code == codes.MESSAGE_ILLEGAL
    assert stage.stored() == []


@pytest.mark.parametrize(
    ("topic", "options", "code", "words"),
    [
        ("nowhere", {}, codes.TOPIC_NOT_EXIST, "create it first"),
        ("RMQ_SYS_TRANS_HALF_TOPIC", {}, codes.NO_PERMISSION, "internal"),
        ("bad topic", {}, codes.NO_PERMISSION, "not a topic name"),
        ("orders", {"e": "9"}, codes.INVALID_PARAMETER, "partitions 0 to 2"),
        ("orders", {"a": ""}, codes.INVALID_PARAMETER, "is missing"),
        ("orders", {"e": "x"}, codes.INVALID_PARAMETER, "no whole number"),
        ("orders", {"i": "HALFHITCH_X\x01y\x02TRAN_MSG\x01true"}, codes.MESSAGE_ILLEGAL, "HALFH"),
    ],
)
@pytest.mark.parametrize("transactional", [True, False])
async def test_what_cannot_be_taken_is_refused_with_a_code_and_a_reason(
    stage: Any,
    client: RemotingClient,
    topic: str,
    options: dict[str, str],
    code: int,
    words: str,
    *,
    transactional: bool,
) -> None:
    sent = await client.put(GROUP, topic, b"x", transactional=transactional, **options)
    assert (sent.code, sent.fields) == (code, {})
    assert words in (sent.remark or "")
    assert stage.it.halves() == [] == stage.stored()


async def test_a_message_that_is_too_large_is_refused(stage: Any, client: RemotingClient) -> None:
    sent = await client.half(GROUP, "orders", bytes(10_001), unique="U1")
    assert sent.code == codes.MESSAGE_ILLEGAL
    assert "10000" in (sent.remark or "")


# -- plain messages ------------------------------------------------------------------------------


async def test_a_plain_message_is_visible_at_once_at_the_offset_that_is_told(
    stage: Any, client: RemotingClient
) -> None:
    answers = [
        await client.put(GROUP, "orders", b"m%d" % n, {"KEYS": "k"}, unique=f"U{n}", e="1")
        for n in range(2)
    ]
    assert [a.fields["queueOffset"] for a in answers] == ["0", "1"]
    assert {a.fields["queueId"] for a in answers} == {"1"}
    records = stage.stored()
    assert [(r.partition, r.key(), r.value()) for r in records] == [
        (1, b"k", b"m0"),
        (1, b"k", b"m1"),
    ]
    assert records[0].headers() == [("KEYS", b"k"), ("UNIQ_KEY", b"U0")]
    assert stage.it.halves() == []


async def test_a_one_way_plain_message_is_stored_and_not_answered(
    stage: Any, client: RemotingClient
) -> None:
    fields = {"a": GROUP, "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0",
              "g": "1", "h": "0", "i": "", "j": "0"}  # fmt: skip
    client.send(codes.SEND_MESSAGE_V2, fields, b"x", flag=codes.ONE_WAY_FLAG)
    await stage.until(stage.stored, "the message")
    assert (await client.heartbeat()).opaque == 2


def batch(*messages: tuple[bytes, str]) -> bytes:
    found = b""
    for body, properties in messages:
        raw = properties.encode()
        rest = b"".join(
            [bytes(12), len(body).to_bytes(4, "big"), body, len(raw).to_bytes(2, "big"), raw]
        )
        found += (len(rest) + 4).to_bytes(4, "big") + rest
    return found


async def put_batch(client: RemotingClient, body: bytes, **fields: str) -> Sent:
    code = codes.SEND_BATCH_MESSAGE
    return await client.put(GROUP, "orders", body, code=code, m="true", **fields)


async def test_a_batch_is_stored_in_its_order(stage: Any, client: RemotingClient) -> None:
    sent = await put_batch(client, batch((b"a", "UNIQ_KEY\x01U1"), (b"b", "KEYS\x01k")), e="2")
    assert sent.code == 0, sent.remark
    assert (sent.fields["queueId"], sent.fields["queueOffset"]) == ("2", "0")
    assert len(sent.fields["msgId"].split(",")) == 2
    assert [(r.partition, r.key(), r.value()) for r in stage.stored()] == [
        (2, None, b"a"),
        (2, b"k", b"b"),
    ]


@pytest.mark.parametrize(
    ("properties", "fields"), [("TRAN_MSG\x01true", {}), ("A\x01b", {"f": "4"})]
)
async def test_a_transactional_batch_is_refused_with_the_reason(
    stage: Any, client: RemotingClient, properties: str, fields: dict[str, str]
) -> None:
    sent = await put_batch(client, batch((b"a", "A\x01b"), (b"b", properties)), **fields)
    assert sent.code == codes.MESSAGE_ILLEGAL
    assert "one by one" in (sent.remark or "")
    assert stage.stored() == [] == stage.it.halves()


async def test_of_a_batch_that_fails_in_part_it_is_told_how_much_is_stored(
    stage: Any, client: RemotingClient
) -> None:
    await put_batch(client, batch((b"0", "A\x01b")))
    stage.kafka.faults.appends = [None, AppendFault.LOST]
    sent = await put_batch(client, batch((b"a", "A\x01b"), (b"b", "A\x01b")))
    assert sent.code == codes.SYSTEM_ERROR
    assert "1 of 2 messages" in (sent.remark or "")


async def test_a_batch_that_does_not_parse_is_refused(stage: Any, client: RemotingClient) -> None:
    assert (await put_batch(client, b"\x00\x00\x00\x63abc")).code == codes.MESSAGE_ILLEGAL
    assert stage.stored() == []


# -- load ----------------------------------------------------------------------------------------


async def test_while_kafka_is_away_messages_are_refused_at_once_and_ends_are_not(
    stage: Any,
) -> None:
    stage.unready = []
    client = await stage.client(await stage.open())
    sent = await client.half(GROUP, "orders", b"one", unique="U1")
    stage.unready = ["Kafka does not answer"]
    give_up_s = asyncio.get_running_loop().time() + 10
    while (answer := await client.half(GROUP, "orders", b"two", unique="U2")).code == 0:
        assert asyncio.get_running_loop().time() < give_up_s
    assert answer.code == codes.SYSTEM_BUSY
    assert answer.remark == "[REJECTREQUEST] kafka_unavailable: Kafka does not answer"
    assert (await client.end_sync(GROUP, sent, COMMIT)).code == 0
    stage.unready = []
    back = await client.half(GROUP, "orders", b"two", unique="U2")
    assert back.code == 0, "refused until the next sweep, though Kafka was there"


async def test_beyond_the_limit_messages_get_system_busy_and_ends_pass(stage: Any) -> None:
    door = await stage.open(limits={"in_flight_count_max": 1})
    client = await stage.client(door)
    sent = await client.half(GROUP, "orders", b"one", unique="U1")
    both = await asyncio.gather(
        client.half(GROUP, "orders", b"two", unique="U2"),
        client.half(GROUP, "orders", b"three", unique="U3"),
        client.end_sync(GROUP, sent, COMMIT),
    )
    assert [answer.code for answer in both] == [0, codes.SYSTEM_BUSY, 0]
    assert (both[1].remark or "").startswith("[OVERLOAD]")
    assert door.snapshot().in_flight_count == 0
