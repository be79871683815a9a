"""One connection through the Kafka proxy: frames, the rules that hold and delay them, the pumps.

Everything here runs in the proxy's event loop. What is counted and which rules there are is the
proxy's (`proxy.py`) business; a link asks it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaos.kit.proxy import KafkaProxy

_QUEUE_FRAMES_MAX = 256
#: After the last held frame is on its way: how long its answer is waited for.
_LAST_ANSWER_S = 15.0
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER without a time: close() sends RST


class Direction(Enum):
    """Seen from the client."""

    REQUEST = "request"
    RESPONSE = "response"


class ApiKey(IntEnum):
    """Kafka's numbers of the requests that tests ask for."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


@dataclass(frozen=True, slots=True)
class Frame:
    """One request or response; `payload` is everything behind the four bytes of length."""

    direction: Direction
    api_key: int  # -1: the response to nothing that was asked
    api_version: int
    correlation_id: int
    connection: int
    payload: bytes


FrameTest = Callable[[Frame], bool]


@dataclass(eq=False)
class HoldRule:
    api_key: int
    direction: Direction
    left: int
    reset_client: bool
    where: FrameTest | None
    caught: list[Frame] = field(default_factory=list)
    answers: list[Frame] = field(default_factory=list)
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    is_dropped: bool = False

    def catches(self, frame: Frame) -> bool:
        return (
            self.left > 0
            and not self.settled.is_set()
            and frame.api_key == self.api_key
            and frame.direction is self.direction
            and (self.where is None or self.where(frame))
        )

    def __str__(self) -> str:
        return f"the hold of {self.direction.value} {self.api_key}"


@dataclass(eq=False)
class DelayRule:
    delay_s: float
    direction: Direction | None
    api_key: int | None

    def concerns(self, frame: Frame) -> bool:
        return self.direction in (None, frame.direction) and self.api_key in (None, frame.api_key)


_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Link:
    """One connection of a client and the one to the broker that belongs to it.

    Four tasks: for each direction one that reads frames into a queue and one that takes them out,
    so that a delay is a delay and not a smaller throughput.
    """

    def __init__(
        self, proxy: KafkaProxy, number: int, client: _Streams, upstream: _Streams
    ) -> None:
        self._proxy = proxy
        self._number = number
        self._client_reader, self._client = client
        self._broker_reader, self._broker = upstream
        #: correlation id -> (API key, version, the rule that held it)
        self._asked: dict[int, tuple[int, int, HoldRule | None]] = {}
        self._all_answered = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.client_is_gone = False
        self._has_held = False
        self.ended = asyncio.Event()

    async def run(self) -> None:
        """Until both sides are done."""
        requests: asyncio.Queue[tuple[float, Frame] | None] = asyncio.Queue(_QUEUE_FRAMES_MAX)
        responses: asyncio.Queue[tuple[float, Frame] | None] = asyncio.Queue(_QUEUE_FRAMES_MAX)
        self._tasks = [
            asyncio.create_task(self._read(self._client_reader, Direction.REQUEST, requests)),
            asyncio.create_task(self._read(self._broker_reader, Direction.RESPONSE, responses)),
        ]
        to_broker = asyncio.create_task(self._write(requests))
        to_client = asyncio.create_task(self._write(responses))
        self._tasks += [to_broker, to_client]
        try:
            done, _ = await asyncio.wait(
                (to_broker, to_client), return_when=asyncio.FIRST_COMPLETED
            )
            if to_broker in done and to_client not in done and self._has_held:
                # What was held is with the broker now: see what it says, whoever listens.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LAST_ANSWER_S):
                        await self._all_answered.wait()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._broker.transport.abort()
            if self.client_is_gone:
                self._client.transport.abort()
            else:
                self._client.close()
            self.ended.set()

    def end(self) -> None:
        """Stop, whatever is on the way."""
        for task in self._tasks:
            task.cancel()

    def reset_client(self) -> bool:
        """RST to the client; a broker's connection that carries a held request stays."""
        if self.client_is_gone:
            return False
        self.client_is_gone = True
        self._proxy.count_one("resets")
        reset(self._client)
        return True

    async def _read(
        self,
        reader: asyncio.StreamReader,
        direction: Direction,
        queue: asyncio.Queue[tuple[float, Frame] | None],
    ) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4))
                payload = await reader.readexactly(size)
                frame = self._frame(direction, payload)
                self._proxy.saw(frame)
                await queue.put((loop.time() + self._proxy.delay_of(frame), frame))
        except (OSError, asyncio.IncompleteReadError):
            pass  # this side has ended; what it said before is still on its way
        if direction is Direction.REQUEST:
            self.client_is_gone = True
        await queue.put(None)

    def _frame(self, direction: Direction, payload: bytes) -> Frame:
        if direction is Direction.REQUEST:
            api_key, version, correlation_id = struct.unpack_from(">hhi", payload)
            self._asked[correlation_id] = (api_key, version, None)
            self._all_answered.clear()
        else:
            correlation_id = int.from_bytes(payload[:4], signed=True)
            api_key, version, rule = self._asked.pop(correlation_id, (-1, -1, None))
        frame = Frame(direction, api_key, version, correlation_id, self._number, payload)
        if direction is Direction.RESPONSE:
            if rule is not None:
                self._proxy.answered(rule, frame)
            if not self._asked:
                self._all_answered.set()
        return frame

    async def _write(self, queue: asyncio.Queue[tuple[float, Frame] | None]) -> None:
        loop = asyncio.get_running_loop()
        while (item := await queue.get()) is not None:
            due_s, frame = item
            if due_s > loop.time():
                await asyncio.sleep(due_s - loop.time())
            rule = self._proxy.catching(frame)
            if rule is not None and not await self._held(rule, frame):
                return
            await self._proxy.until_flowing(frame.direction)
            if not await self._pass_on(frame):
                return

    async def _held(self, rule: HoldRule, frame: Frame) -> bool:
        """Wait for the release; False: the frame was dropped."""
        if frame.direction is Direction.REQUEST:
            self._has_held = True
            self._asked[frame.correlation_id] = (frame.api_key, frame.api_version, rule)
        if rule.reset_client:
            self.reset_client()
        await rule.settled.wait()
        if rule.is_dropped:
            self._proxy.count_one("dropped")
            self._has_held = False
        return not rule.is_dropped

    async def _pass_on(self, frame: Frame) -> bool:
        is_request = frame.direction is Direction.REQUEST
        writer = self._broker if is_request else self._client
        data = len(frame.payload).to_bytes(4) + frame.payload
        if not is_request and self.client_is_gone:
            return True  # nobody is there to read it
        allowed = self._proxy.allowance(len(data)) if is_request else None
        try:
            writer.write(data if allowed is None else data[:allowed])
            await writer.drain()
        except OSError:
            return False
        if allowed is not None:
            self._proxy.cut_in_loop()
            return False
        self._proxy.passed(frame)
        return True


def reset(writer: asyncio.StreamWriter) -> None:
    plain: socket.socket | None = writer.get_extra_info("socket")
    if plain is not None and plain.fileno() >= 0:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
