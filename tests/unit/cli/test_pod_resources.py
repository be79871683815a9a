"""Requests and limits of a sidecar: by flag, by annotation, and what no pod could have."""

from __future__ import annotations

import pytest

from halfhitch.errors import ConfigurationError
from halfhitch_cli.pod_resources import Resources, amount


def test_what_is_not_said_is_as_the_charts_have_it() -> None:
    assert Resources.of({}).checked() == {
        "limits": {"memory": "512Mi"},
        "requests": {"cpu": "50m", "memory": "96Mi"},
    }


def test_an_annotation_wins_over_a_flag_each_by_itself() -> None:
    by_flags = Resources.of({"cpu-limit": "1", "memory-limit": "1Gi"})
    own = {"cpu-limit": "none", "memory-request": " 128Mi ", "cpu-request": None}
    assert by_flags.with_annotations(own).checked() == {
        "limits": {"memory": "1Gi"},
        "requests": {"cpu": "50m", "memory": "128Mi"},
    }
    none = dict.fromkeys(("cpu-request", "memory-request", "memory-limit"), "none")
    assert Resources.of(none).checked() == {}


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("memory-limit", "512MB", "memory-limit cannot be '512MB': give an amount as Kubernetes"),
        ("memory-limit", "", "such as 256Mi or 1Gi, or none, by --memory-limit or the annotation"),
        ("cpu-request", "half", "such as 250m or 0.5, or none, by --cpu-request or the annotation"),
        ("cpu-limit", "-1", "cpu-limit cannot be '-1'"),
        ("cpu-limit", "1\n2", "cpu-limit cannot be"),
        ("memory-request", "1e999999999", "memory-request cannot be '1e999999999'"),
        (
            "memory-limit",
            "512m",
            "memory-limit is 512m, which is too little for a sidecar: give 64Mi",
        ),
        ("memory-limit", "512", "a unit such as Mi belongs to it"),
        ("memory-limit", "0", "or none"),
    ],
)
def test_what_is_no_amount_is_told_with_the_cure(name: str, text: str, says: str) -> None:
    for wrong in (lambda: Resources.of({name: text}), lambda: _annotated({name: text})):
        with pytest.raises(ConfigurationError) as told:
            wrong()
        assert says in str(told.value)


def _annotated(own: dict[str, object]) -> Resources:
    return Resources.of({}).with_annotations(own)


def test_more_is_asked_for_than_the_limit_allows() -> None:
    with pytest.raises(ConfigurationError) as told:
        Resources.of({"memory-request": "1Gi"}).checked()
    assert "memory-request is 1Gi, more than memory-limit, which is 512Mi: raise" in str(told.value)
    with pytest.raises(ConfigurationError, match="cpu-request is 50m, more than cpu-limit, which"):
        Resources.of({}).with_annotations({"cpu-limit": "0.049"}).checked()
    equal = {"memory-request": "0.5Gi", "memory-limit": "536870912"}
    assert Resources.of(equal).checked()["limits"] == {"memory": "536870912"}


def test_amounts_are_counted_as_kubernetes_counts_them() -> None:
    assert amount("1.5Gi") == 3 * 2**29
    assert [amount(text) for text in ("1E", "1e3", "1E3", "2.")] == [10**18, 1000, 1000, 2]
    assert amount("1000m") == amount("1000000u") == amount("1000000000n") == 1
