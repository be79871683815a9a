"""Passwords are not in what Spark shows of a stream, of a batch, and of a query that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from halfhitch_spark import read_committed, read_stream
from halfhitch_spark.hiding import SETTING, VALUES, hide_secrets
from halfhitch_spark.source import register_source
from harness.forwards import commit_records, half_hitch_record
from harness.kafka import create_topics, fresh_name
from harness.spark import run_stream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from halfhitch.embedded import EmbeddedKafka

pytestmark = pytest.mark.spark

#: Nothing listens to these where there is no TLS and no SASL.
SECRETS = {
    "kafka.sasl.jaas.config": 'a.b.Plain required username="u" password="hush, x -> 1)";',
    "kafka.ssl.keystore.password": "hush-2",
    "kafka.ssl.key.password": "hush-3",
}


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.unset(SETTING)
    yield spark
    spark.conf.unset(SETTING)


def told(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    frame.explain(True)
    return capsys.readouterr().out


@pytest.mark.kafka
def test_a_password_was_shown_in_the_plan_of_a_stream(
    session: SparkSession,
    kafka: EmbeddedKafka,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, checkpoint = fresh_name("hidden"), tmp_path / "checkpoint"
    create_topics(kafka.bootstrap, {topic: 1})
    commit_records(kafka.bootstrap, topic, [half_hitch_record("t", b"v")])
    stream = read_stream(
        session, kafka.bootstrap, topic, checkpoint=checkpoint.as_uri(), options=SECRETS
    )
    shown = told(stream, capsys)
    assert "hush" not in shown
    assert topic in shown
    assert "hush" not in told(
        read_committed(session, kafka.bootstrap, topic, options=SECRETS), capsys
    )

    register_source(session)
    source = session.readStream.format("halfhitch").options(
        **{"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic,
           "kafka.sasl.password": "hush-4", "kafka.ssl.key.password": "hush-5"}
    ).load()  # fmt: skip
    assert "hush" not in told(source, capsys)

    def die(batch: DataFrame, _: int) -> None:
        batch.explain(True)
        raise RuntimeError("struck down")

    with pytest.raises(Exception, match="struck down") as found:
        run_stream(stream, checkpoint, die)
    assert "hush" not in str(found.value)
    assert "hush" not in capsys.readouterr().out


def test_what_is_hidden_is_the_value_and_nothing_behind_it(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    pattern = jvm.java.util.regex.Pattern.compile(VALUES)
    given = (
        'Map(kafka.sasl.jaas.config -> a.b required\n password="(x), y";, startingOffsets -> '
        "latest, kafka.ssl.key.password -> p),None), kafka, [k#1], kafka.ssl.keystore.key -> -\n-"
    )
    assert pattern.matcher(given).replaceAll("*") == (
        "Map(kafka.sasl.jaas.config -> *, startingOffsets -> latest, "
        "kafka.ssl.key.password -> *),None), kafka, [k#1], kafka.ssl.keystore.key -> *"
    )


def test_a_pattern_of_the_user_s_own_stays_and_without_secrets_there_is_none(
    session: SparkSession,
) -> None:
    hide_secrets(session, ["kafka.client.id", "startingOffsets"])
    assert session.conf.get(SETTING, None) is None
    session.conf.set(SETTING, "mine")
    hide_secrets(session, SECRETS)
    assert session.conf.get(SETTING) == "mine"
