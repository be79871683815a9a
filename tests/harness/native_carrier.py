"""A native carrier, and what its clients send."""

from __future__ import annotations

import os
import select
import time
from struct import Struct
from typing import TYPE_CHECKING, Any

from halfhitch.adapters.native import carrier
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.frame import encode, request
from halfhitch.wire.remoting.requests import Form
from halfhitch.wire.seal import Seals
from harness.native import native

if TYPE_CHECKING:
    from collections.abc import Callable

    from halfhitch.doors.rocketmq.native import Events, Failed

DEADLINE_S = 15.0
PREFIX = "0A00000100002694"
REPLY_START = (
    Struct(">hbh").pack(0, codes.ANSWERED_LANGUAGE, codes.ANSWERED_VERSION),
    "OTHER",
    codes.ANSWERED_VERSION,
)
TIMED_OUT, QUEUE_FULL = -192, -184
PARTITIONS = 4
SEALS = Seals([b"a key that seals"])


class Carried:
    """A carrier, by default without a Kafka, and what it has reported."""

    def __init__(
        self, *, bootstrap: str = "127.0.0.1:1", topics: tuple[str, str] = ("half", "op"),
        delivery_ms: int = 300, in_flight_bytes_max: int = 100_000_000, **more: int,
    ) -> None:  # fmt: skip
        library = carrier.library()
        assert library is not None
        self.pipe = os.pipe()
        for end in self.pipe:
            os.set_blocking(end, False)
        options = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": delivery_ms,
            "socket.timeout.ms": min(300, delivery_ms),
            "socket.connection.setup.timeout.ms": 1_000,
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        self.it: Any = native.Native(
            library,
            carrier.native_options(options),
            half_topic=topics[0],
            op_topic=topics[1],
            instance="shop-7",
            reply_start=REPLY_START,
            wake=self.pipe,
            frame_bytes_max=100_000,
            body_bytes_max=1_000,
            message_bytes_max=10_000,
            in_flight_bytes_max=in_flight_bytes_max,
        )
        self.failures: list[Failed] = []
        self.begun: dict[int, int] = {}  # that came over lent sockets
        self.unread: dict[int, bytes] = {}
        self.due: list[int] = []
        self.it.open(PARTITIONS, SEALS.keys)

    def join(self, connection: int, *, group: str = "p", topic: str = "t") -> None:
        self.it.connect(connection, PREFIX)
        self.it.allow(connection, group, topic, group, topic, 3)

    def feed(self, connection: int, data: bytes, room: int = 1_000) -> tuple[bytes, int, int]:
        fed = self.it.feed(connection, data, room)
        return fed.rest, fed.begun_count, fed.held_bytes

    def take_back(self, connection: int) -> tuple[bytes, int, int]:
        back = self.it.take_back(connection)
        return back.unsent, back.begun_count, back.held_bytes

    def catch_up(self) -> None:
        events: Events = self.it.events()
        for one in events.progress:
            assert (one.done_count, one.answers) == (0, b"")
            self.begun[one.connection] = self.begun.get(one.connection, 0) + one.begun_count
        assert [*events.prepared_s, *events.committed_s, *events.rolled_back_s] == []
        self.failures += events.failures
        for unread in events.unread:
            self.unread[unread.connection] = self.unread.get(unread.connection, b"") + unread.data
        self.due += events.due

    def until_failed(self, count: int) -> None:
        self.until(lambda: len(self.failures) >= count, f"{count} failures")

    def until(self, happened: Callable[[], object], what: str) -> None:
        give_up_s = time.monotonic() + DEADLINE_S
        while not happened():
            left_s = give_up_s - time.monotonic()
            assert left_s > 0, f"not in time: {what}; {len(self.failures)} failures"
            select.select([self.pipe[0]], [], [], left_s)
            self.catch_up()

    def close(self) -> None:
        self.it.stop(0)
        for end in self.pipe:
            os.close(end)


def half(
    opaque: int,
    unique: str,
    *,
    group: str = "p",
    topic: str = "t",
    body: bytes = b"body",
    more: str = "",
) -> bytes:
    """`more`: properties, as they are written."""
    properties = f"UNIQ_KEY\x01{unique}\x02TRAN_MSG\x01true\x02PGROUP\x01{group}\x02{more}"
    fields = {"a": group, "b": topic, "c": "TBW102", "d": "4", "e": "2", "f": "4",
              "g": "1700000000000", "h": "0", "i": properties, "j": "0", "k": "false", "l": "0",
              "m": "false"}  # fmt: skip
    return encode(request(codes.SEND_MESSAGE_V2, opaque, fields, body, form=Form.BINARY))


def end(
    opaque: int,
    unique: str,
    decided: int = 8,
    *,
    group: str = "p",
    partition: int = 1,
    seal: int | None = None,
) -> bytes:
    """Of the half with offset 17, as its answer was; or with another seal."""
    own = SEALS.make(partition, 17, group, unique)
    fields = {
        "producerGroup": group,
        "tranStateTableOffset": str(own if seal is None else seal),
        "commitLogOffset": str(partition << 48 | 17),
        "commitOrRollback": str(decided),
        "fromTransactionCheck": "false",
        "msgId": unique,
        "transactionId": unique,
    }
    return encode(
        request(codes.END_TRANSACTION, opaque, fields, flag=codes.ONE_WAY_FLAG, form=Form.BINARY)
    )
