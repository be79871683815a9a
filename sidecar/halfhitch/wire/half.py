"""Half records: one message, stored and invisible, and what it becomes when forwarded.

Key and value are the user's bytes, untouched. The system headers come first, in the fixed order
that `system_headers` writes, then the user's headers as they were given. A forwarded record carries
the user's headers first and then UNIQ_KEY, PGROUP and HALFHITCH, the last one with a count
(wire/count.py).

Reading is strict, and garbage is a value (`Garbage`), never an exception: a stranger may write to
the half topic, and one bad record must not stop a partition.
"""

from binascii import Error as NotHex
from binascii import unhexlify
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from halfhitch.core.model import (
    HalfRead,
    Identity,
    Resolution,
)
from halfhitch.wire import headers as names
from halfhitch.wire.digest import UNKNOWN

Headers = list[tuple[str, bytes | None]]

_VERSION: Final = str(names.RECORD_VERSION).encode()
_TRUE: Final = b"true"
_ZERO: Final = b"0"
#: One look-up each on the path of every record, instead of two.
_HALFHITCH: Final = names.HALFHITCH
_UNIQ_KEY: Final = names.UNIQ_KEY
_PGROUP: Final = names.PGROUP
_REAL_TOPIC: Final = names.REAL_TOPIC
_SYSTEM: Final = names.SYSTEM
_FIXED_NAMES: Final = (
    names.HALFHITCH,
    names.UNIQ_KEY,
    names.PGROUP,
    names.REAL_TOPIC,
    names.TRAN_MSG,
)
_FIXED_COUNT: Final = len(_FIXED_NAMES)
#: How a digest stands at the end of the marker: behind the instance, which readers that know none
#: take for a part of its name. Names of instances hold no semicolon.
_DIGEST: Final = b";d="
_DIGITS: Final = 16
_BORN: Final = {b"c": Resolution.COMMIT, b"r": Resolution.ROLLBACK}

#: More messages than this in one transaction are refused at the door; a larger index is garbage.
INDEX_MAX: Final = 999
#: Of an id or a group; a longer one is garbage, for no op record could name it.
ID_BYTES_MAX: Final = 255
#: Kafka numbers partitions with 32 bits.
PARTITION_MAX: Final = 2**31 - 1
#: A week: longer than any local transaction, short enough to catch milliseconds sent as seconds.
IMMUNITY_S_MAX: Final = 604_800
#: More checks than any setting allows; a larger number was invented.
CHECK_COUNT_MAX: Final = 10_000
#: One Kafka record cannot sensibly carry more; a guard against hostile records.
DIGITS_MAX: Final = 19


@dataclass(slots=True)
class Garbage:
    """A record that could not be read: where it lay and why."""

    log_offset: int
    reason: str
    is_newer: bool = False  # of a later version: not garbage to whoever wrote it


@dataclass(slots=True, init=False)
class HalfRecord:
    """Everything a half record says besides key and value."""

    transaction_id: str
    producer_group: str
    index: int
    born_ms: int
    instance: str
    target_topic: str
    target_partition: int | None = None
    immunity_s: int | None = None
    check_count: int = 0
    first_half_offset: int | None = None  # of the first copy, once re-appended
    #: Broker time of the first copy, once re-appended; 0 when this one is the first of its life
    #: (it was parked and put back).
    first_stored_ms: int | None = None
    resumed_count: int = 0  # how often it was parked and put back
    fence: int = 0  # once put back: the op offset of the note that says so
    born: Resolution | None = None  # once put back: as what it had been decided before
    born_count: int = 0  # and how many messages that covers
    digest: int = UNKNOWN  # of the message: see wire/digest.py

    def __init__(
        self,
        transaction_id: str,
        producer_group: str,
        index: int,
        born_ms: int,
        instance: str,
        target_topic: str,
        target_partition: int | None = None,
        immunity_s: int | None = None,
        check_count: int = 0,
        first_half_offset: int | None = None,
        first_stored_ms: int | None = None,
        resumed_count: int = 0,
        fence: int = 0,
        born: Resolution | None = None,
        born_count: int = 0,
        digest: int = UNKNOWN,
    ) -> None:
        self.transaction_id = transaction_id
        self.producer_group = producer_group
        self.index = index
        self.born_ms = born_ms
        self.instance = instance
        self.target_topic = target_topic
        self.target_partition = target_partition
        self.immunity_s = immunity_s
        self.check_count = check_count
        self.first_half_offset = first_half_offset
        self.first_stored_ms = first_stored_ms
        self.resumed_count = resumed_count
        self.fence = fence
        self.born = born
        self.born_count = born_count
        self.digest = digest


