"""What stays of a scene that was red: histories, logs, and what the brokers had on disk."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from chaos.kit import stage
from chaos.kit.stage import Scene

if TYPE_CHECKING:
    import pytest


def written(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def scene_of(folder: Path) -> Scene:
    """As it is when everything in it has ended; its brokers lie beside it."""
    brokers = folder / "kafka"
    for n in (1, 2):
        own = brokers / f"broker-{n}"
        written(own / "server.log", f"log of {n}")
        written(own / "data" / "__consumer_offsets-7" / "0.log", f"offsets of {n}")
        written(own / "data" / "f-orders-0" / "0.log", "what the histories tell")
        written(own / "data" / "meta.properties", "broker.id")
    written(brokers / "broker-1" / "server.log.1", "older log of 1")
    written(brokers / "broker-2" / "data" / "__transaction_state-3" / "0.log", "ends of 2")
    scene: Any = Scene.__new__(Scene)
    scene.stage = SimpleNamespace(folder=folder)
    scene.prefix, scene.folder = "f-", folder / "f-"
    written(scene.folder / "histories" / "app0.jsonl", "{}")
    scene.readers, scene.apps, scene.sidecars = [], [], {}
    scene._is_kept = False
    scene._drop_topics = lambda: None
    found: Scene = scene
    return found


def kept_files(place: Path) -> dict[str, str]:
    return {str(p.relative_to(place)): p.read_text() for p in place.rglob("*") if p.is_file()}


def test_of_a_red_run_the_brokers_logs_and_what_coordinators_wrote_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why Kafka gave old watermarks could not be told: all that would have told it was gone."""
    monkeypatch.setattr(stage.tempfile, "gettempdir", lambda: str(tmp_path / "kept"))
    scene = scene_of(tmp_path / "stage")
    scene.keep()
    scene.close()
    assert kept_files(tmp_path / "kept" / "halfhitch-kept-f-") == {
        "histories/app0.jsonl": "{}",
        "broker-1/server.log": "log of 1",
        "broker-1/server.log.1": "older log of 1",
        "broker-1/__consumer_offsets-7/0.log": "offsets of 1",
        "broker-2/server.log": "log of 2",
        "broker-2/__consumer_offsets-7/0.log": "offsets of 2",
        "broker-2/__transaction_state-3/0.log": "ends of 2",
    }
    assert not scene.folder.exists()


def test_what_kafka_takes_away_meanwhile_takes_nothing_else_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage.tempfile, "gettempdir", lambda: str(tmp_path / "kept"))
    scene = scene_of(tmp_path / "stage")
    copy = shutil.copy

    def gone(found: Path, place: Path) -> None:
        if found.name == "server.log" and found.parent.name == "broker-1":
            raise FileNotFoundError(found)
        copy(found, place)

    monkeypatch.setattr(stage.shutil, "copy", gone)
    scene.keep()
    scene.close()
    kept = kept_files(tmp_path / "kept" / "halfhitch-kept-f-")
    assert "broker-1/server.log" not in kept
    assert kept["broker-1/server.log.1"] == "older log of 1"
    assert kept["broker-2/server.log"] == "log of 2"


def test_of_a_green_run_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage.tempfile, "gettempdir", lambda: str(tmp_path / "kept"))
    scene = scene_of(tmp_path / "stage")
    scene.close()
    assert not (tmp_path / "kept").exists()
    assert not scene.folder.exists()
