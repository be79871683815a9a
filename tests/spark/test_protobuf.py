"""Protobuf values, as far as it goes without Spark's package: a stand-in reads the bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812

from halfhitch_spark import protobuf, protobuf_package, protobuf_payload, with_payload

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

pytestmark = pytest.mark.spark

#: Confluent's: a zero, the schema's number, and that the type is the first of its file.
PREFIX = b"\x00\x00\x00\x00\x07\x00"


def test_a_session_without_spark_s_package_is_told_which_it_needs(spark: SparkSession) -> None:
    values = spark.createDataFrame([(b"",)], "value binary")
    assert protobuf_package() == f"org.apache.spark:spark-protobuf_2.13:{pyspark.__version__}"
    with pytest.raises(AnalysisException, match="spark-protobuf"):
        with_payload(values, protobuf_payload("shop.Order", b""))


def test_spark_s_function_is_given_the_bodies_and_what_it_cannot_read_is_a_dead_letter(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, Any]] = []

    def stand_in(value: Column, message: str, **more: Any) -> Column:
        asked.append((message, more))
        number = F.try_validate_utf8(value.cast("string")).try_cast("int")
        return F.when(number.isNotNull(), F.struct(number.alias("points")))

    monkeypatch.setattr(protobuf, "from_protobuf", stand_in)
    given = [PREFIX + b"5", b"5", PREFIX + b"x", None, PREFIX[:5] + b"\x025"]
    values = spark.createDataFrame(list(enumerate(given)), "number int, value binary")
    typed = with_payload(values, protobuf_payload("shop.Order", b"desc", confluent=True))
    rows = typed.orderBy("number").collect()
    assert [row["payload"] and row["payload"]["points"] for row in rows] == [5, *[None] * 4]
    reasons = [row["dead_letter"] and row["dead_letter"]["reason"] for row in rows]
    theirs = "it does not begin as Confluent's serializers begin"
    assert reasons == [None, theirs, "it is not Protobuf of the message", None, theirs]
    assert asked == [
        ("shop.Order", {"binaryDescriptorSet": b"desc", "options": {"mode": "PERMISSIVE"}})
    ]
    bare = with_payload(values.where("number = 1"), protobuf_payload("shop.Order", b"desc"))
    assert [row["payload"]["points"] for row in bare.collect()] == [5]
