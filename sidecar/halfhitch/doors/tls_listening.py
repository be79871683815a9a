"""TLS on a door's port: from an accepted socket to an encrypted connection, or to none.

Owns `TlsListener`, the same for every door. A new connection is looked at (not read) before a
transport is made for it: who opens with a TLS handshake gets TLS, with the certificate of that
moment, and who does not is for the door: RocketMQ's servers take both on one port, and so does
that door; the HTTP doors say that they speak TLS.

Invariants: what has not finished its handshake is bounded in time, and counts among the door's
connections; one that dawdles holds nobody else; whatever bytes arrive, no exception reaches the
event loop, and strangers cause a bounded number of log lines.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from halfhitch.doors.holding import Holding
from halfhitch.doors.tls import ServerTls
from halfhitch.observability.lines import LineBudget

logger = logging.getLogger(__name__)

Factory = Callable[[], asyncio.BaseProtocol]
#: Ends the wait; and when, on the loop's clock.
_Timer = tuple[asyncio.TimerHandle, float]

_BACKLOG: Final = 1024
_ACCEPTS_MAX: Final = 64
#: After an error that may last, such as too many open files.
_PAUSE_S: Final = 0.5
#: For a handshake that begins in the last moment.
_LEFT_S_MIN: Final = 0.1
#: What is sent is flushed first; this is for the other side's goodbye, which few wait to say.
_GOODBYE_S: Final = 2.0
#: The type of the record in which a client says hello.
_HANDSHAKE: Final = b"\x16"
#: Beyond the door's own limit: these are told that there are too many.
_TOLD_COUNT_MAX: Final = 64
_HINTS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has shown no certificate, which "
    "{door}.tls_clients asks for",
    "CERTIFICATE_VERIFY_FAILED": "the client's certificate does not come from {door}.tls_client_ca",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not know the authority of {door}.tls_cert",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client turns the certificate in {door}.tls_cert away",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client turns the certificate in {door}.tls_cert away",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "to the client the certificate in {door}.tls_cert is out of "
    "date",
    "UNSUPPORTED_PROTOCOL": "the client speaks only what is older than {door}.tls_minimum",
    "NO_SHARED_CIPHER": "the client and this door have no cipher in common",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How much of a door those may take who have not finished their handshake."""

    #: From accepting a connection to the end of its handshake.
    wait_s: float
    #: Together with the connections that the door holds.
    count_max: int
    #: Whether the oldest of them makes room for a newcomer.
    makes_room: bool = False
    #: From one look at the certificate's files to the next.
    renew_s: float = 2.0


