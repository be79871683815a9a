"""The transport of a connection: whether it reads, and how it comes to its end.

Owns closing and lingering. Whoever has been refused in the middle of a request is still sending it:
what he sends is taken and thrown away for a while, so that he learns why.
"""

import asyncio

from halfhitch.doors.http.lending import Loan
from halfhitch.doors.http.reader import RequestReader


class Ending(asyncio.Protocol):
    """What a connection of the door is to its transport; protocol.py is what it does with it."""

    __slots__ = (
        "_closing_since_s",
        "_has_eof",
        "_heard_s",
        "_is_lingering",
        "_is_reading_paused",
        "_loan",
        "_loop",
        "_reader",
        "_receiving_since_s",
        "_transport",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, reader: RequestReader, loan: Loan | None
    ) -> None:
        self._loop = loop
        self._reader = reader
        self._loan = loan
        self._transport: asyncio.Transport | None = None
        self._has_eof = False
        self._is_reading_paused = False
        self._is_lingering = False
        # Moments on the loop's clock.
        self._receiving_since_s: float | None = None
        self._closing_since_s: float | None = None
        self._heard_s = 0.0  # while nothing of it is of use

    def _open_transport(self) -> asyncio.Transport | None:
        # Between its end and connection_lost a transport takes no more: asyncio's would warn.
        transport = self._transport
        return None if transport is None or transport.is_closing() else transport

    def _pause_reading(self) -> None:
        transport = self._open_transport()
        if transport is not None and not self._is_reading_paused and not self._has_eof:
            self._is_reading_paused = True
            transport.pause_reading()

    def _resume_reading(self) -> None:
        self._is_reading_paused = False
        transport = self._open_transport()
        if transport is not None:
            transport.resume_reading()
        if self._receiving_since_s is not None:
            self._receiving_since_s = self._loop.time()  # the wait was ours

    def _close(self, *, lingers: bool = False) -> None:
        transport = self._open_transport()
        if transport is None:
            return
        self._reader.end()
        self._closing_since_s = self._loop.time()
        if lingers and not self._has_eof:
            self._is_lingering = True
            self._heard_s = self._closing_since_s
            if self._is_reading_paused:
                self._resume_reading()
            if transport.can_write_eof():  # TLS cannot: who has read the answer knows that it ends
                transport.write_eof()
        else:
            transport.close()

    def _abort(self) -> None:
        self._end_loan()
        if self._transport is not None:
            self._reader.end()
            self._closing_since_s = self._loop.time()
            self._transport.abort()

    def _end_loan(self) -> None:
        if self._loan is not None:
            self._loan.close()
