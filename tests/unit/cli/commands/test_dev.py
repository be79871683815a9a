"""`halfhitch dev` without servers: one in a folder, and what it does when a server has ended."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from halfhitch import embedded
from halfhitch_cli import claims
from halfhitch_cli.app import ERROR, main
from halfhitch_cli.commands import dev
from halfhitch_cli.options import Given

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def test_a_second_dev_on_the_same_folder_was_silent_for_thirty_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("it began to start servers")

    monkeypatch.setattr(embedded, "EmbeddedKafka", never)
    with dev.claimed(tmp_path):
        assert main(["dev", "--data", str(tmp_path)]) == ERROR
    told = capsys.readouterr().err
    assert f"process {os.getpid()}" in told
    assert str(tmp_path) in told
    assert "--data" in told
    with dev.claimed(tmp_path):
        pass  # it is free again


def test_a_server_that_ended_was_not_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    signals: list[int] = []
    monkeypatch.setattr(signal, "raise_signal", signals.append)
    monkeypatch.setattr(dev, "_WATCH_S", 0)
    answers: list[str | None] = [None, None, "was killed by signal 9; its log is /tmp/k/server.log"]
    ended: list[str] = []
    servers = {"Redis": lambda: None, "Kafka": lambda: answers.pop(0)}
    asyncio.run(dev.watch(servers, ended, tmp_path))
    assert (ended, signals) == (["Kafka"], [signal.SIGTERM])
    told = capsys.readouterr().err
    for part in (
        "Kafka was killed by signal 9",
        "/tmp/k/server.log",
        str(tmp_path),
        "halfhitch dev",
    ):
        assert part in told


def test_checks_take_minutes_for_whoever_wants_to_see_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALFHITCH_CHECKS_COUNT_MAX", "3")
    given = Given({"checks.interval_s": "7"}, None)
    settings = dev._settings(
        dev._with_fast_checks(given), "k" * 32, bootstrap="127.0.0.1:1", redis_url="redis://r"
    )
    checks = settings.checks
    # What was said on the command line, or in the environment, stays.
    assert (checks.immunity_s, checks.interval_s, checks.count_max) == (1.0, 7.0, 3)


@pytest.mark.parametrize(
    ("start", "name", "argument", "asks"),
    [
        (dev._kafka, "EmbeddedKafka", "ports", (9092,)),
        (dev._redis, "EmbeddedRedis", "port", 6379),
    ],
    ids=["Kafka", "Redis"],
)
@pytest.mark.parametrize("is_taken_meanwhile", [True, False])
def test_of_two_that_began_at_once_the_second_ended_for_want_of_its_port(
    start: Callable[[ExitStack, Path], object],
    name: str,
    argument: str,
    asks: object,
    is_taken_meanwhile: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = [True, not is_taken_meanwhile]
    for module in (dev, claims):
        monkeypatch.setattr(module, "is_free", lambda _: looks.pop(0))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    asked: list[object] = []

    @contextmanager
    def server(*_: object, **more: object) -> Iterator[str]:
        asked.append(more.get(argument))
        if asked[-1] is not None:
            raise embedded.EmbeddedError("no")
        yield "started"

    monkeypatch.setattr(embedded, name, server)
    with ExitStack() as stack:
        if is_taken_meanwhile:
            assert start(stack, tmp_path) == "started"
        else:  # it was not for the port
            with pytest.raises(embedded.EmbeddedError):
                start(stack, tmp_path)
    assert asked == ([asks, None] if is_taken_meanwhile else [asks])
