"""The name server's part: routes, topics, and what is not served."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.wire.remoting import codes

if TYPE_CHECKING:
    from harness.remoting_client import RemotingClient


async def test_a_route_names_this_door_and_as_many_queues_as_the_topic_has_partitions(
    stage: Any, client: RemotingClient
) -> None:
    for _ in range(2):  # asked, then known
        code, route = await client.route("orders")
        assert code == 0
        assert route["brokerDatas"] == [
            {
                "brokerAddrs": {"0": f"127.0.0.1:{client.port}"},
                "brokerName": "halfhitch",
                "cluster": "DefaultCluster",
            }
        ]
        (queues,) = route["queueDatas"]
        assert (queues["writeQueueNums"], queues["readQueueNums"], queues["perm"]) == (3, 3, 6)


@pytest.mark.parametrize(
    ("advertised", "text", "ip"),
    [
        (("10.1.2.3", 12), "10.1.2.3:12", "0A010203"),
        (("10.1.2.3", None), "10.1.2.3:{port}", "0A010203"),
        (("mq.shop", 9876), "mq.shop:9876", "7F000001"),
        (("fd00::1", 9876), "[fd00::1]:9876", "FD000000000000000000000000000001"),
    ],
)
async def test_an_advertised_address_stands_in_routes_and_ids(
    stage: Any, advertised: tuple[str, int | None], text: str, ip: str
) -> None:
    client = await stage.client(await stage.open(advertised=advertised))
    _, route = await client.route("orders")
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": text.format(port=client.port)}
    sent = await client.half("g", "orders", b"x", unique="U")
    assert sent.fields["msgId"].startswith(ip)
    assert sent.commit_log_offset >> 48 in (0, 1)


@pytest.mark.parametrize(
    ("topic", "code", "words"),
    [
        ("nowhere", codes.TOPIC_NOT_EXIST, "kafka-topics.sh --create --topic nowhere"),
        ("TBW102", codes.TOPIC_NOT_EXIST, "rocketmq.create_topics"),
        ("RMQ_SYS_TRACE_TOPIC", codes.NO_PERMISSION, "internal"),
        ("%RETRY%g", codes.NO_PERMISSION, "not a topic name"),
        ("", codes.INVALID_PARAMETER, "topic is missing"),
    ],
)
async def test_a_topic_without_a_route_is_told_with_what_to_do(
    stage: Any, client: RemotingClient, topic: str, code: int, words: str
) -> None:
    found, answer = await client.route(topic)
    assert (found, words in answer["remark"]) == (code, True), answer


async def test_topics_are_made_only_when_the_setting_says_so(stage: Any) -> None:
    closed = await stage.client(await stage.open())
    fields = {"topic": "fresh", "writeQueueNums": "2", "readQueueNums": "2"}
    assert (await closed.ask(codes.UPDATE_AND_CREATE_TOPIC, fields)).code == codes.NO_PERMISSION
    opened = await stage.client(await stage.open(create_topics=True, create_partitions=5))
    assert (await opened.ask(codes.UPDATE_AND_CREATE_TOPIC, fields)).code == 0
    assert stage.kafka.partition_count("fresh") == 2
    code, route = await opened.route("asked-for")
    assert (code, route["queueDatas"][0]["writeQueueNums"]) == (0, 5)
    assert stage.kafka.partition_count("asked-for") == 5
    code, route = await opened.route("TBW102")
    assert (code, route["queueDatas"][0]["perm"]) == (0, 7)
    assert (await opened.route("RMQ_SYS_X"))[0] == codes.NO_PERMISSION


async def test_the_topic_list_has_the_allowed_topics_alone(
    stage: Any, client: RemotingClient
) -> None:
    answer = await client.ask(codes.GET_ALL_TOPIC_LIST_FROM_NAME_SERVER)
    assert json.loads(answer.body) == {"topicList": ["orders", "points"]}


async def test_the_cluster_is_one_broker(stage: Any, client: RemotingClient) -> None:
    answer = await client.ask(codes.GET_BROKER_CLUSTER_INFO)
    assert json.loads(answer.body)["clusterAddrTable"] == {"DefaultCluster": ["halfhitch"]}


async def test_the_end_of_a_queue_is_kafkas(stage: Any, client: RemotingClient) -> None:
    await client.put("g", "orders", b"x", e="1")
    answer = await client.ask(codes.GET_MAX_OFFSET, {"topic": "orders", "queueId": "1"})
    assert (answer.code, answer.fields) == (0, {"offset": "1"})
    answer = await client.ask(codes.GET_MAX_OFFSET, {"topic": "orders", "queueId": "7"})
    assert answer.code == codes.INVALID_PARAMETER
    answer = await client.ask(codes.GET_MAX_OFFSET, {"topic": "nowhere", "queueId": "0"})
    assert answer.code == codes.TOPIC_NOT_EXIST


@pytest.mark.parametrize("code", [11, 14, 38, 324, 9_999, -1])
async def test_what_is_not_served_is_said_not_to_be(
    stage: Any, client: RemotingClient, code: int
) -> None:
    answer = await client.ask(code, {"topic": "orders"})
    assert answer.code == codes.REQUEST_CODE_NOT_SUPPORTED
    assert f"request type {code} not supported" in (answer.remark or "")
    assert stage.doors[0].snapshot().requests == {("other", 3): 1}


async def test_without_kafka_a_topic_is_never_said_not_to_exist(
    stage: Any, client: RemotingClient
) -> None:
    stage.kafka.faults.is_away = True
    code, answer = await client.route("orders")
    assert code == codes.SYSTEM_BUSY, answer
    stage.kafka.faults.is_away = False


# -- namespaces ----------------------------------------------------------------------------------


@pytest.mark.parametrize("has_field", [False, True])
async def test_a_namespace_becomes_the_front_of_the_kafka_topic(
    stage: Any, client: RemotingClient, *, has_field: bool
) -> None:
    stage.kafka.create_topic("shop.orders", 2)
    topic, group = ("orders", "g") if has_field else ("shop%orders", "shop%g")
    fields = {"nsd": "true", "ns": "shop"} if has_field else {}
    code, route = await client.route(topic, **fields)
    assert (code, route["queueDatas"][0]["writeQueueNums"]) == (0, 2)
    sent = await client.half(group, topic, b"x", unique="U1", **fields)
    assert sent.code == 0, sent.remark
    half = stage.it.halves()[0][1]
    assert (half.target_topic, half.producer_group) == ("shop.orders", "shop%g")
    assert (await client.end_sync(group, sent, 8, **fields)).code == 0
    stage.it.carry_out()
    assert [record.value() for record in stage.stored("shop.orders")] == [b"x"]
    assert [link.producer_group for link in stage.desk.links] == ["shop%g"]
    await client.heartbeat(group, **fields)
    assert stage.desk.connected_count == 1
