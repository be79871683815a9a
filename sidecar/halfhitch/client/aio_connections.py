"""asyncio connections to the sidecar, kept and shared between the tasks of one loop.

The same rules as for blocking ones: one request at a time on a connection, and a connection is kept
only after a complete answer that leaves nothing behind. An abandoned request (cancelled, too late)
takes its connection with it.
"""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from halfhitch.client.address import Address
from halfhitch.client.aio_turns import Turns
from halfhitch.client.errors import ProducerClosed
from halfhitch.client.protocol import ProtocolError, Response, ResponseParser
from halfhitch.client.retries import (
    NO_ANSWER,
    TransportFailure,
    TryLimits,
    no_connection,
    words_of,
)
from halfhitch.client.turns import LOOK_S, UnderWay

if TYPE_CHECKING:
    from threading import Lock

    from halfhitch.client.tls import Trust


class Connection(asyncio.Protocol):
    """One socket and at most one request on it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, trust: "Trust | None" = None) -> None:
        self._loop = loop
        self._trust = trust
        self._transport: asyncio.Transport | None = None
        self._parser: ResponseParser | None = None
        self._answer: asyncio.Future[Response] | None = None
        self._ends_at_s = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._has_served = False
        self.is_open = False
        self.lost: asyncio.Future[None] = loop.create_future()

    async def exchange(self, request: bytes, ends_at_s: float) -> Response:
        """Raises TransportFailure; then, as after any exception, the connection is closed."""
        transport = cast("asyncio.Transport", self._transport)
        self._parser = parser = ResponseParser()
        self._answer = answer = cast("asyncio.Future[Response]", self._loop.create_future())
        self._ends_at_s = ends_at_s
        if self._watch is None:
            self._watch = self._loop.call_at(ends_at_s, self._look_at_clock)
        else:
            self._watch_no_later_than(ends_at_s)
        transport.write(request)
        try:
            response = await answer
        except (OSError, ProtocolError) as error:
            if self._trust is not None and self._trust.trouble_with(error) is not None:
                self.abort()
                raise no_connection(cast("OSError", error), self._trust) from error
            late = isinstance(error, TimeoutError)
            stale = self._has_served and not parser.started and not late
            stranger = not self._has_served and not parser.is_http and not late
            self.abort()
            reason = NO_ANSWER if late else words_of(error)
            raise TransportFailure(reason, sent=True, stale=stale, stranger=stranger) from error
        except BaseException:
            self.abort()
            if answer.done() and not answer.cancelled():
                answer.exception()  # came together with the cancellation: seen, not needed
            raise
        finally:
            self._answer = self._parser = None
        self._has_served = True
        if not response.reusable or transport.get_write_buffer_size():
            self.abort()
        return response

    @property
    def is_used(self) -> bool:
        """A request is on it; some task waits for the answer."""
        return self.is_open and self._answer is not None

    def abort(self) -> None:
        """Close at once; nothing that is still to be sent matters."""
        self.is_open = False
        if self._loop.is_closed():
            return  # which no transport of it outlives: its socket goes with it
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._transport is not None:
            self._transport.abort()

    # One timer per connection that is moved on when it rings, not one per request: a timer that is
    # cancelled a thousand times a second stays in the loop's heap until its time has come.
    def _look_at_clock(self) -> None:
        self._watch = None
        if self._answer is None:
            return
        if self._loop.time() < self._ends_at_s:
            self._watch = self._loop.call_at(self._ends_at_s, self._look_at_clock)
        else:
            self._settle(TimeoutError())

    def _watch_no_later_than(self, ends_at_s: float) -> None:
        watch = cast("asyncio.TimerHandle", self._watch)
        if watch.when() > ends_at_s:  # a call with a shorter deadline than the one before
            watch.cancel()
            self._watch = self._loop.call_at(ends_at_s, self._look_at_clock)

    def _settle(self, result: Response | Exception) -> None:
        answer = self._answer
        if answer is None or answer.done():
            return
        if isinstance(result, Exception):
            answer.set_exception(result)
        else:
            answer.set_result(result)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._parser is None or self._answer is None or self._answer.done():
            self.abort()  # nobody asked: never to be taken for the next request's answer
            return
        try:
            response = self._parser.feed(data)
        except ProtocolError as error:
            self._settle(error)
            return
        if response is not None:
            self._settle(response)

    def eof_received(self) -> None:
        """Called by the loop, which then closes the connection."""
        self.is_open = False
        if self._parser is not None:
            try:
                self._settle(self._parser.end())
            except ProtocolError as error:
                self._settle(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop, once, at the end of every connection."""
        self.is_open = False
        if not self.lost.done():
            self.lost.set_result(None)
        self._settle(exc or ConnectionResetError("the connection was closed before the answer"))


