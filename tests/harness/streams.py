"""A stream's metrics without a Spark: batches are told, Kafka's words are given."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from halfhitch.observability.table import METRICS, Metric
from halfhitch_spark import progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from halfhitch_spark.progress import Place


def _known() -> Iterator[tuple[str, Metric]]:
    labels = ("query", "topic")
    for name, kind, what in progress._METRICS:
        shown = f"halfhitch_spark_{name}"
        if kind == "summary":
            yield f"{shown}_sum", Metric("counter", what, labels)
            yield f"{shown}_count", Metric("counter", what, labels)
        elif kind == "counter":
            yield f"{shown}_total", Metric("counter", what, labels)
        else:
            yield shown, Metric("gauge", what, labels)


#: Of sidecars and streams, as dashboards may ask for them.
KNOWN = {**METRICS, **dict(_known())}


class _Told(progress.QueryMetrics):
    def _ends(self, places: list[Place]) -> dict[Place, tuple[int, int]]:
        return dict.fromkeys(places, (1_000_000, 1_000_007))


@contextmanager
def told_stream() -> Iterator[int]:
    """The port that serves one stream's metrics; two batches a second."""
    nobody: Any = None
    metrics = _Told(nobody, "kafka")
    started: Any = SimpleNamespace(id="q", name="points", runId="r")
    metrics.onQueryStarted(started)
    over = threading.Event()

    def batches() -> None:
        number = 0
        while not over.wait(0.5):
            number += 1
            source = SimpleNamespace(endOffset=json.dumps({"orders": {"0": 10 * number}}))
            done = SimpleNamespace(
                id="q", name="points", batchId=number, numInputRows=10,
                durationMs={"triggerExecution": 120}, sources=[source],
            )  # fmt: skip
            event: Any = SimpleNamespace(progress=done)
            metrics.onQueryProgress(event)

    thread = threading.Thread(target=batches)
    thread.start()
    try:
        yield metrics.serve(0)
    finally:
        over.set()
        thread.join(10)
        metrics.close()
