"""Python reads headers as Spark's expressions do."""

from __future__ import annotations

import datetime as dt
import random
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.errors import ConfigurationError
from halfhitch.wire.headers import HALFHITCH, PGROUP, UNIQ_KEY
from halfhitch_spark import message_columns
from halfhitch_spark.columns import HEADERS_TYPE
from halfhitch_spark.source.rows import SCHEMA, Rows, understand
from harness.forwards import forwarded_headers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Headers = list[tuple[str, bytes | None]]

_KAFKA_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    f"timestampType int, headers {HEADERS_TYPE}"
)
_STORED_MS = 1_767_323_045_678
MARKERS = [
    *(b"1;0;0;i", b"1;1;1700000000123;i;n=2", b"1;1;0;i;n=2;d=0123456789abcdef", b"1;999999999;"),
    *(b"1;999999999;99999999999999;i", b"1;0;100000000000000;i", b"1;0;9999999999999999999;i"),
    *(b"1;1;0;i;n=1;d=0123456789abcdef", b"1;1;0;i;n=0", b"1;1;0;i;n=-2", b"1;1;0;i;n=1001"),
    *(b"1;999;0;i;n=1000", b"1;1;0;i;n=9;n=2", b"1;1;0;i;n=2\n", b"1;1;0;i;n=2;more", b"1;1;0;"),
    *(b"1;1;0;\xff;n=2", b"1;1;0;i;n=\xd9\xa2", b"1;\xd9\xa1;0;i", b"\n1;1;0;i", b"\xff1;1;0;i"),
    *(b"2;1;0;i", b"10;1;0;i", b";1;0;i", b"", b"1;one;0;i", b"1;-1;0;i", b"1;9999999999;0;i"),
    *(b"1;1;0;\xf0\x9f\x8e\xa3;n=2;d=\xf0\x9f\x8e\xa3123456789abcdef", b"1;1;soon;i", b"1;1;0"),
    *(b"1;0000000001;0;i", b"1;000000001;00000000000001;i;n=0002", b"1;1;0;i;n=2;d=", b" 1;1;0;i"),
]
TEXTS = [
    b"t",
    "order-Ω".encode(),
    b"",
    b"\xc3(",
    b"\xff",
    b"\xed\xa0\x80",
    b"\x00",
    b"\xf0\x9f\x8e\xa3",
]


class Message:
    """As confluent_kafka gives it."""

    def __init__(self, at: int, headers: Headers | None) -> None:
        self._at, self._headers = at, headers

    def key(self) -> bytes | None:
        return None if self._at % 3 == 0 else b"\xff%d" % self._at

    def value(self) -> bytes | None:
        return None if self._at % 4 == 0 else b"value %d" % self._at

    def offset(self) -> int:
        return self._at

    def timestamp(self) -> tuple[int, int]:
        return 1, _STORED_MS + self._at

    def headers(self) -> Headers | None:
        return self._headers


def cases(count: int) -> list[Headers | None]:
    """Every marker with a good id, then whatever comes: the same each time."""
    chance = random.Random(7)
    found: list[Headers | None] = [None, []]
    found += [[(UNIQ_KEY, b"t"), (PGROUP, b"g"), (HALFHITCH, marker)] for marker in MARKERS]
    names = (UNIQ_KEY, PGROUP, HALFHITCH, "trace", "", "halfhitch", "größe")
    while len(found) < count:
        headers: Headers = []
        for name in chance.choices(names, k=chance.randint(1, 7)):
            some: list[bytes | None] = [*(MARKERS if name == HALFHITCH else TEXTS), None]
            headers.append((name, chance.choice(some)))
        if chance.random() < 0.5:
            headers += forwarded_headers("t", index=2, count=chance.choice([None, 3, 5]))
        found.append(headers)
    return found


@pytest.mark.spark
@pytest.mark.parametrize("count", [60, pytest.param(400, marks=pytest.mark.long)])
def test_the_rows_are_those_of_spark_s_own_expressions(spark: SparkSession, count: int) -> None:
    given = cases(count)
    rows = Rows("points", 3)
    messages = [Message(at, headers) for at, headers in enumerate(given)]
    for message in messages:
        rows.add(message)
    assert len(rows) == count
    ours = rows.taken().to_pylist()
    stored = [dt.datetime.fromtimestamp(m.timestamp()[1] / 1_000, dt.UTC) for m in messages]
    kafka = [
        (m.key(), m.value(), "points", 3, m.offset(), stored[m.offset()], 0, m.headers())
        for m in messages
    ]
    theirs = message_columns(spark.createDataFrame(kafka, _KAFKA_SCHEMA)).orderBy("offset")
    understood = 0
    for shown, row in zip(ours, theirs.collect(), strict=True):
        expected = row.asDict(recursive=True)
        for name in ("born", "timestamp"):
            moment = expected[name]
            expected[name] = moment and moment.astimezone(dt.UTC)
        assert shown == expected, given[shown["offset"]]
        understood += shown["transaction_id"] is not None
    assert count // 8 < understood < count - count // 8


@pytest.mark.spark
def test_the_columns_are_those_of_the_reader_and_in_its_order(spark: SparkSession) -> None:
    theirs = message_columns(spark.createDataFrame([], _KAFKA_SCHEMA))
    assert theirs.schema.json() == SCHEMA.json()
    assert Rows("t", 0).taken().schema.names == theirs.columns


def test_what_was_taken_is_not_given_again() -> None:
    rows = Rows("points", 0)
    rows.add(Message(1, forwarded_headers("t")))
    assert rows.taken().num_rows == 1
    assert not rows
    rows.add(Message(2, None))
    (row,) = rows.taken().to_pylist()
    assert (row["offset"], row["headers"], row["transaction_id"]) == (2, [], None)


def test_a_time_that_no_microseconds_have_ended_the_job_at_that_place_for_ever() -> None:
    class Late(Message):
        def timestamp(self) -> tuple[int, int]:
            return 1, 2**63 - 1

    rows = Rows("points", 0)
    rows.add(Late(1, None))
    (row,) = rows.taken().to_pylist()
    assert (row["offset"], row["timestamp"]) == (1, None)


def test_of_several_system_headers_the_last_counts() -> None:
    copied = [*forwarded_headers("elsewhere"), *forwarded_headers("true", index=2, count=3)]
    found = understand(copied)
    assert found is not None
    assert (found.transaction_id, found.message_index, found.message_count) == ("true", 2, 3)


def test_a_header_whose_name_cannot_be_shown_is_told_with_its_place() -> None:
    """As confluent_kafka has it: a result and an error at once, again at whoever looks at them."""

    class Strange(Message):
        held: Any = None

        def headers(self) -> Any:
            raise SystemError("returned a result with an exception set")

        def set_headers(self, headers: Any) -> None:
            self.held = headers

    message = Strange(17, None)
    with pytest.raises(ConfigurationError, match=r"points-0 at 17.*connector"):
        Rows("points", 0).add(message)
    assert message.held == [], "what it held is let go"
