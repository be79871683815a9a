"""The audit's SparkApplication: what it names is there, and its arguments are the command's."""

from __future__ import annotations

from typing import Any

import yaml

from halfhitch_spark import connector_package
from halfhitch_spark.audit.command import parser
from harness.places import ROOT

FOLDER = ROOT / "deploy" / "spark"


def application() -> Any:
    return yaml.safe_load((FOLDER / "audit.yaml").read_text())


def test_the_application_starts_our_file_with_arguments_that_the_command_takes() -> None:
    found = application()
    assert (found["apiVersion"], found["kind"]) == ("spark.apache.org/v1", "SparkApplication")
    spec = found["spec"]
    assert (FOLDER / spec["pyFiles"].rpartition("/")[2]).is_file()
    given = parser().parse_args(spec["driverArgs"])
    assert given.topics_allow == ["shop.*"]
    folder = spec["sparkConf"]["spark.kubernetes.driver.secrets.halfhitch-audit"]
    assert given.options_file == f"{folder}/options"


def test_its_connector_is_that_of_its_spark_and_values_are_text() -> None:
    spec = application()["spec"]
    assert spec["sparkConf"]["spark.jars.packages"] == connector_package()
    assert connector_package().endswith(":" + spec["runtimeVersions"]["sparkVersion"])
    assert all(isinstance(value, str) for value in spec["sparkConf"].values())