def system_headers(record: HalfRecord) -> Headers:
    """The headers that go before the user's."""
    marker = b"%s;%d;%d;%s" % (_VERSION, record.index, record.born_ms, record.instance.encode())
    if record.digest:
        marker += b"%s%016x" % (_DIGEST, record.digest)
    result: Headers = [
        (names.HALFHITCH, marker),
        (names.UNIQ_KEY, record.transaction_id.encode()),
        (names.PGROUP, record.producer_group.encode()),
        (names.REAL_TOPIC, record.target_topic.encode()),
        (names.TRAN_MSG, _TRUE),
    ]
    for name, number in (
        (names.REAL_QID, record.target_partition),
        (names.CHECK_IMMUNITY_TIME_IN_SECONDS, record.immunity_s),
        (names.TRANSACTION_CHECK_TIMES, record.check_count or None),
        (names.TRAN_PREPARED_QUEUE_OFFSET, record.first_half_offset),
    ):
        if number is not None:
            result.append((name, b"%d" % number))
    if record.first_stored_ms is not None:
        copy = b"%d" % record.first_stored_ms
        if record.resumed_count:
            born = b"" if record.born is None else record.born.value.encode()
            life = (record.resumed_count, record.fence, born, record.born_count)
            copy += b";%d;%d;%b;%d" % life
        result.append((names.HALFHITCH_COPY, copy))
    return result


def read_identity(
    half_offset: int, stored_at_ms: int, size_bytes: int, headers: Headers | None
) -> HalfRead | Garbage:
    """What the ledger needs of a half record. The hot path: one call for each record read."""
    if not headers or len(headers) < _FIXED_COUNT or headers[0][0] != _HALFHITCH:
        return Garbage(half_offset, "no HALFHITCH header first")
    marker = headers[0][1]
    id_name, raw_id = headers[1]
    group_name, raw_group = headers[2]
    if id_name != _UNIQ_KEY or group_name != _PGROUP or headers[3][0] != _REAL_TOPIC:
        return Garbage(half_offset, "system headers are missing or out of order")
    try:
        version, raw_index, _, _ = marker.split(b";", 3)  # type: ignore[union-attr]
        if len(raw_id) > ID_BYTES_MAX or len(raw_group) > ID_BYTES_MAX:  # type: ignore[arg-type]
            raise ValueError("too long")
        index = 0 if raw_index == _ZERO else _number(raw_index)
        transaction_id = raw_id.decode()  # type: ignore[union-attr]
        producer_group = _group(raw_group)
    except (ValueError, AttributeError, TypeError):  # includes UnicodeDecodeError; null values
        found = (marker or b"").split(b";", 1)[0]
        if found != _VERSION and found.isdigit():  # a later form need not have our fields
            return unknown_version(half_offset, found)
        return Garbage(half_offset, "a system header does not parse")
    if version != _VERSION:
        return unknown_version(half_offset, version)
    if index > INDEX_MAX or not transaction_id or not producer_group:
        return Garbage(half_offset, "index out of range, or an empty transaction id or group")
    # A NewType is a call at run time, and four of them are a fifth of the work for a record.
    identity: Identity = (producer_group, transaction_id)  # type: ignore[assignment]
    event = HalfRead(half_offset, stored_at_ms, identity, index, size_bytes)  # type: ignore[arg-type]
    _, sign, digits = marker.rpartition(_DIGEST)  # type: ignore[union-attr]
    if sign:
        event.digest = _digest(digits)
    if len(headers) > _FIXED_COUNT and headers[_FIXED_COUNT][0] in _SYSTEM:
        _read_options(event, headers)
    return event


def usual_identity(
    half_offset: int, stored_at_ms: int, size_bytes: int, facts: tuple[str, str, int, int]
) -> HalfRead:
    """The same of a half of the usual form, of which all is known: group, id, index, digest."""
    identity: Identity = (facts[0], facts[1])  # type: ignore[assignment]
    event = HalfRead(half_offset, stored_at_ms, identity, facts[2], size_bytes)  # type: ignore[arg-type]
    event.digest = facts[3]
    return event


