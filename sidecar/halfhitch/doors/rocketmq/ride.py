"""One connection's requests that go the native way: how many are under way, and what comes back.

And its socket: who reads and writes it at the moment.
"""

import asyncio
from typing import Final, Protocol

from halfhitch.doors.rocketmq.express import Express
from halfhitch.errors import HalfHitchError
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.frame import request
from halfhitch.wire.remoting.requests import Form, Frame, Send

#: Digits of an id of ours after those that a connection's ids have in common.
_POSITION_DIGITS: Final = 16
#: Before a socket that came back is lent again.
_ASHORE_S: Final = 1.0


class Home(Protocol):
    """The connection."""

    def taken(self, count: int) -> None:
        """So many more requests are in flight."""
        ...

    def done(self, count: int, content: bytes) -> None:
        """So many are not any more, and this answers them."""
        ...

    def finish(self, frame: Frame, content: bytes) -> None:
        """One is not any more, and this answers it."""
        ...

    def given(self, data: bytes) -> None:
        """What came over the socket while it was lent, and is to be read here."""
        ...

    def read_on(self) -> None:
        """The socket is back, and everything that came over it has been given."""
        ...


class Refusing(Protocol):
    """The dispatcher."""

    def refuse(self, frame: Frame, error: BaseException) -> bytes | None:
        """The answer to what failed."""
        ...


class Ride:
    """See the module's text. An express.Passenger."""

    __slots__ = (
        "_count",
        "_dispatcher",
        "_embark_at_s",
        "_express",
        "_home",
        "_is_left",
        "_loop",
        "_number",
        "_transport",
        "held_bytes",
        "is_away",
    )

    def __init__(self, express: Express, home: Home, dispatcher: Refusing) -> None:
        self._express = express
        self._dispatcher = dispatcher
        self._home = home
        self._number = 0
        self._count = 0
        self._is_left = False
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._embark_at_s = 0.0
        #: The loop does not read the socket: it is lent, or was a moment ago.
        self.is_away = False
        #: Of a frame that is not complete.
        self.held_bytes = 0

    @property
    def is_on(self) -> bool:
        """Whether bytes are to be given to `feed` first."""
        return self._number != 0

    def allow(self, send: Send, group: str, topic: str, any_id: str) -> None:
        """Messages like this one may go the native way; `any_id` is one of the connection's."""
        express = self._express
        if self._is_left:
            return
        if not self._number:
            self._number = express.connect(self, any_id[:-_POSITION_DIGITS])
        if self._number:
            express.allow(self._number, send, group, topic)

    def feed(self, data: bytes, room: int) -> bytes:
        """What is given back, when at most `room` requests may be taken."""
        rest, count, self.held_bytes = self._express.feed(self._number, data, max(0, room))
        self._took(count)
        return b"" if rest is None else rest

    # The socket.

    @property
    def is_aboard(self) -> bool:
        """Whether the socket is read and written natively."""
        return self._transport is not None

    @property
    def may_embark(self) -> bool:
        """Whether the socket may be lent now."""
        return not self.is_away and self._loop.time() >= self._embark_at_s

    def embark(self, transport: asyncio.Transport, rooms: tuple[int, int]) -> None:
        """Have the socket read and written natively, until `disembark`.

        With at most so many requests in flight: of this connection, of all. Nothing may wait to
        be written by the transport, or two would write into each other's frames.
        """
        socket = transport.get_extra_info("socket")
        self._embark_at_s = self._loop.time() + _ASHORE_S
        if socket is None:
            return
        transport.pause_reading()
        if self._express.adopt(self._number, socket.fileno(), rooms):
            self._transport = transport
            self.is_away = True
        else:
            transport.resume_reading()

    def disembark(self) -> None:
        """Take the socket back, if it is lent."""
        transport = self._transport
        if transport is None:
            return
        self._transport = None
        self._embark_at_s = self._loop.time() + _ASHORE_S
        unsent, count, self.held_bytes = self._express.release(self._number)
        if unsent and not transport.is_closing():
            transport.write(unsent)
        self._took(count)
        self._loop.call_soon(self._ashore)

    def catch_up(self) -> None:
        """Have what came over the socket while it was lent given now."""
        self._express.catch_up()

    def _ashore(self) -> None:
        self.catch_up()  # what came before is read before what comes now
        self.is_away = False
        self._home.read_on()

    def write(self, content: bytes) -> None:
        """What is not answered natively; while aboard."""
        self._express.write(self._number, content)

    def asks(self) -> None:
        """A check goes out: ends are to be looked at."""
        self._express.asks()

    # What comes back.

    def given(self, data: bytes) -> None:
        """See express.Passenger."""
        self._home.given(data)

    def _took(self, count: int) -> None:
        if count:
            self._count += count
            self._home.taken(count)

    def settled(self, taken_count: int, count: int, content: bytes) -> None:
        """See express.Passenger."""
        self._took(taken_count)
        self._count -= count
        self._home.done(count, content)
        self._go()

    def failed(self, code: int, opaque: int, form: Form, error: HalfHitchError) -> None:
        """See express.Passenger."""
        self._count -= 1
        flag = codes.ONE_WAY_FLAG if code == codes.END_TRANSACTION else 0
        frame = request(code, opaque, flag=flag, form=form)
        self._home.finish(frame, self._dispatcher.refuse(frame, error) or b"")
        self._go()

    def leave(self) -> None:
        """The connection is gone; what is under way is carried out, and counted until then."""
        self.disembark()
        self._is_left = True
        self._go()

    def _go(self) -> None:
        if self._is_left and self._number and not self._count:
            self._express.disconnect(self._number)
            self._number = 0
