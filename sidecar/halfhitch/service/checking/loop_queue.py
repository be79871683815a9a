"""The way from threads to the event loop: what is to be done waits in a deque, one wake-up a burst.

Everything keeps its order, whoever put it there. The loop does a bounded number of things in one
turn, so that a burst of checks does not make requests wait.
"""

import logging
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

logger = logging.getLogger(__name__)

_TURN_MAX: Final = 256


class LoopQueue:
    """`put` from any thread; the rest on the loop."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        # Bounded by the permits: at most one action for a check that is under way, or for its
        # transaction's decision.
        self._actions: deque[Callable[[], None]] = deque()
        self._is_woken = False

    def put(self, actions: Iterable[Callable[[], None]]) -> bool:
        """Have these done on the loop, in order. False: the loop is gone, and nothing will be."""
        self._actions.extend(actions)
        # No lock: `drain` lowers the flag before it takes the first action. Whoever still sees it
        # raised has put its actions where that drain will find them; two who see it lowered at the
        # same time wake the loop twice, which does no harm.
        if self._is_woken:
            return True
        self._is_woken = True
        try:
            self._loop.call_soon_threadsafe(self.drain)
        except RuntimeError:  # closed
            self._actions.clear()
            return False
        return True

    def drain(self) -> None:
        """Do what waits; a long burst in several turns of the loop."""
        self._is_woken = False
        self._do(_TURN_MAX)
        if self._actions and not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self.drain)

    def drain_all(self) -> None:
        """Do everything that waits, now."""
        self._do(len(self._actions))

    def _do(self, count_max: int) -> None:
        actions = self._actions
        for _ in range(min(count_max, len(actions))):
            action = actions.popleft()
            try:
                action()
            except Exception:
                logger.exception(
                    "a step of the check-back failed; please report this",
                    extra={"action": "check_bug"},
                )
