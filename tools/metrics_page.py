"""Writes docs/metrics.md from the table of metrics that the sidecar itself uses.

python tools/metrics_page.py      writes it anew if it differs (`make format` does)
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from halfhitch.observability.table import SECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from halfhitch.observability.table import Metric

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"

_HEAD: Final = """\
# Metrics

Everything that `/metrics` of the admin door tells; made by `tools/metrics_page.py` of the table
that the sidecar itself uses. Base units throughout: seconds, bytes. What the alerts ask of them:
`dashboards/rules.yaml`; what to do then: [runbooks.md](runbooks.md). Grafana's dashboards lie in
`dashboards/` too; both are made by `tools/monitoring`.

Numbers are those of one instance. A half partition's are told by its owner alone: take
`max by (partition)` over all instances, and `sum` of counters and of counts. Whoever has several
installations in one Prometheus gives their targets the label `namespace`.

No caller can grow the output. Labels come from closed sets; what is in none is `other`. Of
producer groups the 20 with most have a line of their own, and never more than 200 of them in the
life of a process; of topics the first 500.

Counters with labels from a closed set are there from the start, at 0, so that the first event is
an increase: all but `halfhitch_http_requests_total`, which begins with status 500 and 503 of each
route, and those of the RocketMQ door. Those of a half partition begin when it is owned here
(takeovers, old watermarks: as soon as Kafka was reached). Histograms with labels begin with their
first sample. `process_*` and `python_gc_*` come from the client library.

**Traces.** Where a caller sends a `traceparent` with the sampled flag, histograms carry its trace
as an exemplar (`trace_id`), the last one of each bucket: `halfhitch_prepare_seconds`,
`halfhitch_decide_seconds`, `halfhitch_visible_latency_seconds` (of each Kafka transaction at most
one), `halfhitch_check_lag_seconds` and `halfhitch_http_request_seconds`. A prepare's trace, a
check's and a commit's way to its topic are those of the first message, an end's and a request's
those of the HTTP request. RocketMQ's clients say the trace of a message by its property
`traceparent`; their ends have none. The format is OpenMetrics 1.0, which Prometheus asks for by
itself; it keeps exemplars with `--enable-feature=exemplar-storage`. Grafana shows them as points on
the dashboards' latencies; give its Prometheus data source `exemplarTraceIdDestinations` with the
name `trace_id`, and each leads to its trace. Whoever sends no traces pays nothing, and scrapes the
same numbers.

A scrape with four half partitions and 500 topics is some 1,000 lines. It took 6 ms of one processor
on the machine of [performance.md](performance.md), in a thread of its own; without topics 3 ms.
"""


def rows(metrics: dict[str, Metric]) -> Iterator[str]:
    """The rows of one section."""
    for name, metric in metrics.items():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        said = metric.help.replace("|", "\\|")
        yield f"| `{name}` | {metric.kind} | {labels} | {said} |"


def page() -> str:
    """docs/metrics.md."""
    parts = [_HEAD]
    for title, metrics in SECTIONS.items():
        parts.append(f"\n## {title}\n\n| metric | kind | labels | |\n|---|---|---|---|\n")
        parts += [f"{row}\n" for row in rows(metrics)]
    return "".join(parts)


def main() -> int:
    """Write it if it differs."""
    if not PAGE.is_file() or PAGE.read_text() != page():
        PAGE.write_text(page())
        print(f"{PAGE} is new")  # noqa: T201 - the command's own answer
    return 0


if __name__ == "__main__":
    sys.exit(main())
