"""`halfhitch producers` against a door."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch_cli.app import main

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.scripted_admin import Door


@pytest.fixture
def producers(
    operations: Any, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    from harness.admin_door import admin_door

    def run(*arguments: str) -> tuple[int, str, str]:
        with admin_door(operations, {}) as port:
            code = main(["producers", "--admin-port", str(port), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_who_is_connected_could_be_seen_nowhere(
    producers: Callable[..., tuple[int, str, str]],
) -> None:
    code, out, err = producers()
    assert (code, err) == (0, "")
    head, shop, bank = out.splitlines()
    assert head.split()[:2] == ["Group", "connected"]
    assert shop.split() == ["shop", "2", "3", "1", "4", "vm-1,", "vm-2", "node-2"]
    assert bank.split() == ["bank", "nobody", "0", "0", "7", "open"]


def test_one_group_and_names(producers: Callable[..., tuple[int, str, str]]) -> None:
    _, out, _ = producers("--group", "bank", "-o", "json")
    assert [group["undecided_count"] for group in json.loads(out)["groups"]] == [7]
    assert producers("-o", "name")[1] == "shop\nbank\n"
    code, _, err = producers("--group", "nope")
    assert (code, err) == (
        0, "No producer of group nope is connected, and it was not asked lately.\n"
    )  # fmt: skip


def test_an_older_sidecar_has_no_such_list(door: Door, capsys: pytest.CaptureFixture[str]) -> None:
    answer = {"error": {"code": "not_found", "message": "There is no such route."}}
    door.say("/v1/producers", 404, answer)
    assert main(["producers", "--admin-port", str(door.port)]) == 1
    assert "is of an older release, which has no list of producers" in capsys.readouterr().err
    door.say("/v1/producers", 403, {"error": {"code": "forbidden", "message": "not yours"}})
    assert main(["producers", "--admin-port", str(door.port)]) == 1
    assert "answers 403 to /v1/producers: not yours" in capsys.readouterr().err


def test_the_data_door_was_taken_for_an_older_sidecar(
    door: Door, capsys: pytest.CaptureFixture[str]
) -> None:
    hint = "This is the data door: `halfhitch tx`, `parked` and `status` go to the admin door."
    door.say("/v1/producers", 404, {"error": {"code": "route_not_found", "message": hint}})
    assert main(["producers", "--admin-port", str(door.port)]) == 1
    err = capsys.readouterr().err
    assert "This is the data door" in err
    assert "older release" not in err


@pytest.mark.parametrize("command", [("producers",), ("status",), ("parked", "list")])
def test_what_can_be_listed_can_be_watched(
    operations: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    from halfhitch_cli import looking
    from harness.admin_door import admin_door

    pauses: list[float] = []

    def interrupted(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(looking, "sleep", interrupted)
    with admin_door(operations, {}) as port:
        code = main([*command, "--admin-port", str(port), "--watch", "-o", "json"])
    assert code == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first.keys() == second.keys()
