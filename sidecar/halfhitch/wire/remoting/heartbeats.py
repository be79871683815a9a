"""Who is behind a connection: heartbeats (34) and farewells (35)."""

import msgspec

from halfhitch.wire.remoting.fields import invalid, optional_text, text
from halfhitch.wire.remoting.requests import Frame

#: A client with more groups than this is not one of RocketMQ's.
GROUP_COUNT_MAX = 1_000


class Heartbeat(msgspec.Struct):
    """The producer groups that may be asked over this connection from now on."""

    client_id: str
    producer_groups: tuple[str, ...]
    consumer_groups: tuple[str, ...]
    fingerprint: int  # not 0: the client would like the shorter heartbeats of 5.x


class Unregister(msgspec.Struct):
    """The groups of a client that is about to leave."""

    client_id: str
    producer_group: str | None
    consumer_group: str | None


class _Group(msgspec.Struct):
    groupName: str  # noqa: N815


class _Body(msgspec.Struct):
    clientID: str  # noqa: N815
    producerDataSet: list[_Group] | None = None  # noqa: N815
    consumerDataSet: list[_Group] | None = None  # noqa: N815
    heartbeatFingerprint: int = 0  # noqa: N815


_DECODER = msgspec.json.Decoder(_Body)


def read_heartbeat(frame: Frame) -> Heartbeat:
    """Request 34. RemotingError when its body does not parse."""
    try:
        body = _DECODER.decode(frame.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid(f"the heartbeat does not parse: {error}") from None
    producers = _names(body.producerDataSet)
    consumers = _names(body.consumerDataSet)
    if len(producers) + len(consumers) > GROUP_COUNT_MAX:
        raise invalid(f"a heartbeat of more than {GROUP_COUNT_MAX} groups")
    return Heartbeat(body.clientID, producers, consumers, body.heartbeatFingerprint)


def _names(groups: list[_Group] | None) -> tuple[str, ...]:
    """Without the empty ones and without doubles, in their order."""
    return tuple(dict.fromkeys([group.groupName for group in groups or () if group.groupName]))


def read_unregister(frame: Frame) -> Unregister:
    """Request 35."""
    fields = frame.fields
    return Unregister(
        text(fields, "clientID"),
        optional_text(fields, "producerGroup"),
        optional_text(fields, "consumerGroup"),
    )
