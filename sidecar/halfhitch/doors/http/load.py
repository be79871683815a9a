"""What the door carries at this moment: what it holds open, and the body bytes it holds."""

import logging
from collections import Counter
from typing import Any

from halfhitch.doors.holding import Holding, OnRefused
from halfhitch.observability.lines import LineBudget

_log = logging.getLogger(__name__)


class Load(Holding):
    """Shared by all connections of one door."""

    __slots__ = (
        "_tls_lines",
        "buffered_bytes",
        "group_streams",
        "identity_streams",
        "stream_count",
    )

    def __init__(self, on_refused: OnRefused | None = None) -> None:
        super().__init__(on_refused)
        #: How many of the streams each producer group has.
        self.group_streams: Counter[str] = Counter()
        #: How many each identity has; None stands for all where nobody is told apart.
        self.identity_streams: Counter[str | None] = Counter()
        #: How many of the connections are check streams.
        self.stream_count = 0
        self.buffered_bytes = 0
        self._tls_lines = LineBudget()

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
