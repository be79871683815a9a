"""What a record of a target says of the transaction that it came with.

Its last three headers are `UNIQ_KEY`, `PGROUP` and `HALFHITCH`, in this order; before them are the
producer's own. Whatever else is on a topic is somebody else's message, and no garbage.
"""

from typing import Final, NamedTuple

from halfhitch.wire import headers as names
from halfhitch.wire.count import count_in
from halfhitch.wire.half import INDEX_MAX, Headers

_NAMES: Final = (names.UNIQ_KEY, names.PGROUP, names.HALFHITCH)
_VERSION: Final = str(names.RECORD_VERSION).encode()
_INDEX_DIGITS_MAX: Final = len(str(INDEX_MAX))
_BORN_DIGITS_MAX: Final = 18  # 64 bits


class Forwarded(NamedTuple):
    """Which message of which transaction."""

    producer_group: str
    transaction_id: str
    message_index: int
    born_ms: int | None  # None: it cannot be read
    message_count: int  # of its transaction; 0: an earlier release forwarded it


def read_forwarded(headers: Headers | None) -> Forwarded | None:
    """None: Half Hitch has not forwarded it, or in a way that this release does not know."""
    if not headers or len(headers) < len(_NAMES):
        return None
    (id_name, raw_id), (group_name, group), (marker_name, marker) = headers[-3:]
    if (id_name, group_name, marker_name) != _NAMES or not raw_id or not group:
        return None
    read = read_marker(marker or b"")
    if read is None:
        return None
    texts = group.decode(errors="replace"), raw_id.decode(errors="replace")
    return Forwarded(*texts, *read, count_in(marker or b""))


def read_marker(marker: bytes) -> tuple[int, int | None] | None:
    """Index and birth (Unix milliseconds; None where it is no number) in the header `HALFHITCH`.

    None: it is no such header, or of a release that writes another form.
    """
    version, *parts = marker.split(b";", 3)
    if version != _VERSION or len(parts) != 3:
        return None
    index, born, _ = parts
    if not index.isdigit() or len(index) > _INDEX_DIGITS_MAX:
        return None
    is_time = born.isdigit() and len(born) <= _BORN_DIGITS_MAX
    return int(index), int(born) if is_time else None


def producer_headers(headers: Headers) -> Headers:
    """Those that the producer gave, of a record that was forwarded."""
    return headers[: -len(_NAMES)]
