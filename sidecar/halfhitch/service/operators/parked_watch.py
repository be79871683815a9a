"""Counts what is parked now, for dashboards and alerts.

The topic has to be read for that, so only whoever works on half partition 0 does it, and only when
the topic has changed; what takes long is done less often. No promise hangs on it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Final, Protocol

from halfhitch.errors import BackendError
from halfhitch.service.api import PartitionPhase, PartitionState

_LOOK_S: Final = 60.0
#: Until that half partition is worked on here, which is looked at without asking anybody.
_WAIT_S: Final = 2.0
#: A look that takes so long a share of the time is too often: operators wait behind it.
_REST_FACTOR: Final = 20.0


class ParkedTopic(Protocol):
    """What is asked of it. Both raise BackendError."""

    async def extent(self) -> Mapping[Any, Any]:
        """Where its logs begin and end: another one after each change."""
        ...

    async def parkings(self) -> tuple[Sequence[object], int]:
        """See ports.ParkedStore."""
        ...


class ParkedWatch:
    """`run` until it is cancelled. On the event loop."""

    def __init__(
        self,
        topic: ParkedTopic,
        states: Callable[[], Sequence[PartitionState]],
        tell: Callable[[int | None], None],
    ) -> None:
        self._topic = topic
        self._states = states
        self._tell = tell
        self._seen: Mapping[Any, Any] | None = None

    async def run(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """See the class's text."""
        while True:
            began_s = monotonic()
            pause_s = _LOOK_S if await self.look() else _WAIT_S
            await sleep(max(pause_s, _REST_FACTOR * (monotonic() - began_s)))

    async def look(self) -> bool:
        """Tell how many there are, or that this is not ours to tell. Whether it is ours."""
        if not any(s.partition == 0 and s.phase is PartitionPhase.WORKING for s in self._states()):
            self._seen = None
            self._tell(None)
            return False
        try:
            extent = await self._topic.extent()
            if extent == self._seen:
                return True
            found, left_out_count = await self._topic.parkings()
        except BackendError:
            return True  # the last number stands: nothing is parked while Kafka is away
        self._seen = extent
        self._tell(len(found) + left_out_count)
        return True
