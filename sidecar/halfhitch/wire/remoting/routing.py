"""What a client asks a name server (105, 206) and of a queue (30), and the answers' bodies.

One server is name server and broker at once: its route names itself.
"""

import msgspec

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.fields import int32, text
from halfhitch.wire.remoting.requests import Frame


class QueuePlace(msgspec.Struct):
    """A queue of a topic."""

    topic: str
    queue_id: int


def read_route_request(frame: Frame) -> str:
    """The topic whose route is asked for (105)."""
    return text(frame.fields, "topic")


def route_body(
    topic: str,
    broker_name: str,
    address: str,
    queue_count: int,
    *,
    cluster: str = "DefaultCluster",
) -> bytes:
    """Where a topic can be written: one broker, as master, with so many queues.

    `address` is host:port as the client shall dial it.
    """
    permission = codes.PERMISSION_READ | codes.PERMISSION_WRITE
    if topic == codes.AUTO_CREATE_TOPIC:
        permission |= codes.PERMISSION_INHERIT
    return msgspec.json.encode(
        {
            "brokerDatas": [
                {"brokerAddrs": {"0": address}, "brokerName": broker_name, "cluster": cluster}
            ],
            "filterServerTable": {},
            "queueDatas": [
                {
                    "brokerName": broker_name,
                    "perm": permission,
                    "readQueueNums": queue_count,
                    "topicSysFlag": 0,
                    "writeQueueNums": queue_count,
                }
            ],
        }
    )


def topics_body(topics: list[str]) -> bytes:
    """The answer to 206."""
    return msgspec.json.encode({"topicList": topics})


def cluster_body(broker_name: str, address: str, *, cluster: str = "DefaultCluster") -> bytes:
    """The answer to 106: one cluster with one broker."""
    broker = {"brokerAddrs": {"0": address}, "brokerName": broker_name, "cluster": cluster}
    return msgspec.json.encode(
        {
            "brokerAddrTable": {broker_name: broker},
            "clusterAddrTable": {cluster: [broker_name]},
        }
    )


def read_max_offset_request(frame: Frame) -> QueuePlace:
    """The queue whose end is asked for (30)."""
    fields = frame.fields
    return QueuePlace(text(fields, "topic"), int32(fields, "queueId"))


def max_offset_fields(end_offset: int) -> dict[str, str]:
    """The fields of the answer to 30."""
    return {"offset": str(end_offset)}
