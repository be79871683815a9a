"""Whether another live process has the name of this instance.

Two of one name read one inbox, and neither takes the other for somebody else: a check of one never
reaches a producer of the other. It happens where `instance.id` is left to be the host's name and a
host has two sidecars, or containers share that name.

Each process writes its mark under the name once a second, and looks what stands there before. What
is found at first may be of the process before this one.
"""

import logging
from dataclasses import dataclass
from typing import Final

from halfhitch.adapters.redis.keys import PRESENCE_S
from halfhitch.adapters.redis.pipeline import Work

logger = logging.getLogger(__name__)

#: One may be left of a process that ended as this one began; two in a row are somebody alive.
_SEEN_MAX: Final = 2


@dataclass(slots=True)
class Namesake:
    """`mark`: of this process."""

    name: str
    key: str
    mark: str
    _is_written: bool = False
    _seen_count: int = 0

    def add(self, work: Work) -> None:
        """With each pulse."""
        work.add("GET", self.key, key=self.key, read=self.found)
        work.add("SET", self.key, self.mark, "PX", round(PRESENCE_S * 1000))

    def found(self, before: object) -> None:
        """What stood there."""
        if self._is_written and before is not None:
            self._seen_count = 0 if before == self.mark.encode() else self._seen_count + 1
            if self._seen_count == _SEEN_MAX:
                logger.warning("%s", self.trouble, extra={"action": "instance_name_taken"})
        self._is_written = True

    @property
    def trouble(self) -> str | None:
        """What to do about it; None: this instance is the only one of its name."""
        if self._seen_count < _SEEN_MAX:
            return None
        return (
            f"Another process has the name of this instance, {self.name!r}: checks of one of them"
            " do not reach producers of the other. Give each a name of its own, by instance.id"
            " (--instance-id), and the same one after a restart."
        )
