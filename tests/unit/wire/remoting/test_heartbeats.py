"""Heartbeats and farewells: the groups behind a connection."""

from __future__ import annotations

import json

import pytest

from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.frame import request
from halfhitch.wire.remoting.heartbeats import (
    GROUP_COUNT_MAX,
    Heartbeat,
    Unregister,
    read_heartbeat,
    read_unregister,
)

#: By the Java client of 5.5, with a consumer group added.
CAPTURED = (
    b'{"clientID":"192.0.2.2@12547#35382745469715","consumerDataSet":[{"groupName":"cg",'
    b'"consumeType":"CONSUME_PASSIVELY","subscriptionDataSet":[]}],"heartbeatFingerprint":0,'
    b'"producerDataSet":[{"groupName":"please_rename_unique_group_name"},'
    b'{"groupName":"CLIENT_INNER_PRODUCER"}],"withoutSub":false}'
)


def test_a_heartbeat_names_the_groups() -> None:
    assert read_heartbeat(request(34, 1, body=CAPTURED)) == Heartbeat(
        "192.0.2.2@12547#35382745469715",
        ("please_rename_unique_group_name", "CLIENT_INNER_PRODUCER"),
        ("cg",),
        0,
    )


def test_sparse_heartbeats_are_read() -> None:
    body = (
        b'{"clientID":"c","producerDataSet":[{"groupName":"a"},{"groupName":""},{"groupName":"a"}]}'
    )
    assert read_heartbeat(request(34, 1, body=body)) == Heartbeat("c", ("a",), (), 0)
    body = b'{"clientID":"c","producerDataSet":null,"heartbeatFingerprint":-5}'
    assert read_heartbeat(request(34, 1, body=body)) == Heartbeat("c", (), (), -5)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"clientID":5}', b'{"clientID":"\xff"}', b"[" * 100_000]
)
def test_other_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(RemotingError, match="the heartbeat does not parse"):
        read_heartbeat(request(34, 1, body=body))


def test_groups_have_a_limit() -> None:
    def body(count: int) -> bytes:
        groups = [{"groupName": f"g{number}"} for number in range(count)]
        return json.dumps({"clientID": "c", "producerDataSet": groups}).encode()

    at_limit = read_heartbeat(request(34, 1, body=body(GROUP_COUNT_MAX)))
    assert len(at_limit.producer_groups) == GROUP_COUNT_MAX
    with pytest.raises(RemotingError, match="more than 1000 groups"):
        read_heartbeat(request(34, 1, body=body(GROUP_COUNT_MAX + 1)))


def test_a_farewell_names_what_leaves() -> None:
    fields = {"clientID": "c", "producerGroup": "pg"}
    assert read_unregister(request(35, 1, fields)) == Unregister("c", "pg", None)
    with pytest.raises(RemotingError, match="the field clientID is missing"):
        read_unregister(request(35, 1, {"producerGroup": "pg"}))
