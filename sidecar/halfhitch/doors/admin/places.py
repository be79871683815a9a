"""How many requests an identity has at work at the admin door at once.

Owns `Places`. Looking into Kafka takes seconds, and a door works on so many requests at a time: one
identity may have half of that, so that whoever may observe one group cannot keep other operators
waiting. Scrapes have places of their own, of which one identity may have half as well. So have
stories: few threads search for them, one after the other, so one identity may have fewer there.

Without identities nobody is told apart, and only the bound of all counts.
"""

from collections import Counter
from collections.abc import Awaitable
from typing import Final

from halfhitch.doors.http.handlers import Handler
from halfhitch.doors.http.requests import Request
from halfhitch.doors.http.stream import Opening
from halfhitch.errors import Overloaded

_RETRY_AFTER_S: Final = 1


class Places:
    """Of some routes together."""

    def __init__(self, count_max: int, share_max: int | None = None) -> None:
        """`share_max`: of one identity; None: half of all."""
        self._count_max = count_max
        self._share_max = max(1, count_max // 2) if share_max is None else share_max
        self._taken: Counter[str | None] = Counter()

    def bounded(self, handler: Handler) -> Handler:
        """The same, unless all places are taken; then it raises Overloaded."""

        def admitted(request: Request) -> bytes | Awaitable[bytes] | Opening:
            name = request.caller.name
            if self._taken.total() >= self._count_max:
                raise _too_many(f"{self._count_max} requests are being worked on")
            if name is not None and self._taken[name] >= self._share_max:
                raise _too_many(
                    f"{self._share_max} requests of identity {name!r} are being worked on, and "
                    "others have some too"
                )
            work = handler(request)
            if not isinstance(work, Awaitable):
                return work
            self._taken[name] += 1
            return self._counted(name, work)

        return admitted

    async def _counted(self, name: str | None, work: Awaitable[bytes]) -> bytes:
        try:
            return await work
        finally:
            self._taken[name] -= 1
            if not self._taken[name]:
                del self._taken[name]


def _too_many(what: str) -> Overloaded:
    return Overloaded(
        f"{what}; this one was not begun. Repeat it after the time in Retry-After.",
        retry_after_s=_RETRY_AFTER_S,
    )
