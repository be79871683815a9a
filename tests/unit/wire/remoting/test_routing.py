"""Routes, topics and ends of queues: what is asked and how it is answered."""

from __future__ import annotations

import json

import pytest

from halfhitch.wire.remoting import codes, routing
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.frame import request


def test_a_route_names_one_master_for_all_queues() -> None:
    body = routing.route_body("orders", "broker-a", "127.0.0.1:10911", 4)
    assert body == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10911"},"brokerName":"broker-a",'
        b'"cluster":"DefaultCluster"}],"filterServerTable":{},"queueDatas":[{"brokerName":'
        b'"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )


def test_the_template_topic_may_be_inherited_from() -> None:
    (queues,) = json.loads(routing.route_body("TBW102", "b", "h:1", 8))["queueDatas"]
    assert (queues["perm"], queues["writeQueueNums"]) == (7, 8)


def test_a_route_is_asked_for_by_topic() -> None:
    assert routing.read_route_request(request(105, 1, {"topic": "orders"})) == "orders"
    with pytest.raises(RemotingError, match="the field topic is missing"):
        routing.read_route_request(request(105, 1))


def test_topics_and_the_cluster_are_listed() -> None:
    assert routing.topics_body(["a", "b"]) == b'{"topicList":["a","b"]}'
    assert json.loads(routing.cluster_body("hh", "h:1", cluster="c")) == {
        "brokerAddrTable": {
            "hh": {"brokerAddrs": {"0": "h:1"}, "brokerName": "hh", "cluster": "c"}
        },
        "clusterAddrTable": {"c": ["hh"]},
    }


def test_the_end_of_a_queue_is_asked_for_and_told() -> None:
    asked = request(codes.GET_MAX_OFFSET, 1, {"topic": "orders", "queueId": "3"})
    assert routing.read_max_offset_request(asked) == routing.QueuePlace("orders", 3)
    assert routing.max_offset_fields(17) == {"offset": "17"}
