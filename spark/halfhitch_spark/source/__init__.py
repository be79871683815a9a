"""The data source `halfhitch`: committed messages on a Spark that has no Kafka connector.

    from halfhitch_spark.source import register_source

    register_source(spark)
    messages = spark.readStream.format("halfhitch").options(**options).load()

It is made of Spark 4's Python data sources, Arrow and librdkafka: Python runs on the executors and
needs this package there. Its rows are those of `read_stream` and `read_batch`. `HalfHitchSource`
has the options.
"""

try:
    import confluent_kafka as _confluent_kafka  # noqa: F401
    import pyarrow as pa  # noqa: F401
except ImportError as _error:
    from halfhitch import extras as _extras

    raise (
        _extras.missing("halfhitch_spark.source", _error, wanted=_extras.SPARK_SOURCE) or _error
    ) from None

from halfhitch_spark.source.source import HalfHitchSource, register_source

__all__ = ["HalfHitchSource", "register_source"]
