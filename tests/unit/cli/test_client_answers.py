"""What answers is another release's door, or no sidecar's: a sentence, never a traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from halfhitch_cli.app import main

if TYPE_CHECKING:
    from harness.scripted_admin import Door

ASKING = [
    ["status"], ["producers"], ["tx", "list"], ["tx", "list", "--state", "ended"],
    ["tx", "show", "T1"], ["tx", "trace", "T1"], ["parked", "list"], ["parked", "show", "T1"],
    ["parked", "export", "--all-matching"], ["config", "show"],
    ["tx", "rollback", "T1", "--reason", "gone", "--yes"],
    ["tx", "rollback", "--all-matching", "--group", "g", "--reason", "gone", "--yes"],
    ["parked", "resume", "--all-matching", "--reason", "gone", "--yes"],
]  # fmt: skip


@pytest.mark.parametrize("answer", [{}, {"status": "green"}, [], None, 7, "hello", [{}]])
@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_an_answer_of_another_form_was_a_traceback(
    words: list[str], answer: Any, door: Door, capsys: pytest.CaptureFixture[str]
) -> None:
    door.says_always = (200, answer)
    code = main([*words, "--admin-port", str(door.port)])
    told = capsys.readouterr()
    assert code == 1, told.out
    assert told.err.startswith("halfhitch: ")
    assert len(told.err.splitlines()) == 1
    assert "admin-port" in told.err


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_a_wrong_token_says_where_a_right_one_belongs(
    words: list[str], door: Door, capsys: pytest.CaptureFixture[str]
) -> None:
    door.says_always = (401, {"error": {"code": "unauthorized", "message": "no"}})
    code = main([*words, "--admin-port", str(door.port)])
    told = capsys.readouterr().err
    assert code == 1
    assert "HALFHITCH_AUTH_TOKENS" in told
