"""The listeners of an HTTP door, the life of what comes in through them, and the sweep.

Owns `Listening`: what the data door and the admin door have in common. It hands connections to
protocol, looks after their deadlines, and drains on the way out; what is served is dispatch's.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from functools import partial

from halfhitch.doors.http.dispatch import Dispatcher
from halfhitch.doors.http.errors import TlsExpected
from halfhitch.doors.http.lending import Lending
from halfhitch.doors.http.limits import Limits
from halfhitch.doors.http.load import Load
from halfhitch.doors.http.protocol import Connection, OnRequest
from halfhitch.doors.http.sockets import UnixListener
from halfhitch.doors.tls import ServerTls
from halfhitch.doors.tls_listening import Patience, TlsListener, handshakes_max
from halfhitch.errors import ConfigurationError, HalfHitchError

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
        tls: ServerTls | None = None,
        lending: Lending | None = None,
    ) -> None:
        """`backlog`: waiting connections the kernel keeps. `makes_room`: see places.

        `tls` is for TCP alone: a unix socket does not leave the machine.
        """
        self._limits = limits
        self._load = load
        self._backlog = backlog
        self._makes_room = makes_room
        self._on_request = on_request
        self._tls = tls
        self._lending = lending
        self._tls_listener: TlsListener | None = None
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
            if self._tls is not None:
                return self._encrypting(self._tls, dispatcher).listen(host, port)
            server = await loop.create_server(
                self._factory(dispatcher), host, port, backlog=self._backlog
            )
        except (OSError, OverflowError) as error:
            raise ConfigurationError(
                f"The data door cannot listen on http.host {host}, http.port {port}: "
                f"{_reason(error)}. Choose another http.port (0: any that is free), or stop what "
                "uses it."
            ) from error
        self._servers.append(server)
        bound_port: int = server.sockets[0].getsockname()[1]
        return bound_port

    async def on_socket(self, dispatcher: Dispatcher, bound: socket.socket) -> None:
        """Take connections of a TCP socket that is bound already."""
        if self._tls is not None:
            self._encrypting(self._tls, dispatcher).listen_on(bound, self._backlog)
            return
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
        await self._let_in()
        for server in self._servers:
            server.close()
        if self._tls_listener is not None:
            self._tls_listener.close()
        try:
            await self._load.drain(drain_s, [self._sweeper])
        finally:
            for server in self._servers:
                await server.wait_closed()
            self._servers.clear()
            if self._tls_listener is not None:
                await self._tls_listener.wait_closed()

    async def _let_in(self) -> None:
        """Take no more sockets, and make connections of those that were taken.

        asyncio's own loop does that a turn later. A server that is closed by then takes none in,
        and nobody closes the socket before the garbage collector.
        """
        loop = asyncio.get_running_loop()
        if isinstance(loop, asyncio.SelectorEventLoop):
            for server in self._servers:
                for listener in server.sockets:
                    loop.remove_reader(listener.fileno())
            await asyncio.sleep(0)

    def _encrypting(self, tls: ServerTls, dispatcher: Dispatcher) -> TlsListener:
        limits = self._limits
        self._tls_listener = TlsListener(
            tls,
            self._factory(dispatcher),
            plain=self._factory(dispatcher, refusal=_tls_expected(tls.files.door)),
            patience=Patience(
                wait_s=limits.handshake_s, count_max=handshakes_max(limits.connection_count_max)
            ),
        )
        return self._tls_listener

    def _factory(
        self, dispatcher: Dispatcher, *, refusal: HalfHitchError | None = None
    ) -> Callable[[], Connection]:
        return partial(
            Connection,
            dispatcher=dispatcher,
            limits=self._limits,
            load=self._load,
            loop=asyncio.get_running_loop(),
            on_request=self._on_request,
            makes_room=self._makes_room,
            refusal=refusal,
            tls=self._tls,
            lending=self._lending,
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
            if self._lending is not None:
                self._lending.look()
            for connection in list(self._load.connections):
                connection.sweep(now_s)


def _tls_expected(door: str) -> HalfHitchError:
    return TlsExpected(
        "This port speaks TLS, and what came is not: call it with https:// (its certificate is "
        f"that of {door}.tls_cert)."
    )


def _reason(error: OSError | OverflowError) -> str:
    """The system's words: asyncio repeats the address in its own."""
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number is not None and number > 0 else str(error)
