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

#: One may be left of a process that ended as this one began; two are somebody alive.
_SEEN_MAX: Final = 2
#: So often in a row nobody else had written: it is gone. Fewer say only that it was late.
_ALONE_MAX: Final = 5


@dataclass(slots=True)
class Namesake:
    """`mark`: of this process."""

    name: str
    key: str
    mark: str
    _is_written: bool = False
    _seen_count: int = 0
    _alone_count: int = 0

    def add(self, work: Work) -> None:
        """With each pulse."""
        work.add("GET", self.key, key=self.key, read=self.found)
        work.add("SET", self.key, self.mark, "PX", round(PRESENCE_S * 1000))

    def found(self, before: object) -> None:
        """What stood there."""
        if self._is_written and before is not None:
            if before == self.mark.encode():
                self._alone()
            else:
                self._in_company()
        self._is_written = True

    def _alone(self) -> None:
        self._alone_count += 1
        if self._alone_count >= _ALONE_MAX:
            self._seen_count = 0

    def _in_company(self) -> None:
        self._alone_count = 0
        self._seen_count += 1
        if self._seen_count == _SEEN_MAX:
            logger.warning("%s", self.trouble, extra={"action": "instance_name_taken"})

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
