"""Avro values: exactly what the schema says, or a dead letter; a real Kafka, a registry on HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql.avro.functions import from_avro

from halfhitch.errors import ConfigurationError
from halfhitch_spark import (
    avro,
    avro_package,
    avro_payload,
    read_stream,
    schema_registry,
    typed_batches,
    with_payload,
)
from harness.forwards import commit_records, half_hitch_record
from harness.kafka import create_topics, fresh_name
from harness.registry import registry_server

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from halfhitch.embedded import EmbeddedKafka
    from halfhitch_spark import Payload

pytestmark = pytest.mark.spark


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields)}


ORDER_ID = {"name": "order_id", "type": ["null", "string"]}
OLD = record(ORDER_ID, {"name": "points", "type": "int"})
NEW = record(
    {"name": "points", "type": "long"}, {"name": "customer", "type": "string", "default": "?"}
)
ANOTHER = record({"name": "points", "type": "string"})
#: Of OLD: order "o", 3 points; no order, 3 points.
THREE, NAMELESS = b"\x02\x02o\x06", b"\x00\x06"
UNFIT = "it is not Avro of the schema"


def values(spark: SparkSession, given: Sequence[bytes | None]) -> DataFrame:
    return spark.createDataFrame([(value,) for value in given], "value binary").coalesce(1)


def read(
    spark: SparkSession, given: Sequence[bytes | None], payload: Payload
) -> list[tuple[object, ...] | str | None]:
    return [shown(row) for row in with_payload(values(spark, given), payload).collect()]


def shown(row: Any) -> tuple[object, ...] | str | None:
    assert row["payload"] is None or row["dead_letter"] is None
    if row["dead_letter"] is not None:
        return str(row["dead_letter"]["reason"])
    return None if row["payload"] is None else tuple(row["payload"])


def framed(number: int, body: bytes) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + body


def test_a_value_fits_the_schema_exactly_or_is_a_dead_letter(spark: SparkSession) -> None:
    given = [THREE, NAMELESS, None, THREE + b"x", THREE[:-1], b"", b"\xff" * 40, b'{"points":3}']
    found = read(spark, given, avro_payload(json.dumps(OLD)))
    assert found == [("o", 3), (None, 3), None, UNFIT, UNFIT, UNFIT, UNFIT, UNFIT]
    # Spark's own function ends the job, for ever at the same offset; or, if told to go on, gives a
    # row of nulls; and what stands behind a value is nothing to it.
    schema = json.dumps(OLD)
    with pytest.raises(Py4JJavaError, match="FAILFAST"):
        values(spark, [b""]).select(from_avro("value", schema)).collect()
    lenient = from_avro("value", schema, {"mode": "PERMISSIVE"}).alias("own")
    own = values(spark, [b"", THREE + b"x"]).select(lenient).collect()
    assert [tuple(row["own"]) for row in own] == [(None, None), ("o", 3)]


def test_each_value_is_read_with_its_own_schema_and_seen_as_the_one_asked_for(
    spark: SparkSession,
) -> None:
    with registry_server() as registry:
        registry.keep(1, OLD)
        registry.keep(2, NEW)
        registry.keep(3, ANOTHER)
        registry.schemas[4] = {"schema": "{"}
        registry.schemas[5] = {"schema": '"string"'}
        registry.schemas[6] = {"schema": '{"type":"record","name":"A B","fields":[]}'}
        registry.schemas[2**32 - 1] = {"schema": "", "schemaType": "JSON"}
        payload = avro_payload(json.dumps(NEW), registry=schema_registry(registry.url))
        bodies = [(1, THREE), (2, b"\x06\x02a"), (1, b"\x06"), (3, b"\x02a"), (9, THREE)]
        bodies += [(4, b""), (5, b""), (6, b""), (2**32 - 1, b"")]
        found = read(spark, [*(framed(*one) for one in bodies), THREE, b"", None], payload)
    no_prefix = "it does not begin as Confluent's serializers begin"
    whys = [str(one).split(":")[0] for one in found[2:-1]]
    assert found[:2] == [(3, "?"), (3, "a")]
    assert whys == [
        "it is not Avro of schema 1, or cannot be seen as the schema asked for",
        "it is not Avro of schema 3, or cannot be seen as the schema asked for",
        "the registry has no schema 9", "the schema is not JSON",
        "the schema is no Avro record", "the schema is not Avro",
        "schema 4294967295 is JSON, not Avro", no_prefix, no_prefix,
    ]  # fmt: skip
    assert found[-1] is None


def test_invented_numbers_do_not_crowd_out_the_common_ones(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(avro, "SCHEMAS_MAX", 2)
    asked: list[int] = []

    def schema_of(number: int) -> str:
        asked.append(number)
        return json.dumps(OLD)

    given = [framed(n, THREE) for n in (1, 2, 3, 50, 50)]
    found = read(spark, given, avro_payload(json.dumps(OLD), registry=schema_of))
    assert asked == [50, 1]
    assert [str(one) for one in found[1:3]] == [
        f"schema {n} is not among the 2 that were looked up" for n in (2, 3)
    ]


def test_what_cannot_be_read_at_all_is_told_before_a_query_begins(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for schema, why in (("{", "not JSON"), ('"int"', "struct"), ('{"type":"record"}', "not Avro")):
        with pytest.raises(ConfigurationError, match=why):
            avro_payload(schema)
    stream = spark.readStream.format("rate").load().selectExpr("binary('') AS value")
    payload = avro_payload(json.dumps(OLD), registry=lambda _: "")
    with pytest.raises(ConfigurationError, match="typed_batches"):
        with_payload(stream, payload)
    monkeypatch.setattr(avro, "JavaPackage", object)
    with pytest.raises(ConfigurationError, match=avro_package()):
        avro_payload(json.dumps(OLD))


@pytest.mark.kafka
def test_a_schema_that_is_registered_while_the_stream_runs_is_read(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic, checkpoint = fresh_name("avro"), (tmp_path / "checkpoint").as_uri()
    create_topics(kafka.bootstrap, {topic: 1})
    seen: list[tuple[object, ...] | str | None] = []

    def each(batch: DataFrame, _: int) -> None:
        seen.extend(shown(row) for row in batch.collect())

    def send(value: bytes) -> None:
        commit_records(kafka.bootstrap, topic, [half_hitch_record("t", value, count=1)])

    with registry_server() as registry:
        registry.keep(1, OLD)
        payload = avro_payload(json.dumps(NEW), registry=schema_registry(registry.url))
        messages = read_stream(spark, kafka.bootstrap, topic, checkpoint=checkpoint)
        writer = messages.writeStream.foreachBatch(typed_batches(each, payload))
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            send(framed(1, THREE))
            query.processAllAvailable()
            registry.keep(2, NEW)
            send(framed(2, b"\x06\x02a"))
            query.processAllAvailable()
        finally:
            query.stop()
    assert seen == [(3, "?"), (3, "a")]
