"""A native carrier of the data door that does what a test says."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence

from halfhitch.doors.http.native import (
    Asked,
    Decided,
    Events,
    Failed,
    Line,
    Progress,
    TakenBack,
)


class ScriptedHttpNative:
    """native.Native. What comes over a lent socket is one request, and ends when a test says so;
    or it is odd, and ends the loan."""

    def __init__(self, wake: tuple[int, int]) -> None:
        self._wake = wake
        self.opened_with: tuple[int, int, bytes, bytes] = (0, 0, b"", b"")
        self.allowed: list[tuple[str, str]] = []
        self.connected: dict[int, bytes] = {}
        self.lent: dict[int, socket.socket] = {}
        self.room = 0
        self.is_borrowing = True
        self.is_odd = False
        self.came: list[bytes] = []  # requests that were taken
        self.busy: set[int] = set()
        self.failed: set[int] = set()  # and the loop has not heard of it
        self.held: dict[int, bytes] = {}
        self.unsent: dict[int, bytes] = {}
        self.idle: list[int] = []  # connections with an unfinished request
        self.opened_ids: list[tuple[str, str, int, int | None]] = []
        self.heard_ids: list[tuple[str, str]] = []
        self.closed_count = 0
        self.loop_count = 0  # requests that the loop has in flight
        self.prepared_ids: list[str] = []  # and no event has told of them
        self.decided: dict[tuple[int, str, str], list[Decided]] = {}
        self.read_to: list[int] = []
        self.stops: list[float] = []
        self.asks: list[Asked] = []  # and the loop has not heard of it
        self.waiting: dict[int, bytes] = {}  # named halves that wait for its word
        self.stored: list[int] = []
        self.traced: list[tuple[float, bytes]] = []
        self.lines: list[Line] = []
        self._progress: list[Progress] = []
        self._failures: list[Failed] = []
        self._seconds: tuple[list[float], ...] = ([], [], [], [])
        self._ids: tuple[list[str], list[str]] = ([], [])
        self._due: list[int] = []

    def open(self, partition_count: int, preferred: int, key: bytes, person: bytes) -> None:
        self.opened_with = partition_count, preferred, key, person

    def allow(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.allowed = list(pairs)

    def connect(self, connection: int, host: bytes) -> None:
        self.connected[connection] = host

    def disconnect(self, connection: int) -> None:
        assert connection not in self.busy
        del self.connected[connection]

    def lend(self, connection: int, number: int, room: int) -> bool:
        if not self.is_borrowing:
            return False
        self.room = room
        own = self.lent[connection] = socket.socket(fileno=os.dup(number))
        own.setblocking(False)
        asyncio.get_running_loop().add_reader(own, self._receive, connection)
        return True

    def _receive(self, connection: int) -> None:
        data = self.lent[connection].recv(65_536)
        if self.is_odd or not data or connection in self.busy:
            self.held[connection] = self.held.get(connection, b"") + data
            if self.is_odd or not data:
                self.let_go(connection)
            return
        self.came.append(data)
        self.busy.add(connection)

    def let_go(self, connection: int) -> None:
        asyncio.get_running_loop().remove_reader(self.lent[connection])
        self._due.append(connection)
        self.wake()

    def take_back(self, connection: int) -> TakenBack:
        own = self.lent.pop(connection)
        asyncio.get_running_loop().remove_reader(own)
        own.close()
        held, unsent = self.held.pop(connection, b""), self.unsent.pop(connection, b"")
        if connection in self.waiting:
            held = self.waiting.pop(connection) + held
            self.busy.discard(connection)
        is_busy = connection in self.busy or connection in self.failed
        self.failed.discard(connection)
        return TakenBack(unsent, held, 0, is_busy)

    def under_way(self) -> int:
        return len(self.busy)

    def admit(self, count: int, count_max: int) -> bool:
        if count + len(self.busy) >= count_max:
            return False
        self.loop_count = count + 1
        return True

    def tell(self, count: int) -> None:
        self.loop_count = count

    def lingering(self) -> list[int]:
        return self.idle

    def asked(self) -> tuple[list[Asked], bool]:
        try:
            os.read(self._wake[0], 100)
        except BlockingIOError:
            pass
        asks, self.asks = [one for one in self.asks if one[0] in self.waiting], []
        return asks, True

    def store(self, connections: Sequence[int]) -> None:
        for connection in connections:
            self.came.append(self.waiting.pop(connection))
            self.stored.append(connection)

    def events(self) -> Events:
        told = Events(
            self._progress,
            self._failures,
            *self._seconds,
            self.traced,
            *self._ids,
            self.lines,
            self._due,
        )
        self.traced = []
        self._progress, self._failures, self.lines, self._due = [], [], [], []
        self._seconds, self._ids = ([], [], [], []), ([], [])
        for failed in told.failures:
            assert failed.connection not in self.lent or failed.connection in told.due
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

    def opened(
        self,
        group: str,
        transaction_id: str,
        half_offset: int,
        age_s: float,
        immunity_s: int | None,
    ) -> None:
        assert 0 <= age_s < 60
        self.opened_ids.append((group, transaction_id, half_offset, immunity_s))

    def heard(self, identities: Sequence[tuple[str, str]]) -> None:
        self.heard_ids += identities

    def close_all(self) -> None:
        self.closed_count += 1

    def prepared(self) -> list[str]:
        told, self.prepared_ids = self.prepared_ids, []
        return told

    def stop(self, drain_s: float) -> None:
        self.stops.append(drain_s)

    # What a test says.

    def finish(self, answer: bytes, *, ended: bool = False, is_json: bool = False) -> None:
        """The one request that is under way is carried out."""
        (connection,) = self.busy
        self.busy.clear()
        self._seconds[3 if is_json else 1 if ended else 0].append(0.25)
        self._ids[1 if ended else 0].append("T1")
        if connection in self.lent:
            self.lent[connection].sendall(answer)
            answer = b""
        self._progress.append(Progress(connection, 0, 1, answer))
        self.wake()

    def ask(self, name: str, *, digest: int = 7) -> None:
        """The request that is under way is a half under this name."""
        (connection,) = self.busy
        self.waiting[connection] = self.came.pop()
        self.asks.append((connection, 1, "g", name, digest))
        self.wake()

    def fail(self, error_number: int, *, route: str = "half", is_named: bool = False) -> None:
        """It has failed, and the loop is to answer."""
        (connection,) = self.busy
        if connection in self.lent:
            self._due.append(connection)
        self._failures.append(Failed(connection, route, error_number, 1, "g", "T1", is_named))
        self.failed.add(connection)
        self.busy.discard(connection)
        self.wake()

    def wake(self) -> None:
        os.write(self._wake[1], b"12345678")
