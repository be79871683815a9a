"""What the door carries at this moment: what it holds open, and the body bytes it holds."""

import logging
from collections import Counter
from typing import Any

from halfhitch.doors.crowd import Crowd
from halfhitch.doors.holding import Holding, OnRefused, OpenConnection
from halfhitch.doors.http.native import Native
from halfhitch.observability.lines import LineBudget

_log = logging.getLogger(__name__)


class Share:
    """What one identity, or where none is told apart one address, has of the bodies held.

    And how many connections an identity has; those of an address are counted elsewhere.
    """

    __slots__ = ("connection_count", "held_bytes")

    def __init__(self) -> None:
        self.connection_count = 0
        self.held_bytes = 0


class Load(Holding):
    """Shared by all connections of one door."""

    __slots__ = (
        "_identity_shares",
        "_peer_shares",
        "_tls_lines",
        "buffered_bytes",
        "came_count",
        "fault_lines",
        "group_streams",
        "held_back_count",
        "identity_streams",
        "native",
        "placeless_count",
        "stream_count",
        "stream_lines",
        "unproven",
    )

    def __init__(self, on_refused: OnRefused | None = None) -> None:
        super().__init__(on_refused)
        #: How many of the streams each producer group has.
        self.group_streams: Counter[str] = Counter()
        #: How many each identity has; None stands for all where nobody is told apart.
        self.identity_streams: Counter[str | None] = Counter()
        #: Connections that have had a place, ever.
        self.came_count = 0
        #: Tasks that only keep a refusal back.
        self.held_back_count = 0
        #: Who carries out requests natively, while somebody does.
        self.native: Native | None = None
        #: How many of the connections are check streams.
        self.stream_count = 0
        self.buffered_bytes = 0
        #: Connections that have not shown yet that they may be here: they make room first.
        self.unproven: Crowd[OpenConnection] = Crowd()
        #: Connections that have no place, and are only told so.
        self.placeless_count = 0
        self._identity_shares: dict[str, Share] = {}
        self._peer_shares: dict[str, Share] = {}
        self._tls_lines = LineBudget()
        self.fault_lines = LineBudget()
        #: Streams come in crowds when a release is rolled out: people want to see most of them.
        self.stream_lines = LineBudget(count_max=200)

    @property
    def in_flight_count(self) -> int:
        """Requests being worked on now, here and natively."""
        return len(self.tasks) + (0 if self.native is None else self.native.under_way())

    def admit(self, count_max: int) -> bool:
        """Whether one more may begin; then it does, or `changed` is called."""
        count = len(self.tasks) - self.held_back_count
        if self.native is None:
            return count < count_max
        return self.native.admit(count, count_max)

    def changed(self) -> None:
        """A task has begun or ended, or will not begin."""
        if self.native is not None:
            self.native.tell(len(self.tasks) - self.held_back_count)

    def came(self, peer: str) -> int:
        """See Holding."""
        self.came_count += 1
        self._peer_shares.setdefault(peer, Share())
        return super().came(peer)

    def went(self, peer: str) -> None:
        """See Holding."""
        super().went(peer)
        self.forget(peer)

    def forget(self, peer: str) -> None:
        """Unless a connection of this address is left, or what one of them has sent."""
        share = self._peer_shares.get(peer)
        if share is not None and not share.held_bytes and not self.count_of(peer):
            del self._peer_shares[peer]

    def share_of_peer(self, peer: str) -> Share:
        """Of an address that has a connection."""
        return self._peer_shares[peer]

    def share_of_identity(self, name: str) -> Share:
        """Kept for good: there are as many as the file of identities has had."""
        share = self._identity_shares.get(name)
        if share is None:
            share = self._identity_shares[name] = Share()
        return share

    def stream_begins(self, producer_group: str, identity: str | None) -> None:
        """One more check stream."""
        self.stream_count += 1
        self.group_streams[producer_group] += 1
        self.identity_streams[identity] += 1

    def stream_ended(self, producer_group: str, identity: str | None) -> None:
        """One fewer."""
        self.stream_count -= 1
        _less(self.group_streams, producer_group)
        _less(self.identity_streams, identity)

    def say_tls_spoken(self) -> None:
        """A client began a TLS handshake; it cannot read the answer, but people can this."""
        more = self._tls_lines.take()
        if more is not None:
            _log.warning(
                "a client spoke TLS to a door that does not: give it http:// as the address, or "
                "set the door's tls_cert (http.tls_cert, admin.tls_cert)%s",
                more,
                extra={"action": "http_tls_spoken"},
            )


def _less(counted: Counter[Any], key: str | None) -> None:
    counted[key] -= 1
    if not counted[key]:
        del counted[key]
