"""The HTTP data door: listeners, their life, and the sweep.

Owns `HttpDoor`: what others start and stop. It binds, hands connections to protocol, looks after
their deadlines, and drains on the way out.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial

from halfhitch.doors.http.dispatch import Dispatcher
from halfhitch.doors.http.guard import Guard, checked_tokens, hosts_allowed, is_loopback
from halfhitch.doors.http.handlers import Handlers
from halfhitch.doors.http.limits import Limits
from halfhitch.doors.http.load import Load
from halfhitch.doors.http.protocol import Connection, OnRequest
from halfhitch.doors.http.sockets import UnixListener
from halfhitch.doors.http.stream import Streams
from halfhitch.errors import ConfigurationError
from halfhitch.service.api import Transactions
from halfhitch.service.checking.api import CheckDesk

_PORT_MAX = 65535
#: How late the sweep may be: a fraction of the shortest deadline, but not busier than that.
_SWEEP_S_MAX = 0.5
_SWEEP_S_MIN = 0.01
#: Waiting connections the kernel keeps: a burst of callers that start together.
_BACKLOG = 1024


class HttpDoor:
    """The data routes over TCP and, if wanted, a unix socket. Runs on the loop that starts it."""

    def __init__(
        self,
        transactions: Transactions,
        *,
        checks: CheckDesk | None = None,
        host: str | None = "127.0.0.1",
        port: int = 8340,
        unix_path: str | os.PathLike[str] | None = None,
        tokens: Sequence[str] = (),
        allowed_hosts: Sequence[str] = (),
        limits: Limits | None = None,
        on_request: OnRequest | None = None,
    ) -> None:
        """`host=None` is the unix socket alone; `port=0` any free port, told by `.port`.

        `allowed_hosts` are names the door answers to on TCP besides those of loopback.
        Without `checks` there are no check streams. Raises ConfigurationError.
        """
        if host is None and unix_path is None:
            raise ConfigurationError("The HTTP door needs a TCP host, a unix socket, or both.")
        if not 0 <= port <= _PORT_MAX:
            raise ConfigurationError(f"The HTTP port must be between 0 and 65535, not {port}.")
        if host is not None and not tokens and not is_loopback(host):
            raise ConfigurationError(
                f"The HTTP door would be open to other machines on {host}: set a token, or bind "
                "it to 127.0.0.1."
            )
        self._host = host
        self._wanted_port = port
        self._unix_path = None if unix_path is None else os.fspath(unix_path)
        self._tokens = checked_tokens(tokens)
        self._allowed_hosts = allowed_hosts
        self._limits = limits or Limits()
        self._on_request = on_request
        self._load = Load()
        streams = Streams(checks, limits=self._limits, load=self._load)
        self._handlers = Handlers(transactions, checks=checks, streams=streams)
        self._servers: list[asyncio.Server] = []
        self._unix_listener: UnixListener | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._port: int | None = None

    @property
    def port(self) -> int | None:
        """The TCP port while the door is open; None without TCP."""
        return self._port

    @property
    def unix_path(self) -> str | None:
        """The path of the unix socket, if there is one."""
        return self._unix_path

    @property
    def connection_count(self) -> int:
        """Connections open now."""
        return len(self._load.connections)

    @property
    def in_flight_count(self) -> int:
        """Requests being worked on now."""
        return len(self._load.tasks)

    async def start(self) -> None:
        """Open the door. Raises ConfigurationError; nothing stays open then."""
        if self._sweeper is not None:
            raise RuntimeError("this door has been started before")
        self._sweeper = asyncio.create_task(self._sweep(), name="http-door-sweep")
        try:
            if self._host is not None:
                await self._listen_on_tcp(self._host)
            if self._unix_path is not None:
                await self._listen_on_unix(self._unix_path)
        except BaseException:
            await self.stop(drain_s=0)
            raise

    async def stop(self, drain_s: float = 10.0) -> None:
        """Take no more connections, answer what was begun, close; after `drain_s` close anyway."""
        if self._unix_listener is not None:
            self._unix_listener.remove()
            self._unix_listener = None
        for server in self._servers:
            server.close()
        try:
            await self._load.drain(drain_s, [self._sweeper])
        finally:
            await self._closed()

    async def _closed(self) -> None:
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()
        self._port = None

    async def _listen_on_tcp(self, host: str) -> None:
        factory = self._factory(hosts_allowed(host, self._allowed_hosts))
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(factory, host, self._wanted_port, backlog=_BACKLOG)
        except (OSError, OverflowError) as error:
            raise ConfigurationError(
                f"Cannot listen on {host}:{self._wanted_port}: {error}. Choose another address or "
                "port, or stop what uses it."
            ) from error
        self._servers.append(server)
        self._port = server.sockets[0].getsockname()[1]

    async def _listen_on_unix(self, path: str) -> None:
        # Whoever can reach the socket's file is allowed in, and no browser can: any Host will do.
        listener = UnixListener(path)
        self._unix_listener = listener
        loop = asyncio.get_running_loop()
        self._servers.append(
            await loop.create_unix_server(
                self._factory(None), sock=listener.socket, backlog=_BACKLOG
            )
        )

    def _factory(self, hosts: frozenset[bytes] | None) -> Callable[[], Connection]:
        dispatcher = Dispatcher(
            guard=Guard(tokens=self._tokens, hosts=hosts),
            handlers=self._handlers,
            load=self._load,
            limits=self._limits,
        )
        return partial(
            Connection,
            dispatcher=dispatcher,
            limits=self._limits,
            load=self._load,
            loop=asyncio.get_running_loop(),
            on_request=self._on_request,
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
