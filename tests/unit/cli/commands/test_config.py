"""`halfhitch config`: a file to begin with, and what a sidecar has."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING

from halfhitch.config import SETTINGS, Purpose, load
from halfhitch_cli.app import main
from halfhitch_cli.commands import config

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from harness.scripted_admin import Door

SHOWN = [
    {"key": "http.port", "value": 9, "source": "env HALFHITCH_HTTP_PORT", "description": ""},
    {"key": "redis.url", "value": "***", "source": "file h.toml", "description": ""},
    {"key": "log.level", "value": "info", "source": "default", "description": ""},
]


def test_a_file_to_begin_with_has_every_setting_and_changes_none(tmp_path: Path) -> None:
    path = tmp_path / "h.toml"
    assert main(["config", "init", "--to", str(path)]) == 0
    assert tomllib.loads(path.read_text()).keys() == {s.key.split(".")[0] for s in SETTINGS}
    assert load(config_path=path, purpose=Purpose.CLIENT) == load(purpose=Purpose.CLIENT)


def test_every_line_of_it_is_taken_without_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "h.toml"
    text = re.sub(r"^# (\w+ = )", r"\1", config.commented(), flags=re.MULTILINE)
    tree = tomllib.loads(text)
    assert {f"{group}.{key}" for group, keys in tree.items() for key in keys} == {
        setting.key for setting in SETTINGS
    }
    numbers = {"http": tree["http"]["port"], "kafka": tree["kafka"]["bootstrap"]}
    assert numbers == {"http": 8340, "kafka": "kafka-1:9092,kafka-2:9092"}
    path.write_text("\n".join(line for line in text.splitlines() if not line.endswith('= ""')))
    load(config_path=path, purpose=Purpose.CLIENT)


def test_a_file_that_is_there_is_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "h.toml"
    path.write_text("mine")
    assert main(["config", "init", "--to", str(path)]) == 1
    assert path.read_text() == "mine"
    assert "name a file that is not there yet" in capsys.readouterr().err
    assert main(["config", "init"]) == 0
    assert "[kafka]" in capsys.readouterr().out


def test_what_a_sidecar_really_has(door: Door, capsys: pytest.CaptureFixture[str]) -> None:
    door.say("/v1/config", 200, {"settings": SHOWN})
    at = ("--admin-port", str(door.port))
    assert main(["config", "show", *at]) == 0
    captured = capsys.readouterr()
    assert [line.split()[:2] for line in captured.out.splitlines()] == [
        ["Setting", "value"], ["http.port", "9"], ["redis.url", "***"],
    ]  # fmt: skip
    assert captured.err == "1 more are at their default; --all shows them.\n"
    assert main(["config", "show", "--all", "-o", "json", *at]) == 0
    assert json.loads(capsys.readouterr().out) == {"settings": SHOWN}
    assert main(["config", "show", "-o", "name", *at]) == 0
    assert capsys.readouterr().out == "http.port\nredis.url\n"
