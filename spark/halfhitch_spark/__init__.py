"""Half Hitch for Spark: read committed messages as a DataFrame, each exactly once.

    from halfhitch_spark import read_committed

    messages = read_committed(spark, "broker:9092", "points", streaming=True)

The package builds on PySpark and on the names of the headers (`halfhitch.wire`), on nothing else of
Half Hitch: it runs wherever Spark does, and needs no sidecar to be reachable. Everything is made of
Spark's own SQL functions, so no Python worker runs beside the executors.
"""

try:
    import pyspark as _pyspark  # noqa: F401
except ImportError as _error:
    from halfhitch.extras import missing as _missing

    raise _missing("halfhitch_spark", _error) or _error from None

from halfhitch_spark.assembly import assemble_transactions
from halfhitch_spark.columns import message_columns
from halfhitch_spark.reader import dangerously_read_uncommitted, read_committed
from halfhitch_spark.session import connector_package, local_session
from halfhitch_spark.transforms import (
    complete_transactions,
    deduplicate,
    join_by_transaction,
    with_lineage,
    with_standing,
)

__all__ = [
    "assemble_transactions",
    "complete_transactions",
    "connector_package",
    "dangerously_read_uncommitted",
    "deduplicate",
    "join_by_transaction",
    "local_session",
    "message_columns",
    "read_committed",
    "with_lineage",
    "with_standing",
]
