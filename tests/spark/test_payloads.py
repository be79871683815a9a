"""Typed values; what does not fit is a row with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812

from halfhitch.errors import ConfigurationError
from halfhitch_spark.payloads import confluent_prefix, json_payload, protobuf_body, with_payload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from halfhitch_spark.payloads import Payload

pytestmark = pytest.mark.spark

SCHEMA = "order_id string, points bigint"
PREFIX = b"\x00\x00\x00\x00\x07"
BAD_JSON = "it is not JSON of the schema"


def values(spark: SparkSession, given: Sequence[bytes | None]) -> DataFrame:
    rows = [(number, value) for number, value in enumerate(given)]
    return spark.createDataFrame(rows, "number int, value binary")


def read(
    spark: SparkSession, given: Sequence[bytes | None], payload: Payload
) -> list[tuple[tuple[object, ...] | None, str | None]]:
    rows = with_payload(values(spark, given), payload).orderBy("number").collect()
    for row, value in zip(rows, given, strict=True):
        letter = row["dead_letter"]
        assert letter is None or bytes(letter["value"]) == value, "a dead letter keeps its value"
    return [
        (
            None if row["payload"] is None else tuple(row["payload"]),
            None if row["dead_letter"] is None else row["dead_letter"]["reason"],
        )
        for row in rows
    ]


def test_a_value_that_does_not_fit_is_a_dead_letter_and_the_job_goes_on(
    spark: SparkSession,
) -> None:
    cases: dict[bytes | None, tuple[tuple[object, ...] | None, str | None]] = {
        b'{"order_id":"o","points":3}': (("o", 3), None),
        b'{"points":3,"more":[1]}': ((None, 3), None),
        b"{}": ((None, None), None),
        b'{"order_id":"\xc3\xb8","points":null}': (("ø", None), None),
        None: (None, None),  # a tombstone is no failure
        b"": (None, BAD_JSON),
        b"null": (None, BAD_JSON),
        b"5": (None, BAD_JSON),
        b"[]": (None, BAD_JSON),
        b'[{"order_id":"o"}]': (None, BAD_JSON),
        b'{"order_id":"o"': (None, BAD_JSON),
        b'{"order_id":"o","points":"three"}': (None, BAD_JSON),
        b'{"points":9223372036854775808}': (None, BAD_JSON),
        b'\xff{"order_id":"o"}': (None, "it is not UTF-8"),
    }
    found = read(spark, list(cases), json_payload(SCHEMA))
    assert dict(zip(cases, found, strict=True)) == cases
    # Spark's own function gives a row of nulls, as if it had been a message of nulls.
    text = F.col("value").cast("string")
    (own,) = values(spark, [b"garbage"]).select(F.from_json(text, SCHEMA).alias("own")).collect()
    assert tuple(own["own"]) == (None, None)


def test_confluents_five_bytes_are_taken_off_and_what_has_none_does_not_fit(
    spark: SparkSession,
) -> None:
    no_prefix = "it does not begin as Confluent's serializers begin"
    given = [
        PREFIX + b'{"points":3}', b'{"points":3}', PREFIX, PREFIX[:4], b"", b"\x01" + PREFIX[1:]
    ]  # fmt: skip
    assert read(spark, given, json_payload(SCHEMA, confluent=True)) == [
        ((None, 3), None), (None, no_prefix), (None, BAD_JSON), (None, no_prefix),
        (None, no_prefix), (None, no_prefix),
    ]  # fmt: skip


def test_the_highest_number_of_a_schema_does_not_end_the_job(spark: SparkSession) -> None:
    rows = values(spark, [b"\x00\xff\xff\xff\xffbody"])
    (row,) = rows.select(confluent_prefix(F.col("value")).alias("prefix")).collect()
    assert (row["prefix"]["schema_id"], bytes(row["prefix"]["body"])) == (2**32 - 1, b"body")


def test_of_protobufs_prefix_only_the_first_message_of_a_file_is_taken(
    spark: SparkSession,
) -> None:
    given = [
        PREFIX + b"\x00body",
        PREFIX + b"\x00",
        PREFIX + b"\x02\x02body",
        PREFIX,
        b"body",
        None,
    ]
    rows = values(spark, given).orderBy("number").select(protobuf_body(F.col("value")).alias("b"))
    found = [None if row["b"] is None else bytes(row["b"]) for row in rows.collect()]
    assert found == [b"body", b"", None, None, None, None]


def test_a_payload_is_an_object_and_has_no_field_of_ours(spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match="struct"):
        json_payload("bigint")
    with pytest.raises(ConfigurationError, match="_halfhitch_corrupt"):
        json_payload("_halfhitch_corrupt string")
