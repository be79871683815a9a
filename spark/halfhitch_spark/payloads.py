"""Values as typed columns; a value that does not fit is a row with its reason, and the job goes on.

    orders = with_payload(messages, json_payload("order_id string, points bigint"))
    good = orders.where("dead_letter is null")

`payload` is what the value says; `dead_letter` is null, or has the reason and the value as it came.
Exactly one of both is null, but for a record without a value (a tombstone): there both are.

Confluent's serializers put five bytes before the value: a zero, and the number of the schema
(`confluent_prefix`); of Protobuf's, the place of the message in its file as well (`protobuf_body`).
Another format is a `Payload` of one's own, out of Spark's functions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name that Spark's own documentation uses
from pyspark.sql.types import DataType, StringType, StructField, StructType

from halfhitch.errors import ConfigurationError

_CORRUPT: Final = "_halfhitch_corrupt"
_PREFIX_BYTES: Final = 5
NO_PREFIX: Final = "it does not begin as Confluent's serializers begin"


@dataclass(frozen=True, slots=True)
class Payload:
    """How a value is read: `read` gives the struct, or null; `why` the reason if it gave none.

    `for_batch` looks at a batch first, and gives what it is to be read with.
    """

    read: Callable[[Column], Column]
    why: Callable[[Column], Column]
    for_batch: "Callable[[DataFrame], Payload] | None" = None


def json_payload(schema: str | StructType, *, confluent: bool = False) -> Payload:
    """JSON objects. A field that is missing is null; one of another type does not fit."""
    wanted = DataType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(wanted, StructType):
        raise ConfigurationError("a JSON payload is an object: give the schema of a struct")
    if any(field.name.lower() == _CORRUPT for field in wanted.fields):
        raise ConfigurationError(f"no field may be called {_CORRUPT}")
    fields = [field.name for field in wanted.fields]
    full = StructType([*wanted.fields, StructField(_CORRUPT, StringType())])

    def parsed(value: Column) -> Column:
        text = F.try_validate_utf8(_body(value, confluent=confluent).cast("string"))
        return F.from_json(text, full, {"columnNameOfCorruptRecord": _CORRUPT})

    def read(value: Column) -> Column:
        found = parsed(value)
        fits = found.isNotNull() & found[_CORRUPT].isNull()
        return F.when(fits, F.struct(*(found[name].alias(name) for name in fields)))

    def why(value: Column) -> Column:
        body = _body(value, confluent=confluent)
        text = F.try_validate_utf8(body.cast("string"))
        return (
            F.when(body.isNull(), NO_PREFIX)
            .when(text.isNull(), "it is not UTF-8")
            .otherwise("it is not JSON of the schema")
        )

    return Payload(read, why)


def with_payload(messages: DataFrame, payload: Payload) -> DataFrame:
    """With the columns `payload` and `dead_letter` (see the module's text)."""
    if payload.for_batch is not None:
        if messages.isStreaming:
            raise ConfigurationError(
                "the schemas of a registry are looked up batch by batch: leave the payload out "
                "here, and give foreachBatch typed_batches(each, payload)"
            )
        payload = payload.for_batch(messages)
    value = F.col("value")
    read = messages.withColumn("payload", payload.read(value))
    unfit = value.isNotNull() & F.col("payload").isNull()
    letter = F.struct(payload.why(value).alias("reason"), value.alias("value"))
    return read.withColumn("dead_letter", F.when(unfit, letter))


def typed_batches(
    each: Callable[[DataFrame, int], None], payload: Payload
) -> Callable[[DataFrame, int], None]:
    """`each`, for `foreachBatch`, called with the columns of `with_payload`."""

    def take(batch: DataFrame, number: int) -> None:
        # Looking at it first would read it twice from Kafka.
        batch.persist()
        try:
            each(with_payload(batch, payload), number)
        finally:
            batch.unpersist()

    return take


def confluent_prefix(value: Column) -> Column:
    """`schema_id` and `body` of a value that Confluent's serializers wrote; null of any other."""
    schema_id = F.conv(F.hex(F.substring(value, 2, 4)), 16, 10).cast("bigint")
    body = F.substring(value, _PREFIX_BYTES + 1, 2**31 - 1)
    is_theirs = (F.length(value) >= _PREFIX_BYTES) & (F.substring(value, 1, 1) == F.lit(b"\x00"))
    return F.when(is_theirs, F.struct(schema_id.alias("schema_id"), body.alias("body")))


def protobuf_body(value: Column) -> Column:
    """What Confluent's serializer for Protobuf wrote, if it is of its file's first message.

    Null of any other. Between the five bytes and the message stands where in the file its type is;
    of the first one, which nearly all are, that is a single zero.
    """
    body = confluent_prefix(value)["body"]
    is_first = F.substring(body, 1, 1) == F.lit(b"\x00")
    return F.when(is_first, F.substring(body, 2, 2**31 - 1))


def _body(value: Column, *, confluent: bool) -> Column:
    return confluent_prefix(value)["body"] if confluent else value
