"""halfhitch token."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from halfhitch.access import token_hash
from halfhitch.access.reading import read_identities
from halfhitch_cli.app import main

if TYPE_CHECKING:
    import pytest


def test_what_it_prints_can_be_pasted_into_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    made = first.removeprefix("token   ")
    assert len(made) >= 43
    assert second == f'tokens = ["{token_hash(made)}"]'
    [identity] = read_identities(f'[identities.ops]\nroles = ["admin"]\n{second}\n', "f")
    assert identity.name == "ops"


def test_each_is_another(capsys: pytest.CaptureFixture[str]) -> None:
    main(["token"])
    main(["token"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] != lines[2]


def test_the_hash_of_one_that_is_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("t" * 40 + "\n"))
    assert main(["token", "--hash"]) == 0
    assert capsys.readouterr().out.strip() == token_hash("t" * 40)


def test_what_a_person_has_thought_of_is_not_taken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("summer2024\n"))
    assert main(["token", "--hash"]) == 2
    told = capsys.readouterr()
    assert "at least 32" in told.err
    assert "summer2024" not in told.err + told.out
