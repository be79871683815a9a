"""halfhitch healthcheck with flags and files: the door that the settings name is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch_cli.app import OK, USAGE, main
from harness.admin_door import admin_door
from harness.fake_operations import FakeOperations

if TYPE_CHECKING:
    from pathlib import Path


def test_a_flag_names_the_door() -> None:
    with admin_door(FakeOperations(), {}) as port:
        assert main(["healthcheck", "livez", "--admin-port", str(port)]) == OK


def test_a_config_file_names_the_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with admin_door(FakeOperations(), {}) as port:
        config = tmp_path / "halfhitch.toml"
        config.write_text(f"[admin]\nport = {port}\n")
        monkeypatch.setenv("HALFHITCH_CONFIG", str(config))
        assert main(["healthcheck"]) == OK


def test_another_question_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["healthcheck", "healthy"]) == USAGE
    assert "livez" in capsys.readouterr().err
