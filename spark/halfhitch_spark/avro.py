"""Avro values as typed columns, through Spark's own function; of one schema, or of a registry.

    payload = avro_payload(schema, registry=schema_registry("https://schemas:8081"))

Avro says nothing about itself: bytes of one schema are bytes of many others. Spark's function reads
as far as it can, leaves the rest, and gives a row of nulls, or ends the job, where it cannot. Here
a known end is put behind each value and read as part of it, so that a value fits exactly or not at
all; and the value lies in a field of its own, so that nulls in it are not taken for a failure.
"""

import json
from collections.abc import Callable
from typing import Any, Final

import pyspark
from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that Spark's own documentation uses

from halfhitch.errors import ConfigurationError
from halfhitch_spark.payloads import NO_PREFIX, Payload, confluent_prefix
from halfhitch_spark.schemas import SchemaOf

#: So many schemas of a registry are looked up for one batch, the commonest first: each is a branch
#: of the query, and whoever may write to a topic may invent numbers.
SCHEMAS_MAX: Final = 100
_END: Final = b"\x93halfend"
_UNFIT: Final = "it is not Avro of the schema"


def avro_package() -> str:
    """The Maven coordinates of Spark's Avro functions that fit the installed PySpark."""
    return f"org.apache.spark:spark-avro_2.13:{pyspark.__version__}"


def avro_payload(schema: str, *, registry: SchemaOf | None = None) -> Payload:
    """Avro records. `schema` (JSON) is the one they were written with.

    With `registry` each value begins with Confluent's five bytes and is read with the schema of its
    own number, then seen as `schema`, by Avro's rules of evolution. The numbers are looked up batch
    by batch: a stream takes such a payload through `typed_batches`. What has no schema, does not
    fit its own, or cannot be seen as `schema` is a dead letter.
    """
    wanted = _record(schema)

    def read(value: Column) -> Column:
        return _read(value, wanted, wanted)

    if registry is None:
        return Payload(read, lambda _: F.lit(_UNFIT))

    def for_batch(messages: DataFrame) -> Payload:
        return _numbered(_numbers(messages), registry, wanted)

    return Payload(lambda value: F.when(F.lit(False), read(value)), _unlooked, for_batch)


def _numbered(numbers: list[int], registry: SchemaOf, wanted: str) -> Payload:
    """Of a batch in which these schemas are found."""
    written: dict[int, str] = {}
    without: dict[int, str] = {}
    for number in numbers:
        try:
            written[number] = _record(registry(number))
        except (LookupError, _NoRecord) as problem:
            reason = problem.args[0] if problem.args else f"no schema {number}"
            without[number] = str(reason)

    def read(value: Column) -> Column:
        prefix = confluent_prefix(value)
        found = F.when(F.lit(False), _read(value, wanted, wanted))
        for number, schema in written.items():
            is_it = prefix["schema_id"] == number
            found = found.when(is_it, _read(prefix["body"], schema, wanted))
        return found

    def why(value: Column) -> Column:
        number = confluent_prefix(value)["schema_id"]
        reason = F.when(number.isNull(), NO_PREFIX)
        for known in written:
            text = f"it is not Avro of schema {known}, or cannot be seen as the schema asked for"
            reason = reason.when(number == known, text)
        for unknown, text in without.items():
            reason = reason.when(number == unknown, text)
        return reason.otherwise(_unlooked(value))

    return Payload(read, why)


def _unlooked(value: Column) -> Column:
    number = confluent_prefix(value)["schema_id"].cast("string")
    return F.concat(
        F.lit("schema "), number, F.lit(f" is not among the {SCHEMAS_MAX} that were looked up")
    )


def _numbers(messages: DataFrame) -> list[int]:
    """Of the schemas in a batch, the commonest first."""
    number = confluent_prefix(F.col("value"))["schema_id"].alias("number")
    counted = messages.select(number).where("number is not null").groupBy("number").count()
    commonest = counted.orderBy(F.desc("count"), "number").limit(SCHEMAS_MAX)
    return [int(row["number"]) for row in commonest.collect()]


def _read(body: Column, written: str, wanted: str) -> Column:
    from pyspark.sql.avro.functions import from_avro

    options = {"mode": "PERMISSIVE", "avroSchema": wanted}
    found = from_avro(F.concat(body, F.lit(_END)), written, options)
    return F.when(found["end"] == F.lit(_END), found["value"])


class _NoRecord(ConfigurationError):
    """A schema that cannot be used."""


def _record(schema: str) -> str:
    """The schema of a value with its end behind it; _NoRecord for what is no record of Avro's."""
    try:
        given: Any = json.loads(schema)
    except ValueError as problem:
        raise _NoRecord(f"the schema is not JSON: {problem}") from None
    if not isinstance(given, dict) or given.get("type") != "record":
        raise _NoRecord("the schema is no Avro record: a payload is a struct")
    end = {"type": "fixed", "name": "_halfhitch_end", "size": len(_END)}
    fields = [{"name": "value", "type": given}, {"name": "end", "type": end}]
    whole = json.dumps({"type": "record", "name": "_halfhitch_payload", "fields": fields})
    try:
        _parser()().parse(whole)
    except Py4JJavaError as problem:
        told = problem.java_exception.getMessage()
        raise _NoRecord(f"the schema is not Avro: {told}") from None
    return whole


def _parser() -> Callable[[], Any]:
    """Avro's own, if Spark's functions are there, too."""
    jvm: Any = SparkSession.active()._jvm  # noqa: SLF001
    if isinstance(jvm.org.apache.spark.sql.avro.functions, JavaPackage):
        raise ConfigurationError(
            "this Spark session has no functions for Avro. Start it with "
            f"spark.jars.packages={avro_package()} (or --packages with spark-submit), beside the "
            "connector's"
        )
    parser: Callable[[], Any] = getattr(jvm.org.apache.avro, "Schema$Parser")
    return parser
