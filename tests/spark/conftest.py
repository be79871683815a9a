"""One Spark session for the whole run: its start is the slowest thing here."""

from __future__ import annotations

import gc
import warnings
from typing import TYPE_CHECKING

import pytest

from halfhitch.embedded import spark_avro_jars, spark_connector_jars, spark_java_home
from halfhitch_spark import local_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# PySpark leaves the sockets of collect() and createDataFrame() to the garbage collector.
_UNCLOSED = "unclosed <socket"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.filterwarnings(f"ignore:{_UNCLOSED}:ResourceWarning"))


@pytest.fixture(scope="session")
def _session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = local_session(
        "halfhitch tests",
        jars=[*spark_connector_jars(), *spark_avro_jars()],
        java_home=spark_java_home(),
        folder=tmp_path_factory.mktemp("spark"),
    )
    yield session
    session.stop()


@pytest.fixture
def spark(_session: SparkSession) -> Iterator[SparkSession]:
    yield _session
    # Here, so that PySpark's sockets do not turn up as a warning in somebody else's test.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _UNCLOSED, ResourceWarning)
        gc.collect()
