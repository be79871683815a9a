"""The producer groups that are asked over a connection, and how many of them anybody may have.

Owns `Places`, one for a door, and `Groups`, one for a connection. The desk is told of every group
of a connection once, and that it is gone before the connection is. An identity has half of all
places at most: one with a pattern of groups would else keep everybody else's producers from being
asked. Who gets no place is told so.
"""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from halfhitch.access import Grant
from halfhitch.doors.rocketmq.addresses import shown
from halfhitch.doors.rocketmq.limits import Limits
from halfhitch.doors.rocketmq.links import Questioning, RemotingLink, Way
from halfhitch.doors.rocketmq.offsets import Address
from halfhitch.doors.rocketmq.stats import Stats
from halfhitch.errors import Overloaded
from halfhitch.observability.lines import LineBudget
from halfhitch.service.checking.api import CheckDesk
from halfhitch.wire.remoting.messages import Host

logger = logging.getLogger(__name__)

_SENTENCES: Final = {
    "connection": "this connection answers for {of_connection} groups already: use fewer groups, "
    "or several clients",
    "identity": "identity {name!r} has {of_identity} places for producers already, a group of a "
    "connection each, and others need some too: use fewer groups or connections, or raise "
    "rocketmq.connections_max",
    "full": "the door has {of_all} places for producers, a group of a connection each, and all "
    "are taken: use fewer groups or connections, raise rocketmq.connections_max, or use another "
    "instance",
}


class Places:
    """Shared by all connections of a door."""

    __slots__ = ("_lines", "_of_identity", "desk", "limits", "questioning", "stats")

    def __init__(
        self, desk: CheckDesk, questioning: Questioning, limits: Limits, stats: Stats
    ) -> None:
        self.desk = desk
        self.questioning = questioning
        self.limits = limits
        self.stats = stats
        self._of_identity: Counter[str | None] = Counter()
        self._lines = LineBudget()

    def take(self, name: str | None, of_connection_count: int, group: str, peer: Host) -> None:
        """One more for this identity (None: nobody is told apart). Raises Overloaded."""
        limits = self.limits
        if of_connection_count >= limits.group_count_max:
            self._refuse("connection", name, group, peer)
        if name is not None and self._of_identity[name] >= limits.producer_identity_count_max:
            self._refuse("identity", name, group, peer)
        if self.stats.producer_count >= limits.producer_count_max:
            self._refuse("full", name, group, peer)
        self._of_identity[name] += 1
        self.stats.producer_count += 1

    def leave(self, name: str | None) -> None:
        """One fewer."""
        self.stats.producer_count -= 1
        self._of_identity[name] -= 1
        if not self._of_identity[name]:
            del self._of_identity[name]

    def _refuse(self, why: str, name: str | None, group: str, peer: Host) -> None:
        self.stats.producer_refused(why)
        limits = self.limits
        sentence = _SENTENCES[why].format(
            name=name,
            of_connection=limits.group_count_max,
            of_identity=limits.producer_identity_count_max,
            of_all=limits.producer_count_max,
        )
        more = self._lines.take()
        if more is not None:
            logger.warning(
                "producer group %r gets no checks over the connection of %s: %s%s",
                group,
                shown(peer),
                sentence,
                more,
                extra={"action": "rocketmq_no_place"},
            )
        raise Overloaded(
            f"producer group {group!r} is asked nothing over this connection, so it cannot answer "
            f"checks here: {sentence}"
        )


class Groups:
    """Those that are asked over one connection."""

    __slots__ = ("_links", "_peer", "_places", "_way")

    def __init__(self, way: Way, places: Places | None, peer: Host) -> None:
        """`places` None: this instance does not check back."""
        self._way = way
        self._places = places
        self._peer = peer
        self._links: dict[str, tuple[RemotingLink, str | None]] = {}

    def register(
        self,
        group: str,
        grant: Grant,
        address: Callable[[], Address],
        *,
        has_namespace_field: bool,
    ) -> None:
        """It may be asked from now on. Raises Overloaded: it gets no place."""
        places = self._places
        if group in self._links or places is None:
            return
        name = grant.name
        places.take(name, len(self._links), group, self._peer)
        link = RemotingLink(
            self._way,
            group,
            shown(self._peer),
            peer=self._peer,
            address=address(),
            grant=grant,
            has_namespace_field=has_namespace_field,
            questioning=places.questioning,
        )
        self._links[group] = link, name
        try:
            places.desk.connect(link)
        except Exception:
            logger.exception("registering a producer failed", extra={"action": "rocketmq_bug"})

    def unregister(self, group: str) -> None:
        """It may not any more."""
        link, name = self._links.pop(group, (None, None))
        places = self._places
        if link is None or places is None:
            return
        places.leave(name)
        try:
            places.desk.disconnect(link)
        except Exception:
            logger.exception("a producer's farewell failed", extra={"action": "rocketmq_bug"})

    def forget(self, *, all_of_them: bool = True) -> None:
        """All, or those whose right is gone."""
        for group, (link, _) in list(self._links.items()):
            if all_of_them or not link.is_allowed():
                self.unregister(group)
