"""Jars: nothing unverified is ever served, nothing half-finished is ever taken for whole."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from halfhitch.embedded import EmbeddedError, jars

CONTENT = {f"org.example:part-{i}:1.{i}": f"content of part {i}".encode() * 100 for i in range(5)}


class FakeRepositories:
    """Hands out what it holds and notes every request."""

    def __init__(self, holds: dict[str, bytes], notes: Path) -> None:
        self.holds = holds
        self.notes = notes

    def __call__(self) -> FakeRepositories:
        return self

    def fetch(self, coordinates, folder, count_bytes=None):
        with self.notes.open("a") as file:
            file.write(f"{coordinates}\n")
        if coordinates not in self.holds:
            raise ConnectionError("the network is unreachable")
        content = self.holds[coordinates]
        folder.mkdir(parents=True)
        path = folder / "downloaded.jar"
        path.write_bytes(content)
        if count_bytes is not None:
            count_bytes(len(content))
        return path

    @property
    def requests(self) -> list[str]:
        return self.notes.read_text().split() if self.notes.exists() else []


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """A lock named `example-1` over CONTENT, and an empty cache."""
    locks = tmp_path / "locks"
    locks.mkdir()
    listed = [
        {
            "coordinates": coordinates,
            "sha256": hashlib.sha256(content).hexdigest(),
            "size_bytes": len(content),
        }
        for coordinates, content in CONTENT.items()
    ]
    lock = {"folder": "example/1", "roots": [], "excluded": [], "jars": listed}
    (locks / "example-1.lock.json").write_text(json.dumps(lock))
    monkeypatch.setattr(jars, "_LOCKS", locks)
    monkeypatch.setattr(jars.time, "sleep", lambda _seconds: None)
    monkeypatch.setenv("HALFHITCH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "example" / "1"


@pytest.fixture
def repositories(tmp_path, monkeypatch) -> FakeRepositories:
    fake = FakeRepositories(dict(CONTENT), tmp_path / "requests")
    monkeypatch.setattr(jars, "Repositories", fake)
    return fake


def visible_files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def test_a_first_fetch_serves_exactly_the_locked_contents(cache, repositories):
    paths = jars.fetch_locked("example-1")
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert [path.name for path in paths] == [f"part-{i}-1.{i}.jar" for i in range(5)]
    assert {path.parent for path in paths} == {cache}
    assert sorted(repositories.requests) == sorted(CONTENT)


def test_a_second_fetch_asks_nobody(cache, repositories):
    jars.fetch_locked("example-1")
    before = repositories.requests
    assert len(jars.fetch_locked("example-1")) == len(CONTENT)
    assert repositories.requests == before


def test_a_folder_filled_by_hand_is_verified_and_needs_no_network(cache, repositories):
    repositories.holds.clear()
    cache.mkdir(parents=True)
    for coordinates, content in CONTENT.items():
        _, artifact, version = coordinates.split(":")
        (cache / f"{artifact}-{version}.jar").write_bytes(content)
    assert len(jars.fetch_locked("example-1")) == len(CONTENT)
    assert repositories.requests == []


@pytest.mark.parametrize("damage", [b"", b"short", CONTENT["org.example:part-2:1.2"][::-1]])
def test_a_damaged_jar_is_noticed_and_fetched_again(cache, repositories, damage):
    jars.fetch_locked("example-1")
    victim = cache / "part-2-1.2.jar"
    victim.write_bytes(damage)
    jars.fetch_locked("example-1")
    assert victim.read_bytes() == CONTENT["org.example:part-2:1.2"]
    assert repositories.requests.count("org.example:part-2:1.2") == 2
    assert len(repositories.requests) == len(CONTENT) + 1


def test_a_jar_that_was_exchanged_and_given_its_old_size_and_time_is_not_served(
    cache, repositories
):
    jars.fetch_locked("example-1")
    victim = cache / "part-2-1.2.jar"
    before = victim.stat()
    victim.write_bytes(bytes(before.st_size))
    os.utime(victim, ns=(before.st_atime_ns, before.st_mtime_ns))
    jars.fetch_locked("example-1")
    assert victim.read_bytes() == CONTENT["org.example:part-2:1.2"]


def test_a_missing_jar_is_fetched_alone(cache, repositories):
    jars.fetch_locked("example-1")
    (cache / "part-3-1.3.jar").unlink()
    jars.fetch_locked("example-1")
    assert repositories.requests[len(CONTENT) :] == ["org.example:part-3:1.3"]


def test_wrong_content_is_refused_and_never_visible(cache, repositories):
    repositories.holds["org.example:part-1:1.1"] = b"<html>Please log in</html>"
    with pytest.raises(EmbeddedError, match=r"part-1:1\.1 .*not what the lock.*proxy or mirror"):
        jars.fetch_locked("example-1")
    assert "part-1-1.1.jar" not in visible_files(cache)


def test_offline_says_what_is_missing_and_what_to_do(cache, repositories):
    repositories.holds.clear()
    with pytest.raises(EmbeddedError) as caught:
        jars.fetch_locked("example-1")
    text = str(caught.value)
    assert "5 of 5 jars" in text
    assert str(cache) in text
    assert "HALFHITCH_CACHE_DIR" in text
    assert "the network is unreachable" in text


def test_an_interrupted_fetch_keeps_what_is_whole_and_goes_on_from_there(cache, repositories):
    lost = repositories.holds.pop("org.example:part-4:1.4")
    with pytest.raises(EmbeddedError):
        jars.fetch_locked("example-1")
    whole = visible_files(cache)
    for name in whole:
        digest = hashlib.sha256((cache / name).read_bytes()).hexdigest()
        assert digest in {hashlib.sha256(content).hexdigest() for content in CONTENT.values()}
    assert not list(cache.glob(".scratch-*"))
    asked_before = len(repositories.requests)
    repositories.holds["org.example:part-4:1.4"] = lost
    jars.fetch_locked("example-1")
    assert len(repositories.requests) - asked_before == len(CONTENT) - len(whole)


def test_a_passing_hiccup_is_tried_again(cache, repositories, monkeypatch):
    failures = iter([True, True, False])
    fetch = repositories.fetch

    def sometimes(coordinates, folder, count_bytes=None):
        if coordinates == "org.example:part-0:1.0" and next(failures):
            raise ConnectionError("reset")
        return fetch(coordinates, folder, count_bytes)

    monkeypatch.setattr(repositories, "fetch", sometimes)
    assert len(jars.fetch_locked("example-1")) == len(CONTENT)


def test_two_that_fetch_at_once_fetch_each_jar_once(cache, repositories):
    # The lock belongs to the open file and not to the process, so threads contend as processes do.
    both_are_here = threading.Barrier(2, timeout=20)

    def fetch() -> int:
        both_are_here.wait()
        return len(jars.fetch_locked("example-1"))

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(fetch) for _ in range(2)]
        assert [future.result(30) for future in futures] == [len(CONTENT)] * 2
    assert sorted(repositories.requests) == sorted(CONTENT)


def test_waiting_for_another_process_has_an_end(cache, repositories, monkeypatch):
    monkeypatch.setattr(jars, "_TURN_DEADLINE_S", 0.0)
    cache.mkdir(parents=True)
    with jars.turn(cache), pytest.raises(EmbeddedError, match="another process has been filling"):
        jars.fetch_locked("example-1")


def test_a_whole_cache_may_be_read_only(cache, repositories, monkeypatch):
    jars.fetch_locked("example-1")

    def refuse(*_arguments, **_keywords):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(jars, "turn", refuse)
    assert len(jars.fetch_locked("example-1")) == len(CONTENT)
    (cache / "part-0-1.0.jar").unlink()
    with pytest.raises(EmbeddedError, match=r"cannot be written.*HALFHITCH_CACHE_DIR"):
        jars.fetch_locked("example-1")


def test_progress_comes_on_the_calling_thread_and_ends_complete(cache, repositories):
    seen = []
    threads = set()

    def note(progress):
        seen.append(progress)
        threads.add(threading.get_ident())

    jars.fetch_locked("example-1", on_progress=note)
    assert threads == {threading.get_ident()}
    assert seen[-1].jar_count == seen[-1].jar_count_total == len(CONTENT)
    assert seen[-1].done_bytes == seen[-1].total_bytes == sum(map(len, CONTENT.values()))
    seen.clear()
    jars.fetch_locked("example-1", on_progress=note)
    assert seen == []


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HALFHITCH_CACHE_DIR", raising=False)
    assert jars.cache_root() == tmp_path / "home" / ".cache" / "halfhitch"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert jars.cache_root() == tmp_path / "xdg" / "halfhitch"
    monkeypatch.setenv("HALFHITCH_CACHE_DIR", str(tmp_path / "given"))
    assert jars.cache_root() == tmp_path / "given"


def test_an_unknown_lock_names_the_known_ones():
    with pytest.raises(ValueError, match=r"kafka-4\.3\.1"):
        jars.read_lock("kafka-0.8")


@pytest.mark.parametrize(
    "name", [jars.KAFKA_LOCK, jars.SPARK_CONNECTOR_LOCK, jars.SPARK_AVRO_LOCK, jars.SPARK_LAKE_LOCK]
)
def test_a_committed_lock_is_complete_and_names_no_server(name):
    lock = jars.read_lock(name)
    assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in lock.jars)
    assert all(jar.size_bytes > 0 for jar in lock.jars)
    assert len({jar.file_name for jar in lock.jars}) == len(lock.jars)
    listed = {jar.coordinates for jar in lock.jars}
    assert set(lock.roots) <= listed
    assert not {coordinates.rpartition(":")[0] for coordinates in listed} & set(lock.excluded)
    assert "://" not in (jars._LOCKS / f"{name}.lock.json").read_text("utf-8")


def test_kafka_has_one_logging_backend_that_fits_its_logging_api():
    versions = {}
    for jar in jars.read_lock(jars.KAFKA_LOCK).jars:
        group, artifact, version = jar.coordinates.split(":")
        if group == "org.slf4j":
            versions[artifact] = version
    assert set(versions) == {"slf4j-api", "slf4j-simple"}
    assert versions["slf4j-api"] == versions["slf4j-simple"]
