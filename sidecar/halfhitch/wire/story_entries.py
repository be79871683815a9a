"""The entries of audit records, as msgspec reads and writes them: JSON arrays.

A file of its own because mypyc would lose the options in a class's head.
"""

import msgspec

from halfhitch.wire.half import DIGITS_MAX


class Target(msgspec.Struct, frozen=True, array_like=True):
    """Where a message went, or was to go."""

    topic: str
    partition: int | None = None  # if it was fixed
    key_hash: int = 0  # of topic and key; 0: it has no key


class Ended(msgspec.Struct, frozen=True, array_like=True, tag="e"):
    """A transaction has ended; one for each life."""

    producer_group: str
    transaction_id: str
    ending: int
    life: int  # how often it had been parked and put back
    marker: str  # empty where nothing was known of its messages any more
    stored_ms: int  # broker time of its first half
    decided_ms: int  # broker time of its decision
    op_offset: int
    source: str | None
    reason: str | None
    check_count: int
    message_count: int
    half_offset: int
    targets: list[Target] = []
    why: str | None = None  # it was parked

    @property
    def born_ms(self) -> int:
        """When it was prepared, by the clock of who took it; -1: not known."""
        parts = self.marker.split(";", 3)
        known = len(parts) == 4 and parts[2].isdigit() and len(parts[2]) <= DIGITS_MAX
        return int(parts[2]) if known else -1

    @property
    def taken_by(self) -> str:
        """The instance that took the prepare; empty: not known."""
        parts = self.marker.split(";", 3)
        return parts[3].partition(";")[0] if len(parts) == 4 else ""


class Event(msgspec.Struct, frozen=True, array_like=True, tag="v"):
    """Something happened: see the constants. Times by the clock of whoever wrote it."""

    producer_group: str
    transaction_id: str
    what: str
    at_ms: int
    number: int = 0
    by: str | None = None
    outcome: str | None = None
    reason: str | None = None
    took_ms: int | None = None


class Record(msgspec.Struct, array_like=True):
    """A whole record, its entries as they are."""

    written_ms: int
    instance: str
    entries: list[msgspec.Raw]


Entry = Ended | Event
encode = msgspec.json.Encoder().encode
decode_entry = msgspec.json.Decoder(Ended | Event).decode
decode_record = msgspec.json.Decoder(Record).decode
