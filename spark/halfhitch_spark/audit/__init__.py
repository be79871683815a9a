"""Is anything lost or doubled? What `halfhitch verify` asks, as one Spark batch job.

    python -m halfhitch_spark.audit --kafka-bootstrap broker:9092 --topics-allow 'shop.*' --out out

The rules are verify's own (`halfhitch.verify`): every partition is read by one task, which keeps
what verify keeps of a record; what was kept is brought together by transaction, and judged. Beside
the verdict come tables and distributions, by producer group and topic, as Parquet
and as a page of HTML.

Unlike the rest of the package this runs Python on the executors: they need the package too.
"""

from halfhitch_spark.audit.run import Given, Result, audit

__all__ = ["Given", "Result", "audit"]
