"""Starting and stopping the admin door on the running event loop.

Owns the listening socket and the uvicorn server. Invariants: no signal handler is installed
(signals are the composition's business); after `stop` the port is free. It knows nothing of what is
served: see routes.py.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence

import uvicorn

from halfhitch.doors.admin.routes import Instruments, build_app
from halfhitch.doors.http.guard import Guard, checked_tokens, hosts_allowed
from halfhitch.errors import ConfigurationError
from halfhitch.service.api import Operations, System

#: Scrapers and probes keep a few connections; more is somebody who means no good.
_CONNECTIONS_MAX = 512
_IDLE_S = 30
_STOP_S = 2


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, and with an event that tells when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then tell."""
        await super().startup(sockets)
        self.is_up.set()


class AdminDoor:
    """HTTP for probes, scrapers and the command line."""

    def __init__(
        self,
        system: System,
        metrics: Instruments,
        settings_view: Sequence[Mapping[str, object]],
        host: str,
        port: int,
        tokens: Sequence[str],
        *,
        allowed_hosts: Sequence[str] = (),
        death_reasons: Callable[[], list[str]] = list,
        operations: Operations | None = None,
    ) -> None:
        """Nothing listens before `start`. Without tokens whoever reaches the port may use it."""
        self._host = host
        self._port = port
        self._app = build_app(
            system=system,
            metrics=metrics,
            settings_view=settings_view,
            guard=Guard(tokens=checked_tokens(tokens), hosts=hosts_allowed(host, allowed_hosts)),
            death_reasons=death_reasons,
            operations=operations,
        )
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port that is listened on; with 0 asked for, known after `start`."""
        return self._port

    async def start(self) -> None:
        """Listen. Raises ConfigurationError when the address cannot be bound."""
        listener = self._bind()
        self._port = listener.getsockname()[1]
        self._server = _Server(
            uvicorn.Config(
                self._app,
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                limit_concurrency=_CONNECTIONS_MAX,
                timeout_keep_alive=_IDLE_S,
                timeout_graceful_shutdown=_STOP_S,
            )
        )
        serving = asyncio.create_task(self._server.serve([listener]), name="admin-door")
        self._serving = serving
        listening = asyncio.ensure_future(self._server.is_up.wait())
        await asyncio.wait((serving, listening), return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        if serving.done():
            await self.stop()
            raise ConfigurationError(f"The admin door could not start on {self._address()}.")

    async def stop(self) -> None:
        """Answer what is under way, then close. Does nothing when not started."""
        if self._server is None or self._serving is None:
            return
        self._server.should_exit = True
        await asyncio.gather(self._serving, return_exceptions=True)
        self._server = self._serving = None

    def _address(self) -> str:
        return f"admin.host {self._host}, admin.port {self._port}"

    def _bind(self) -> socket.socket:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listener = socket.socket(family, kind, protocol)
        except OSError as error:
            raise self._cannot_bind(error) from error
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError as error:
            listener.close()
            raise self._cannot_bind(error) from error
        listener.setblocking(False)
        return listener

    def _cannot_bind(self, error: OSError) -> ConfigurationError:
        return ConfigurationError(
            f"The admin door cannot listen on {self._address()}: {error.strerror or error}. "
            "Choose another admin.port, or stop what uses it."
        )
