"""What `halfhitch status` shows, and its exit codes."""

import json
from collections.abc import Callable

import pytest

from halfhitch_cli.app import main
from harness.scripted_admin import STATUS, Door

Capture = pytest.CaptureFixture[str]

Status = Callable[..., tuple[int, str, str]]


def test_status_shows_a_ready_sidecar_and_its_partitions(door: Door, status: Status) -> None:
    door.say("/v1/status", 200, STATUS)
    code, out, err = status()
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert ["state", "ready"] in rows
    assert ["uptime_s", "1.2"] in rows
    assert ["owner", "yes"] in rows
    assert ["2", "working", "7", "1m05s", "3", "2", "0", "0", "2", "5"] in rows
    code, out, _ = status("-o", "json")
    assert json.loads(out) == STATUS


def test_status_of_a_sidecar_that_is_not_ready_is_3_with_the_reasons(
    door: Door, status: Status
) -> None:
    door.say(
        "/v1/status", 200, {**STATUS, "ready": False, "reasons": ["no Kafka"], "partitions": []}
    )
    code, out, _ = status()
    assert code == 3
    assert "not ready" in out
    assert "no Kafka" in out
    assert "Half partition" not in out


def test_what_is_degraded_is_told_and_is_no_failure(
    door: Door, status: Status, capsys: Capture
) -> None:
    door.say("/v1/status", 200, {**STATUS, "degraded": ["Redis does not answer"]})
    code, out, _ = status()
    assert code == 0
    assert ["degraded", "Redis", "does", "not", "answer"] in [r.split() for r in out.splitlines()]
    door.say("/readyz", 200, {"ready": True, "degraded": ["Redis does not answer"]})
    flags = ("--kafka-bootstrap", "127.0.0.1:1", "--wait-s", "0.1", "--admin-port", str(door.port))
    main(["doctor", *flags, "-o", "json"])
    found = {row["check"]: row for row in json.loads(capsys.readouterr().out)["findings"]}
    assert found["sidecar"]["severity"] == "warn"
    assert "Redis does not answer" in found["sidecar"]["sentence"]


def test_status_without_a_sidecar_is_1_with_the_next_step(capsys: Capture) -> None:
    assert main(["status", "--admin-port", "1"]) == 1
    assert "halfhitch serve" in capsys.readouterr().err
