"""From Kafka's messages to the columns of `message_columns`, in Arrow.

The same meaning as in `halfhitch_spark.columns`, which has it as Spark's expressions: here Python
reads the headers. `tests/spark/source/test_rows.py` gives both the same headers. Invariant: no
record is an exception that would stop a job at the same place for ever.
"""

import re
from operator import methodcaller
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from halfhitch.errors import ConfigurationError
from halfhitch.wire.half import INDEX_MAX
from halfhitch.wire.headers import HALFHITCH, PGROUP, RECORD_VERSION, UNIQ_KEY

_HEADER_TYPE: Final = StructType(
    [StructField("key", StringType()), StructField("value", BinaryType())]
)
#: What Spark calls them, to the letter as `message_columns` has them. Of types and not of words: a
#: session may be set to read `timestamp` as a time without a zone.
SCHEMA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("transaction_id", StringType()),
        StructField("producer_group", StringType()),
        StructField("message_index", IntegerType()),
        StructField("message_count", IntegerType()),
        StructField("born", TimestampType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("headers", ArrayType(_HEADER_TYPE), nullable=False),
    ]
)
_MOMENT: Final = pa.timestamp("us", tz="UTC")
_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_NAMES: Final = tuple(SCHEMA.names)

_MARKER: Final = re.compile(rf"{RECORD_VERSION};([0-9]{{1,9}});([0-9]{{1,19}});")
_COUNT: Final = re.compile(r";n=([0-9]{1,4})(?:;d=[^;]{16})?\Z")
#: See columns.py.
_BORN_DIGITS_MAX: Final = 14
_OURS: Final = frozenset({UNIQ_KEY, PGROUP, HALFHITCH})
#: Not `message.headers()`: where that is hot, the interpreter calls the binding without a look at
#: whether it has raised, and the process ends (halfhitch/adapters/kafka/readable.py).
_HEADERS: Final = methodcaller("headers")
_US: Final = 1_000
#: A producer may write any time; a later one has no microseconds in 64 bits.
_TIME_MS_MAX: Final = (2**63 - 1) // _US


class Understood(NamedTuple):
    """What the headers of a forwarded record say."""

    transaction_id: str
    producer_group: str
    message_index: int
    message_count: int | None
    born_us: int | None


def understand(headers: list[tuple[str, bytes | None]]) -> Understood | None:
    """None: Half Hitch did not forward it, or a later release did. Of each name the last counts."""
    marker = raw_id = raw_group = None
    for name, value in headers:
        if name == HALFHITCH:
            marker = value
        elif name == UNIQ_KEY:
            raw_id = value
        elif name == PGROUP:
            raw_group = value
    if not marker or not raw_id or not raw_group:
        return None
    text = marker.decode("utf-8", "replace")
    found = _MARKER.match(text)
    if found is None:
        return None
    try:
        transaction_id, producer_group = raw_id.decode(), raw_group.decode()
    except UnicodeDecodeError:
        return None
    index, born = int(found[1]), found[2]
    born_us = int(born) * _US if len(born) <= _BORN_DIGITS_MAX else None
    return Understood(transaction_id, producer_group, index, _count(text, index), born_us)


def _count(marker: str, index: int) -> int | None:
    found = _COUNT.search(marker)
    if found is None:
        return None
    said = int(found[1])
    return said if index < said <= INDEX_MAX + 1 else None


class Rows:
    """Messages of one partition, taken one by one, given as a record batch."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._begin()

    def _begin(self) -> None:
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._ids: list[str | None] = []
        self._groups: list[str | None] = []
        self._indexes: list[int | None] = []
        self._counts: list[int | None] = []
        self._born: list[int | None] = []
        self._offsets: list[int] = []
        self._times: list[int | None] = []
        self._header_ends: list[int] = [0]
        self._header_names: list[str] = []
        self._header_values: list[bytes | None] = []

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, message: Any) -> None:
        """One of confluent_kafka's messages."""
        headers = self._headers(message)
        known = understand(headers) if headers else None
        self._keys.append(message.key())
        self._values.append(message.value())
        self._offsets.append(message.offset())
        stored_ms = message.timestamp()[1]
        self._times.append(stored_ms * _US if abs(stored_ms) <= _TIME_MS_MAX else None)
        if known is None:
            for column in (self._ids, self._groups, self._indexes, self._counts, self._born):
                column.append(None)
        else:
            self._ids.append(known.transaction_id)
            self._groups.append(known.producer_group)
            self._indexes.append(known.message_index)
            self._counts.append(known.message_count)
            self._born.append(known.born_us)
        for name, value in headers:
            if known is None or name not in _OURS:
                self._header_names.append(name)
                self._header_values.append(value)
        self._header_ends.append(len(self._header_names))

    def _headers(self, message: Any) -> list[tuple[str, bytes | None]]:
        try:
            return _HEADERS(message) or []
        except SystemError as problem:
            message.set_headers([])  # what it holds now ends whoever touches it
            raise ConfigurationError(
                f"{self._topic}-{self._partition} at {message.offset()}: a header's name is not "
                "UTF-8, which this source cannot show. Read the topic through Spark's Kafka "
                "connector"
            ) from problem

    def taken(self) -> pa.RecordBatch:
        """What was added since the last time."""
        count = len(self)
        headers = pa.ListArray.from_arrays(
            pa.array(self._header_ends, pa.int32()),
            pa.StructArray.from_arrays(
                [
                    pa.array(self._header_names, pa.string()),
                    pa.array(self._header_values, pa.binary()),
                ],
                fields=list(_HEADER),
            ),
        )
        columns = [
            pa.array(self._keys, pa.binary()),
            pa.array(self._values, pa.binary()),
            pa.array(self._ids, pa.string()),
            pa.array(self._groups, pa.string()),
            pa.array(self._indexes, pa.int32()),
            pa.array(self._counts, pa.int32()),
            pa.array(self._born, _MOMENT),
            pa.repeat(pa.scalar(self._topic, pa.string()), count),
            pa.repeat(pa.scalar(self._partition, pa.int32()), count),
            pa.array(self._offsets, pa.int64()),
            pa.array(self._times, _MOMENT),
            headers,
        ]
        self._begin()
        return pa.RecordBatch.from_arrays(columns, names=list(_NAMES))
