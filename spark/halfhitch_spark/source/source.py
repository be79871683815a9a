"""The source as Spark sees it. Spark makes these objects anew in each of its Python processes.

The driver's processes ask Kafka; a task on an executor is given a stretch of one partition, and
asks nobody where it begins or ends. So what is read is fixed by what Spark has in its checkpoint.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from halfhitch.errors import ConfigurationError
from halfhitch_spark.kafka_topics import Topic
from halfhitch_spark.source.brokers import Brokers
from halfhitch_spark.source.reading import read_stretch
from halfhitch_spark.source.rows import SCHEMA
from halfhitch_spark.source.stretches import (
    Offsets,
    Stretch,
    as_offsets,
    begin_of,
    is_there,
    positions,
    require_same,
    stretches,
)
from halfhitch_spark.source.wish import EARLIEST, LATEST, Edge, Place, Wish, places, wish_of

NAME: Final = "halfhitch"
#: A stream that waits for messages asks for the ends many times a second, and for the topics this
#: often. Before a batch is read they are looked at in any case.
_TOPICS_EVERY_S: Final = 5.0


def register_source(spark: SparkSession) -> None:
    """Let `format("halfhitch")` be known to this session."""
    spark.dataSource.register(HalfHitchSource)


class HalfHitchSource(DataSource):
    """Options, of which the first two are needed; their letters' case does not count:

    - `kafka.bootstrap.servers`; further ones that begin with `kafka.` are librdkafka's
    - `subscribe`: names of topics, with commas; or `subscribePattern`: of the whole name, Python's
    - `startingOffsets`: `earliest` (default), `latest`, or JSON `{"topic":{"0":17}}`; or
      `startingTimestamp` in milliseconds
    - `endingOffsets` (default `latest`) or `endingTimestamp`: of batches
    - `failOnDataLoss`: `false` goes on where Kafka has deleted what was not read
    """

    @classmethod
    def name(cls) -> str:
        """As it is called in `format(...)`."""
        return NAME

    def schema(self) -> StructType:
        """The columns of `message_columns`."""
        return SCHEMA

    def reader(self, schema: Any) -> "HalfHitchReader":  # noqa: ARG002  Spark's signature
        """Of a batch."""
        return HalfHitchReader(wish_of(dict(self.options), streaming=False))

    def streamReader(self, schema: Any) -> "HalfHitchStreamReader":  # noqa: N802, ARG002
        """Of a stream."""
        return HalfHitchStreamReader(wish_of(dict(self.options), streaming=True))


class HalfHitchReader(DataSourceReader):
    """What is there when the batch is planned."""

    def __init__(self, wish: Wish) -> None:
        self._wish = wish

    def partitions(self) -> Sequence[Stretch]:
        """A task for each partition that has something to read."""
        brokers = Brokers(self._wish.client)
        found = brokers.topics(self._wish.choice)
        earliest = brokers.earliest(places(found))
        stable = brokers.stable_ends(places(found))
        starts = _resolved(brokers, self._wish.starting, found, earliest, stable)
        ends = _resolved(brokers, self._wish.ending, found, earliest, stable)
        return stretches(
            starts,
            {place: max(end, starts[place]) for place, end in ends.items()},
            earliest,
            accept_data_loss=self._wish.accept_data_loss,
        )

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """None: Spark runs a task even where there is nothing to read."""
        return _read(self._wish, partition)


class HalfHitchStreamReader(DataSourceStreamReader):
    """Spark calls the upper four in a process of the driver that lives as long as the query.

    A query that begins asks for the end of its first batch, puts that into the checkpoint, and only
    then asks where the batch begins; and asks again when it died in it. An answer made then would
    be another one (`latest` moves on), and pass over messages. So the first end says where the
    first batch begins, and `initialOffset` nothing. A query that goes on calls `partitions` first,
    from its last end to that end.
    """

    def __init__(self, wish: Wish) -> None:
        self._wish = wish
        self._brokers: Brokers | None = None
        self._found: dict[str, Topic] = {}
        self._looked_s = float("-inf")
        #: The last end that Spark was given, or has given.
        self._told: Offsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        """For the executors, who ask nobody."""
        asked: dict[str, Any] = {
            "_brokers": None,
            "_found": {},
            "_looked_s": float("-inf"),
            "_told": None,
        }
        return self.__dict__ | asked

    def initialOffset(self) -> Offsets:  # noqa: N802
        """Nothing: see the class."""
        return {}

    def latestOffset(self) -> Offsets:  # noqa: N802
        """The last stable offsets."""
        found = self._found
        if time.monotonic() > self._looked_s + _TOPICS_EVERY_S:
            found = self._look()
        begun = self._begin() if self._told is None else None
        now = as_offsets(found, self._asked().stable_ends(places(found)), begun)
        if self._told is None or not is_there(self._told, now):
            self._told = now
        return self._told

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[Stretch]:
        """Of one micro-batch. The topics must be those that the offsets are of."""
        self._told = end
        found = self._look()
        accept = self._wish.accept_data_loss
        for kept in (start, end):
            require_same(kept, found, accept_gone=accept)
        ends = {place: at for place, at in positions(end).items() if place[0] in found}
        earliest = self._asked().earliest(ends)
        # An earlier release's first end does not say it.
        starts = positions(start) if start else begin_of(end) or self._begin()
        return stretches(starts, ends, earliest, accept_data_loss=accept)

    def commit(self, end: Offsets) -> None:
        """Nothing is to be done: positions live in the checkpoint."""

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """On an executor."""
        return _read(self._wish, partition)

    def _asked(self) -> Brokers:
        if self._brokers is None:
            self._brokers = Brokers(self._wish.client)
        return self._brokers

    def _begin(self) -> dict[Place, int]:
        """By the options; before the ends are asked for, which then lie behind it."""
        brokers, found = self._asked(), self._found
        earliest = brokers.earliest(places(found))
        stable = brokers.stable_ends(places(found))
        return _resolved(brokers, self._wish.starting, found, earliest, stable)

    def _look(self) -> dict[str, Topic]:
        self._found = self._asked().topics(self._wish.choice)
        self._looked_s = time.monotonic()
        return self._found


def _read(wish: Wish, stretch: InputPartition | None) -> Iterator[pa.RecordBatch]:
    if not isinstance(stretch, Stretch):
        return iter(())
    return read_stretch(wish.client, stretch, accept_data_loss=wish.accept_data_loss)


def _resolved(
    brokers: Brokers,
    edge: Edge,
    found: dict[str, Topic],
    earliest: dict[Place, int],
    stable: dict[Place, int],
) -> dict[Place, int]:
    """An edge as offsets. At a moment, a partition without anything later has its end."""
    if edge.at_ms is not None:
        # What was committed since the ends were asked for may be the first that is as young.
        young = brokers.at_time(places(found), edge.at_ms)
        return {place: young[place] if young[place] >= 0 else stable[place] for place in stable}
    named = {EARLIEST: earliest, LATEST: stable}
    wanted = edge.offsets(found)
    resolved = {place: named[at][place] if at in named else at for place, at in wanted.items()}
    for place, wanted_at in sorted(resolved.items()):
        if not 0 <= wanted_at <= stable[place]:
            raise ConfigurationError(
                f"{place[0]}-{place[1]} cannot be read at {wanted_at}: it can be read up to "
                f"{stable[place]} now"
            )
    return resolved
