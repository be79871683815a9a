"""The listeners of an HTTP door, the life of what comes in through them, and the sweep.

Owns `Listening`: what the data door and the admin door have in common. It hands connections to
protocol, looks after their deadlines, and drains on the way out; what is served is dispatch's.
"""

import asyncio
import socket
from collections.abc import Callable
from functools import partial

from halfhitch.doors.http.dispatch import Dispatcher
from halfhitch.doors.http.limits import Limits
from halfhitch.doors.http.load import Load
from halfhitch.doors.http.protocol import Connection, OnRequest
from halfhitch.doors.http.sockets import UnixListener
from halfhitch.errors import ConfigurationError

#: How late the sweep may be: a fraction of the shortest deadline, but not busier than that.
_SWEEP_S_MAX = 0.5
_SWEEP_S_MIN = 0.01


class Listening:
    """Runs on the loop that starts it."""

    def __init__(
        self,
        *,
        limits: Limits,
        load: Load,
        backlog: int,
        makes_room: bool = False,
        on_request: OnRequest | None = None,
    ) -> None:
        """`backlog`: waiting connections the kernel keeps. `makes_room`: see protocol."""
        self._limits = limits
        self._load = load
        self._backlog = backlog
        self._makes_room = makes_room
        self._on_request = on_request
        self._servers: list[asyncio.Server] = []
        self._unix_listener: UnixListener | None = None
        self._sweeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look after connections; they come with `on_tcp` and its like."""
        if self._sweeper is not None:
            raise RuntimeError("this door has been started before")
        self._sweeper = asyncio.create_task(self._sweep(), name="http-door-sweep")

    async def on_tcp(self, dispatcher: Dispatcher, host: str, port: int) -> int:
        """Take connections; the port. Raises ConfigurationError."""
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(
                self._factory(dispatcher), host, port, backlog=self._backlog
            )
        except (OSError, OverflowError) as error:
            raise ConfigurationError(
                f"Cannot listen on {host}:{port}: {error}. Choose another address or port, or "
                "stop what uses it."
            ) from error
        self._servers.append(server)
        bound_port: int = server.sockets[0].getsockname()[1]
        return bound_port

    async def on_socket(self, dispatcher: Dispatcher, bound: socket.socket) -> None:
        """Take connections of a TCP socket that is bound already."""
        loop = asyncio.get_running_loop()
        self._servers.append(
            await loop.create_server(self._factory(dispatcher), sock=bound, backlog=self._backlog)
        )

    async def on_unix(self, dispatcher: Dispatcher, path: str) -> None:
        """Take connections of a unix socket. Raises ConfigurationError."""
        listener = UnixListener(path)
        self._unix_listener = listener
        loop = asyncio.get_running_loop()
        self._servers.append(
            await loop.create_unix_server(
                self._factory(dispatcher), sock=listener.socket, backlog=self._backlog
            )
        )

    async def stop(self, drain_s: float) -> None:
        """Take no more connections, answer what was begun, close; after `drain_s` close anyway."""
        if self._unix_listener is not None:
            self._unix_listener.remove()
            self._unix_listener = None
        for server in self._servers:
            server.close()
        try:
            await self._load.drain(drain_s, [self._sweeper])
        finally:
            for server in self._servers:
                await server.wait_closed()
            self._servers.clear()

    def _factory(self, dispatcher: Dispatcher) -> Callable[[], Connection]:
        return partial(
            Connection,
            dispatcher=dispatcher,
            limits=self._limits,
            load=self._load,
            loop=asyncio.get_running_loop(),
            on_request=self._on_request,
            makes_room=self._makes_room,
        )

    async def _sweep(self) -> None:
        limits = self._limits
        shortest_s = min(
            limits.receive_s,
            limits.idle_s,
            limits.write_stall_s,
            limits.linger_s,
            limits.linger_silence_s,
            limits.heartbeat_s,
        )
        pause_s = min(max(shortest_s / 4, _SWEEP_S_MIN), _SWEEP_S_MAX)
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(pause_s)
            now_s = loop.time()
            for connection in list(self._load.connections):
                connection.sweep(now_s)
