"""Doors that commands ask: one over fake operations, one that is scripted."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from halfhitch.service.api import ParkedMessage
from halfhitch_cli.app import main
from harness.admin_door import admin_door
from harness.fake_operations import FakeOperations, parked, undecided
from harness.scripted_admin import Door
from harness.told import ToldLog, stories_service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SETTINGS = {"checks.give_up": "park", "checks.age_s_max": 259_200}
PAID = {"decision_reason": "alice: it was paid", "decision_source": "operator"}


@pytest.fixture
def operations() -> FakeOperations:
    return FakeOperations(
        [undecided("T1"), undecided("T2", "bank", next_check_s=None, age_s=7_300)],
        [
            parked("P1"),
            parked("P2", reason="undeliverable", decision="commit", **PAID),
        ],
        [ParkedMessage("orders", None, b"k", b"v\x1b[2J", [("a", b"\xff")])],
    )


@pytest.fixture
def told_log() -> ToldLog:
    return ToldLog()


@pytest.fixture
def run(
    operations: FakeOperations, told_log: ToldLog, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[int, str, str]]]:
    stories = stories_service(told_log, operations)
    with admin_door(operations, SETTINGS, stories=stories) as port:

        def run(*arguments: str) -> tuple[int, str, str]:
            code = main([*arguments[:2], "--admin-port", str(port), *arguments[2:]])
            captured = capsys.readouterr()
            return code, captured.out, captured.err

        yield run


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door()
    thread = threading.Thread(target=door.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield door
    door.server.shutdown()
    door.server.server_close()
    thread.join(10)


@pytest.fixture
def status(door: Door, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["status", "--admin-port", str(door.port), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
