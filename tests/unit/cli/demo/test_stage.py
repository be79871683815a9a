"""The demo's processes: the dead are started again, failures end it, nobody is left behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from halfhitch.embedded.jars import SPARK_VERSION
from halfhitch_cli.demo import stage as stage_module
from halfhitch_cli.demo.stage import DemoError, Plan, Stage

_WAITS_FOR = """\
import pathlib, sys, time
path = pathlib.Path(sys.argv[1])
while not path.exists():
    time.sleep(0.01)
sys.exit(int(sys.argv[2]))
"""
_PLAYS_DEAD = "import time; time.sleep(60)"

Play = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def play() -> Iterator[Play]:
    """Starts small programs in place of the demo's, and ends those that are left."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: object) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", *map(str, words)]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(Plan(tmp_path, 100, 2, 2, 1), "127.0.0.1:1", "redis://127.0.0.1:1")


def test_a_shop_that_was_killed_is_started_again_until_all_orders_were_attempted(
    stage: Stage, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def start_again(_: Stage, share: int) -> subprocess.Popen[bytes]:
        started.append(share)
        return play(_PLAYS_DEAD)

    monkeypatch.setattr(Stage, "_start_shop", start_again)
    stage.shops = [play(_PLAYS_DEAD), play(_PLAYS_DEAD)]
    assert stage.mind_shops()
    stage.shops[1].send_signal(signal.SIGKILL)
    stage.shops[1].wait()
    assert stage.mind_shops()
    assert (started, stage.shop_deaths) == ([1], 1)
    for share in (0, 1):
        assert stage.mind_shops()
        (stage.plan.folder / f"shop-{share}.done").touch()
    assert not stage.mind_shops()


@pytest.mark.parametrize("code", [0, 1])
def test_a_shop_that_ends_before_it_was_told_to_ends_the_demo(
    stage: Stage, play: Play, code: int
) -> None:
    stage.shops = [play(f"raise SystemExit({code})"), play(_PLAYS_DEAD)]
    stage.shops[0].wait()
    with pytest.raises(DemoError, match=r"shop-0\.log"):
        stage.mind_shops()


def test_closing_waits_for_shops_and_forgetful_group(stage: Stage, play: Play) -> None:
    closing = stage.plan.folder / "closing"
    stage.forgetful = play(_WAITS_FOR, closing, 0)
    stage.shops = [play(_WAITS_FOR, closing, 0), play(_WAITS_FOR, closing, 0)]
    stage.close_shops()
    assert [process.poll() for process in (stage.forgetful, *stage.shops)] == [0, 0, 0]


def test_a_shop_that_fails_while_it_closes_ends_the_demo(stage: Stage, play: Play) -> None:
    closing = stage.plan.folder / "closing"
    stage.forgetful = play(_WAITS_FOR, closing, 0)
    stage.shops = [play(_WAITS_FOR, closing, 3)]
    with pytest.raises(DemoError, match="shop-0 failed"):
        stage.close_shops()


def test_a_shop_that_does_not_close_ends_the_demo(
    stage: Stage, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_module, "_STOP_S", 0.2)
    stage.forgetful = play("pass")
    stage.forgetful.wait()
    stage.shops = [play(_PLAYS_DEAD)]
    with pytest.raises(DemoError, match="shop-0 did not end"):
        stage.close_shops()


def test_a_forgetful_group_that_dies_ends_the_demo(stage: Stage, play: Play) -> None:
    stage.forgetful = play("raise SystemExit(1)")
    stage.forgetful.wait()
    with pytest.raises(DemoError, match=r"forgetful has died.*forgetful\.log"):
        stage.check_alive()


def test_a_sidecar_that_does_not_answer_has_no_figures_and_is_not_settled(stage: Stage) -> None:
    stage.admin_port = 1
    assert stage.figures() is None
    assert stage.unfinished_count() is None


def test_the_demo_with_another_spark_said_that_the_books_do_not_balance(
    stage: Stage, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_module, "version", lambda _: "4.3.0")
    with pytest.raises(DemoError, match=rf"pip install 'pyspark=={re.escape(SPARK_VERSION)}'"):
        stage.start_spark()
    stage.spark_deaths = 1
    stage.spark = play("raise SystemExit(1)")
    stage.spark.wait()
    with pytest.raises(DemoError, match=r"spark has died"):
        stage.finish_spark()


def test_spark_is_killed_with_its_java_process_and_ends_with_both_files_read(
    stage: Stage, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stage.spark_folder
    (folder / "facts" / "manifest").mkdir(parents=True)
    assert not stage.spark_has_facts()
    (folder / "facts" / "manifest" / "q_0.json").touch()
    (folder / "points.json").write_text('{"rows": 3}')
    (folder / "totals.json").write_text("[]")
    first = stage._start("spark", ["timeit", "-n1", "-r1", _PLAYS_DEAD], {})
    stage.spark = first

    def start(self: Stage) -> None:
        self.spark = play("raise SystemExit(0)")

    monkeypatch.setattr(Stage, "start_spark", start)
    assert stage.finish_spark() == {"rows": 3, "totals": []}
    assert first.returncode == -signal.SIGKILL
    assert stage.spark_deaths == 1
