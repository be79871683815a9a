"""Refusals as metrics."""

from halfhitch.access import Numbers
from halfhitch.observability.metrics import Metrics


def test_refusals_and_identities_are_shown() -> None:
    metrics = Metrics()
    assert b"halfhitch_unauthorized" not in metrics.render()
    metrics.access(
        lambda: Numbers({"http": 2}, {("shop", "produce"): 3}, {"bank": 5}, 4, True, True)
    )
    text = metrics.render().decode()
    assert 'halfhitch_unauthorized_total{door="http"} 2.0' in text
    assert 'halfhitch_unauthorized_total{door="admin"} 0.0' in text
    assert 'halfhitch_forbidden_total{identity="shop",right="produce"} 3.0' in text
    assert 'halfhitch_too_many_requests_total{identity="bank"} 5.0' in text
    assert "halfhitch_identities 4.0" in text
    assert "halfhitch_identities_file_broken 1.0" in text


def test_without_identities_nothing_is_said_of_them() -> None:
    metrics = Metrics()
    metrics.access(lambda: Numbers({"http": 2}, {}, {}, 0, False, False))
    text = metrics.render().decode()
    assert 'halfhitch_unauthorized_total{door="http"} 2.0' in text
    assert "halfhitch_identities" not in text
