"""Over HTTP: callers in a process of their own, one kept connection each, and nothing superfluous.

Requests are put together from ready bytes and answers are read just far enough, so that the client
takes as little as it can of the processors it shares with what is measured. It relies on how the
door spells its answers; it is no HTTP client.
"""

from __future__ import annotations

import asyncio
import random
import time
from binascii import b2a_base64
from pathlib import Path
from typing import TYPE_CHECKING, cast

from bench import stamps
from bench.children import BenchmarkError, Order, arguments, obey, run

if TYPE_CHECKING:
    from collections.abc import Callable

_LENGTH = b"Content-Length: "
_HANDLE = b"Half-Handle: "
_JSON_HANDLE = b'"handle":"'
_HEAD_END = b"\r\n\r\n"
_JSON_HEAD = (
    b"POST /v1/transactions HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)
_JSON_BODY = b'{"producer_group":"bench",%b"messages":[{"topic":"%b",%b"value_base64":"%b"}]}'


class Cell:
    """What all callers of one closed loop share."""

    def __init__(self, order: Order, topic: str) -> None:
        self.number = order["cell"]
        self.tally = stamps.Tally()
        self.stop_s = time.monotonic() + order["seconds"]
        self.open_count = order["concurrency"]
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.query = b"?wait=visible" if order["wait"] else b""
        #: How many are prepared and left undecided; 0: each is committed, until the time is up.
        self.leave_count = order.get("leave_count", 0)
        #: A local transaction takes some time between these; none: it is over at once.
        self.local_s = [ms / 1_000 for ms in order.get("local_ms", ())]
        self.body_bytes = order.get("body_bytes", stamps.BODY_BYTES)
        self.topic = topic.encode()
        self.half = (
            b"POST /v1/topics/%b/half HTTP/1.1\r\nHost: localhost\r\n"
            b"Half-Producer-Group: bench\r\nContent-Length: %d\r\n" % (self.topic, self.body_bytes)
        )
        #: As JSON, with the value in base64; else raw.
        self.is_json = order.get("json", False)
        self.handle_sign, self.handle_end = (
            (_JSON_HANDLE, b'"') if self.is_json else (_HANDLE, b"\r")
        )
        self.name_of: Callable[[], bytes] | None = None
        if order.get("named"):
            name_bits = random.Random(-1 - self.number).getrandbits
            name = (
                b'"transaction_id":"%032x",' if self.is_json else b"Half-Transaction-Id: %032x\r\n"
            )
            self.name_of = lambda: name % name_bits(128)
        self.key_of: Callable[[], bytes] | None = None
        if order["keyed"]:
            key_bits = random.Random(self.number).getrandbits
            key = b'"key":"%016x",' if self.is_json else b"Half-Key: %016x\r\n"
            self.key_of = lambda: key % key_bits(64)

    def prepare(self, number: int) -> bytes:
        """The request that begins this transaction."""
        key = self.key_of() if self.key_of is not None else b""
        name = self.name_of() if self.name_of is not None else b""
        body = stamps.body(self.number, number, self.body_bytes)
        if not self.is_json:
            return b"".join([self.half, name, key, b"\r\n", body])
        body = _JSON_BODY % (name, self.topic, key, b2a_base64(body, newline=False))
        return _JSON_HEAD % len(body) + body

    def fail(self, error: Exception) -> None:
        """End the loop: one wrong answer makes all figures worthless."""
        if not self.finished.done():
            self.finished.set_exception(error)

    def one_finished(self) -> None:
        """One caller has ended its last transaction."""
        self.open_count -= 1
        if self.open_count == 0 and not self.finished.done():
            self.finished.set_result(None)


class Caller(asyncio.Protocol):
    """One connection: prepare, commit, and again, until the time is up."""

    __slots__ = ("_began_s", "_cell", "_is_commit", "_number", "_rest", "_transport")

    def __init__(self) -> None:
        self._rest = b""
        self._is_commit = False
        self._cell: Cell | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are not of that class

    def connection_lost(self, exc: Exception | None) -> None:
        if self._cell is not None:
            self._cell.fail(BenchmarkError(f"the door has closed a connection: {exc}"))

    def close(self) -> None:
        """The loop has ended."""
        self._cell = None
        self._transport.close()

    def prepare(self, cell: Cell) -> None:
        """Begin a transaction."""
        self._cell = cell
        self._is_commit = False
        self._number = number = cell.tally.begin()
        request = cell.prepare(number)
        self._began_s = time.monotonic()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data, self._rest = self._rest + data, b""
        head_end = data.find(_HEAD_END)
        length_at = data.find(_LENGTH) + len(_LENGTH)
        if head_end < 0 or len(data) < head_end + 4 + int(
            data[length_at : data.index(b"\r", length_at)]
        ):
            self._rest = data
            return
        cell = self._cell
        if cell is not None and not cell.finished.done():
            self._answered(cell, data)

    def _answered(self, cell: Cell, data: bytes) -> None:
        now_s = time.monotonic()
        elapsed_s, self._began_s = now_s - self._began_s, now_s
        if not self._is_commit:
            if not data.startswith(b"HTTP/1.1 201 "):
                cell.fail(BenchmarkError(f"a prepare was answered with {data!r}"))
                return
            cell.tally.prepared(self._number, elapsed_s)
            if cell.leave_count:
                self._go_on(cell, is_over=len(cell.tally.prepare_s) >= cell.leave_count)
                return
            handle_at = data.index(cell.handle_sign) + len(cell.handle_sign)
            handle = data[handle_at : data.index(cell.handle_end, handle_at)]
            self._is_commit = True
            if cell.local_s:
                pause_s = random.uniform(*cell.local_s)
                asyncio.get_running_loop().call_later(pause_s, self._commit, cell, handle)
            else:
                self._commit(cell, handle)
            return
        if not data.startswith(b"HTTP/1.1 200 "):
            cell.fail(BenchmarkError(f"a commit was answered with {data!r}"))
            return
        cell.tally.committed(self._number, elapsed_s, now_s)
        self._go_on(cell, is_over=now_s >= cell.stop_s)

    def _commit(self, cell: Cell, handle: bytes) -> None:
        self._began_s = time.monotonic()
        self._transport.write(
            b"POST /v1/transactions/%b/commit%b HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: 0\r\n\r\n" % (handle, cell.query)
        )

    def _go_on(self, cell: Cell, *, is_over: bool) -> None:
        if is_over:
            cell.one_finished()
        else:
            self.prepare(cell)


async def load(address: str, topic: str, order: Order) -> Order:
    """One closed loop over fresh connections."""
    callers = [await _connect(address) for _ in range(order["concurrency"])]
    started_s = time.monotonic()
    cell = Cell(order, topic)
    try:
        for caller in callers:
            caller.prepare(cell)
        await cell.finished
    finally:
        for caller in callers:
            caller.close()
    count = cell.tally.save(Path(order["stamps"]))
    return {"started_s": started_s, "ended_s": time.monotonic(), "count": count}


async def _connect(address: str) -> Caller:
    loop = asyncio.get_running_loop()
    kind, _, place = address.partition(":")
    if kind == "unix":
        _, caller = await loop.create_unix_connection(Caller, place)
    else:
        host, _, port = place.partition(":")
        _, caller = await loop.create_connection(Caller, host, int(port))
    return caller


async def main() -> None:
    """Load the door as ordered."""
    topic = arguments()["topic"]

    async def carry_out(order: Order) -> Order:
        return await load(order["address"], topic, order) if "cell" in order else {}

    await obey(carry_out)


if __name__ == "__main__":
    run(main)
