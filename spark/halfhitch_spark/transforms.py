"""Transforms on messages, as functions from DataFrame to DataFrame.

They work on the columns of `message_columns` and keep all others. A record without a transaction
(of a foreign producer, of a later format) is never dropped, and never taken for a copy of another.
None of them needs Python on the executors.

A stream's state is bounded by the time at which Spark reads, not by the records' own: Spark throws
away, without a word, what is older than the watermark, and a job that catches up reads partitions
whose times lie hours apart.
"""

from typing import Final, Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  the name that Spark's own documentation uses

from halfhitch.errors import ConfigurationError

TRANSACTION: Final = ("producer_group", "transaction_id")
MESSAGE: Final = (*TRANSACTION, "message_index")
_PLACE: Final = ("topic", "partition", "offset")

#: Standings of `with_standing`. The texts are a contract.
COMPLETE: Final = "complete"
WAITING: Final = "waiting"  # some messages of its transaction are not here
NO_TRANSACTION: Final = "no_transaction"  # Half Hitch did not forward it
UNCOUNTED: Final = (
    "uncounted"  # an earlier release forwarded it, and did not say how many there are
)
REPEATED: Final = "repeated"  # the same message is here already
CONFLICT: Final = "conflict"  # another message is here under the same transaction and index
COUNTS_DISAGREE: Final = "counts_disagree"  # its transaction's messages say different numbers
INCOMPLETE: Final = "incomplete"  # of streams: the others did not come in time

Uncounted = Literal["aside", "pass"]


def deduplicate(messages: DataFrame, within: str | None = None) -> DataFrame:
    """Each message once, by its transaction and index; rows without a transaction all stay.

    In a batch the earliest copy stays. In a stream `within` is needed (`"1 hour"`): a copy that is
    read later than that after the first one is not recognised; nothing else is dropped.
    """
    if not messages.isStreaming:
        return _ranked(messages).where(F.col("_copy") == 1).drop("_copy")
    if within is None:
        raise ConfigurationError(
            "deduplicate of a stream needs `within`: how long Spark shall remember what it has "
            "read, for example within='1 hour'"
        )
    # Null keys are equal to Spark: without their places all foreign rows would be one.
    is_foreign = F.col("transaction_id").isNull()
    place = F.when(is_foreign, F.struct(*_PLACE)).alias("_place")
    marked = messages.select("*", place, F.current_timestamp().alias("_read"))
    once = marked.withWatermark("_read", within).dropDuplicatesWithinWatermark([*MESSAGE, "_place"])
    return once.drop("_place", "_read")


def with_standing(messages: DataFrame, *, uncounted: Uncounted = "aside") -> DataFrame:
    """A batch's messages, each with its `standing`: is its transaction here as a whole?

    `uncounted`: what an earlier release forwarded does not say how many messages there are. It
    goes aside, or passes as complete.
    """
    if messages.isStreaming:
        raise ConfigurationError(
            "a stream is looked at batch by batch: use assemble_transactions, which keeps what "
            "waits from one batch to the next"
        )
    together = Window.partitionBy(*TRANSACTION)
    is_first = F.col("_copy") == 1
    count = F.when(is_first, F.col("message_count"))
    counted = _ranked(messages).select(
        "*",
        F.sum(is_first.cast("int")).over(together).alias("_here"),
        F.count(count).over(together).alias("_saying"),
        F.min(count).over(together).alias("_least"),
        F.max(count).over(together).alias("_most"),
    )
    nobody_says = F.lit(COMPLETE if uncounted == "pass" else UNCOUNTED)
    standing = (
        F.when(F.col("transaction_id").isNull(), NO_TRANSACTION)
        .when(~is_first & F.col("_is_same"), REPEATED)
        .when(~is_first, CONFLICT)
        .when(F.col("_saying") == 0, nobody_says)
        .when(_disagree(), COUNTS_DISAGREE)
        .when(F.col("_here") == F.col("_most"), COMPLETE)
        .otherwise(WAITING)
    )
    ours = ("_copy", "_is_same", "_here", "_saying", "_least", "_most")
    return counted.withColumn("standing", standing).drop(*ours)


def complete_transactions(messages: DataFrame, *, uncounted: Uncounted = "aside") -> DataFrame:
    """Of a batch, the messages whose transactions are there as a whole, each message once."""
    judged = with_standing(messages, uncounted=uncounted)
    return judged.where(F.col("standing") == COMPLETE).drop("standing")


def join_by_transaction(left: DataFrame, right: DataFrame, within: str | None = None) -> DataFrame:
    """Pairs of messages of one transaction, for example an order with its points.

    Columns: producer_group and transaction_id, then `left` and `right`, structs of all columns.
    Rows without a transaction have no partner. Streams need `within`: partners that are read
    further apart than that do not meet, for the state must end. To lose none, assemble the
    transactions and join each batch.
    """
    streams = [side.isStreaming for side in (left, right)]
    if any(streams) and within is None:
        raise ConfigurationError(
            "join_by_transaction of streams needs `within`: how far apart partners are read at "
            "most, for example within='10 minutes'"
        )
    sides = []
    for side, name in ((left, "left"), (right, "right")):
        whole = F.struct(*side.columns).alias(name)
        keys = [F.col(key).alias(f"_{name}_{key}") for key in TRANSACTION]
        read = F.current_timestamp().alias(f"_{name}_read")
        chosen = side.where(F.col("transaction_id").isNotNull()).select(*keys, whole, read)
        if side.isStreaming:
            chosen = chosen.withWatermark(f"_{name}_read", within or "0 seconds")
        sides.append(chosen)
    matches = F.col("_left_transaction_id") == F.col("_right_transaction_id")
    matches &= F.col("_left_producer_group") == F.col("_right_producer_group")
    if all(streams):
        apart = F.expr(f"INTERVAL {within}")
        matches &= F.col("_left_read") >= F.col("_right_read") - apart
        matches &= F.col("_right_read") >= F.col("_left_read") - apart
    joined = sides[0].join(sides[1], matches, "inner")
    return joined.select(
        *(F.col(f"_left_{key}").alias(key) for key in TRANSACTION), "left", "right"
    )


def with_lineage(messages: DataFrame, name: str = "lineage") -> DataFrame:
    """A column that says where each row comes from: transaction, message, place in Kafka, times."""
    known = (*MESSAGE, "message_count", *_PLACE, "born")
    return messages.withColumn(name, F.struct(*known, F.col("timestamp").alias("stored")))


def _ranked(messages: DataFrame) -> DataFrame:
    """With `_copy`: 1 for the earliest of each message; is it the same message as that one?"""
    alone = F.when(F.col("transaction_id").isNull(), F.struct(*_PLACE))
    copies = Window.partitionBy(*MESSAGE, alone).orderBy("timestamp", *_PLACE)
    content = F.struct("topic", "key", "value")
    return messages.select(
        "*",
        F.row_number().over(copies).alias("_copy"),
        content.eqNullSafe(F.first(content).over(copies)).alias("_is_same"),
    )


def _disagree() -> Column:
    return (F.col("_saying") != F.col("_here")) | (F.col("_least") != F.col("_most"))
