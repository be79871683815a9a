"""Producers as the check desk sees them: registered, asked, gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.core.model import ProducerGroup, TransactionId
from halfhitch.wire.check import Check, CheckMessage
from halfhitch.wire.handle import Handle
from halfhitch.wire.remoting import codes

if TYPE_CHECKING:
    from harness.remoting_client import RemotingClient


def a_check(
    stage: Any, *messages: CheckMessage, group: str = "g", offsets: tuple[int, ...] = (7,)
) -> Check:
    handle = stage.it.handles.encode(Handle(1, group, "U1", (7,)))
    identity = ProducerGroup(group), TransactionId("U1")
    return Check(1, identity, 3, 15, handle, 6_000, "i", messages, half_offsets=offsets)


def a_message(**changes: Any) -> CheckMessage:
    headers = [("TAGS", b"a"), ("KEYS", b"k"), ("color", "ü".encode()), ("ROCKETMQ_FLAG", b"7")]
    return CheckMessage(**{
        "topic": "orders", "key": b"k", "value": b"body", "headers": headers, "partition": 2,
        **changes,
    })  # fmt: skip


async def test_a_heartbeat_registers_each_group_once_and_a_farewell_one_of_them(
    stage: Any, client: RemotingClient
) -> None:
    for _ in range(2):
        assert (await client.heartbeat("a", "b")).code == 0
    assert [link.producer_group for link in stage.desk.links] == ["a", "b"]
    assert stage.doors[0].snapshot().producer_count == 2
    for _ in range(2):
        assert (await client.unregister("a")).code == 0
    assert [link.producer_group for link in stage.desk.links] == ["b"]
    assert (stage.desk.connected_count, stage.desk.disconnected_count) == (2, 1)


async def test_the_first_half_message_registers_its_group(
    stage: Any, client: RemotingClient
) -> None:
    await client.put("plain", "orders", b"x")
    await client.half("g", "orders", b"x", unique="U1")
    await client.half("g", "orders", b"x", unique="U2")
    assert [link.producer_group for link in stage.desk.links] == ["g"]


#: Too long, too long in UTF-8, and what would break lines or terminals.
BAD_NAMES = ["g" * 256, "ü" * 128, "a\r\nb", "a\x1b[2J", "a\x7f", "a\x9b", "a\u202e", "a\u2028"]


@pytest.mark.parametrize("bad", BAD_NAMES, ids=range(len(BAD_NAMES)))
async def test_a_group_whose_name_no_prepare_may_have_is_not_registered(
    stage: Any, client: RemotingClient, bad: str
) -> None:
    """A few clients filled the sidecar and Redis with names of 60 KB each."""
    for answer in (await client.heartbeat("a", bad, "b"), await client.unregister(bad)):
        assert answer.code == codes.MESSAGE_ILLEGAL
        assert "the producer group must be 1 to 255 bytes" in (answer.remark or "")
    # Those beside it are asked all the same.
    assert [link.producer_group for link in stage.desk.links] == ["a", "b"]
    assert (await client.half(bad, "orders", b"x", unique="U1")).code == codes.MESSAGE_ILLEGAL
    assert stage.desk.connected_count == 2


async def test_a_namespace_counts_into_the_length_of_a_group(
    stage: Any, client: RemotingClient
) -> None:
    fields = {"ns": "n" * 127, "nsd": "true"}
    assert (await client.heartbeat("g" * 127, **fields)).code == 0
    assert (await client.heartbeat("g" * 128, **fields)).code == codes.MESSAGE_ILLEGAL
    assert [len(link.producer_group) for link in stage.desk.links] == [255]


async def test_a_connection_that_is_lost_takes_its_producers_along(
    stage: Any, client: RemotingClient
) -> None:
    await client.heartbeat("a", "b")
    client._writer.transport.abort()
    await stage.until(lambda: not stage.desk.links, "both to be gone")
    await stage.until(lambda: stage.doors[0].snapshot().connection_count == 0, "the connection")
    assert stage.doors[0].snapshot().producer_count == 0


@pytest.mark.parametrize("offsets", [(7,), ()])
async def test_a_check_brings_the_message_as_it_was_sent(
    stage: Any, client: RemotingClient, offsets: tuple[int, ...]
) -> None:
    await client.heartbeat("g")
    (link,) = stage.desk.links
    assert link.offer(a_check(stage, a_message(), offsets=offsets))
    question, message = await client.next_check()
    seal = stage.it.handles.seals.make(1, 7, "g", "U1")
    assert (question.state_offset, question.commit_log_offset) == (seal, 1 << 48 | 7)
    assert (question.message_id, question.transaction_id) == ("U1", "U1")
    assert (question.topic, question.broker_name) == ("orders", "halfhitch")
    assert (message.topic, message.queue_id, message.body, message.flag) == (
        "orders",
        2,
        b"body",
        7,
    )
    assert (message.sys_flag, message.queue_offset) == (0, seal)
    assert message.commit_log_offset == question.commit_log_offset
    assert message.properties == {
        "TAGS": "a",
        "KEYS": "k",
        "color": "ü",
        "TRAN_MSG": "true",
        "PGROUP": "g",
        "UNIQ_KEY": "U1",
        "__transactionId__": "U1",
        "REAL_TOPIC": "orders",
        "REAL_QID": "2",
        "TRANSACTION_CHECK_TIMES": "3",
    }
    assert message.born_ms == stage.it.twin.clock.wall_ms() - 6_000
    assert message.store_host == ("127.0.0.1", client.port)


async def test_the_answer_to_a_check_decides(stage: Any, client: RemotingClient) -> None:
    sent = await client.half("g", "orders", b"x", unique="U1")
    (link,) = stage.desk.links
    partition = sent.commit_log_offset >> 48
    check = a_check(stage, a_message(), offsets=(sent.commit_log_offset & 0xFFFF,))
    check.partition = partition
    assert link.offer(check)
    question, _ = await client.next_check()
    client.end("g", question, 8)
    await stage.until(stage.it.decided, "the decision")
    stage.it.carry_out()
    assert [record.value() for record in stage.stored()] == [b"x"]


async def test_what_no_remoting_client_could_read_is_left_to_other_links(
    stage: Any, client: RemotingClient, caplog: pytest.LogCaptureFixture
) -> None:
    await client.heartbeat("g")
    (link,) = stage.desk.links
    assert not link.offer(a_check(stage, a_message(), a_message()))
    assert not link.offer(a_check(stage, a_message(headers=[("big", b"x" * 40_000)])))
    assert "cannot be put to RocketMQ producer" in caplog.text
    assert link.at_once > 0
    assert link.name.startswith("127.0.0.1:")


async def test_a_message_of_another_door_is_shown_as_well_as_properties_can(
    stage: Any, client: RemotingClient
) -> None:
    await client.heartbeat("g")
    headers = [("null", None), ("", b"x"), ("sep\x01", b"x"), ("v", b"a\x02b"), ("raw", b"\xff")]
    message = a_message(key=b"\xffk", value=None, headers=headers, partition=None)
    assert stage.desk.links[0].offer(a_check(stage, message))
    _, shown = await client.next_check()
    assert shown.body == b""
    assert {name: shown.properties[name] for name in ("raw", "KEYS", "REAL_QID")} == {
        "raw": "\ufffd",
        "KEYS": "\ufffdk",
        "REAL_QID": "0",
    }
    assert not {"null", "", "sep\x01", "v"} & set(shown.properties)


@pytest.mark.parametrize("has_field", [False, True])
async def test_a_check_names_group_and_topic_as_its_client_does(
    stage: Any, client: RemotingClient, *, has_field: bool
) -> None:
    fields = {"nsd": "true", "ns": "shop"} if has_field else {}
    await client.heartbeat("g" if has_field else "shop%g", **fields)
    (link,) = stage.desk.links
    assert link.producer_group == "shop%g"
    assert link.offer(a_check(stage, a_message(topic="shop.orders"), group="shop%g"))
    _, message = await client.next_check()
    expected = ("orders", "g") if has_field else ("shop%orders", "shop%g")
    assert (message.topic, message.properties["PGROUP"]) == expected
    assert message.properties["REAL_TOPIC"] == expected[0]


async def test_a_desk_that_fails_costs_no_connection(
    stage: Any, client: RemotingClient, caplog: pytest.LogCaptureFixture
) -> None:
    stage.desk.fail_with = RuntimeError("broken")
    assert (await client.heartbeat("g")).code == 0
    assert (await client.unregister("g")).code == 0
    assert caplog.text.count("broken") == 2


async def test_without_a_desk_nobody_is_registered(stage: Any) -> None:
    stage.desk = None
    client = await stage.client(await stage.open())
    assert (await client.heartbeat("g")).code == 0
    sent = await client.half("g", "orders", b"x", unique="U1")
    assert (await client.end_sync("g", sent, 0, fromTransactionCheck="true")).code == codes.SUCCESS
