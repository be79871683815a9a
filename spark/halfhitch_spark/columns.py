"""From the rows of Spark's Kafka source to the columns of a message.

Owns the meaning of the headers on a forwarded record, as Spark expressions. Invariants:

* a record is either understood as a whole (version known, every system header readable) or shown
  as it is: columns null, headers untouched. So foreign records, later versions and garbage are
  rows, never an exception that would stop a job at the same offset for ever;
* key, value and the user's headers are not altered: order, duplicates and nulls are kept.

It reads no topic and opens no session.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name that Spark's own documentation uses

from halfhitch.wire.half import INDEX_MAX
from halfhitch.wire.headers import HALFHITCH, PGROUP, RECORD_VERSION, UNIQ_KEY

HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"

#: `<version>;<index>;<born_ms>;<instance>`
_MARKER: Final = rf"^{RECORD_VERSION};([0-9]{{1,9}});([0-9]{{1,19}});"
#: Until the year 5138. More digits would be a timestamp that Python's datetime, or Spark's own
#: arithmetic, refuses with an exception.
_BORN_DIGITS_MAX: Final = 14
#: Before the digest, or at the end (halfhitch/wire/count.py).
_COUNT: Final = r";n=([0-9]{1,4})(?:;d=[^;]{16})?\z"


def message_columns(kafka: DataFrame) -> DataFrame:
    """The messages in rows of Spark's Kafka source (read with `includeHeaders`).

    Columns: `key`, `value` (binary); `transaction_id`, `producer_group` (string), `message_index`
    (int, position within the transaction, from 0), `message_count` (int, how many messages the
    transaction has; null where an earlier release forwarded it), `born` (timestamp, when the
    message was prepared), all five null on records that Half Hitch did not forward; `topic`,
    `partition`, `offset`, `timestamp` as Kafka has them; `headers`, the user's.
    """
    found = kafka.select(
        "*",
        _last_header(HALFHITCH).cast("string").alias("_marker"),
        _text(_last_header(UNIQ_KEY)).alias("_id"),
        _text(_last_header(PGROUP)).alias("_group"),
    )
    understood = F.col("_marker").rlike(_MARKER) & (F.col("_id") != "") & (F.col("_group") != "")
    # A step of its own: Spark then evaluates each of these once a row, not once a use.
    judged = found.withColumn("_understood", F.coalesce(understood, F.lit(False)))

    def if_understood(column: Column) -> Column:
        return F.when(F.col("_understood"), column)

    return judged.select(
        "key",
        "value",
        if_understood(F.col("_id")).alias("transaction_id"),
        if_understood(F.col("_group")).alias("producer_group"),
        if_understood(_marker_number(1).try_cast("int")).alias("message_index"),
        if_understood(_message_count()).alias("message_count"),
        if_understood(_born()).alias("born"),
        "topic",
        "partition",
        "offset",
        "timestamp",
        _user_headers().alias("headers"),
    )


def _last_header(name: str) -> Column:
    """The value of the last header of this name: the system headers come after the user's."""
    named = F.filter("headers", lambda header: header["key"] == name)
    return F.try_element_at(named, F.lit(-1))["value"]


def _text(value: Column) -> Column:
    """Null unless UTF-8."""
    return F.try_validate_utf8(value.cast("string"))


def _marker_number(group: int) -> Column:
    return F.regexp_extract("_marker", _MARKER, group)


def _message_count() -> Column:
    """Null unless it can be true: a count that its own index contradicts is none."""
    said = F.regexp_extract("_marker", _COUNT, 1).try_cast("int")
    return F.when((said > _marker_number(1).try_cast("int")) & (said <= INDEX_MAX + 1), said)


def _born() -> Column:
    digits = _marker_number(2)
    readable = F.when(F.length(digits) <= _BORN_DIGITS_MAX, digits)
    return F.timestamp_millis(readable.try_cast("bigint"))


def _user_headers() -> Column:
    ours = (UNIQ_KEY, PGROUP, HALFHITCH)
    users = F.filter("headers", lambda header: ~header["key"].isin(*ours))
    shown = F.when(F.col("_understood"), users).otherwise(F.col("headers"))
    # Spark gives null, not an empty list, for a record without headers.
    return F.coalesce(shown, F.array().cast(HEADERS_TYPE))
