"""The settings of the local session, and how it is started."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyspark
import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from halfhitch.errors import ConfigurationError
from halfhitch_spark import connector_package, local_session
from halfhitch_spark.session import local_settings

if TYPE_CHECKING:
    from typing import NoReturn


def test_given_jars_are_used_and_nothing_is_fetched() -> None:
    settings = local_settings([Path("/jars/a.jar"), Path("/jars/b.jar")], 2)
    assert settings["spark.jars"] == "/jars/a.jar,/jars/b.jar"
    assert "spark.jars.packages" not in settings


def test_without_jars_spark_resolves_the_connector_of_its_own_version() -> None:
    settings = local_settings([], 2)
    assert settings["spark.jars.packages"] == connector_package()
    assert connector_package().endswith(f":{pyspark.__version__}")
    assert "spark.jars" not in settings


def test_the_quiet_log_settings_are_in_the_package() -> None:
    options = local_settings([], 1)["spark.driver.extraJavaOptions"]
    path = re.search(r"-Dlog4j2\.configurationFile=(file://\S+)", options)
    assert path is not None
    assert Path(urlsplit(path[1]).path).read_text("utf-8")


@pytest.mark.parametrize("before", [None, "/a/java"])
def test_the_java_home_is_for_the_start_only_also_when_the_start_fails(
    before: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if before is None:
        monkeypatch.delenv("JAVA_HOME", raising=False)
    else:
        monkeypatch.setenv("JAVA_HOME", before)
    at_start: list[tuple[str, Path]] = []

    def fail(_: object) -> NoReturn:
        at_start.append((os.environ["JAVA_HOME"], Path.cwd()))
        raise RuntimeError("no Java")

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", fail)
    folder = Path.cwd()
    with pytest.raises(RuntimeError, match="no Java"):
        local_session("name", java_home=Path("/the/java"), folder=tmp_path)
    assert at_start == [("/the/java", tmp_path)]
    assert os.environ.get("JAVA_HOME") == before
    assert Path.cwd() == folder


@pytest.mark.parametrize("jars", [[], [Path("/jars/a.jar")]])
def test_a_session_without_a_maven_repository_gave_no_way_out(
    jars: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> NoReturn:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", fail)
    with pytest.raises(PySparkRuntimeError if jars else ConfigurationError) as caught:
        local_session("try", jars=jars)
    if not jars:
        for way_out in ("jars=", "spark.jars.repositories", "halfhitch[spark-source]"):
            assert way_out in str(caught.value)


@pytest.mark.spark
def test_the_session_is_small_quiet_and_in_utc(spark: SparkSession) -> None:
    settings = spark.sparkContext.getConf()
    assert settings.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.defaultParallelism == 2