class ConnectionPool:
    """At most `connections_max` connections; a task that finds none free waits its turn."""

    def __init__(self, address: Address, connections_max: int) -> None:
        self._address = address
        self._connections_max = connections_max
        self._line = Turns(connections_max)
        self._idle: list[Connection] = []  # last in, first out: the rest can grow old
        self._all: set[Connection] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._calls = UnderWay()
        self._call_ended = asyncio.Event()
        #: An answer has come: it is no stranger who listens there.
        self.has_answered = False

    def call(self) -> "Lock":
        """A call with all its tries, for a `with` alone; `call_ended` behind it."""
        return self._calls.begun()

    def call_ended(self) -> None:
        """Perhaps the one that `close` has waited for."""
        if self._closed:
            self._call_ended.set()

    async def exchange(self, request: bytes, limits: TryLimits) -> Response:
        """Raises TransportFailure. The limits are times of the loop.

        Works after `close()` too: a call that runs may be finished.
        """
        loop = self._own_loop()
        try:
            with await self._place(limits.ends_at_s):
                return await self._exchange(loop, request, limits)
        finally:
            self._line.pass_on()

    async def _place(self, ends_at_s: float) -> "Lock":
        """For a `with` alone. Raises TransportFailure."""
        try:
            return await self._line.taken(ends_at_s)
        except TimeoutError:
            raise TransportFailure(
                f"all {self._connections_max} connections of this producer are in use",
                sent=False,
                busy=True,
            ) from None

    async def _exchange(
        self, loop: asyncio.AbstractEventLoop, request: bytes, limits: TryLimits
    ) -> Response:
        ends_at_s = limits.try_ends_at_s(loop.time())  # waiting is no part of the try
        connection = self._take() or await self._open(loop, ends_at_s)
        try:
            response = await connection.exchange(request, ends_at_s)
        except TransportFailure as failure:
            if failure.stale:
                self._drop_idle()  # a restart closes them all: do not try them one by one
            raise
        except BaseException:
            # An exit comes out of any line of it, and `close` would wait for a connection that
            # nobody has.
            connection.abort()
            raise
        self.has_answered = True
        if connection.is_open and not self._closed:
            self._idle.append(connection)
        else:
            connection.abort()
        return response

    def check_open(self) -> None:
        """Raises ProducerClosed."""
        if self._closed:
            raise ProducerClosed

    def refuse(self) -> None:
        """New calls; what runs goes on."""
        self._closed = True

    async def close(self) -> None:
        """Idle connections now, the others when their answer has come; wait until all are gone.

        And until the calls are over that wait for a connection, or for another try: nothing is sent
        behind this.
        """
        self._closed = True
        self._drop_idle()
        if self._loop is not None and self._loop.is_closed():
            self._all.clear()  # left with calls and connections in it: none of them goes on
            return
        # Of a loop that was left with calls in it none goes on.
        while not self._calls.is_over and self._loop is asyncio.get_running_loop():
            self._call_ended.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._call_ended.wait()
        while self._all:
            # Not what `_idle` says: a handler's exception can come just behind its `pop`, and then
            # nobody has the connection. The wait for it lasted until the sidecar closed it.
            unused = {connection for connection in self._all if not connection.is_used}
            for connection in unused:
                connection.abort()
            await asyncio.wait([one.lost for one in self._all], timeout=LOOK_S)
            self._all -= unused  # though the loop may have been interrupted in telling of its end

    def _own_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise RuntimeError(
                "this producer belongs to another event loop: make one producer per loop"
            )
        return loop

    def _take(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
        return None

    async def _open(self, loop: asyncio.AbstractEventLoop, ends_at_s: float) -> Connection:
        address, trust = self._address, self._address.trust
        connection = Connection(loop, trust)
        try:
            async with asyncio.timeout_at(ends_at_s):
                if address.path is None:
                    await loop.create_connection(
                        lambda: connection,
                        address.host,
                        address.port,
                        ssl=None if trust is None else trust.context(),
                        server_hostname=None if trust is None else trust.server_name,
                    )
                else:
                    await loop.create_unix_connection(lambda: connection, address.path)
        except OSError as error:
            connection.abort()
            raise no_connection(error, trust) from error
        except BaseException:
            connection.abort()
            raise
        self._all.add(connection)
        connection.lost.add_done_callback(lambda _: self._all.discard(connection))
        return connection

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().abort()
