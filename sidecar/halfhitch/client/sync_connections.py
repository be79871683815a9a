"""Blocking connections to the sidecar, kept and shared between threads.

One request at a time on a connection; a connection is kept only after a complete answer that leaves
nothing behind, so a later request can never meet an earlier one's answer. After a fork the child
closes its copies: parent and child must never speak on one socket.
"""

import os
import socket
import weakref
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, cast

from halfhitch.client.address import Address
from halfhitch.client.errors import ProducerClosed
from halfhitch.client.protocol import ProtocolError, Response, ResponseParser
from halfhitch.client.retries import (
    NO_ANSWER,
    TransportFailure,
    TryLimits,
    no_connection,
    words_of,
)
from halfhitch.client.turns import LOOK_S, Bell, Line, UnderWay

if TYPE_CHECKING:
    from ssl import SSLSocket

_RECEIVE_BYTES = 16 * 1024
#: A connection idle for longer is looked at before it is used again: the sidecar may have closed
#: it. One that dies unseen is noticed by its silence and costs one more try.
_TRUSTED_IDLE_S = 0.5


class Connection:
    """One socket."""

    __slots__ = ("__weakref__", "_clock", "_socket", "_trust", "is_used", "used_at_s")

    def __init__(self, address: Address, ends_at_s: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.is_used = False  # has carried an answer
        self.used_at_s = 0.0
        self._trust = address.trust
        try:
            self._socket = connect(address, _left_s(ends_at_s, clock))
        except OSError as error:
            raise no_connection(error, address.trust) from error

    def exchange(self, request: bytes, ends_at_s: float) -> Response:
        """Raises TransportFailure; then, as after any exception, the connection must be closed."""
        parser = ResponseParser()
        try:
            self._socket.settimeout(_left_s(ends_at_s, self._clock))
            try:
                self._socket.sendall(request)
            except (BrokenPipeError, ConnectionResetError):
                # Refused before it was all sent (too large, say): the reason may be here already.
                response = self._receive(parser, ends_at_s)._replace(reusable=False)
            else:
                response = self._receive(parser, ends_at_s)
        except TimeoutError as error:
            raise TransportFailure(NO_ANSWER, sent=True) from error
        except (OSError, ProtocolError) as error:
            if self._trust is not None and self._trust.trouble_with(error) is not None:
                raise no_connection(cast("OSError", error), self._trust) from error
            stale = self.is_used and not parser.started
            stranger = not self.is_used and not parser.is_http
            raise TransportFailure(
                words_of(error), sent=True, stale=stale, stranger=stranger
            ) from error
        self.is_used = True
        self.used_at_s = self._clock()
        return response

    def _receive(self, parser: ResponseParser, ends_at_s: float) -> Response:
        while True:
            self._socket.settimeout(_left_s(ends_at_s, self._clock))
            data = self._socket.recv(_RECEIVE_BYTES)
            if not data:
                return parser.end()
            response = parser.feed(data)
            if response is not None:
                return response

    def is_quiet(self) -> bool:
        """Open, with nothing to read: fit for another request."""
        if self._clock() - self.used_at_s < _TRUSTED_IDLE_S:
            return True
        if self._trust is not None:
            return self._trust.is_quiet(cast("SSLSocket", self._socket))
        try:
            self._socket.setblocking(False)
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False  # closed, or something nobody asked for

    def close(self) -> None:
        """May be called twice."""
        self._socket.close()


class ConnectionPool:
    """At most `connections_max` connections; a thread that finds none free waits."""

    def __init__(self, address: Address, connections_max: int, clock: Callable[[], float]) -> None:
        self._address = address
        self._connections_max = connections_max
        self._clock = clock
        self._closed = False
        #: An answer has come: it is no stranger who listens there.
        self.has_answered = False
        self._reset()
        _pools.add(self)

    def _reset(self) -> None:
        self._line: Line[Bell] = Line(self._connections_max)
        self._calls = UnderWay()
        #: Of threads that are in `close`.
        self._call_ended: list[Bell] = []
        # Append and pop are atomic: no lock of our own.
        self._idle: list[Connection] = []  # last in, first out: the rest can grow old
        #: Weak: one that a signal's handler took out of somebody's hands ends with its socket. (A
        #: `__del__` of its own could be what the handler interrupts, and swallow the exception.)
        self._all: weakref.WeakSet[Connection] = weakref.WeakSet()

    def call(self) -> "Lock":
        """A call with all its tries, for a `with` alone; `call_ended` behind it."""
        return self._calls.begun()

    def call_ended(self) -> None:
        """Perhaps the one that `close` has waited for."""
        for bell in list(self._call_ended):
            bell.ring()

    def exchange(self, request: bytes, limits: TryLimits) -> Response:
        """Raises TransportFailure. Works after `close()` too: a call that runs may be finished."""
        line = self._line
        try:
            with self._place(line, limits.ends_at_s):
                return self._exchange(request, limits)
        finally:
            for bell in line.to_ring():
                bell.ring()

    def _place(self, line: Line[Bell], ends_at_s: float) -> "Lock":
        """For a `with` alone: see `turns`. Raises TransportFailure."""
        bell = Bell()
        place = line.join(bell)
        try:
            while not line.admits(bell):
                left_s = ends_at_s - self._clock()
                if left_s <= 0:
                    raise TransportFailure(
                        f"all {self._connections_max} connections of this producer are in use",
                        sent=False,
                        busy=True,
                    )
                bell.wait(min(left_s, LOOK_S))
            return place
        except BaseException:
            del place  # the exception's traceback has this frame, and who keeps it would keep that
            raise

    def _exchange(self, request: bytes, limits: TryLimits) -> Response:
        ends_at_s = limits.try_ends_at_s(self._clock())  # waiting is no part of the try
        connection = self._take() or self._open(ends_at_s)
        try:
            response = connection.exchange(request, ends_at_s)
        except BaseException as error:
            self._drop(connection)
            if isinstance(error, TransportFailure) and error.stale:
                self._drop_idle()  # a restart closes them all: do not try them one by one
            raise
        self.has_answered = True
        if response.reusable:
            self._idle.append(connection)
            if self._closed:  # by another thread, perhaps before the append
                self._drop_idle()
        else:
            self._drop(connection)
        return response

    def check_open(self) -> None:
        """Raises ProducerClosed."""
        if self._closed:
            raise ProducerClosed

    def refuse(self) -> None:
        """New calls; what runs goes on."""
        self._closed = True
        self._drop_idle()

    def close(self) -> None:
        """Idle connections now, the others when their answer has come; wait until it has.

        And until the calls are over that wait for a connection, or for another try: nothing is sent
        behind this.
        """
        self.refuse()
        while not self._calls.is_over_elsewhere:
            bell = Bell()
            self._call_ended = [*self._call_ended, bell]
            if not self._calls.is_over_elsewhere:
                bell.wait(LOOK_S)
            self._call_ended = [one for one in self._call_ended if one is not bell]

    def _take(self) -> Connection | None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.is_quiet():
                return connection
            self._drop(connection)

    def _open(self, ends_at_s: float) -> Connection:
        connection = Connection(self._address, ends_at_s, self._clock)
        self._all.add(connection)
        return connection

    def _drop(self, connection: Connection) -> None:
        self._all.discard(connection)
        connection.close()

    def _drop_idle(self) -> None:
        while True:
            try:
                self._drop(self._idle.pop())
            except IndexError:
                return

    def forget_after_fork(self) -> None:
        """In the child: close the copies (the parent's stay open) and begin with none."""
        for connection in list(self._all):
            connection.close()
        self._reset()

    def __del__(self) -> None:
        for connection in getattr(self, "_idle", ()):  # a forgotten close() leaks no descriptor
            connection.close()


_pools: "weakref.WeakSet[ConnectionPool]" = weakref.WeakSet()


def _forget_all() -> None:
    for pool in list(_pools):
        pool.forget_after_fork()


os.register_at_fork(after_in_child=_forget_all)


def connect(address: Address, within_s: float) -> socket.socket:
    """Raises OSError."""
    if address.path is None:
        connected = socket.create_connection((address.host, address.port), within_s)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected if address.trust is None else address.trust.encrypted(connected)
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.settimeout(within_s)
        connected.connect(address.path)
    except BaseException:
        connected.close()
        raise
    return connected


def _left_s(ends_at_s: float, clock: Callable[[], float]) -> float:
    """Never zero, which would mean "do not block", nor less."""
    return max(ends_at_s - clock(), 0.001)
