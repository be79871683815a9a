"""Spans reach a collector on loopback in OTLP's form; while it is away nobody waits for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters import otlp
from halfhitch.adapters.otlp import OtlpExporter
from halfhitch.service.owner.spans import Span
from halfhitch.wire.trace_parent import SpanContext
from harness.kafka import wait_until
from harness.spans import Collector, collecting

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLER, OURS = SpanContext(b"\x0a" * 16, b"\x0b" * 8), SpanContext(b"\x0c" * 16, b"\x0d" * 8)


def span(name: str = "halfhitch forward", **more: Any) -> Span:
    plain: dict[str, Any] = {
        "context": OURS, "began_ms": 1_700_000_000_123, "ended_ms": 1_700_000_000_456,
        "attributes": {"halfhitch.check_count": 2, "halfhitch.producer_group": "shöp"},
        "links": [CALLER],
    }  # fmt: skip
    return Span(name=name, **{**plain, **more})


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "_PAUSE_S", 0.01)


def exporter(endpoint: str) -> OtlpExporter:
    return OtlpExporter(endpoint, instance="pod-1", version="9.9", gather_s=0.01)


def test_a_span_has_the_form_that_collectors_take(collector: Collector) -> None:
    sending = exporter(collector.endpoint)
    sending.put([span(parent_id=CALLER.span_id), span("halfhitch waiting", links=())])
    sending.stop()
    assert collector.paths == ["/v1/traces"]
    (resource,) = collector.bodies[0]["resourceSpans"]
    named = {each["key"]: each["value"] for each in resource["resource"]["attributes"]}
    assert named["service.name"] == {"stringValue": "halfhitch"}
    assert named["service.instance.id"] == {"stringValue": "pod-1"}
    first, second = collector.spans
    assert first == {
        "traceId": "0c" * 16,
        "spanId": "0d" * 8,
        "parentSpanId": "0b" * 8,
        "name": "halfhitch forward",
        "kind": 4,
        "startTimeUnixNano": "1700000000123000000",
        "endTimeUnixNano": "1700000000456000000",
        "attributes": [
            {"key": "halfhitch.check_count", "value": {"intValue": "2"}},
            {"key": "halfhitch.producer_group", "value": {"stringValue": "shöp"}},
        ],
        "links": [{"traceId": "0a" * 16, "spanId": "0b" * 8}],
    }
    assert ("parentSpanId" in second, second["kind"], second["links"]) == (False, 1, [])
    assert (sending.sent_count, sending.lost_count) == (2, 0)


def test_spans_of_a_moment_go_together_and_a_whole_path_is_kept(collector: Collector) -> None:
    sending = OtlpExporter(
        f"{collector.endpoint}/otlp/v1/traces", instance="a", version="1", gather_s=60.0
    )
    for _ in range(1_000):
        sending.put([span()])
    sending.stop()  # what waits is sent
    assert [len(b["resourceSpans"][0]["scopeSpans"][0]["spans"]) for b in collector.bodies] == [
        512, 488,
    ]  # fmt: skip
    assert set(collector.paths) == {"/otlp/v1/traces"}


def test_a_collector_that_is_away_for_a_while_gets_all_in_their_order(collector: Collector) -> None:
    collector.statuses = [503, 429, 200]
    sending = exporter(collector.endpoint)
    sending.put([span("a"), span("b")])
    assert collector.came.wait(10)
    sending.put([span("c")])
    wait_until(lambda: len(collector.spans) == 3, 10, what="all spans came")
    sending.stop()
    assert [each["name"] for each in collector.spans] == ["a", "b", "c"]
    assert sending.lost_count == 0


def test_what_a_collector_refuses_is_lost_and_said(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.statuses = [400, 200]
    sending = exporter(collector.endpoint)
    sending.put([span("bad")])
    wait_until(lambda: sending.lost_count == 1, 10, what="it was refused")
    sending.put([span("good")])
    sending.stop()
    assert [each["name"] for each in collector.spans] == ["good"]
    assert "1 spans are not taken by http://127.0.0.1" in caplog.text
    assert "1 are lost since the start" in caplog.text


def test_nobody_waits_for_a_collector_that_never_comes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(otlp, "_WAITING_MAX", 3)
    with collecting() as gone:
        endpoint = gone.endpoint
    sending = exporter(endpoint)
    began_s = time.perf_counter()
    sending.put([span()])
    assert time.perf_counter() - began_s < 1.0
    wait_until(lambda: "ConnectionRefusedError" in caplog.text, 10, what="it was tried")
    sending.put([span()] * 5)
    sending.stop()
    assert sending.lost_count >= 3
    sending.put([span()])  # after the end: nothing happens


def test_an_error_that_nobody_had_thought_of_ended_the_thread_for_good(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Python's client raises UnicodeError for a host with an empty label."""
    sending = exporter("http://a..b:4318")
    for count in (1, 2):
        sending.put([span()])
        wait_until(lambda count=count: sending.lost_count == count, 10, what="it was tried")
    assert "UnicodeError" in caplog.text
    assert caplog.text.count("spans cannot be sent") == 1
    sending.stop()


def test_who_is_told_nothing_has_no_thread() -> None:
    sending = exporter("https://localhost")
    assert sending._place == ("localhost", 443)
    sending.stop()
