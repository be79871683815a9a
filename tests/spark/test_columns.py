"""What the headers of a record become, without Kafka."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.wire.count import count_in
from halfhitch.wire.headers import PGROUP, UNIQ_KEY
from halfhitch_spark import message_columns
from halfhitch_spark.columns import HEADERS_TYPE
from harness.forwards import forwarded_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Row, SparkSession

    from halfhitch.wire.half import Headers

pytestmark = pytest.mark.spark

_KAFKA_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    f"timestampType int, headers {HEADERS_TYPE}"
)
_STORED_AT = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
_OF_HALF_HITCH = ("transaction_id", "producer_group", "message_index", "message_count", "born")


def read_rows(spark: SparkSession, cases: Sequence[Headers | None]) -> list[Row]:
    """One row for each list of headers, in order."""
    rows = [
        (b"key", b"value", "points", 0, number, _STORED_AT, 0, headers)
        for number, headers in enumerate(cases)
    ]
    shown = message_columns(spark.createDataFrame(rows, _KAFKA_SCHEMA)).collect()
    return sorted(shown, key=lambda row: row["offset"])


def headers_of(row: Row) -> list[tuple[str, bytes | None]]:
    return [(h["key"], None if h["value"] is None else bytes(h["value"])) for h in row["headers"]]


def test_the_columns_have_the_documented_names_and_types(spark: SparkSession) -> None:
    empty = message_columns(spark.createDataFrame([], _KAFKA_SCHEMA))
    assert [(name, kind) for name, kind in empty.dtypes] == [
        ("key", "binary"),
        ("value", "binary"),
        ("transaction_id", "string"),
        ("producer_group", "string"),
        ("message_index", "int"),
        ("message_count", "int"),
        ("born", "timestamp"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("headers", HEADERS_TYPE),
    ]


def test_a_forwarded_record_tells_its_transaction_and_keeps_the_users_headers(
    spark: SparkSession,
) -> None:
    user = [("trace", b"1"), ("raw", b"\xff\xfe"), ("trace", b"1"), ("none", None), ("", b"")]
    headers = forwarded_headers(
        "order-Ω", index=7, user=user, producer_group="größe", instance="a;b;c", count=12
    )
    (row,) = read_rows(spark, [headers])
    assert row["transaction_id"] == "order-Ω"
    assert row["producer_group"] == "größe"
    assert (row["message_index"], row["message_count"]) == (7, 12)
    assert row["born"].timestamp() == 1_700_000_000.123
    assert headers_of(row) == user
    assert (bytes(row["key"]), bytes(row["value"])) == (b"key", b"value")


def test_without_user_headers_the_list_is_empty_not_null(spark: SparkSession) -> None:
    ours, bare, empty = read_rows(spark, [forwarded_headers("t"), None, []])
    assert ours["headers"] == bare["headers"] == empty["headers"] == []


def forged(**replaced: bytes | None) -> Headers:
    """A forwarded record with other values in its system headers."""
    return [(name, replaced.get(name, value)) for name, value in forwarded_headers("t", index=1)]


NOT_UNDERSTOOD: dict[str, Any] = {
    "no headers": None,
    "foreign headers": [("trace", b"1"), ("trace", None)],
    "RocketMQ's names alone": [(UNIQ_KEY, b"t"), (PGROUP, b"g")],
    "a later version": forged(HALFHITCH=b"2;1;1700000000123;i"),
    "a version that begins like ours": forged(HALFHITCH=b"10;1;1700000000123;i"),
    "no version": forged(HALFHITCH=b";1;1700000000123;i"),
    "an empty marker": forged(HALFHITCH=b""),
    "a null marker": forged(HALFHITCH=None),
    "too few parts": forged(HALFHITCH=b"1;1;1700000000123"),
    "an index that is no number": forged(HALFHITCH=b"1;one;1700000000123;i"),
    "a negative index": forged(HALFHITCH=b"1;-1;1700000000123;i"),
    "an index too long for an int": forged(HALFHITCH=b"1;99999999999;1700000000123;i"),
    "a born time that is no number": forged(HALFHITCH=b"1;1;soon;i"),
    "digits that are not ASCII": forged(HALFHITCH=b"1;\xd9\xa1;1700000000123;i"),
    "a line break before the version": forged(HALFHITCH=b"\n1;1;1700000000123;i"),
    "a marker that is not UTF-8": forged(HALFHITCH=b"\xff1;1;1700000000123;i"),
    "an id that is not UTF-8": forged(UNIQ_KEY=b"\xc3("),
    "an empty id": forged(UNIQ_KEY=b""),
    "a null id": forged(UNIQ_KEY=None),
    "no id": [header for header in forwarded_headers("t") if header[0] != UNIQ_KEY],
    "a group that is not UTF-8": forged(PGROUP=b"\xff"),
    "an empty group": forged(PGROUP=b""),
    "no group": [header for header in forwarded_headers("t") if header[0] != PGROUP],
}


def test_a_record_that_is_not_understood_is_a_row_with_nulls_and_all_its_headers(
    spark: SparkSession,
) -> None:
    rows = read_rows(spark, list(NOT_UNDERSTOOD.values()))
    for (case, given), row in zip(NOT_UNDERSTOOD.items(), rows, strict=True):
        assert [row[name] for name in _OF_HALF_HITCH] == [None] * 5, case
        assert headers_of(row) == list(given or ()), case


def test_extreme_numbers_are_values_or_null_never_an_exception(spark: SparkSession) -> None:
    cases: list[tuple[bytes, int, float | None]] = [
        (b"1;0;0;i", 0, 0.0),
        (b"1;999999999;99999999999999;i", 999_999_999, 99_999_999_999.999),
        (b"1;0;100000000000000;i", 0, None),  # Python has no such date
        (b"1;0;9223372036854775807;i", 0, None),
        (b"1;0;9999999999999999999;i", 0, None),  # more than a bigint
        (b"1;3;1;\xff", 3, 0.001),  # the instance is not shown, so it need not be readable
    ]
    rows = read_rows(spark, [forged(HALFHITCH=marker) for marker, _, _ in cases])
    for (marker, index, born_s), row in zip(cases, rows, strict=True):
        assert (row["transaction_id"], row["message_index"]) == ("t", index), marker
        assert (row["born"] and row["born"].timestamp()) == born_s, marker


def test_a_count_is_shown_where_it_can_be_true_and_is_null_where_it_cannot(
    spark: SparkSession,
) -> None:
    said = b";d=0123456789abcdef"
    cases: list[tuple[bytes, int | None]] = [
        (b"1;1;0;i;n=2", 2),
        (b"1;1;0;i;n=2" + said, 2),
        (b"1;999;0;i;n=1000" + said, 1_000),
        (b"1;1;0;i;n=9;n=2" + said, 2),  # the last is the owner's
        (b"1;1;0;i", None),  # forwarded by an earlier release
        (b"1;1;0;i" + said, None),
        (b"1;1;0;i;n=1" + said, None),  # contradicts its own index
        (b"1;1;0;i;n=0", None),
        (b"1;1;0;i;n=-2", None),
        (b"1;1;0;i;n=1001", None),
        (b"1;1;0;i;n=99999", None),
        (b"1;1;0;i;n=2\n", None),
        (b"1;1;0;i;n=2;more", None),
        (b"1;1;0;i;n=\xd9\xa2", None),
        (b"1;1;0;\xff;n=2", 2),
    ]
    rows = read_rows(spark, [forged(HALFHITCH=marker) for marker, _ in cases])
    for (marker, count), row in zip(cases, rows, strict=True):
        assert (row["transaction_id"], row["message_count"]) == ("t", count), marker
        assert count is None or count_in(marker) == count, marker


def test_of_several_system_headers_the_last_counts_as_it_is_the_forwarders(
    spark: SparkSession,
) -> None:
    copied = [*forwarded_headers("copied from elsewhere"), *forwarded_headers("true", index=2)]
    (row,) = read_rows(spark, [copied])
    assert (row["transaction_id"], row["message_index"], row["headers"]) == ("true", 2, [])
