"""What the committed record says of Half Hitch still holds, by RocketMQ's own client.

The quick part of the comparison, against Half Hitch alone: a minute of Java. The whole of it, with
the real RocketMQ beside, is `make conformance`.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from conformance.cases import CASES
from conformance.comparison import changes
from conformance.servers import HalfHitchSide
from conformance.suite import build, run
from conformance.whole import RECORD
from harness.kafka import fresh_name
from harness.native import FOLDER, needs_native
from harness.rocketmq import MavenUnavailable

if TYPE_CHECKING:
    from pathlib import Path

    from conformance.whole import Record
    from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis

_CLIENT = "client-5"


@pytest.fixture
def record() -> Record:
    loaded: Record = json.loads(RECORD.read_text("utf-8"))
    return loaded


@pytest.mark.kafka
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["interpreted", pytest.param("native", marks=needs_native)])
def test_rocketmqs_client_sees_what_the_record_says(
    kafka: EmbeddedKafka, redis_server: EmbeddedRedis, tmp_path: Path, record: Record, way: str
) -> None:
    try:
        build(_CLIENT)
    except MavenUnavailable as missing:
        pytest.skip(f"RocketMQ's client cannot be had here: {missing}")
    prefix = fresh_name("conformance") + "."
    path = os.pathsep.join(filter(None, [str(FOLDER), os.environ.get("PYTHONPATH")]))
    environment = {"PYTHONPATH": path} if way == "native" else {}
    with HalfHitchSide(
        tmp_path, kafka.bootstrap, redis_server.url, prefix=prefix, environment=environment
    ) as side:
        result = run(side, _CLIENT, tmp_path, groups="quick")
        metrics = f"http://127.0.0.1:{side.sidecar.admin_port}/metrics"
        with urlopen(metrics, timeout=5) as answer:
            shown = answer.read().decode()
    found = re.search(r"^halfhitch_rocketmq_native_requests_total (\S+)$", shown, re.MULTILINE)
    native_count = float(found[1]) if found else 0.0
    assert (native_count > 20) == (way == "native"), "the restarts of the cases begin it anew"
    assert result.failed == {}
    assert len(result.observed) >= 15, result.said
    unlike = [
        f"{name}: {change}"
        for name, observed in result.observed.items()
        for change in changes(CASES[name], record[_CLIENT][name]["halfhitch"], observed)
    ]
    assert unlike == []
