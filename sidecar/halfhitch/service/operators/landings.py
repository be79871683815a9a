"""Where the messages of committed transactions lie on their topics: looked for, when asked.

Nobody has noted it: the audit record is part of the Kafka transaction whose offsets it would have
to name. But it is of the same moment, so the targets are looked through from a little before it,
first a short time and then a longer one, as far as committed messages can be read. Each message
says of which transaction it is, and how many there are; what is not found is said, with the reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

#: Transactions of one question that are looked for; a key may lead to more.
LOOKED_FOR_MAX: Final = 20
#: Of one value, key or header in an answer, and of all of them together.
SHOWN_BYTES_MAX: Final = 16_384
ANSWER_BYTES_MAX: Final = 1_048_576

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

    async def find(self, wanted: Sequence[Wanted]) -> list[Landed]:
        """For each in its order, with the contents. Raises KafkaUnavailable."""
        ...


async def landed(logs: TargetLogs, wanted: Sequence[Wanted]) -> list[Landed]:
    """For each in its order; the first ones are looked for."""
    found = await logs.find(wanted[:LOOKED_FOR_MAX]) if wanted else []
    return found + [Landed(trouble=_NOT_LOOKED) for _ in wanted[LOOKED_FOR_MAX:]]


class Showing:
    """How much of contents one answer has room for."""

    def __init__(self, room_bytes: int = ANSWER_BYTES_MAX) -> None:
        self._room_bytes = room_bytes

    def hidden(self, message: Landing) -> Landing:
        """Without what it says."""
        return replace(message, content=None)

    def shown(self, message: Landing) -> Landing:
        """With as much of it as there is room for."""
        content = message.content
        if content is None:
            return message
        cut = replace(
            content,
            key=self._part(content.key),
            value=self._part(content.value),
            headers=[(name, self._part(raw)) for name, raw in content.headers],
        )
        is_cut = (cut.key, cut.value, cut.headers) != (
            content.key, content.value, list(content.headers),
        )  # fmt: skip
        return replace(message, content=replace(cut, is_cut=is_cut))

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
