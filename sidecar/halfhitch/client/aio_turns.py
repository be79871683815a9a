"""Who may use a connection, or a transaction, of asyncio's: `turns`, awaited."""

import asyncio
from math import inf
from typing import TYPE_CHECKING

from halfhitch.client.turns import LOOK_S, Line

if TYPE_CHECKING:
    from threading import Lock


class Turns(Line[asyncio.Event]):
    """A line of tasks of one loop.

        try:
            with await turns.taken():
                ...
        finally:
            turns.pass_on()

    An asyncio.Lock is given back by a coroutine: a handler that raises between the call of that and
    its first step would leave it locked for good.
    """

    async def taken(self, ends_at_s: float = inf) -> "Lock":
        """A place: leave it to a `with` alone. Raises TimeoutError, by the loop's clock."""
        loop = asyncio.get_running_loop()
        bell = asyncio.Event()
        place = self.join(bell)
        try:
            while not self.admits(bell):
                now_s = loop.time()
                if now_s >= ends_at_s:
                    raise TimeoutError
                bell.clear()
                # Not asyncio.timeout: it cancels, and where a handler's exception comes before its
                # end has begun, Python 3.11.2 takes each later timeout of the task for a
                # cancellation.
                look = loop.call_at(min(ends_at_s, now_s + LOOK_S), bell.set)
                try:
                    await bell.wait()
                finally:
                    look.cancel()
            return place
        except BaseException:
            del place  # the exception's traceback has this frame, and who keeps it would keep that
            raise

    def pass_on(self) -> None:
        """Somebody has left, or does not want to wait any more."""
        for bell in self.to_ring():
            bell.set()
