"""The ways to producers: a group's links here, other instances, and which a check tries first.

Used on the event loop only, but for `Others.instances`. A link that refuses a check is full: it
leaves the rotation, so that it is not asked again for each check, and comes back once something on
it has ended (or at the next sweep).

The order of instances for a check: the one that took the prepare, then this one, then the others in
turn. The n-th check of a transaction begins at the n-th of them: were it always the first, a
producer that hangs there would use up all the checks of its transactions.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from halfhitch.ports import Presence
    from halfhitch.service.checking.api import ProducerLink
    from halfhitch.service.checking.questions import Question
    from halfhitch.wire.check import Check


logger = logging.getLogger(__name__)

_BUG: Final = {"action": "check_bug"}


@dataclass(slots=True, eq=False)
class Link:
    """A connected link and what is on its way through it."""

    producer_link: ProducerLink
    name: str
    ways: Ways
    out: dict[Question, None] = field(default_factory=dict)
    is_full: bool = False
    is_gone: bool = False


class Ways:
    """Of one producer group."""

    __slots__ = ("_turn", "group", "is_waking", "links", "out_count", "rotation", "waiting")

    def __init__(self, group: str) -> None:
        self.group = group
        self.links: list[Link] = []
        self.rotation: deque[Link] = deque()  # of those with room: at most one for each link
        #: Those that wait for room, in order; bounded by the group's permits.
        self.waiting: OrderedDict[Question, None] = OrderedDict()
        self.out_count = 0  # on their way, here or through other instances
        self.is_waking = False
        self._turn = 0

    @property
    def is_idle(self) -> bool:
        """Nothing to remember."""
        return not (self.links or self.waiting or self.out_count)

    def add(self, link: Link) -> None:
        """A producer has come."""
        self.links.append(link)
        self.rotation.append(link)

    def remove(self, link: Link) -> None:
        """It has gone."""
        link.is_gone = True
        self.links.remove(link)
        if not link.is_full:
            self.rotation.remove(link)

    def fill(self, link: Link) -> None:
        """It refuses: leave it alone."""
        if not link.is_full and not link.is_gone:
            link.is_full = True
            self.rotation.remove(link)

    def unfill(self, link: Link) -> None:
        """It may have room again."""
        if link.is_full and not link.is_gone:
            link.is_full = False
            self.rotation.append(link)

    def next_link(self, shunned: tuple[object, ...]) -> Link | None:
        """In turn; of the next two the one with less to do.

        In turn alone, a link that hangs would end up holding nearly all of the group's permits.
        """
        rotation = self.rotation
        if shunned:
            for link in rotation:
                if link not in shunned:
                    rotation.remove(link)
                    rotation.append(link)
                    return link
            return None
        if not rotation:
            return None
        first = rotation[0]
        if len(rotation) > 1:
            second = rotation[1]
            if len(second.out) < len(first.out):
                del rotation[1]
                rotation.append(second)
                return second
            rotation.rotate(-1)
        return first

    def instances(self, own: str, others: Sequence[str], check: Check) -> list[str]:
        """Instances to be tried, best first; `own` stands for the links here."""
        found = sorted(instance for instance in others if instance != own)
        if len(found) > 1:
            if check.number == 1:
                self._turn += 1
                turn = self._turn % len(found)
            else:  # the same for each check of a transaction, so that none is left out
                turn = hash(check.identity[1]) % len(found)
            found = found[turn:] + found[:turn]
        if self.links:
            found.insert(0, own)
        if check.instance in found:
            found.remove(check.instance)
            found.insert(0, check.instance)
        if len(found) > 1 and check.number > 1:
            first = (check.number - 1) % len(found)
            found = found[first:] + found[:first]
        return found


class AllWays(dict[str, Ways]):
    """By producer group; one that is not known begins without any."""

    def __missing__(self, group: str) -> Ways:
        ways = self[group] = Ways(group)
        return ways

    def forget_idle(self) -> None:
        """Keep nothing for groups without producers and questions."""
        for group in [group for group, ways in self.items() if ways.is_idle]:
            del self[group]


class Others:
    """The other instances: who has producers of a group, and a way to say something to them.

    Presence comes from Redis, so it may be missing, old or broken; the check-back then goes on with
    the producers of this instance alone. Nothing here raises. `instances` is asked from any thread,
    the rest on the event loop.
    """

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
