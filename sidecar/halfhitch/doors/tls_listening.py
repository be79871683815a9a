"""TLS on a door's port: from an accepted socket to an encrypted connection, or to none.

Owns `TlsListener`, the same for every door. A new connection is looked at (not read) before a
transport is made for it: who opens with a TLS handshake gets TLS, with the certificate of that
moment, and who does not is for the door: RocketMQ's servers take both on one port, and so does
that door; the HTTP doors say that they speak TLS.

Invariants:

- What has not finished its handshake is bounded in time, in number and by address, and takes no
  place of the door's connections. Nobody is kept out by it: the oldest makes room for a newcomer.
- One that dawdles holds nobody else.
- Whatever bytes arrive, no exception reaches the event loop, and strangers cause a bounded number
  of log lines.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from halfhitch.doors.crowd import Crowd
from halfhitch.doors.tls import ServerTls
from halfhitch.observability.lines import LineBudget
from halfhitch.pem import HAS_EXPIRED, NOT_YET_VALID, WRONG_PURPOSE
from halfhitch.threads import Threads

logger = logging.getLogger(__name__)

Factory = Callable[[], asyncio.BaseProtocol]

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
#: A burst of clients that start together; each needs some milliseconds.
_HANDSHAKES_MIN: Final = 64
_HINTS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has shown no certificate, which "
    "{door}.tls_clients asks for",
    "CERTIFICATE_VERIFY_FAILED": "the client's certificate does not come from {door}.tls_client_ca",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not know the authority of {door}.tls_cert, or the "
    "chain there lacks the authorities between",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client turns the certificate in {door}.tls_cert away",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client turns the certificate in {door}.tls_cert away",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "to the client the certificate in {door}.tls_cert is out of "
    "date",
    "UNSUPPORTED_PROTOCOL": "the client speaks only what is older than {door}.tls_minimum",
    "NO_SHARED_CIPHER": "the client and this door have no cipher in common",
}

#: Of a client's certificate that comes from the right authority.
_OF_ITSELF: Final = {
    HAS_EXPIRED: "it needs a new one, or this machine's clock is wrong",
    NOT_YET_VALID: "it is used too early, or this machine's clock is wrong",
    WRONG_PURPOSE: "it needs one for clients (extendedKeyUsage clientAuth)",
}


def handshakes_max(connection_count_max: int) -> int:
    """How many handshakes a door that takes so many connections has under way at once, besides."""
    return max(_HANDSHAKES_MIN, connection_count_max // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How much those may take who have not finished their handshake."""

    #: From accepting a connection to the end of its handshake.
    wait_s: float
    #: At once. One address has half of it; beyond either bound the oldest makes room.
    count_max: int
    #: From one look at the certificate's files to the next.
    renew_s: float = 2.0


class _Opening:
    """A connection whose handshake is not over: silent at first, then at it in a task."""

    __slots__ = ("accepted", "due_s", "is_begun", "peer", "task", "timer")

    timer: asyncio.TimerHandle  # while it is silent
    task: asyncio.Task[None]  # when it is no longer

    def __init__(self, accepted: socket.socket, peer: str, due_s: float) -> None:
        self.accepted = accepted
        self.peer = peer
        self.due_s = due_s
        self.is_begun = False  # its task has had a turn, and is who closes it


