"""Posting checks: connections kept and bounded, one deadline for everything.

Owns the connections to one target. A request goes out on a connection that is idle, or on a new one
to an address that has been checked; there are never more requests under way than the caller lets
in, so there are never more connections. Redirects are not followed, and proxies and cookies are not
known here: the target is called, or nobody.
"""

import asyncio
import ssl
from typing import Final

from halfhitch.adapters.callback.connection import CallbackFailed, Connection, Reply
from halfhitch.adapters.callback.resolving import NotAllowed, Resolve, Resolver, system_resolve
from halfhitch.adapters.callback.target import Target
from halfhitch.service.checking.api import CheckOutcome

#: A whole response, its head included.
REPLY_BYTES_MAX: Final = 64 * 1024
_IDLE_COUNT_MAX: Final = 64
#: Less than the time most servers keep an idle connection: it is we who should close.
_IDLE_S: Final = 4.0
#: Parts of the time for an answer. At its end the desk takes a check for delivered and silent; that
#: it was not delivered has to be known before.
_WHOLE_PART: Final = 0.9
_UNACKNOWLEDGED_PART: Final = 0.6


class CallbackClient:
    """Posts to one target. Used on the event loop only."""

    def __init__(
        self,
        target: Target,
        *,
        token: str | None,
        answer_s: float,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve = system_resolve,
    ) -> None:
        self._target = target
        self._whole_s = answer_s * _WHOLE_PART
        self._unacknowledged_s = answer_s * _UNACKNOWLEDGED_PART
        self._resolver = Resolver(target, resolve)
        self._tls = (tls or ssl.create_default_context()) if target.is_tls else None
        self._idle: list[tuple[Connection, asyncio.TimerHandle]] = []
        self._busy: set[Connection] = set()
        self._is_closed = False
        head = (
            f"POST {target.path} HTTP/1.1\r\nHost: {target.host_header}\r\n"
            "User-Agent: halfhitch\r\nAccept: application/json\r\n"
            "Content-Type: application/json\r\n"
        )
        if token is not None:
            head += f"Half-Token: {token}\r\n"
        self._head = head.encode("ascii")

    async def post(self, body: bytes) -> Reply:
        """One request, in time. Raises CallbackFailed."""
        request = b"%bContent-Length: %d\r\n\r\n%b" % (self._head, len(body), body)
        attempt = _Attempt()
        try:
            async with asyncio.timeout(self._whole_s):
                return await self._post(request, attempt)
        except TimeoutError:
            raise attempt.gave_up() from None
        finally:
            if attempt.connection is not None:
                self._give_back(attempt.connection)

    async def _post(self, request: bytes, attempt: "_Attempt") -> Reply:
        kept = self._take_idle()
        if kept is not None:
            attempt.connection = kept
            try:
                return await kept.ask(request)
            except CallbackFailed as failure:
                if failure.outcome is not CheckOutcome.LOST:
                    raise
            # The server has closed it just when we used it, most likely. A check is a question:
            # to ask it twice does no harm. But from now on it may have been delivered.
            attempt.is_perhaps_delivered = True
            self._give_back(kept)
            attempt.connection = None
        try:
            attempt.connection = connection = await self._connect()
        except CallbackFailed as failure:
            if attempt.is_perhaps_delivered:
                failure.outcome = CheckOutcome.LOST
            raise
        return await connection.ask(request)

    def close(self) -> None:
        """Close everything; requests under way fail."""
        self._is_closed = True
        for connection, timer in self._idle:
            timer.cancel()
            connection.close()
        self._idle.clear()
        for connection in list(self._busy):
            connection.close()

    # Connections.

    async def _connect(self) -> Connection:
        """Raises CallbackFailed(UNDELIVERED)."""
        try:
            addresses = await self._resolver.addresses()
        except NotAllowed as error:
            raise CallbackFailed(CheckOutcome.UNDELIVERED, str(error)) from None
        except (OSError, UnicodeError) as error:
            reason = f"looking up {self._target.host} failed: {error}"
            raise CallbackFailed(CheckOutcome.UNDELIVERED, reason) from None
        trouble = ""
        for left_count, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                # An address that does not answer must leave time for the next one.
                async with asyncio.timeout(self._whole_s / (left_count + 1)):
                    return await self._connect_to(address)
            except TimeoutError:
                trouble = "no connection in time"
            except (OSError, ssl.CertificateError) as error:
                trouble = str(error) or type(error).__name__
        raise CallbackFailed(CheckOutcome.UNDELIVERED, f"connecting failed: {trouble}")

    async def _connect_to(self, address: str) -> Connection:
        target = self._target
        _, connection = await asyncio.get_running_loop().create_connection(
            self._new_connection,
            address,
            target.port,
            ssl=self._tls,
            server_hostname=target.host if self._tls is not None else None,
        )
        if self._is_closed or not connection.is_open:
            connection.close()
            raise OSError("the connection was closed at once")
        self._busy.add(connection)
        return connection

    def _new_connection(self) -> Connection:
        return Connection(
            reply_bytes_max=REPLY_BYTES_MAX,
            unacknowledged_s=self._unacknowledged_s,
        )

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection, timer = self._idle.pop()
            timer.cancel()
            if connection.is_open:
                self._busy.add(connection)
                return connection
        return None

    def _give_back(self, connection: Connection) -> None:
        self._busy.discard(connection)
        may_stay = connection.is_reusable and connection.is_open and not self._is_closed
        if not may_stay or len(self._idle) >= _IDLE_COUNT_MAX:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        self._idle.append((connection, loop.call_later(_IDLE_S, self._expire, connection)))

    def _expire(self, connection: Connection) -> None:
        self._idle = [kept for kept in self._idle if kept[0] is not connection]
        connection.close()


class _Attempt:
    """How far a request has got, for when the time is over."""

    __slots__ = ("connection", "is_perhaps_delivered")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.is_perhaps_delivered = False

    def gave_up(self) -> CallbackFailed:
        if self.connection is not None:
            return self.connection.gave_up()
        if self.is_perhaps_delivered:
            return CallbackFailed(CheckOutcome.LOST, "the connection broke, and no other in time")
        return CallbackFailed(CheckOutcome.UNDELIVERED, "no connection in time")
