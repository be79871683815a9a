"""What streams are doing, as Prometheus' text and as lines of JSON in the log.

    metrics = QueryMetrics(spark, "broker:9092")
    spark.streams.addListener(metrics)
    metrics.serve(9464)

`lag` is what is committed and not read yet, up to the last stable offset; `held_back` is what lies
behind it: a Kafka transaction that is open, or one whose marker does not come, holds back every
reader of committed messages, and to Spark the stream then looks as if it were idle. Kafka is asked
for both, from the driver; Spark's own progress knows the last stable offset only, and no time.

Nothing here ends a query. The text is written by hand: a job needs no further package.
"""

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from halfhitch.errors import HalfHitchError
from halfhitch_spark.kafka_topics import kafka_admin

#: Topic and partition.
Place = tuple[str, int]

_log = logging.getLogger(__name__)
_ASK_EVERY_S: Final = 5.0

#: Name without its prefix, type, help.
_METRICS: Final = (
    ("running", "gauge", "1 while the query runs, 0 when it has ended."),
    ("failures", "counter", "How often the query has ended with an error."),
    ("rows", "counter", "Rows read; a batch that reads its source twice counts them twice."),
    ("batch_seconds", "summary", "Time that micro-batches took."),
    ("last_batch_timestamp_seconds", "gauge", "When a batch was done last."),
    ("lag_messages", "gauge", "Offsets from where the query is to the last stable offset."),
    ("held_back_messages", "gauge", "Offsets behind the last stable offset: not decided yet."),
    ("held_back_seconds", "gauge", "For how long the last stable offset has not moved."),
    ("unanswered", "counter", "How often Kafka did not say where its partitions end."),
)


@dataclass(slots=True)
class _Query:
    """What is known of one query."""

    label: str
    is_running: bool = True
    failure_count: int = 0
    row_count: int = 0
    batch_count: int = 0
    batch_s: float = 0.0
    last_batch_s: float = 0.0
    unanswered_count: int = 0
    positions: dict[Place, int] = field(default_factory=dict)
    ends: "dict[Place, tuple[int, int]]" = field(default_factory=dict)  # last stable offset, end
    held_since: dict[Place, tuple[int, float]] = field(default_factory=dict)
    asked_s: float = float("-inf")


