"""Half Hitch for Spark: read committed messages as a DataFrame, each exactly once.

    from halfhitch_spark import read_stream

    messages = read_stream(spark, "broker:9092", "points", checkpoint="s3a://jobs/points")

The package builds on PySpark and on the form of the headers (`halfhitch.wire`), on nothing else of
Half Hitch: it runs wherever Spark does, and needs no sidecar to be reachable. Everything is made of
Spark's own SQL functions, so no Python worker runs beside the executors. The exception is
`halfhitch_spark.source`, for a Spark that has no Kafka connector.
"""

try:
    import pyspark as _pyspark  # noqa: F401
except ImportError as _error:
    from halfhitch.extras import missing as _missing

    raise _missing("halfhitch_spark", _error) or _error from None

from halfhitch_spark.assembly import assemble_transactions
from halfhitch_spark.avro import avro_package, avro_payload
from halfhitch_spark.columns import message_columns
from halfhitch_spark.lakes import delta_sink, iceberg_sink
from halfhitch_spark.payloads import (
    Payload,
    confluent_prefix,
    json_payload,
    protobuf_body,
    typed_batches,
    with_payload,
)
from halfhitch_spark.progress import QueryMetrics
from halfhitch_spark.protobuf import protobuf_package, protobuf_payload
from halfhitch_spark.reader import (
    dangerously_read_uncommitted,
    read_batch,
    read_committed,
    read_stream,
    same_topics,
)
from halfhitch_spark.schemas import schema_registry
from halfhitch_spark.session import connector_package, local_session
from halfhitch_spark.sinks import parquet_sink, postgres_sink, read_parquet_sink
from halfhitch_spark.transforms import (
    complete_transactions,
    deduplicate,
    join_by_transaction,
    with_lineage,
    with_standing,
)

__all__ = [
    "Payload",
    "QueryMetrics",
    "assemble_transactions",
    "avro_package",
    "avro_payload",
    "complete_transactions",
    "confluent_prefix",
    "connector_package",
    "dangerously_read_uncommitted",
    "deduplicate",
    "delta_sink",
    "iceberg_sink",
    "join_by_transaction",
    "json_payload",
    "local_session",
    "message_columns",
    "parquet_sink",
    "postgres_sink",
    "protobuf_body",
    "protobuf_package",
    "protobuf_payload",
    "read_batch",
    "read_committed",
    "read_parquet_sink",
    "read_stream",
    "same_topics",
    "schema_registry",
    "typed_batches",
    "with_lineage",
    "with_payload",
    "with_standing",
]
