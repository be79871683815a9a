"""The other instances: who has producers of a group, and a way to say something to them.

Presence comes from Redis, so it may be missing, old or broken; the check-back then goes on with the
producers of this instance alone. Nothing here raises.
"""

import logging
from collections.abc import Collection, Sequence
from typing import Final

from halfhitch.ports import Presence

logger = logging.getLogger(__name__)

_BUG: Final = {"action": "check_bug"}


class Others:
    """`instances` is asked from any thread, the rest on the event loop."""

    def __init__(self, presence: Presence | None) -> None:
        self._presence = presence

    def instances(self, producer_group: str) -> Sequence[str]:
        """Other instances with live producers of the group."""
        if self._presence is None:
            return ()
        try:
            return self._presence.instances(producer_group)
        except Exception:
            logger.exception("it is not known where else producers are", extra=_BUG)
            return ()

    def post(self, instance: str, kind: str, body: bytes) -> bool:
        """False: it is surely not on its way."""
        if self._presence is None:
            return False
        try:
            return self._presence.post(instance, kind, body)
        except Exception:
            logger.exception("nothing was sent to another instance", extra=_BUG)
            return False

    def announce(self, producer_groups: Collection[str]) -> bool:
        """These have live producers here. False: try again."""
        if self._presence is None:
            return True
        try:
            self._presence.announce(producer_groups)
        except Exception:
            logger.exception("producers here were not announced", extra=_BUG)
            return False
        return True