class QueryMetrics(StreamingQueryListener):
    """For `spark.streams.addListener`. `bootstrap` is whom to ask for the ends of partitions."""

    def __init__(
        self,
        spark: SparkSession,
        bootstrap: str | None = None,
        *,
        options: Mapping[str, str] | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._options = dict(options or {})
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._queries: dict[str, _Query] = {}
        self._server: ThreadingHTTPServer | None = None

    # -- Spark calls these, one after the other ---------------------------------------------------

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """A new run; what its query has counted before goes on."""
        with self._lock:
            self._query(str(event.id), event.name).is_running = True
        _tell("started", query=event.name or str(event.id), run=str(event.runId))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A batch is done."""
        done = event.progress
        took_s = float(done.durationMs.get("triggerExecution", 0)) / 1_000
        with self._lock:
            query = self._query(str(done.id), done.name)
            query.row_count += max(int(done.numInputRows), 0)
            query.batch_count += 1
            query.batch_s += took_s
            query.last_batch_s = time.time()  # noqa: TID251  a moment that Prometheus shows
            for source in done.sources:
                query.positions |= _positions(source.endOffset)
        self._look(query)
        lag, held, held_s = self._sums(query)
        _tell(
            "batch", query=query.label, batch=int(done.batchId), rows=int(done.numInputRows),
            seconds=took_s, lag=sum(lag.values()), held_back=sum(held.values()),
            held_back_seconds=max(held_s.values(), default=0.0),
        )  # fmt: skip

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing new that is committed; something may be held back."""
        with self._lock:
            query = self._query(str(event.id), None)
        self._look(query)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """It was stopped, or has failed."""
        with self._lock:
            query = self._query(str(event.id), None)
            query.is_running = False
            query.failure_count += event.exception is not None
            query.ends.clear()
        first_line = (event.exception or "").partition("\n")[0] or None
        _tell("ended", query=query.label, error=first_line)

    # -- what there is to see ---------------------------------------------------------------------

    def text(self) -> str:
        """All of it, in Prometheus' text format."""
        with self._lock:
            queries = list(self._queries.values())
        samples: dict[str, list[str]] = {name: [] for name, _, _ in _METRICS}

        def add(metric: str, value: float, suffix: str = "", **labels: str) -> None:
            said = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            samples[metric].append(f"halfhitch_spark_{metric}{suffix}{{{said}}} {value:.15g}")

        for query in queries:
            name = query.label
            add("running", query.is_running, query=name)
            add("failures", query.failure_count, "_total", query=name)
            add("rows", query.row_count, "_total", query=name)
            add("batch_seconds", query.batch_s, "_sum", query=name)
            add("batch_seconds", query.batch_count, "_count", query=name)
            add("last_batch_timestamp_seconds", query.last_batch_s, query=name)
            add("unanswered", query.unanswered_count, "_total", query=name)
            lag, held, held_s = self._sums(query)
            for topic in sorted(held):
                if topic in lag:
                    add("lag_messages", lag[topic], query=name, topic=topic)
                add("held_back_messages", held[topic], query=name, topic=topic)
                add("held_back_seconds", held_s[topic], query=name, topic=topic)
        lines = []
        for metric, kind, what in _METRICS:
            shown = f"halfhitch_spark_{metric}" + ("_total" if kind == "counter" else "")
            lines += [f"# HELP {shown} {what}", f"# TYPE {shown} {kind}", *samples[metric]]
        return "\n".join(lines) + "\n"

    def serve(self, port: int, host: str = "127.0.0.1") -> int:
        """`text` at `/metrics` of this port, in a thread; 0 takes a free one. Gives the port."""
        metrics = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                is_it = self.path.partition("?")[0] == "/metrics"
                body = metrics.text().encode() if is_it else b"see /metrics\n"
                self.send_response(200 if is_it else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer((host, port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Serve no longer."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    # -- where Kafka is ---------------------------------------------------------------------------

    def _query(self, number: str, name: str | None) -> _Query:
        return self._queries.setdefault(number, _Query(name or number))

    def _look(self, query: _Query) -> None:
        now_s = self._clock_s()
        if self._bootstrap is None or now_s < query.asked_s + _ASK_EVERY_S or not query.positions:
            return
        query.asked_s = now_s
        try:
            ends = self._ends(list(query.positions))
        except HalfHitchError as problem:
            query.unanswered_count += 1
            _log.warning("%s", problem)
            return
        with self._lock:
            query.ends = ends
            for place, (stable, end) in ends.items():
                was = query.held_since.get(place)
                if end <= stable:
                    query.held_since.pop(place, None)
                elif was is None or was[0] != stable:
                    query.held_since[place] = (stable, now_s)

    def _ends(self, places: list[Place]) -> dict[Place, tuple[int, int]]:
        """The last stable offset and the end of each partition."""
        jvm: Any = self._spark._jvm  # noqa: SLF001
        clients, common = jvm.org.apache.kafka.clients.admin, jvm.org.apache.kafka.common
        wanted = jvm.java.util.HashMap()
        keys = {place: common.TopicPartition(*place) for place in places}
        for key in keys.values():
            wanted.put(key, clients.OffsetSpec.latest())

        def offsets(admin: Any, level: Any) -> dict[Place, int]:
            found = admin.listOffsets(wanted, clients.ListOffsetsOptions(level)).all().get()
            return {place: int(found.get(key).offset()) for place, key in keys.items()}

        with self._admin() as admin:
            # In this order: what is committed in between must not seem to be held back.
            ends = offsets(admin, common.IsolationLevel.READ_UNCOMMITTED)
            stable = offsets(admin, common.IsolationLevel.READ_COMMITTED)
        return {place: (stable[place], ends[place]) for place in places}

    @contextlib.contextmanager
    def _admin(self) -> Iterator[Any]:
        with kafka_admin(self._spark, self._bootstrap or "", self._options) as admin:
            yield admin

    def _sums(self, query: _Query) -> tuple[dict[str, int], dict[str, int], dict[str, float]]:
        """By topic: lag, held back, and for how long at most."""
        lag: dict[str, int] = {}
        held: dict[str, int] = {}
        held_s: dict[str, float] = {}
        now_s = self._clock_s()
        for place, (stable, end) in query.ends.items():
            topic = place[0]
            behind = max(stable - query.positions.get(place, stable), 0)
            lag[topic] = lag.get(topic, 0) + behind
            held[topic] = held.get(topic, 0) + max(end - stable, 0)
            since = query.held_since.get(place, (0, now_s))[1]
            held_s[topic] = max(held_s.get(topic, 0.0), now_s - since)
        return lag, held, held_s


def _positions(end_offset: str | None) -> dict[Place, int]:
    """Of a Kafka source, or of ours, which keeps topic ids too; of any other there are none."""
    try:
        found = json.loads(end_offset or "null")
        return {
            (str(topic), int(partition)): int(offset)
            for topic, partitions in found.items()
            for partition, offset in partitions.items()
            if partition not in ("id", "from")
        }
    except (ValueError, TypeError, AttributeError):
        return {}


def _tell(what: str, **known: object) -> None:
    """One line of JSON."""
    if _log.isEnabledFor(logging.INFO):
        _log.info("%s", json.dumps({"event": f"spark_{what}", **known}))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
