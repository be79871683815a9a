"""A small local Spark session, for a first look, for tests and for the demo.

Owns its settings: two cores, no UI, two shuffle partitions, UTC, errors only in the log. A job on a
cluster makes its session as it always does and needs nothing from here but `connector_package`.

Where the connector's jars and Java come from is the caller's business: given, they are used and
nothing is fetched; not given, Spark resolves the connector and finds Java as it usually does.
"""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyspark
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from halfhitch.errors import ConfigurationError

_QUIET_LOGS: Final = Path(__file__).with_name("log4j2.properties")
#: For work of seconds to minutes on few cores: the optimizing compiler and the parallel collector
#: would take about half of the processor time, and memory, without ever paying it back.
_SHORT_RUN: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def connector_package() -> str:
    """The Maven coordinates of the Kafka connector that fits the installed PySpark."""
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


def no_connector() -> ConfigurationError:
    """What to do in a session that has no Kafka source."""
    return ConfigurationError(
        "this Spark session has no Kafka connector. Start it with "
        f"spark.jars.packages={connector_package()} (or --packages with spark-submit)"
    )


def local_settings(jars: Sequence[Path], core_count: int) -> dict[str, str]:
    """The configuration of `local_session`."""
    connector = (
        {"spark.jars": ",".join(str(jar) for jar in jars)}
        if jars
        else {"spark.jars.packages": connector_package()}
    )
    return {
        **connector,
        "spark.master": f"local[{core_count}]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": (
            f"{_SHORT_RUN} -Dlog4j2.configurationFile={_QUIET_LOGS.as_uri()}"
        ),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def local_session(
    app_name: str,
    *,
    jars: Sequence[Path] = (),
    java_home: Path | None = None,
    folder: Path | None = None,
    core_count: int = 2,
) -> SparkSession:
    """Start Spark in this process's Java child, or return the session that already runs.

    `jars` are the Kafka connector and what it needs; without them Spark resolves
    `connector_package()` itself. `java_home` is a Java of 17 or newer for this start only.
    `folder` is where the Java process runs: Spark 4.0 leaves an empty folder `artifacts` there.
    """
    builder = SparkSession.builder.appName(app_name)
    for name, value in local_settings(jars, core_count).items():
        builder = builder.config(name, value)
    with _java_home(java_home), _same_python(), contextlib.chdir(folder or Path.cwd()):
        try:
            return builder.getOrCreate()
        except PySparkRuntimeError as error:
            if jars or error.getCondition() != "JAVA_GATEWAY_EXITED":
                raise
            raise _not_started() from error


def _not_started() -> ConfigurationError:
    """Spark's launcher has written its own reason to stderr, and tells Python none."""
    return ConfigurationError(
        "Spark's Java process ended before it was ready; what it said stands above this. If it is"
        f" 'unresolved dependency: {connector_package()}', no Maven repository was reached from"
        " here. Then give the connector's jars, as local_session(name, jars=[...])"
        " (halfhitch.embedded.spark_connector_jars() fetches them, with pip install"
        " 'halfhitch[embedded]'); or name a repository of yours in spark.jars.repositories of"
        " spark-defaults.conf; or read without the connector, by format('halfhitch'), with pip"
        " install 'halfhitch[spark-source]'. Spark 4 wants Java 17 or newer, by JAVA_HOME or PATH"
    )


@contextlib.contextmanager
def _same_python() -> Iterator[None]:
    """Workers are started with this Python: `python3` of the PATH need not have our packages."""
    if "PYSPARK_PYTHON" in os.environ:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield
    finally:
        del os.environ["PYSPARK_PYTHON"]


@contextlib.contextmanager
def _java_home(home: Path | None) -> Iterator[None]:
    """PySpark's launcher takes Java from the environment, and from nowhere else."""
    before = os.environ.get("JAVA_HOME")
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    try:
        yield
    finally:
        if before is not None:
            os.environ["JAVA_HOME"] = before
        elif home is not None:
            del os.environ["JAVA_HOME"]
