"""Payloads of half messages that may still be forwarded, under a budget of bytes.

When the budget is exceeded the oldest go first: they are the least likely to be decided soon. What
was let go of is read back from the half log when it is needed after all.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from halfhitch.errors import KafkaUnavailable
from halfhitch.ports import KafkaHeaders, PartitionReader, Payload, StoredRecord

#: What a payload of no bytes at all takes in memory, with the system headers every half has.
OVERHEAD_BYTES: Final = 1_000


@dataclass(slots=True, init=False)
class PlainPayload:
    """ports.Payload of Python's own."""

    key: bytes | None
    value: bytes | None
    headers: KafkaHeaders
    size_bytes: int

    def __init__(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: KafkaHeaders,
        size_bytes: int,
    ) -> None:
        self.key = key
        self.value = value
        self.headers = headers
        self.size_bytes = size_bytes

    def facts(self) -> tuple[str, str, int, int] | None:
        """See ports.Payload; so for the others."""
        return None

    def aim(self) -> tuple[str, int | None] | None:
        """See ports.Payload."""
        return None

    def told(self) -> tuple[str, str, int | None, int] | None:
        """See ports.Payload."""
        return None

    def story(self, *_: int | str | None) -> tuple[bytes, bytes] | None:
        """See ports.Payload."""
        return None


class PayloadLostError(KafkaUnavailable):
    """A half that is still needed is not in its log any more."""


def payload_of(record: StoredRecord) -> Payload:
    """What is kept of a record."""
    holds = getattr(record, "payload", None)
    if holds is not None:  # it lies outside of Python, and stays there
        held: Payload = holds()
        return held
    key, value, headers = record.key(), record.value(), record.headers() or []
    size_bytes = len(key or b"") + len(value or b"")
    for name, header in headers:
        size_bytes += len(name) + len(header) if header else len(name)
    return PlainPayload(key, value, headers, size_bytes)


class PayloadCache:
    """By half offset; used by the owner's thread."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._payloads: OrderedDict[int, Payload] = OrderedDict()
        self._size_bytes = 0

    def put(self, half_offset: int, payload: Payload) -> None:
        """Keep it, and let the oldest go while there is too much."""
        self._payloads[half_offset] = payload
        self._size_bytes = size_bytes = self._size_bytes + payload.size_bytes + OVERHEAD_BYTES
        if size_bytes > self._budget_bytes:
            self._make_room()

    def _make_room(self) -> None:
        while self._size_bytes > self._budget_bytes and self._payloads:
            self._size_bytes -= self._payloads.popitem(last=False)[1].size_bytes + OVERHEAD_BYTES

    def let_go(self, half_offsets: Iterable[int]) -> None:
        """Nobody needs these any more."""
        for half_offset in half_offsets:
            payload = self._payloads.pop(half_offset, None)
            if payload is not None:
                self._size_bytes -= payload.size_bytes + OVERHEAD_BYTES

    def clear(self) -> None:
        """A new takeover begins."""
        self._payloads.clear()
        self._size_bytes = 0

    def all_of(self, half_offsets: Sequence[int], reader: PartitionReader) -> dict[int, Payload]:
        """Every one of these, read back where needed. Raises PayloadLostError, KafkaUnavailable."""
        found: dict[int, Payload] = {}
        missing: list[int] = []
        for half_offset in half_offsets:
            payload = self._payloads.get(half_offset)
            if payload is None:
                missing.append(half_offset)
            else:
                found[half_offset] = payload
        if missing:
            records = reader.fetch_halves(missing)
            lost = [half_offset for half_offset in missing if half_offset not in records]
            if lost:
                raise PayloadLostError(f"half messages {lost[:5]} are no longer in the half log")
            found.update((o, payload_of(record)) for o, record in records.items())
        return found

    def get(self, half_offset: int) -> Payload | None:
        """This one, if it is here."""
        return self._payloads.get(half_offset)

    def present(self, half_offsets: Iterable[int]) -> dict[int, Payload]:
        """Those of them that are here."""
        payloads = self._payloads
        return {o: payloads[o] for o in half_offsets if o in payloads}

    def __len__(self) -> int:
        return len(self._payloads)
