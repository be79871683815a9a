"""The demo's two streams in one Spark: both go on after a death, and say the same."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.embedded import spark_connector_jars, spark_java_home
from halfhitch.errors import ConfigurationError
from halfhitch_spark import demo as program
from halfhitch_spark import facts
from halfhitch_spark.points import Points
from harness.forwards import Record, commit_records, forwarded_headers
from harness.kafka import create_topics, fresh_name, wait_for_markers, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from halfhitch.embedded import EmbeddedKafka


def order(number: int, points: int, *, index: int) -> Record:
    value = {"order_id": str(number), "customer": f"c{number % 3}", "points": points}
    headers = forwarded_headers(f"t{number}", index=index, count=2)
    return Record(json.dumps(value).encode(), headers=headers)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.timeout(400)
def test_both_streams_go_on_from_their_checkpoints_although_spark_was_killed(
    kafka: EmbeddedKafka, tmp_path: Path, rng: random.Random
) -> None:
    topics = fresh_name("orders"), fresh_name("points")
    create_topics(kafka.bootstrap, dict.fromkeys(topics, 1))
    folder, stop_file = tmp_path / "spark", tmp_path / "stop"
    points = {number: rng.randint(1, 100) for number in range(60)}
    words = ["--bootstrap", kafka.bootstrap, "--orders", topics[0], "--points", topics[1]]
    words += ["--folder", str(folder), "--stop-file", str(stop_file)]
    words += ["--jars", ",".join(str(jar) for jar in spark_connector_jars())]
    words += ["--java-home", str(spark_java_home())]

    def write(numbers: range) -> None:
        for index, topic in enumerate(topics):
            made = [order(n, points[n], index=index) for n in numbers]
            commit_records(kafka.bootstrap, topic, made)
        wait_for_markers(kafka.bootstrap, *topics)

    def begin() -> subprocess.Popen[bytes]:
        with (tmp_path / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "halfhitch_spark.demo", *words],
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def said() -> dict[str, Any]:
        found: dict[str, Any] = json.loads((folder / "points.json").read_text("utf-8"))
        return found

    write(range(25))
    running = begin()
    try:
        manifests = folder / "facts" / "manifest"
        wait_until(lambda: any(manifests.glob("*.json")), 150, what="the first facts")
        wait_until(lambda: said()["rows"] == 25, 60, what="the first sums")
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    write(range(25, 60))
    stop_file.touch()
    running = begin()
    try:
        assert running.wait(150) == 0, (tmp_path / "log").read_text("utf-8")
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    expected: Counter[str] = Counter()
    for number, many in points.items():
        expected[f"c{number % 3}"] += many
    assert said()["customers"] == expected
    assert (said()["rows"], said()["duplicates"], said()["finished"]) == (60, 0, True)
    totals = json.loads((folder / "totals.json").read_text("utf-8"))
    assert {total["customer"]: total["points"] for total in totals} == expected
    assert sum(total["orders"] for total in totals) == 60
    assert (folder / "totals.svg").read_text("utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("outcome", "exit_code"),
    [
        (Points(finished=True), 0),
        (Points(finished=True, duplicates=1), 1),
        (ConfigurationError("the file is gone"), 2),
    ],
)
def test_the_exit_code_says_how_it_went_and_spark_is_stopped(
    outcome: Points | Exception,
    exit_code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stopped: list[bool] = []
    given: dict[str, Any] = {}

    def follow(_: object, **arguments: Any) -> Points:
        given.update(arguments)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def session(_: str, **arguments: Any) -> SimpleNamespace:
        given.update(arguments)
        return SimpleNamespace(stop=lambda: stopped.append(True))

    monkeypatch.setattr(facts, "local_session", session)
    monkeypatch.setattr(program, "follow_points", follow)
    monkeypatch.setattr(program, "start", lambda *_: lambda _: None)
    monkeypatch.setattr(program, "finish", lambda *_: [facts.Total("ann", 2, 8)])
    words = ["--bootstrap", "127.0.0.1:1", "--folder", str(tmp_path / "new")]
    words += ["--stop-file", str(tmp_path / "s")]
    assert program.main([*words, "--jars", f"{tmp_path}/a.jar,{tmp_path}/b.jar"]) == exit_code
    assert stopped == [True]
    assert given["topic"] == "points"
    assert given["jars"] == [tmp_path / "a.jar", tmp_path / "b.jar"]
    assert ("the file is gone" in capsys.readouterr().err) == (exit_code == 2)
    totals = tmp_path / "new" / "totals.json"
    assert totals.exists() == (exit_code != 2)
    assert exit_code == 2 or json.loads(totals.read_text("utf-8"))[0]["customer"] == "ann"
