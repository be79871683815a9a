"""What the door carries at this moment: what it holds open, and the body bytes it holds."""

from halfhitch.doors.holding import Holding


class Load(Holding):
    """Shared by all connections of one door."""

    __slots__ = ("buffered_bytes", "stream_count")

    def __init__(self) -> None:
        super().__init__()
        #: How many of the connections are check streams.
        self.stream_count = 0
        self.buffered_bytes = 0
