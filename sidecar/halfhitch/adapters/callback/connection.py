"""One connection to a callback's server: a request out, a bounded response in.

Owns the reading of one HTTP response at a time, and what a broken connection proves about the
request. A connection takes its next request only after the last response was complete and nothing
lay behind it; everything else closes it.

How a request fails says whether it was delivered, which is what the count of checks hangs on:

- nothing of a response came and the connection broke: LOST, it may never have arrived;
- nothing came in time, on a connection that stands: SILENT. With `unacknowledged_s` (TCP alone) the
  kernel breaks connections to machines that are gone, so that those are not taken for silent ones;
- a response began and was not brought to an end, or was too large or garbled: NO_ANSWER.
"""

import asyncio
import socket
from dataclasses import dataclass
from typing import Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from halfhitch.service.checking.api import CheckOutcome

_TCP_USER_TIMEOUT: Final = getattr(socket, "TCP_USER_TIMEOUT", None)


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete response."""

    status: int
    body: bytes


class CallbackFailed(Exception):
    """No complete response; `outcome` says what that proves."""

    def __init__(self, outcome: CheckOutcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


class Connection(asyncio.Protocol):
    """Used on the event loop only; one request at a time."""

    def __init__(self, *, reply_bytes_max: int, unacknowledged_s: float) -> None:
        self._reply_bytes_max = reply_bytes_max
        self._unacknowledged_s = unacknowledged_s
        self._transport: asyncio.Transport | None = None
        self._future: asyncio.Future[Reply] | None = None
        self._parser: HttpResponseParser | None = None
        self._received_bytes = 0
        self._status = 0
        self._body = b""
        self._ends_with_connection = False
        self._has_framing = False
        self._is_complete = False
        self._is_doubled = False
        self.is_reusable = False

    def ask(self, request: bytes) -> asyncio.Future[Reply]:
        """Send; the future has the response, or raises CallbackFailed."""
        transport = self._transport
        assert transport is not None
        assert self._future is None
        self._future = future = asyncio.get_running_loop().create_future()
        self._parser = HttpResponseParser(self)
        self._received_bytes = self._status = 0
        self._body = b""
        self._ends_with_connection = self._has_framing = False
        self._is_complete = self._is_doubled = False
        self.is_reusable = False
        transport.write(request)
        return future

    @property
    def is_open(self) -> bool:
        """Whether a request may be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def gave_up(self) -> CallbackFailed:
        """The time is over: what that means, and the end of this connection."""
        transport = self._transport
        if self._received_bytes:
            failure = CallbackFailed(CheckOutcome.NO_ANSWER, "a response that does not end")
        elif transport is None or transport.get_write_buffer_size():
            failure = CallbackFailed(CheckOutcome.LOST, "the request was not taken in time")
        else:
            failure = CallbackFailed(CheckOutcome.SILENT, "no response in time")
        self.close()
        return failure

    def close(self) -> None:
        """Close now: what is still on its way is of no use to anybody."""
        self.is_reusable = False
        if self._transport is not None:
            self._transport.abort()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are not of that class
        found = transport.get_extra_info("socket")
        if found is not None and _TCP_USER_TIMEOUT is not None:
            limit_ms = max(1, int(self._unacknowledged_s * 1000))
            try:
                found.setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, limit_ms)
            except OSError:
                pass  # broken already, or not on this platform: as without it

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if parser is None or self._future is None:
            self.close()  # nobody asked
            return
        self._received_bytes += len(data)
        if self._received_bytes > self._reply_bytes_max:
            self._fail(CheckOutcome.NO_ANSWER, f"more than {self._reply_bytes_max} bytes")
            return
        try:
            parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self._fail(CheckOutcome.NO_ANSWER, "a response that is not HTTP/1.1")
            return
        if self._is_doubled:  # which of the two would be meant?
            self._fail(CheckOutcome.NO_ANSWER, "more than one response")

    def eof_received(self) -> bool:
        if self._is_complete or self._ends_with_connection:
            self.is_reusable = False
            self._finish()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._future is None:
            return
        if self._is_complete:
            self._finish()
        elif self._received_bytes:
            self._fail(CheckOutcome.NO_ANSWER, "a response that broke off")
        else:
            reason = type(exc).__name__ if exc is not None else "closed without a response"
            self._fail(CheckOutcome.LOST, f"the connection broke: {reason}")

    # What httptools calls.

    def on_message_begin(self) -> None:
        if self._is_complete:
            self._is_doubled = True

    def on_header(self, name: bytes, value: bytes) -> None:  # noqa: ARG002 (httptools' signature)
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._has_framing = True

    def on_headers_complete(self) -> None:
        if self._is_complete:
            return
        assert self._parser is not None
        self._status = self._parser.get_status_code()
        self._ends_with_connection = not self._has_framing and self._status >= 200

    def on_body(self, piece: bytes) -> None:
        if not self._is_complete:
            self._body += piece  # bounded by what may be received

    def on_message_complete(self) -> None:
        if self._is_complete:
            return
        if self._status < 200:  # an interim response: the real one follows
            self._body, self._has_framing = b"", False
            return
        assert self._parser is not None
        transport = self._transport
        self._is_complete = True
        self.is_reusable = (
            self._parser.should_keep_alive()
            and transport is not None
            and not transport.get_write_buffer_size()
        )
        asyncio.get_running_loop().call_soon(self._finish)  # first see what lies behind it

    # The rest.

    def _finish(self) -> None:
        future, self._future = self._future, None
        self._parser = None
        if future is not None and not future.done():
            future.set_result(Reply(self._status, self._body))

    def _fail(self, outcome: CheckOutcome, reason: str) -> None:
        future, self._future = self._future, None
        self._parser = None
        if future is not None and not future.done():
            future.set_exception(CallbackFailed(outcome, reason))
        self.close()
