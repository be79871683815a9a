"""Protobuf values as typed columns, through Spark's own function, which comes in its own package.

    payload = protobuf_payload("shop.Order", Path("shop.desc").read_bytes(), confluent=True)

The descriptors are what `protoc --include_imports --descriptor_set_out=shop.desc` writes. Protobuf
says nothing about itself: bytes of another message may fit. Without the package Spark's analysis
names it when the payload is used.
"""

from typing import Final

import pyspark
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the name that Spark's own documentation uses
from pyspark.sql.protobuf.functions import from_protobuf

from halfhitch_spark.payloads import NO_PREFIX, Payload, protobuf_body

_UNFIT: Final = "it is not Protobuf of the message"
#: A value that does not fit is null, and ends nothing.
_OPTIONS: Final = {"mode": "PERMISSIVE"}


def protobuf_package() -> str:
    """The Maven coordinates of Spark's Protobuf functions that fit the installed PySpark."""
    return f"org.apache.spark:spark-protobuf_2.13:{pyspark.__version__}"


def protobuf_payload(message: str, descriptors: bytes, *, confluent: bool = False) -> Payload:
    """Messages of this type (its full name). With `confluent`, behind what its serializers put.

    Of those, values whose type is not the first of its file do not fit (see `protobuf_body`); the
    number of the schema is not looked up.
    """

    def body(value: Column) -> Column:
        return protobuf_body(value) if confluent else value

    def read(value: Column) -> Column:
        return from_protobuf(
            body(value), message, binaryDescriptorSet=descriptors, options=_OPTIONS
        )

    def why(value: Column) -> Column:
        return F.when(body(value).isNull(), NO_PREFIX).otherwise(_UNFIT)

    return Payload(read, why)
