"""What a record of a target says of the transaction that it came with.

Its last three headers are `UNIQ_KEY`, `PGROUP` and `HALFHITCH`, in this order; before them are the
producer's own. Whatever else is on a topic is somebody else's message, and no garbage.
"""

from typing import Final, NamedTuple

from halfhitch.wire import headers as names
from halfhitch.wire.half import INDEX_MAX, Headers

_NAMES: Final = (names.UNIQ_KEY, names.PGROUP, names.HALFHITCH)
_DIGITS_MAX: Final = len(str(INDEX_MAX))


class Forwarded(NamedTuple):
    """Which message of which transaction."""

    producer_group: str
    transaction_id: str
    message_index: int


def read_forwarded(headers: Headers | None) -> Forwarded | None:
    """None: Half Hitch has not forwarded it, or in a way that this release does not know."""
    if not headers or len(headers) < len(_NAMES):
        return None
    (id_name, raw_id), (group_name, group), (marker_name, marker) = headers[-3:]
    if (id_name, group_name, marker_name) != _NAMES or not raw_id or not group or not marker:
        return None
    parts = marker.split(b";", 3)
    if len(parts) != 4 or not parts[1].isdigit() or len(parts[1]) > _DIGITS_MAX:
        return None
    texts = group.decode(errors="replace"), raw_id.decode(errors="replace")
    return Forwarded(*texts, int(parts[1]))


def producer_headers(headers: Headers) -> Headers:
    """Those that the producer gave, of a record that was forwarded."""
    return headers[: -len(_NAMES)]
