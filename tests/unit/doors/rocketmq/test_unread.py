"""What a client had sent before it was gone: ends above all, which it sends and forgets.

A client that gives up on one answer closes its connection, which all its threads share. To write to
it then fails, while what the others had sent lies in the socket and has not been read.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.frame import encode, request
from halfhitch.wire.remoting.requests import Form
from harness.remoting_client import DEADLINE_S

if TYPE_CHECKING:
    from halfhitch.doors.rocketmq.connection import Connection
    from harness.remoting_client import Sent

GROUP = "g"


class Dying:
    """A client that is gone, at once and without a farewell, in the middle of everything."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)

    def send_and_die(self, data: bytes) -> None:
        """The loop does not run meanwhile: it finds both done."""
        self._socket.sendall(data)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()


def end(sent: Sent, opaque: int) -> bytes:
    fields = {
        "producerGroup": GROUP,
        "tranStateTableOffset": str(sent.state_offset),
        "commitLogOffset": str(sent.commit_log_offset),
        "commitOrRollback": "8",
        "fromTransactionCheck": "false",
        "msgId": f"U{opaque}",
        "transactionId": f"U{opaque}",
    }
    return encode(
        request(codes.END_TRANSACTION, opaque, fields, flag=codes.ONE_WAY_FLAG, form=Form.BINARY)
    )


@pytest.fixture
async def dying(stage: Any) -> tuple[Dying, Connection, list[Sent]]:
    """A client beside the one that has prepared, and the door's side of it."""
    door = await stage.open()
    client = await stage.client(door)
    sent = [await client.half(GROUP, "orders", b"x", unique=f"U{n}") for n in range(3)]
    known = set(door._load.connections)
    made = Dying(door.port)
    await stage.until(lambda: len(door._load.connections) > len(known), "the second connection")
    (connection,) = set(door._load.connections) - known
    return made, connection, sent


async def test_ends_that_lie_unread_when_writing_to_their_client_fails_are_carried_out(
    stage: Any, dying: tuple[Dying, Connection, list[Sent]]
) -> None:
    client, connection, sent = dying
    connection._write(b"an answer to something")  # is written before anything is read again
    client.send_and_die(b"".join(end(one, n) for n, one in enumerate(sent)))
    await stage.until(lambda: len(stage.it.decided()) == len(sent), "all ends")
    await stage.until(lambda: connection not in stage.doors[0]._load.connections, "its end")
    await stage.until(lambda: stage.doors[0].snapshot().in_flight_count == 0, "nothing in flight")


async def test_half_a_frame_and_garbage_at_the_end_harm_nobody(
    stage: Any, dying: tuple[Dying, Connection, list[Sent]]
) -> None:
    client, connection, sent = dying
    connection._write(b"an answer to something")
    client.send_and_die(end(sent[0], 0) + b"\xff\xff\xff\xff" + end(sent[1], 1))
    await stage.until(lambda: connection not in stage.doors[0]._load.connections, "its end")
    await stage.until(lambda: len(stage.it.decided()) == 1, "the end before the garbage")
    assert [decision[0] for decision in stage.it.decided()] == ["U0"]
    assert stage.doors[0]._load.unfinished.held_bytes == 0
