"""A RocketMQ door that is off asks for nothing: a secret that is not there would hold pods up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.chart_values import CHART, values
from harness.charts import merged, parent_chart, rendered

if TYPE_CHECKING:
    from pathlib import Path

    from harness.charts import Object


def _values(*, enabled: bool) -> Object:
    return {
        "doors": {"rocketmq": {"enabled": enabled, "tls": {"secretName": "rocketmq-tls"}}},
        "secrets": {"rocketmqAccessKeys": {"secretName": "rocketmq-keys"}},
    }


@pytest.mark.parametrize("enabled", [False, True])
def test_secrets_of_a_door_that_was_off_were_mounted(enabled: bool) -> None:
    found = str(rendered(CHART, merged(values("mesh"), _values(enabled=enabled))))
    for trace in ("rocketmq-tls", "rocketmq-keys", "ROCKETMQ_ACCESS_KEY_FILE", "tls/rocketmq"):
        assert (trace in found) == enabled, trace


@pytest.mark.parametrize("enabled", [False, True])
def test_secrets_of_a_door_that_was_off_were_mounted_by_the_library(
    enabled: bool, tmp_path: Path
) -> None:
    own: Object = {
        "settings": {"kafka": {"bootstrap": "kafka:9092"}},
        "secrets": {"handleKey": {"secretName": "halfhitch"}},
    }
    given = {"halfhitch-sidecar": merged(own, _values(enabled=enabled))}
    found = str(rendered(parent_chart(tmp_path), given))
    for trace in ("rocketmq-tls", "rocketmq-keys", "ROCKETMQ_ACCESS_KEY_FILE", "tls/rocketmq"):
        assert (trace in found) == enabled, trace
