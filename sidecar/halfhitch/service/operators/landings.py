"""Where the messages of committed transactions lie on their topics: looked for, when asked.

Nobody has noted it: the audit record is part of the Kafka transaction whose offsets it would have
to name. But it is of the same moment, so the targets are looked through from a little before it,
first a short time and then a longer one, as far as committed messages can be read. Each message
says of which transaction it is, and how many there are; what is not found is said, with the reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

#: Transactions of one question that are looked for; a key may lead to more.
LOOKED_FOR_MAX: Final = 20
#: Of one value, key or header in an answer, and of all of them together, with headers' names.
SHOWN_BYTES_MAX: Final = 16_384
ANSWER_BYTES_MAX: Final = 1_048_576
#: What a header takes in an answer besides its name and value.
_HEADER_BYTES: Final = 8

_NOT_LOOKED: Final = f"not looked for: of one question, {LOOKED_FOR_MAX} transactions are"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A transaction that was forwarded, and when its owner said so."""

    producer_group: str
    transaction_id: str
    message_count: int
    forwarded_ms: int
    #: Topics, with the partition where the producer chose it.
    places: frozenset[tuple[str, int | None]]
    #: Whether what its messages say is kept too: for whoever may read it.
    shows_content: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a message says; what is cut is as long as `bytes` tell."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]  # the producer's
    key_bytes: int
    value_bytes: int
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """One message where consumers read it."""

    topic: str
    partition: int
    log_offset: int
    stored_ms: int  # as the topic has it: its producer's clock or the broker's
    index: int
    content: Content | None = None


@dataclass(slots=True)
class Landed:
    """`trouble`: why there are not as many as the transaction has; None: there are."""

    messages: list[Landing] = field(default_factory=list)
    trouble: str | None = None


class TargetLogs(Protocol):
    """The topics that messages go to."""

    async def find(self, wanted: Sequence[Wanted], showing: "Showing") -> list[Landed]:
        """For each in its order, with as much of contents as `showing` has room for.

        No more than that is kept while it is looked for: messages are large, and there are many.
        Raises KafkaUnavailable.
        """
        ...


async def landed(logs: TargetLogs, wanted: Sequence[Wanted]) -> list[Landed]:
    """For each in its order; the first ones are looked for."""
    found = await logs.find(wanted[:LOOKED_FOR_MAX], Showing()) if wanted else []
    return found + [Landed(trouble=_NOT_LOOKED) for _ in wanted[LOOKED_FOR_MAX:]]


class Showing:
    """How much of contents one answer has room for."""

    def __init__(self, room_bytes: int = ANSWER_BYTES_MAX) -> None:
        self._room_bytes = room_bytes

    def shown(
        self, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
    ) -> Content:
        """As much of a message as there is room for; `headers` are the producer's."""
        cut = self._part(key), self._part(value), self._headers(headers)
        return Content(
            key=cut[0],
            value=cut[1],
            headers=cut[2],
            key_bytes=len(key or b""),
            value_bytes=len(value or b""),
            is_cut=cut != (key, value, list(headers)),
        )

    def _headers(
        self, headers: Sequence[tuple[str, bytes | None]]
    ) -> list[tuple[str, bytes | None]]:
        """Those that there is room for: names are as long as a producer likes, and as many."""
        kept: list[tuple[str, bytes | None]] = []
        for name, raw in headers:
            if self._room_bytes < _HEADER_BYTES:
                break
            self._room_bytes -= _HEADER_BYTES
            fitting = self._part(name.encode(errors="replace")) or b""
            kept.append((fitting.decode(errors="replace"), self._part(raw)))
        return kept

    def _part(self, raw: bytes | None) -> bytes | None:
        if raw is None:
            return None
        part = raw[: min(SHOWN_BYTES_MAX, self._room_bytes)]
        self._room_bytes -= len(part)
        return _whole_letters(part) if len(part) < len(raw) else part


def _whole_letters(part: bytes) -> bytes:
    """Without the beginning of a letter at its end, which would make text look like bytes."""
    start = len(part) - 1
    while start >= max(0, len(part) - 3) and part[start] & 0xC0 == 0x80:
        start -= 1
    if start >= 0 and part[start] >= 0xC0:
        size = 2 if part[start] < 0xE0 else 3 if part[start] < 0xF0 else 4
        if start + size > len(part):
            return part[:start]
    return part
