"""A key nobody can guess."""

import pytest

from halfhitch.config.secret import Secret
from halfhitch_cli.app import main


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["keygen"]) == 0
    return capsys.readouterr().out


def test_each_key_is_another_one_of_32_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    keys = [printed(capsys) for _ in range(3)]
    assert len(set(keys)) == 3
    assert all(len(key.strip()) == 43 and key.count("\n") == 1 for key in keys)


def test_a_key_needs_no_quoting_and_can_stand_in_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    key = printed(capsys).strip()
    assert not set(key) & set(" ,:'\"$")
    assert Secret(key).reveal() == key
