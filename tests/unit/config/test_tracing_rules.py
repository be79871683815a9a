"""`tracing.endpoint`: what is a collector's address, and what is none."""

from __future__ import annotations

import pytest

from halfhitch.config.settings import AuditSettings, Settings, TracingSettings
from halfhitch.config.tracing_rules import traces_can_be_told


def told(endpoint: str | None, *, audit: bool = True) -> str | None:
    settings = Settings(
        tracing=TracingSettings(endpoint=endpoint), audit=AuditSettings(enabled=audit)
    )
    return traces_can_be_told(settings)


@pytest.mark.parametrize(
    "endpoint",
    [None, "http://127.0.0.1:4318", "https://otel.example", "http://[::1]:4318/v1/traces"],
)
def test_a_collector_is_named_by_its_url(endpoint: str | None) -> None:
    assert told(endpoint) is None


@pytest.mark.parametrize(
    "endpoint",
    [
        "", "collector:4318", "ftp://a", "http://", "http://a b", "http://[::1::2]", "http://[.]",
        "http://a..b:4318", "http://.a", "http://" + "a" * 64 + ".b",
    ],
)  # fmt: skip
def test_what_is_no_url_is_refused_with_a_good_one(endpoint: str) -> None:
    assert "http://127.0.0.1:4318" in str(told(endpoint))


@pytest.mark.parametrize("port", ["99999", "65536", "0", "00000"])
def test_a_port_that_is_none_ended_the_start_with_a_traceback(port: str) -> None:
    assert f"has port {port}: a port is 1 to 65535" in str(told(f"http://collector:{port}"))
    assert told("http://collector.:65535") is None


def test_without_stories_there_are_no_traces() -> None:
    assert "audit.enabled" in str(told("http://a", audit=False))
    assert told(None, audit=False) is None
