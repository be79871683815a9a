"""A partition of Kafka as a list: what is committed can be read, nothing behind what is open."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from halfhitch.wire.half import Headers

OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"


@dataclass(eq=False)
class KafkaTransaction:
    """All its records become readable at once, or none ever. `forwards` are those on the target."""

    state: str = OPEN
    forwards: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Record:
    """A record in a log, and what a judge once read from it."""

    stored_at_ms: int
    value: bytes | None
    headers: Headers | None
    part_of: KafkaTransaction | None = field(default=None, repr=False)
    key: bytes | None = None
    read: list[Any] = field(default_factory=list, compare=False, repr=False)

    @property
    def is_open(self) -> bool:
        return self.part_of is not None and self.part_of.state == OPEN

    @property
    def is_readable(self) -> bool:
        return self.part_of is None or self.part_of.state == COMMITTED


@dataclass
class Log:
    """A partition: None is an offset that is never delivered. `start` grows by deletion."""

    records: list[Record | None] = field(default_factory=list)
    start: int = 0

    @property
    def end(self) -> int:
        return len(self.records)

    def append(self, record: Record | None) -> int:
        self.records.append(record)
        return len(self.records) - 1

    def read(self, position: int, count: int | None) -> list[tuple[int, Record]]:
        """At most `count` readable records from there on, up to the first that is open."""
        assert position >= self.start, f"{position} was deleted; the log begins at {self.start}"
        found: list[tuple[int, Record]] = []
        for offset in range(position, self.end):
            record = self.records[offset]
            if record is None:
                continue
            if record.is_open or (count is not None and len(found) == count):
                break
            if record.is_readable:
                found.append((offset, record))
        return found

    def committed(self, before: int | None = None) -> list[tuple[int, Record]]:
        """Everything that can be read, deleted records included."""
        return [
            (offset, record)
            for offset, record in enumerate(self.records[:before])
            if record is not None and record.is_readable
        ]

    @property
    def readable_end(self) -> int:
        """The position behind the last record that can be read now."""
        found = self.read(self.start, None)
        return found[-1][0] + 1 if found else 0

    def copy(self) -> Log:
        return Log(list(self.records), self.start)
