"""A native carrier that does what a test says."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence

from halfhitch.doors.rocketmq.native import (
    Decided,
    Events,
    Failed,
    Fed,
    Line,
    Progress,
    TakenBack,
    Unread,
)
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.frame import Frames, reply
from halfhitch.wire.remoting.requests import Form, Frame

PURGED = -152


class ScriptedNative:
    """native.Native. What is allowed is taken, and ends when the test says so."""

    def __init__(self, wake: tuple[int, int]) -> None:
        self._wake = wake
        self.partition_count = 0
        self.seal_keys: list[bytes] = []
        self.connected: dict[int, str] = {}
        self.allowed: set[tuple[int, str]] = set()
        self.targets: list[tuple[str, str, int]] = []
        self.forgotten = 0
        self.is_forgetful = False  # else a slow test would meet it anywhere
        self.rooms: list[int] = []
        self.under_way: list[tuple[int, Frame]] = []
        self.decided: dict[tuple[int, str, str], list[Decided]] = {}
        self.read_to: list[int] = []
        self.stops: list[float] = []
        self.is_borrowing = False
        self.lent: dict[int, socket.socket] = {}
        self.idle: list[int] = []  # connections with an unfinished frame
        self.unsent: dict[int, bytes] = {}
        self._rooms = (0, 0)
        self._begun: dict[int, int] = {}
        self._unread: list[Unread] = []
        self._due: list[int] = []
        self._held: dict[int, bytes] = {}
        self._done: dict[int, tuple[int, bytes]] = {}
        self._failures: list[Failed] = []
        self.claimed: dict[tuple[str, str], int] = {}
        self.rolled_back_ids: list[tuple[str, str]] = []
        self._seconds: tuple[list[float], ...] = ([], [], [])
        self.traced: list[tuple[float, bytes]] = []
        self.lines: list[Line] = []

    def open(self, partition_count: int, seal_keys: Sequence[bytes]) -> None:
        self.partition_count, self.seal_keys = partition_count, list(seal_keys)

    def connect(self, connection: int, id_prefix: str) -> None:
        self.connected[connection] = id_prefix

    def disconnect(self, connection: int) -> None:
        assert not [number for number, _ in self.under_way if number == connection]
        del self.connected[connection]

    def allow(
        self,
        connection: int,
        group: str,
        topic: str,
        group_name: str,
        kafka_topic: str,
        partition_count: int,
    ) -> None:
        self.allowed.add((connection, group))
        self.targets.append((group_name, kafka_topic, partition_count))

    def forget(self) -> None:
        self.forgotten += 1
        if self.is_forgetful:
            self.allowed.clear()

    def feed(self, connection: int, data: bytes, room: int) -> Fed:
        assert type(data) is bytes  # the real one takes nothing else
        self.rooms.append(room)
        data = self._held.pop(connection, b"") + data
        rest, begun_count = b"", 0
        while len(data) >= 4:
            size = 4 + int.from_bytes(data[:4], "big")
            if size > 100_000:
                return Fed(rest + data, begun_count, 0)
            if len(data) < size:
                break
            whole, data = data[:size], data[size:]
            (frame,) = Frames().feed(whole)
            group = frame.fields.get("a") or frame.fields.get("producerGroup") or ""
            is_hot = frame.code == codes.SEND_MESSAGE_V2 or (
                frame.code == codes.END_TRANSACTION
                and frame.fields.get("fromTransactionCheck") != "true"
            )
            if is_hot and begun_count < room and (connection, group) in self.allowed:
                self.under_way.append((connection, frame))
                begun_count += 1
            else:
                rest += whole
        if data:
            self._held[connection] = data
        return Fed(rest, begun_count, len(data))

    def lend(self, connection: int, number: int, rooms: tuple[int, int]) -> bool:
        if not self.is_borrowing:
            return False
        self._rooms = rooms
        own = self.lent[connection] = socket.socket(fileno=os.dup(number))
        own.setblocking(False)
        asyncio.get_running_loop().add_reader(own, self._receive, connection)
        return True

    def _receive(self, connection: int) -> None:
        data = self.lent[connection].recv(65_536)
        if not data:
            self.let_go(connection)
            return
        in_flight = sum(number == connection for number, _ in self.under_way)
        room = self._rooms[0] - in_flight
        fed = self.feed(connection, data, room)
        self._begun[connection] = self._begun.get(connection, 0) + fed.begun_count
        if fed.rest:
            self._unread.append(Unread(connection, fed.rest))
        self.idle = [connection] if fed.held_bytes else []
        self.wake()

    def give_back(self, connection: int, data: bytes) -> None:
        self._unread.append(Unread(connection, data))

    def let_go(self, connection: int) -> None:
        asyncio.get_running_loop().remove_reader(self.lent[connection])
        self._due.append(connection)
        self.wake()

    def take_back(self, connection: int) -> TakenBack:
        own = self.lent.pop(connection)
        asyncio.get_running_loop().remove_reader(own)
        own.close()
        held_bytes = len(self._held.get(connection, b""))
        unsent = self.unsent.pop(connection, b"")
        return TakenBack(unsent, self._begun.pop(connection, 0), held_bytes)

    def write(self, connection: int, content: bytes) -> None:
        self.lent[connection].sendall(content)

    def lingering(self) -> list[int]:
        return self.idle

    def events(self) -> Events:
        try:
            os.read(self._wake[0], 100)
        except BlockingIOError:
            pass
        progress = []
        for number in {**self._begun, **self._done}:
            count, content = self._done.pop(number, (0, b""))
            if content and number in self.lent:
                self.write(number, content)
                content = b""
            progress.append(Progress(number, self._begun.pop(number, 0), count, content))
        more = self.traced, self.lines, self._unread, self._due
        told = Events(progress, self._failures, *self._seconds, *more)
        self._failures, self._seconds, self.traced, self.lines = [], ([], [], []), [], []
        self._unread, self._due = [], []
        return told

    def decisions(
        self, partition: int, group: str, transaction_id: str
    ) -> Sequence[Decided] | None:
        return self.decided.get((partition, group, transaction_id))

    def forgotten(self, partition: int) -> tuple[int, int]:
        return 0, 0

    def owners_read(self, read_to: Sequence[int]) -> None:
        self.read_to = list(read_to)

    def was_rolled_back(self, partition: int, group: str, transaction_id: str) -> bool:
        found = self.decisions(partition, group, transaction_id) or ()
        return any(not one.is_commit for one in found)

    def claim(self, group: str, transaction_id: str, digest: int) -> bool:
        return self.claimed.setdefault((group, transaction_id), digest) == digest

    def rolled_back(self, identities: Sequence[tuple[str, str]]) -> None:
        self.rolled_back_ids += identities

    def stop(self, drain_s: float) -> None:
        self.stops.append(drain_s)
        self.fail(PURGED, is_telling=False)

    # What a test says.

    def finish(self) -> None:
        """All that is under way is stored."""
        for number, frame in self.under_way:
            count, content = self._done.get(number, (0, b""))
            if frame.code == codes.END_TRANSACTION:
                self._seconds[2 if frame.fields["commitOrRollback"] == "12" else 1].append(0.25)
            else:
                self._seconds[0].append(0.25)
                content += reply(frame, codes.SUCCESS, None, {"msgId": "native"})
            self._done[number] = (count + 1, content)
        self.under_way.clear()
        self.wake()

    def fail(self, error_number: int, *, is_telling: bool = True) -> None:
        """All that is under way has failed."""
        for number, frame in self.under_way:
            is_json = frame.form is Form.JSON
            self._failures.append(Failed(number, frame.code, frame.opaque, is_json, error_number))
        self.under_way.clear()
        if is_telling:
            self.wake()

    def wake(self) -> None:
        os.write(self._wake[1], b"12345678")
