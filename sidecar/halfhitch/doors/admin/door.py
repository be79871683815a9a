"""The admin door: what is served on it, to whom, and how much strangers may take from it.

Owns `AdminDoor`. It stands on the data door's reader, guard and limits; what is its own is that
nobody may keep a probe out. For a platform that restarts what does not answer, who can do that can
stop the sidecar. So the oldest of those who hold a connection open makes room for a newcomer, first
of those who have not shown a token, and more requests are never worked on than leave room for that.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from halfhitch.access import Access
from halfhitch.doors.admin.changes import CHANGED, CHANGES, Changes
from halfhitch.doors.admin.console import CONSOLE, console_handlers
from halfhitch.doors.admin.operations import OPERATED, operating_handlers
from halfhitch.doors.admin.places import Places
from halfhitch.doors.admin.routes import SCRAPED, SHOWN, Instruments, Scrapes, shown_handlers
from halfhitch.doors.admin.stories import STORIES, TOLD, Stories, telling_handlers
from halfhitch.doors.http.dispatch import Dispatcher
from halfhitch.doors.http.guard import Guard, hosts_allowed
from halfhitch.doors.http.limits import Limits
from halfhitch.doors.http.listening import Listening
from halfhitch.doors.http.load import Load
from halfhitch.doors.http.router import Router
from halfhitch.doors.tls import ServerTls
from halfhitch.errors import ConfigurationError
from halfhitch.service.api import Operations, System

_NOT_FOUND: Final = (
    "There is no such route; there are /console for a browser, /livez, /readyz, /metrics, "
    "/v1/status, /v1/partitions, /v1/producers, /v1/config, /v1/me, "
    "/v1/changes, /v1/openapi.yaml (this list in full), /v1/transactions, /v1/stories, /v1/names "
    "and /v1/parked, POST /v1/transactions/{group}/{id}/commit, /rollback and /check, POST "
    "/v1/many/commit, /rollback and /check, GET /v1/parked/{group}/{id} and POST "
    "/v1/parked/{group}/{id}/resume. Percent-encode group and id."
)
_THIS_DOOR: Final = (
    "This is the admin door: applications go to the data door (http.port, 8340 unless set)."
)
#: Scrapers and probes keep a few connections; more is somebody who means no good. Requests at work
#: are half as many, and a few scrapes: other connections can always be closed for a newcomer.
ADMIN_LIMITS: Final = Limits(
    body_bytes_max=16 * 1024,
    header_bytes_max=16 * 1024,
    connection_count_max=128,
    connection_peer_count_max=128,  # not looked at: the oldest makes room, whosever it is
    connection_identity_count_max=128,  # nor this
    stream_count_max=1,  # there are none
    stream_group_count_max=1,
    stream_identity_count_max=1,
    in_flight_count_max=64,
    receive_s=10.0,
    idle_s=30.0,
    unended_s=1.0,  # nothing is prepared here
    linger_bytes_max=1024 * 1024,
)
#: Besides other requests at work.
_SCRAPE_COUNT_MAX: Final = 16
#: Searches for stories: the sidecar takes as many, and works on two at a time, for up to 20 s each.
#: So a newcomer waits behind few of one identity.
_STORY_COUNT_MAX: Final = 32
_STORY_SHARE_MAX: Final = 6
#: Consoles that wait for a change, which costs little; half of them are one identity's at most.
_WAITING_COUNT_MAX: Final = 32
#: So few are taken in one round of the loop that a newcomer among them is heard before it is the
#: oldest itself.
_BACKLOG: Final = 64
_STOP_S: Final = 2.0


class AdminDoor:
    """HTTP for probes, scrapers and the command line."""

    def __init__(
        self,
        system: System,
        metrics: Instruments,
        settings_view: Sequence[Mapping[str, object]],
        host: str,
        port: int,
        *,
        access: Access,
        allowed_hosts: Sequence[str] = (),
        death_reasons: Callable[[], list[str]] = list,
        operations: Operations | None = None,
        stories: Stories | None = None,
        limits: Limits = ADMIN_LIMITS,
        tls: ServerTls | None = None,
    ) -> None:
        """Nothing listens before `start`. `access` knows who may do what.

        Without `operations` there are no routes for operators, without `stories` none for those.
        """
        self._host = host.strip("[]")  # of an IPv6 address as it stands in a URL
        self._port = port
        self._scrapes = Scrapes(metrics)
        handlers = shown_handlers(
            system=system,
            scrapes=self._scrapes,
            settings_view=settings_view,
            death_reasons=death_reasons,
            has_identities=access.has_identities,
        )
        handlers |= console_handlers()
        self._changes = Changes(system)
        handlers |= self._changes.handlers()
        routes = SHOWN + CONSOLE + CHANGED
        if operations is not None:
            handlers |= operating_handlers(operations)
            routes += OPERATED
        if stories is not None:
            handlers |= telling_handlers(stories)
            routes += TOLD
        self._limits = limits
        self._tls = tls
        self._router = Router(routes, not_found=_NOT_FOUND, this_door=_THIS_DOOR)
        others, scrapes = Places(limits.in_flight_count_max), Places(_SCRAPE_COUNT_MAX)
        if STORIES in handlers:
            told = Places(_STORY_COUNT_MAX, _STORY_SHARE_MAX)
            handlers[STORIES] = told.bounded(handlers[STORIES])
        handlers[CHANGES] = Places(_WAITING_COUNT_MAX).bounded(handlers[CHANGES])
        probes = {route.name for route in routes if route.is_open}
        self._handlers = {
            name: handler
            if name in probes or name == CHANGES
            else (scrapes if name == SCRAPED else others).bounded(handler)
            for name, handler in handlers.items()
        }
        # Scrapers can send a bearer token, while few can send a header of our own. The console is a
        # page of this door.
        self._guard = Guard(
            access=access,
            door="admin",
            hosts=hosts_allowed(host, allowed_hosts),
            takes_bearer=True,
            has_pages=True,
        )
        self._listening: Listening | None = None

    @property
    def port(self) -> int:
        """The port that is listened on; with 0 asked for, known after `start`."""
        return self._port

    async def start(self) -> None:
        """Listen. Raises ConfigurationError when the address cannot be bound."""
        listener = self._bind()
        self._port = listener.getsockname()[1]
        load = Load()
        dispatcher = Dispatcher(
            router=self._router,
            handler_of=self._handlers.__getitem__,
            guard=self._guard,
            load=load,
            limits=self._limits,
        )
        self._listening = Listening(
            limits=self._limits, load=load, backlog=_BACKLOG, makes_room=True, tls=self._tls
        )
        self._listening.start()
        await self._listening.on_socket(dispatcher, listener)

    async def stop(self) -> None:
        """Answer what is under way, then close."""
        self._changes.stop()
        if self._listening is not None:
            await self._listening.stop(_STOP_S)
            self._listening = None
        self._scrapes.stop()

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
            listener.listen(_BACKLOG)  # only now the port is ours
        except OSError as error:
            listener.close()
            raise self._cannot_bind(error) from error
        listener.setblocking(False)
        return listener

    def _cannot_bind(self, error: OSError) -> ConfigurationError:
        return ConfigurationError(
            f"The admin door cannot listen on {self._address()}: {error.strerror or error}. "
            "Choose another admin.port (0: any that is free), or stop what uses it."
        )
