"""The ids of topics that a stream of a pattern finds while it runs.

`read_stream` keeps the ids of the topics that are there when it is called. Of one that comes later
the checkpoint would have offsets and no id; made anew while the query is down, its first messages
would be passed over in silence. A listener keeps the id when the topic's first batch is done.
Nothing here ends a query.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from halfhitch.errors import HalfHitchError
from halfhitch_spark.kafka_topics import (
    Choice,
    find_topics,
    known_ids,
    query_of,
    require_same_topics,
)

_log = logging.getLogger(__name__)
_listening: Final[WeakKeyDictionary[SparkSession, dict[str, "LaterTopics"]]] = WeakKeyDictionary()


def note_later_topics(
    spark: SparkSession, checkpoint: str, bootstrap: str, options: Mapping[str, Any]
) -> None:
    """From now on, for the query with this checkpoint. Once for each, however often it is said."""
    listening = _listening.setdefault(spark, {})
    if checkpoint not in listening:
        plain = {name: str(value) for name, value in options.items()}
        listening[checkpoint] = LaterTopics(spark, checkpoint, bootstrap, plain)
        spark.streams.addListener(listening[checkpoint])


class LaterTopics(StreamingQueryListener):
    """See the module's text."""

    def __init__(
        self, spark: SparkSession, checkpoint: str, bootstrap: str, options: Mapping[str, str]
    ) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        self._bootstrap = bootstrap
        self._options = options
        self._query: str | None = None
        self._known: set[str] | None = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Of whom it is, is seen at its first batch."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing new."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """The checkpoint may be another query's next."""
        if str(event.id) == self._query:
            self._query = self._known = None

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A batch is done."""
        try:
            read = set().union(*(_topics(one.endOffset) for one in event.progress.sources))
            self._note(str(event.progress.id), read)
        except HalfHitchError as problem:
            _log.warning("the ids of %s are not kept yet: %s", self._checkpoint, problem)

    def _note(self, query: str, read: set[str]) -> None:
        if self._query is None and query == query_of(self._spark, self._checkpoint):
            self._query = query
        if query != self._query:
            return
        if self._known is None:
            self._known = set(known_ids(self._spark, self._checkpoint))
        new = read - self._known
        if new:
            choice = Choice(tuple(sorted(new)))
            found = find_topics(self._spark, self._bootstrap, self._options, choice)
            require_same_topics(self._spark, self._checkpoint, found, accept_gone=True)
            self._known |= new


def _topics(end_offset: str | None) -> set[str]:
    try:
        return set(json.loads(end_offset or "{}"))
    except (ValueError, TypeError):
        return set()
