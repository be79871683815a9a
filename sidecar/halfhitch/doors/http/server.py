"""The HTTP data door: what is served where, and to whom.

Owns `HttpDoor`: what others start and stop.
"""

import asyncio
import os
import time
from collections.abc import Sequence

from halfhitch.access import Access
from halfhitch.config.loopback import is_loopback
from halfhitch.doors.holding import OnRefused
from halfhitch.doors.http.dispatch import Dispatcher
from halfhitch.doors.http.guard import Guard, hosts_allowed
from halfhitch.doors.http.handlers import Handlers
from halfhitch.doors.http.lending import Lending
from halfhitch.doors.http.limits import Limits
from halfhitch.doors.http.listening import Listening
from halfhitch.doors.http.load import Load
from halfhitch.doors.http.protocol import OnRequest
from halfhitch.doors.http.router import Router
from halfhitch.doors.http.stream import CheckStream, Streams
from halfhitch.doors.http.unended import Unended
from halfhitch.doors.tls import ServerTls
from halfhitch.errors import ConfigurationError
from halfhitch.service.api import Transactions
from halfhitch.service.checking.api import CheckDesk

_PORT_MAX = 65535
#: A burst of callers that start together.
_BACKLOG = 1024
#: While it stops: how often it looks whether all is ended.
_LOOK_S = 0.05
#: And when nobody will come who could end it: no connection was there for so long.
_ALONE_S = 2.0


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
        access: Access,
        allowed_hosts: Sequence[str] = (),
        limits: Limits,
        on_request: OnRequest | None = None,
        on_refused: OnRefused | None = None,
        tls: ServerTls | None = None,
        lending: Lending | None = None,
    ) -> None:
        """`host=None` is the unix socket alone; `port=0` any free port, told by `.port`.

        `access` knows who may do what.
        `allowed_hosts` are names the door answers to on TCP besides those of loopback.
        Without `checks` there are no check streams. `tls` is for TCP; a unix socket stays plain.
        `lending`: the native way; where a token is asked for it is not gone.
        Raises ConfigurationError.
        """
        if host is None and unix_path is None:
            raise ConfigurationError("The HTTP door needs a TCP host, a unix socket, or both.")
        if not 0 <= port <= _PORT_MAX:
            raise ConfigurationError(f"The HTTP port must be between 0 and 65535, not {port}.")
        self._access = access
        if host is not None and not access.asks_for_tokens and not is_loopback(host):
            raise ConfigurationError(
                f"The HTTP door would be open to other machines on {host}: set a token, or bind "
                "it to 127.0.0.1."
            )
        # An IPv6 address may stand in brackets, as in a URL; a socket takes it without.
        self._host = None if host is None else host.strip("[]")
        self._wanted_port = port
        self._unix_path = None if unix_path is None else os.fspath(unix_path)
        self._allowed_hosts = allowed_hosts
        self._limits = limits
        self._load = Load(on_refused)
        # Native threads look at no token and at no right.
        self._lending = lending = None if access.asks_for_tokens else lending
        self._listening = Listening(
            limits=self._limits,
            load=self._load,
            backlog=_BACKLOG,
            on_request=on_request,
            tls=tls,
            lending=lending,
        )
        streams = Streams(checks, limits=self._limits, load=self._load, access=access)
        self._unended = Unended(limits.unended_s, time.monotonic)
        self._handlers = Handlers(
            transactions, checks=checks, streams=streams, unended=self._unended, lending=lending
        )
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
        return self._load.in_flight_count

    async def start(self) -> None:
        """Open the door. Raises ConfigurationError; nothing stays open then."""
        self._listening.start()
        if self._lending is not None:
            self._lending.start(self._load, self._unended, self._limits.in_flight_count_max)
        try:
            if self._host is not None:
                hosts = hosts_allowed(self._host, self._allowed_hosts)
                self._port = await self._listening.on_tcp(
                    self._dispatcher(hosts), self._host, self._wanted_port
                )
            if self._unix_path is not None:
                # Whoever can reach the socket's file is allowed in, and no browser can: any Host
                # will do.
                await self._listening.on_unix(self._dispatcher(None), self._unix_path)
        except BaseException:
            await self.stop(drain_s=0)
            raise

    async def stop(self, drain_s: float = 10.0) -> None:
        """Begin nothing new, let what was prepared here be ended, close; all within `drain_s`.

        Meanwhile ends and answers to checks are taken as ever, over new connections too. Then those
        are closed that are between two requests, and what has been begun is answered.
        """
        give_up_s = time.monotonic() + drain_s
        try:
            await self._leave(give_up_s)
            await self._listening.stop(max(0.0, give_up_s - time.monotonic()))
        finally:
            if self._lending is not None:
                await self._lending.stop(max(0.0, give_up_s - time.monotonic()))
            self._port = None

    def hurry(self) -> None:
        """Wait for nobody any more: a stop that is under way ends now."""
        self._load.hurry()

    async def _leave(self, give_up_s: float) -> None:
        load = self._load
        load.is_leaving = True
        if self._lending is not None:
            self._lending.leave()
        for held in list(load.connections):
            if isinstance(held, CheckStream):
                held.start_draining()
        now_s = time.monotonic()
        give_up_s = min(give_up_s, now_s + self._limits.unended_s)
        alone_s, came_count = now_s + _ALONE_S, load.came_count
        while (self.in_flight_count or self._unended.any()) and not load.is_hurried:
            now_s = time.monotonic()
            if load.connections or load.came_count != came_count:
                alone_s, came_count = now_s + _ALONE_S, load.came_count
            if now_s > min(give_up_s, alone_s):
                return
            await asyncio.sleep(_LOOK_S)

    def _dispatcher(self, hosts: frozenset[bytes] | None) -> Dispatcher:
        return Dispatcher(
            router=Router(),
            handler_of=self._handlers.handler,
            guard=Guard(access=self._access, door="http", hosts=hosts),
            load=self._load,
            limits=self._limits,
        )