class TlsListener:
    """Accepts, waits for the first byte, then makes the transport that fits."""

    def __init__(
        self,
        tls: ServerTls,
        factory: Factory,
        *,
        plain: Factory,
        holding: Holding,
        patience: Patience,
    ) -> None:
        """On the running loop. `plain` makes the protocol of connections that speak no TLS."""
        self._loop = asyncio.get_running_loop()
        self._tls = tls
        self._factory = factory
        self._plain = plain
        self._holding = holding
        self._patience = patience
        self._sockets: list[socket.socket] = []
        # Both in the order of their coming.
        self._waiting: dict[socket.socket, _Timer] = {}
        self._shaking: dict[asyncio.Task[None], socket.socket] = {}
        self._lines = LineBudget()
        self._renewal: asyncio.Task[None] | None = None

    def listen(self, host: str, port: int) -> int:
        """On every address of that name; the port. Raises OSError."""
        for family, _, _, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            listener = socket.socket(family, socket.SOCK_STREAM)
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind((address[0], port, *address[2:]))
            except BaseException:
                listener.close()
                self.close()
                raise
            port = listener.getsockname()[1]
            self.listen_on(listener, _BACKLOG)
        return port

    def listen_on(self, bound: socket.socket, backlog: int) -> None:
        """On a socket that is bound already, and from now on ours."""
        self._sockets.append(bound)
        bound.listen(backlog)
        bound.setblocking(False)
        self._loop.add_reader(bound, self._accept, bound)
        if self._renewal is None:
            name = f"{self._tls.files.door}-door-certificate"
            self._renewal = self._loop.create_task(self._renew(), name=name)

    def close(self) -> None:
        """Take no more; connections whose handshake is not over are closed."""
        for listener in self._sockets:
            self._loop.remove_reader(listener)
            listener.close()
        self._sockets.clear()
        for waiting in list(self._waiting):
            self._drop(waiting)
        for task in list(self._shaking):
            task.cancel()
        if self._renewal is not None:
            self._renewal.cancel()

    async def wait_closed(self) -> None:
        """Until nothing of it runs any more; after `close`."""
        ending = [*self._shaking, *([self._renewal] if self._renewal is not None else [])]
        await asyncio.gather(*ending, return_exceptions=True)

    @property
    def opening_count(self) -> int:
        """Connections whose handshake is not over."""
        return len(self._waiting) + len(self._shaking)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._patience.renew_s)
            try:
                await asyncio.to_thread(self._tls.renew)
            except Exception:  # the next look comes
                logger.exception(
                    "looking at the files of %s.tls_cert failed",
                    self._tls.files.door,
                    extra={"action": "tls_bug"},
                )

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTS_MAX):
            try:
                accepted, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.warning(
                    "the %s door cannot accept connections for a moment: %s",
                    self._tls.files.door,
                    error,
                    extra={"action": "tls_accept_failed"},
                )
                self._loop.remove_reader(listener)
                self._loop.call_later(_PAUSE_S, self._resume, listener)
                return
            if not self._has_room():
                accepted.close()
                continue
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            due_s = self._loop.time() + self._patience.wait_s
            self._waiting[accepted] = (self._loop.call_at(due_s, self._drop, accepted), due_s)
            self._loop.add_reader(accepted, self._speaks, accepted)

    def _resume(self, listener: socket.socket) -> None:
        if listener in self._sockets:
            self._loop.add_reader(listener, self._accept, listener)

    def _has_room(self) -> bool:
        """For one more. Who has not said anything goes first, where room is made."""
        patience = self._patience
        count = self.opening_count + len(self._holding.connections)
        if count < patience.count_max + _TOLD_COUNT_MAX:
            return True
        if not patience.makes_room:
            return False
        if self._waiting:
            self._drop(next(iter(self._waiting)))
        elif self._shaking:
            oldest = next(iter(self._shaking))
            self._shaking.pop(oldest).close()  # now: others may come before it has ended
            oldest.cancel()
        return True  # if all are connections, the newcomer makes room among them

    def _speaks(self, accepted: socket.socket) -> None:
        """The first byte is here, or the end of what never began."""
        try:
            first = accepted.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        if not first:
            self._drop(accepted)
            return
        timer, due_s = self._waiting.pop(accepted)
        timer.cancel()
        self._loop.remove_reader(accepted)
        if first == _HANDSHAKE:
            left_s = max(due_s - self._loop.time(), _LEFT_S_MIN)
            opening = self._encrypt(accepted, left_s)
        else:
            opening = self._take_plain(accepted)
        task = self._loop.create_task(opening)
        self._shaking[task] = accepted
        task.add_done_callback(self._opened)

    def _opened(self, task: asyncio.Task[None]) -> None:
        accepted = self._shaking.pop(task, None)
        if task.cancelled() and accepted is not None:
            accepted.close()  # the task may have had no turn at all

    async def _encrypt(self, accepted: socket.socket, left_s: float) -> None:
        peer = _peer_of(accepted)
        try:
            await self._loop.connect_accepted_socket(
                self._factory,
                accepted,
                ssl=self._tls.context,
                ssl_handshake_timeout=left_s,
                ssl_shutdown_timeout=_GOODBYE_S,
            )
        except (OSError, ssl.SSLError, TimeoutError) as error:
            accepted.close()
            self._say_failed(peer, error)

    async def _take_plain(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._plain, accepted)
        except OSError:
            accepted.close()  # it has gone

    def _say_failed(self, peer: str, error: Exception) -> None:
        more = self._lines.take()
        if more is not None:
            door = self._tls.files.door
            hint = _HINTS.get(getattr(error, "reason", None) or "")
            said = str(error) or "it went away in the middle; its own log may say why"
            logger.warning(
                "the TLS handshake of %s with the %s door failed: %s%s",
                peer,
                door,
                said if hint is None else hint.format(door=door),
                more,
                extra={"action": "tls_handshake_failed", "door": door},
            )

    def _drop(self, accepted: socket.socket) -> None:
        self._waiting.pop(accepted)[0].cancel()
        self._loop.remove_reader(accepted)
        accepted.close()


def _peer_of(accepted: socket.socket) -> str:
    try:
        return str(accepted.getpeername()[0])
    except OSError:
        return "a client that has gone"
