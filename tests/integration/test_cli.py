"""Commands that talk to Kafka, against a real one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import NewPartitions

from halfhitch_cli.app import main
from harness.kafka import admin_client, fresh_name, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import GivenKafka

pytestmark = pytest.mark.kafka
WAIT_S = 20.0
Run = "Callable[..., tuple[int, dict[str, object], str]]"


@pytest.fixture
def prefix(kafka: GivenKafka) -> Iterator[str]:
    prefix = fresh_name("cli") + "."
    yield prefix
    admin = admin_client(kafka.bootstrap)
    mine = [name for name in admin.list_topics(timeout=WAIT_S).topics if name.startswith(prefix)]
    for future in admin.delete_topics(mine).values() if mine else ():
        future.exception(WAIT_S)


@pytest.fixture
def run(kafka: GivenKafka, prefix: str, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, dict[str, object], str]:
        common = ["--kafka-bootstrap", kafka.bootstrap, "--topics-prefix", prefix, "-o", "json"]
        code = main([*arguments, *common])
        captured = capsys.readouterr()
        return code, json.loads(captured.out) if captured.out else {}, captured.err

    return run


def test_init_creates_verifies_and_is_repeatable(run: Run, prefix: str) -> None:
    code, answer, _ = run("topics", "verify")
    assert code == 3
    assert answer["healthy"] is False

    code, _, err = run("topics", "init")
    assert code == 1
    assert "set topics.replication_factor to 1" in err
    one = ("--topics-replication-factor", "1")
    code, answer, _ = run("topics", "init", *one)
    assert code == 0
    assert len(answer["created"]) == 4
    assert answer["partition_count"] == 4
    code, answer, _ = run("topics", "init", *one, "--repair")
    assert (code, answer["created"], answer["repaired"]) == (0, [], [])
    code, answer, _ = run("topics", "verify")
    assert (code, answer["healthy"]) == (0, True)


def test_another_partition_count_is_refused_with_the_way_to_it(run: Run) -> None:
    one = ("--topics-replication-factor", "1")
    assert run("topics", "init", *one, "--topics-partitions", "2")[0] == 0
    code, _, err = run("topics", "init", *one, "--topics-partitions", "3")
    assert code == 1
    assert "has 2 partitions, not 3" in err
    assert "topics.prefix" in err
    assert err.count("\n") == 1


def test_doctor_is_content_with_a_fresh_installation_and_not_with_a_broken_one(
    kafka: GivenKafka, run: Run, prefix: str
) -> None:
    assert run("topics", "init", "--topics-replication-factor", "1")[0] == 0
    checks = ("doctor", "--handle-key", "k" * 32, "--admin-port", "1")
    code, answer, _ = run(*checks)
    assert code == 0, answer
    severities = {row["check"]: row["severity"] for row in answer["findings"]}
    assert severities["settings"] == "ok"
    assert severities["Kafka"] == "ok"
    assert severities["Kafka version"] == "ok"
    assert severities["partition counts"] == "ok"
    assert severities["sidecar"] == "warn"

    admin = admin_client(kafka.bootstrap)
    half = prefix + "RMQ_SYS_TRANS_HALF_TOPIC"
    admin.create_partitions([NewPartitions(half, 5)])[half].result(WAIT_S)
    wait_until(lambda: len(admin.list_topics(half).topics[half].partitions) == 5, WAIT_S)
    code, answer, _ = run(*checks)
    assert code == 3
    (failure,) = [row for row in answer["findings"] if row["severity"] == "fail"]
    assert failure["check"] == "partition counts"
    assert "Stop every sidecar" in failure["remedy"]


def test_kafka_away_is_told_in_time_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--kafka-bootstrap", "127.0.0.1:1", "--kafka-start-wait-s", "0.5"]
    assert main(["topics", "init", *arguments]) == 1
    err = capsys.readouterr().err
    assert "127.0.0.1:1" in err
    assert "refused" in err
    assert "kafka.bootstrap" in err
    assert err.count("\n") == 1
