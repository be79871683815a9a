"""What the images of the ladder's second rung are made of, as far as no engine is needed."""

from __future__ import annotations

import importlib.util

import pytest

from harness.places import ROOT

pytest.importorskip("testcontainers")


@pytest.fixture(scope="module")
def build():
    spec = importlib.util.spec_from_file_location("build", ROOT / "tests/containers/build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_kafka_in_a_container_is_set_as_the_embedded_one_but_for_its_roads(build, tmp_path):
    build.write_properties(
        build.NodePlan(1, tmp_path, build.OUTSIDE_PORT, {1: 9093}, None), build.kafka_settings()
    )
    lines = (tmp_path / "server.properties").read_text().splitlines()
    told = dict(line.split("=", 1) for line in lines)
    assert told["auto.create.topics.enable"] == "false"
    assert told["transaction.state.log.num.partitions"] == "1"
    assert told["listeners"].startswith("PLAINTEXT://0.0.0.0:9092,INSIDE://0.0.0.0:9094,")
    assert told["listener.security.protocol.map"].count(":PLAINTEXT") == 3
    assert str(tmp_path) not in "".join(lines)


def test_the_base_is_the_one_that_was_made_else_the_one_that_the_image_names(build):
    dockerfile = (ROOT / "deploy/Dockerfile").read_text()
    made = "--build-arg BUILD_BASE=halfhitch-build-base --build-arg BASE=halfhitch-base\n"
    assert build.named_base(made, dockerfile) == "halfhitch-build-base"
    assert build.named_base("", dockerfile).startswith("python:3.11-")


def test_without_an_engine_it_says_what_to_do(build, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    assert build.main() == 1
    assert "no container engine answers" in capsys.readouterr().err