class TlsListener:
    """Accepts, waits for the first byte, then makes the transport that fits."""

    def __init__(
        self,
        tls: ServerTls,
        factory: Factory,
        *,
        plain: Factory,
        patience: Patience,
    ) -> None:
        """On the running loop. `plain` makes the protocol of connections that speak no TLS."""
        self._loop = asyncio.get_running_loop()
        self._tls = tls
        self._factory = factory
        self._plain = plain
        self._patience = patience
        self._sockets: list[socket.socket] = []
        self._silent: Crowd[_Opening] = Crowd()
        self._shaking: Crowd[_Opening] = Crowd()
        # Of those that were told to make room, until their tasks have ended as well.
        self._tasks: set[asyncio.Task[None]] = set()
        self._lines = LineBudget()
        self._accept_lines = LineBudget()
        self._renewal: asyncio.Task[None] | None = None
        #: A disk that hangs keeps this one waiting, and nobody else.
        self._thread = Threads(f"look at {tls.files.door}.tls_cert", 1, calls_max=1)

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
        while (silent := self._silent.oldest()) is not None:
            self._drop(silent)
        for task in self._tasks:
            task.cancel()
        if self._renewal is not None:
            self._renewal.cancel()
        self._thread.stop()

    async def wait_closed(self) -> None:
        """Until nothing of it runs any more; after `close`."""
        ending = [*self._tasks, *([self._renewal] if self._renewal is not None else [])]
        await asyncio.gather(*ending, return_exceptions=True)

    @property
    def opening_count(self) -> int:
        """Connections whose handshake is not over."""
        return len(self._silent) + len(self._shaking)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._patience.renew_s)
            try:
                await self._thread.call(self._tls.renew)
            except Exception:  # the next look comes
                logger.exception(
                    "looking at the files of %s.tls_cert failed",
                    self._tls.files.door,
                    extra={"action": "tls_bug"},
                )

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTS_MAX):
            try:
                accepted, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._say_cannot_accept(error)
                self._loop.remove_reader(listener)
                self._loop.call_later(_PAUSE_S, self._resume, listener)
                return
            peer = str(address[0])
            self._make_room(peer)
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            due_s = self._loop.time() + self._patience.wait_s
            opening = _Opening(accepted, peer, due_s)
            opening.timer = self._loop.call_at(due_s, self._drop, opening)
            self._silent.add(opening, peer)
            self._loop.add_reader(accepted, self._speaks, opening)

    def _resume(self, listener: socket.socket) -> None:
        if listener in self._sockets:
            self._loop.add_reader(listener, self._accept, listener)

    def _make_room(self, peer: str) -> None:
        """For one more of this address."""
        count_max = self._patience.count_max
        of_peer = self._silent.count_of(peer) + self._shaking.count_of(peer)
        if of_peer * 2 >= count_max > 1:
            self._drop_first(self._silent.count_of(peer), of_peer, peer)
        elif self.opening_count >= count_max:
            self._drop_first(len(self._silent), self.opening_count, None)

    def _drop_first(self, silent_count: int, count: int, peer: str | None) -> None:
        """The oldest of those who have said nothing, as long as they are more than a few.

        A few of them stay: else whoever has just come, and is about to speak, would be the first
        to go where a crowd has begun its handshakes and does not end them.
        """
        shaking = self._shaking.oldest(peer)
        silent = self._silent.oldest(peer)
        if silent is not None and (shaking is None or silent_count * 4 > count):
            self._drop(silent)
        elif shaking is not None:
            # Its task closes it: its number could be another connection's before that.
            self._shaking.discard(shaking)
            shaking.task.cancel()

    def _speaks(self, opening: _Opening) -> None:
        """The first byte is here, or the end of what never began."""
        try:
            first = opening.accepted.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        if not first:
            self._drop(opening)
            return
        self._silent.discard(opening)
        opening.timer.cancel()
        self._loop.remove_reader(opening.accepted)
        if first == _HANDSHAKE:
            left_s = max(opening.due_s - self._loop.time(), _LEFT_S_MIN)
            work = self._encrypt(opening, left_s)
        else:
            work = self._take_plain(opening)
        opening.task = task = self._loop.create_task(work)
        self._tasks.add(task)
        self._shaking.add(opening, opening.peer)
        task.add_done_callback(partial(self._opened, opening))

    def _opened(self, opening: _Opening, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._shaking.discard(opening)
        if not opening.is_begun:
            opening.accepted.close()

    async def _encrypt(self, opening: _Opening, left_s: float) -> None:
        opening.is_begun = True
        try:
            await self._loop.connect_accepted_socket(
                self._factory,
                opening.accepted,
                ssl=self._tls.context,
                ssl_handshake_timeout=left_s,
                ssl_shutdown_timeout=_GOODBYE_S,
            )
        except (OSError, ssl.SSLError, TimeoutError) as error:
            opening.accepted.close()
            self._say_failed(opening.peer, error)

    async def _take_plain(self, opening: _Opening) -> None:
        opening.is_begun = True
        try:
            await self._loop.connect_accepted_socket(self._plain, opening.accepted)
        except OSError:
            opening.accepted.close()  # it has gone

    def _say_failed(self, peer: str, error: Exception) -> None:
        more = self._lines.take()
        if more is not None:
            door = self._tls.files.door
            hint = _hint_of(error)
            said = str(error) or "it went away in the middle; its own log may say why"
            logger.warning(
                "the TLS handshake of %s with the %s door failed: %s%s",
                peer,
                door,
                said if hint is None else hint.format(door=door),
                more,
                extra={"action": "tls_handshake_failed", "door": door},
            )

    def _say_cannot_accept(self, error: OSError) -> None:
        more = self._accept_lines.take()
        if more is not None:
            logger.warning(
                "the %s door cannot accept connections for a moment: %s%s",
                self._tls.files.door,
                error,
                more,
                extra={"action": "tls_accept_failed"},
            )

    def _drop(self, silent: _Opening) -> None:
        self._silent.discard(silent)
        silent.timer.cancel()
        self._loop.remove_reader(silent.accepted)
        silent.accepted.close()


def _hint_of(error: Exception) -> str | None:
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _OF_ITSELF:
        return f"the client's {error.verify_message}: {_OF_ITSELF[error.verify_code]}"
    return _HINTS.get(getattr(error, "reason", None) or "")
