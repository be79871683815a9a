"""One connection's requests that go the native way: how many are under way, and what comes back."""

from typing import Final, Protocol

from halfhitch.doors.rocketmq.express import Express
from halfhitch.errors import HalfHitchError
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.frame import request
from halfhitch.wire.remoting.requests import Form, Frame, Send

#: Digits of an id of ours after those that a connection's ids have in common.
_POSITION_DIGITS: Final = 16


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


class Refusing(Protocol):
    """The dispatcher."""

    def refuse(self, frame: Frame, error: BaseException) -> bytes | None:
        """The answer to what failed."""
        ...


class Ride:
    """See the module's text. An express.Passenger."""

    __slots__ = ("_count", "_dispatcher", "_express", "_home", "_is_left", "_number", "held_bytes")

    def __init__(self, express: Express, home: Home, dispatcher: Refusing) -> None:
        self._express = express
        self._dispatcher = dispatcher
        self._home = home
        self._number = 0
        self._count = 0
        self._is_left = False
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
        if count:
            self._count += count
            self._home.taken(count)
        return b"" if rest is None else rest

    def settled(self, count: int, content: bytes) -> None:
        """See express.Passenger."""
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
        self._is_left = True
        self._go()

    def _go(self) -> None:
        if self._is_left and self._number and not self._count:
            self._express.disconnect(self._number)
            self._number = 0