def _read_options(event: HalfRead, headers: Headers) -> None:
    """System headers that not every half has. One that does not parse is as good as none."""
    for name, value in headers[_FIXED_COUNT : _system_count(headers)]:
        raw = value or b""
        if name == names.HALFHITCH_COPY:
            _read_copy(event, raw)
        elif not _is_number(raw):
            continue
        elif name == names.CHECK_IMMUNITY_TIME_IN_SECONDS:
            event.immunity_ms = min(int(raw), IMMUNITY_S_MAX) * 1_000
        elif name == names.TRANSACTION_CHECK_TIMES:
            event.check_count = min(int(raw), CHECK_COUNT_MAX)
        elif name == names.TRAN_PREPARED_QUEUE_OFFSET:
            event.first_half_offset = int(raw)


def digest_in(marker: bytes) -> int:
    """The digest at the end of a HALFHITCH header, also of a forwarded record; 0: there is none."""
    _, sign, digits = marker.rpartition(_DIGEST)
    return _digest(digits) if sign else UNKNOWN


def _digest(digits: bytes) -> int:
    try:
        return int.from_bytes(unhexlify(digits), "big") if len(digits) == _DIGITS else UNKNOWN
    except NotHex:
        return UNKNOWN


def _read_copy(event: HalfRead, raw: bytes) -> None:
    """`<stored_ms of the first>`, and what is known of its life besides.

    `;<resumed>;<fence>;<c or r>;<covered>`: of one put back, or renewed after it was decided.
    """
    first, *life = raw.split(b";")
    if not _is_number(first):
        return
    event.first_stored_ms = int(first)
    if len(life) == 4 and _is_number(life[0]) and _is_number(life[1]) and _is_number(life[3]):
        event.resumed_count, event.fence = int(life[0]), int(life[1])
        event.born = _BORN.get(life[2])
        event.born_count = min(int(life[3]), INDEX_MAX + 1)


def copied_headers(
    headers: Headers,
    half_offset: int,
    *,
    check_count: int,
    stored_ms: int,
    decision: tuple[Resolution, int] | None = None,
) -> Headers:
    """The headers of a half that is appended anew; the copy before lies at `half_offset`.

    Made from the headers themselves, not from what they mean: whatever another release has put
    there goes along. `stored_ms` is the broker time of the first copy. `decision`: how it is
    decided meanwhile, and how many messages that covers.
    """
    system_count = _system_count(headers)
    first_offset = b"%d" % half_offset
    life = b""
    kept: Headers = []
    for name, value in headers[:system_count]:
        if name == names.TRAN_PREPARED_QUEUE_OFFSET:
            first_offset = value or first_offset
        elif name == names.HALFHITCH_COPY:
            life = b"".join((value or b"").partition(b";")[1:])
        elif name != names.TRANSACTION_CHECK_TIMES:
            kept.append((name, value))
    if decision is not None:
        parts = life.split(b";")
        resumed, fence = parts[1:3] if len(parts) == 5 else (b"0", b"0")
        life = b";%b;%b;%b;%d" % (resumed, fence, decision[0].value.encode(), decision[1])
    if check_count:
        kept.append((names.TRANSACTION_CHECK_TIMES, b"%d" % check_count))
    kept.append((names.TRAN_PREPARED_QUEUE_OFFSET, first_offset))
    kept.append((names.HALFHITCH_COPY, b"%d%b" % (stored_ms, life)))
    return kept + headers[system_count:]


def instance_of(headers: Headers) -> str:
    """Who took the prepare; empty when that cannot be read. For a half that was read before."""
    parts = (headers[0][1] or b"").split(b";", 3)
    return _instance(parts[3]).decode(errors="replace") if len(parts) == 4 else ""


def born_ms_of(headers: Headers) -> int:
    """When it was prepared, by the clock of who took it; -1 when that cannot be read."""
    parts = (headers[0][1] or b"").split(b";", 3)
    return int(parts[2]) if len(parts) == 4 and _is_number(parts[2]) else -1


def _instance(raw: bytes) -> bytes:
    name, sign, digits = raw.rpartition(_DIGEST)
    return name if sign and len(digits) == _DIGITS else raw


def user_headers(headers: Headers) -> Headers:
    """The headers that the producer gave."""
    return headers[_system_count(headers) :]


