"""Sinks for `foreachBatch` that take a batch once, however often Spark runs it.

Spark runs a batch again when its driver died before it had marked the batch as done. Invariants:

* `parquet_sink`: a batch's files count once its manifest is there, which is one rename; those of an
  attempt that died are never read;
* `postgres_sink`: a batch's rows and the note that it was taken are one database transaction;
* a batch is known by its query's id and its number. The id is in the checkpoint: another checkpoint
  counts from 0 again, and is never taken for the same batches.
"""

import datetime as dt
import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import TimestampType

from halfhitch.errors import ConfigurationError
from halfhitch_spark.transforms import MESSAGE

#: A micro-batch and its number.
EachBatch = Callable[[DataFrame, int], None]

_QUERY_ID: Final = "sql.streaming.queryId"
_MANIFESTS: Final = "manifest"
_DATA: Final = "data"


def parquet_sink(folder: str) -> EachBatch:
    """Parquet files and, for each batch, a manifest that names them; see `read_parquet_sink`.

    The folder belongs to one checkpoint. ConfigurationError for another one's.
    """

    def take(batch: DataFrame, number: int) -> None:
        files = _Folder(batch.sparkSession, folder)
        query_id = query_id_of(batch.sparkSession)
        strangers = files.queries() - {query_id}
        if strangers:
            raise ConfigurationError(
                f"{folder} holds the batches of query {strangers.pop()}, and this is {query_id}: "
                "give each checkpoint a folder of its own"
            )
        name = f"{query_id}_{number}.json"
        if files.exists(_MANIFESTS, name):
            return
        data = f"{_DATA}/{number}-{uuid.uuid4().hex}"
        batch.write.parquet(f"{folder.rstrip('/')}/{data}")
        manifest = {"batch": number, "folder": data, "files": files.sizes(data)}
        files.write(_MANIFESTS, name, json.dumps(manifest, sort_keys=True))

    return take


def read_parquet_sink(spark: SparkSession, folder: str) -> DataFrame:
    """What `parquet_sink` has taken: the files that manifests name, and no others.

    ConfigurationError where nothing was taken yet, or where a file that is named is not there.
    """
    files = _Folder(spark, folder)
    wanted: list[str] = []
    for text in files.manifests():
        manifest = json.loads(text)
        there = files.sizes(manifest["folder"])
        changed = [name for name, size in manifest["files"].items() if there.get(name) != size]
        if changed:
            raise ConfigurationError(
                f"{folder}/{manifest['folder']}/{changed[0]} is not as batch {manifest['batch']} "
                "left it: it was deleted or changed by somebody else"
            )
        data = f"{folder.rstrip('/')}/{manifest['folder']}"
        wanted += [f"{data}/{name}" for name in manifest["files"]]
    if not wanted:
        raise ConfigurationError(f"{folder} has no manifest: no batch was taken yet")
    # A job that got another column since: else Spark would show those of one file.
    return spark.read.option("mergeSchema", "true").parquet(*wanted)


def postgres_sink(
    connect: Callable[[], Any], table: str, *, key: Sequence[str] = MESSAGE
) -> EachBatch:
    """Rows into a table of PostgreSQL; a row whose key is there already stays as it is.

    `connect` gives a new psycopg connection. The table has a column for each of the batch's, and a
    unique index over `key` (rows without a transaction have no key, and go by the batch alone).
    Which batches were taken stands in the table `halfhitch_batches`, which is made when it is not
    there. Rows pass through the driver: for many millions in a batch, write files.
    """

    def take(batch: DataFrame, number: int) -> None:
        from psycopg import sql

        query_id = query_id_of(batch.sparkSession)
        times = _timestamps(batch)
        target = sql.Identifier(*table.split("."))
        columns = sql.SQL(", ").join(map(sql.Identifier, batch.columns))
        keys = sql.SQL(", ").join(map(sql.Identifier, key))
        with connect() as connection, connection.transaction():
            cursor = connection.cursor()
            cursor.execute(
                "CREATE TABLE IF NOT EXISTS halfhitch_batches "
                "(query_id text, batch bigint, taken timestamptz DEFAULT now(), "
                "PRIMARY KEY (query_id, batch))"
            )
            # A driver that is thought dead and is not waits here for the other's transaction.
            cursor.execute(
                "INSERT INTO halfhitch_batches (query_id, batch) VALUES (%s, %s) "
                "ON CONFLICT DO NOTHING",
                (query_id, number),
            )
            if not cursor.rowcount:
                return
            cursor.execute(
                sql.SQL(
                    "CREATE TEMP TABLE halfhitch_rows ON COMMIT DROP AS "
                    "SELECT {} FROM {} WITH NO DATA"
                ).format(columns, target)
            )
            with cursor.copy(sql.SQL("COPY halfhitch_rows ({}) FROM STDIN").format(columns)) as to:
                for row in batch.toLocalIterator():
                    to.write_row([v if at not in times else _aware(v) for at, v in enumerate(row)])
            cursor.execute(
                sql.SQL(
                    "INSERT INTO {} ({}) SELECT {} FROM halfhitch_rows ON CONFLICT ({}) DO NOTHING"
                ).format(target, columns, columns, keys)
            )

    return take


