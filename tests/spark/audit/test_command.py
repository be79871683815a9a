"""The audit's command line: sentences for bad arguments, and verify's exit codes."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from chaos.kit.losing import LOSSES, played
from chaos.kit.losses import LOSSES as ALL
from halfhitch.errors import ConfigurationError, KafkaUnavailable
from halfhitch_spark.audit import command
from halfhitch_spark.audit.command import main, since_ms
from harness.spark_audit import by_spark

assert ALL is LOSSES
NEEDED = ["--kafka-bootstrap", "nowhere:1"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--kafka-bootstrap"),
        ([*NEEDED, "--nothing"], "--nothing"),
        ([*NEEDED, "--since", "yesterday"], "--since 'yesterday'"),
        ([*NEEDED, "--limit", "0"], "--limit must be 1 at least"),
        ([*NEEDED, "--limit", "many"], "--limit"),
        ([*NEEDED, "--judged-min", "101"], "--judged-min"),
        ([*NEEDED, "--open-wait-s", "-1"], "--open-wait-s"),
        ([*NEEDED, "--memory-s", "0"], "--memory-s"),
        ([*NEEDED, "--option", "secret"], "name=value"),
        ([*NEEDED, "--option", "kafka.isolation.level=read_uncommitted"], "read_committed"),
        ([*NEEDED, "--option", "kafka.bootstrap.servers=x:1"], "bootstrap"),
        ([*NEEDED, "--options-file", "no-such-file"], "--options-file"),
        ([*NEEDED, "--jars", "no-such.jar"], "no-such.jar"),
    ],
)
def test_a_bad_argument_is_a_sentence(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1
    assert "secret" not in err


def test_times_are_ago_or_moments() -> None:
    now = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
    assert since_ms("2h", now) == (now - 7_200) * 1_000
    assert since_ms("1h30m", now) == since_ms("1.5h", now) == (now - 5_400) * 1_000
    assert since_ms("2026-11-23T11:00Z", now) == (now - 3_600) * 1_000
    assert since_ms("2026-11-23T11:00", now) == (now - 3_600) * 1_000
    assert since_ms("999999d", now) == 1
    with pytest.raises(ConfigurationError, match="--since"):
        since_ms("", now)


@pytest.mark.parametrize("what", ["clean", "spoiled", "nothing"])
def test_the_exit_code_is_verifys(
    what: str,
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    world = played(rng.randrange(2**32))
    if what == "spoiled":
        LOSSES["doubled"].spoil(world)
    if what == "nothing":
        for log in world.logs.values():
            log.start = len(log.records)
    given: list[Any] = []

    def played_audit(_: Any, asked: Any, **__: Any) -> Any:
        given.append(asked)
        return by_spark(world)

    monkeypatch.setattr(command, "audit", played_audit)
    monkeypatch.setattr(command, "_session", lambda _: None)
    secrets = tmp_path / "options"
    secrets.write_text("# why\nkafka.ssl.key.password=a=b\n")
    allow = ["--topics-allow", "orders,points", "--options-file", str(secrets)]
    code = main([*NEEDED, *allow])
    assert code == {"clean": 0, "spoiled": 3, "nothing": 4}[what]
    (asked,) = given
    assert asked.wanted.allow == ["orders", "points"]
    assert asked.options == {"kafka.ssl.key.password": "a=b"}
    assert capsys.readouterr().out.startswith("verdict")
    assert main([*NEEDED, "--group", "nobody"]) == 2
    assert "'nobody'" in capsys.readouterr().err


def test_kafka_that_is_away_is_one_that_could_not_be_looked_at(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise KafkaUnavailable("Kafka is away")

    monkeypatch.setattr(command, "audit", away)
    monkeypatch.setattr(command, "_session", lambda _: None)
    assert main(NEEDED) == 1
    assert capsys.readouterr().err == "Kafka is away\n"