def unknown_version(log_offset: int, version: bytes) -> Garbage:
    """A record of another version; passing over one of a newer release would lose what it says."""
    is_newer = version.isdigit() and len(version) <= 2 and int(version) > names.RECORD_VERSION
    return Garbage(
        log_offset, f"record version {version[:8]!r} is not known to this release", is_newer
    )


@lru_cache(maxsize=1_024)
def _group(raw: bytes) -> str:
    """Groups are few: one string for all halves of a group instead of one each."""
    return raw.decode()


def read_record(half_offset: int, headers: Headers | None) -> HalfRecord | Garbage:
    """The whole half record, for inspection and for re-appending."""
    identity = read_identity(half_offset, 0, 0, headers)
    if isinstance(identity, Garbage) or headers is None:
        return identity if isinstance(identity, Garbage) else Garbage(half_offset, "no headers")
    by_name = {name: value or b"" for name, value in headers[: _system_count(headers)]}
    try:
        _, _, born, instance = by_name[names.HALFHITCH].split(b";", 3)
        return HalfRecord(
            transaction_id=identity.identity[1],
            producer_group=identity.identity[0],
            index=identity.index,
            born_ms=_number(born),
            instance=_instance(instance).decode(),
            target_topic=by_name[names.REAL_TOPIC].decode(),
            target_partition=_partition(by_name.get(names.REAL_QID)),
            immunity_s=_optional_number(by_name.get(names.CHECK_IMMUNITY_TIME_IN_SECONDS)),
            check_count=_optional_number(by_name.get(names.TRANSACTION_CHECK_TIMES)) or 0,
            first_half_offset=_optional_number(by_name.get(names.TRAN_PREPARED_QUEUE_OFFSET)),
            first_stored_ms=identity.first_stored_ms if identity.first_stored_ms >= 0 else None,
            resumed_count=identity.resumed_count,
            fence=max(0, identity.fence),
            born=identity.born,
            born_count=identity.born_count,
            digest=identity.digest,
        )
    except (ValueError, KeyError):
        return Garbage(half_offset, "a system header does not parse")


@dataclass(slots=True, init=False)
class Forward:
    """Where a committed half goes and with which headers."""

    target_topic: str
    target_partition: int | None
    headers: Headers

    def __init__(
        self,
        target_topic: str,
        target_partition: int | None,
        headers: Headers,
    ) -> None:
        self.target_topic = target_topic
        self.target_partition = target_partition
        self.headers = headers


def read_forward(half_offset: int, headers: Headers | None) -> Forward | Garbage:
    """Target and headers of the forwarded record; the hot path of a commit."""
    if not headers or len(headers) < _FIXED_COUNT or headers[3][0] != _REAL_TOPIC:
        return Garbage(half_offset, "no REAL_TOPIC header in its place")
    system_count = _FIXED_COUNT
    partition: int | None = None
    try:
        topic = headers[3][1].decode()  # type: ignore[union-attr]
        if len(headers) > _FIXED_COUNT and headers[_FIXED_COUNT][0] in _SYSTEM:
            system_count = _system_count(headers)
            for name, value in headers[_FIXED_COUNT:system_count]:
                if name == names.REAL_QID:
                    partition = _partition(value)
    except (ValueError, AttributeError):
        return Garbage(half_offset, "REAL_TOPIC or REAL_QID does not parse")
    if not topic:
        return Garbage(half_offset, "REAL_TOPIC is empty")
    return Forward(topic, partition, [*headers[system_count:], *headers[1:3], headers[0]])


def _system_count(headers: Headers) -> int:
    """How many leading headers are ours; users cannot use these names, so the rest is theirs."""
    count = _FIXED_COUNT
    while count < len(headers) and headers[count][0] in _SYSTEM:
        count += 1
    return count


def _is_number(raw: bytes) -> bool:
    return raw.isdigit() and len(raw) <= DIGITS_MAX


def _number(raw: bytes) -> int:
    """A plain decimal; int() alone would take signs, blanks, underscores and a million digits."""
    if not _is_number(raw):
        raise ValueError(raw[:DIGITS_MAX])
    return int(raw)


def _optional_number(raw: bytes | None) -> int | None:
    return None if raw is None else _number(raw)


def _partition(raw: bytes | None) -> int | None:
    partition = _optional_number(raw)
    if partition is not None and partition > PARTITION_MAX:
        raise ValueError(partition)
    return partition
