"""The dashboard of Spark's streams, of what `QueryMetrics` serves (spark/halfhitch_spark)."""

from __future__ import annotations

from typing import Final

from asking import WINDOW, per, rate
from grafana import Dashboard, Panel, Query, Row

_S: Final = "halfhitch_spark"

STREAMS: Final = Dashboard(
    "streams",
    "Spark's streams",
    (
        Row(
            "Do they run?",
            (
                Panel(
                    "Ended",
                    "Queries that have run in this job and do not run now.",
                    "none",
                    (Query(f"count({_S}_running) - sum({_S}_running)"),),
                    kind="stat",
                    red=1,
                ),
                Panel(
                    "Failures",
                    "Ends with an error, in ten minutes.",
                    "none",
                    (Query(f"sum(increase({_S}_failures_total[10m]))"),),
                    kind="stat",
                    red=1,
                ),
                Panel(
                    "Longest without a batch",
                    "A stream that has nothing to read makes none.",
                    "s",
                    (Query(f"time() - min({_S}_last_batch_timestamp_seconds > 0)"),),
                    kind="stat",
                ),
                Panel(
                    "Lag",
                    "Offsets that are committed and were not read yet.",
                    "none",
                    (Query(f"sum({_S}_lag_messages)"),),
                    kind="stat",
                ),
                Panel(
                    "Held back",
                    "For so long the last stable offset of a topic has not moved, with something "
                    "behind it: a Kafka transaction is open, and the stream looks idle.",
                    "s",
                    (Query(f"max({_S}_held_back_seconds)"),),
                    kind="stat",
                    red=300,
                ),
                Panel(
                    "Kafka did not say",
                    "Times in ten minutes that lag and what is held back could not be asked for.",
                    "none",
                    (Query(f"sum(increase({_S}_unanswered_total[10m]))"),),
                    kind="stat",
                    red=1,
                ),
            ),
        ),
        Row(
            "How fast?",
            (
                Panel(
                    "Rows",
                    "Read a second; a batch that reads its source twice counts them twice.",
                    "ops",
                    (Query(rate(f"{_S}_rows_total", "query"), "{{query}}"),),
                ),
                Panel(
                    "Batches",
                    "A second.",
                    "ops",
                    (Query(rate(f"{_S}_batch_seconds_count", "query"), "{{query}}"),),
                ),
                Panel(
                    "Time of a batch",
                    "The mean.",
                    "s",
                    (
                        Query(
                            f"sum by (query) (rate({_S}_batch_seconds_sum{WINDOW})) / "
                            f"sum by (query) (rate({_S}_batch_seconds_count{WINDOW}))",
                            "{{query}}",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "How far behind?",
            (
                Panel(
                    "Lag by topic",
                    "Up to the last stable offset.",
                    "none",
                    (per(f"{_S}_lag_messages", "query, topic", "sum"),),
                ),
                Panel(
                    "Held back by topic",
                    "Offsets behind the last stable offset: not decided yet, or undone.",
                    "none",
                    (per(f"{_S}_held_back_messages", "query, topic", "sum"),),
                ),
                Panel(
                    "Held back for",
                    "Where it grows, look for an open Kafka transaction on that topic.",
                    "s",
                    (per(f"{_S}_held_back_seconds", "query, topic"),),
                ),
            ),
        ),
    ),
    told_by=f"{_S}_running",
)