def _timestamps(batch: DataFrame) -> frozenset[int]:
    """At which places of a row; ConfigurationError for what no column of PostgreSQL can be."""
    for field in batch.schema.fields:
        if "struct" in field.dataType.simpleString() or "map" in field.dataType.simpleString():
            raise ConfigurationError(
                f"column {field.name} is {field.dataType.simpleString()}: leave it out, select its "
                "fields, or make text of it with to_json"
            )
    kinds = [type(field.dataType) for field in batch.schema.fields]
    return frozenset(at for at, kind in enumerate(kinds) if kind is TimestampType)


def _aware(moment: dt.datetime | None) -> dt.datetime | None:
    """PySpark gives the driver's local time without saying so; PostgreSQL would take its own."""
    return None if moment is None else moment.astimezone(dt.UTC)


def query_id_of(spark: SparkSession) -> str:
    """Of the streaming query whose batch runs; it is in the checkpoint."""
    found = spark.sparkContext.getLocalProperty(_QUERY_ID)
    if not found:
        raise ConfigurationError(
            "this sink is for foreachBatch of a streaming query: a batch has no number that is "
            "the same when it runs again"
        )
    return str(found)


class _Folder:
    """Hadoop's own view of a folder: it may lie on any file system that Spark writes to."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        gateway: Any = spark
        self._jvm = gateway._jvm  # noqa: SLF001
        self._root = self._jvm.org.apache.hadoop.fs.Path(folder)
        self._files = self._root.getFileSystem(gateway._jsc.hadoopConfiguration())  # noqa: SLF001

    def _path(self, *parts: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, "/".join(parts))

    def exists(self, *parts: str) -> bool:
        return bool(self._files.exists(self._path(*parts)))

    def _listed(self, *parts: str) -> list[Any]:
        path = self._path(*parts)
        return list(self._files.listStatus(path)) if self._files.exists(path) else []

    def sizes(self, folder: str) -> dict[str, int]:
        """Of the files with rows in it."""
        there = [(str(one.getPath().getName()), int(one.getLen())) for one in self._listed(folder)]
        return {name: size for name, size in there if name.endswith(".parquet")}

    def queries(self) -> set[str]:
        """The ids of the queries whose manifests are here."""
        names = [str(one.getPath().getName()) for one in self._listed(_MANIFESTS)]
        return {name.rpartition("_")[0] for name in names if name.endswith(".json")}

    def manifests(self) -> list[str]:
        """Their texts."""
        result = []
        for one in self._listed(_MANIFESTS):
            if str(one.getPath().getName()).endswith(".json"):
                stream = self._files.open(one.getPath())
                try:
                    text = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
                    result.append(str(text))
                finally:
                    stream.close()
        return result

    def write(self, folder: str, name: str, text: str) -> None:
        """All at once, or not at all."""
        scratch = self._path(folder, f".{name}.{uuid.uuid4().hex}")
        stream = self._files.create(scratch)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if self._files.rename(scratch, self._path(folder, name)):
            return
        self._files.delete(scratch, False)
        if not self.exists(folder, name):  # else another driver of this query was first
            raise ConfigurationError(f"{name} cannot be written to {self._root.toString()}")
