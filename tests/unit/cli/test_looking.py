"""One look, or one after the other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from halfhitch.errors import BackendError
from halfhitch_cli import looking
from halfhitch_cli.app import OK, UNHEALTHY
from halfhitch_cli.looking import Look, look_on, looked
from halfhitch_cli.output import OutputForm, Table

if TYPE_CHECKING:
    from collections.abc import Callable

TABLE, JSON = OutputForm.TABLE, OutputForm.JSON


@pytest.fixture
def look() -> Callable[[], Look]:
    numbers = iter(range(99))

    def seen() -> Look:
        n = next(numbers)
        return Look({"n": n}, [Table(("N",), [[str(n)]])], f"{n} there", ["a hint"], code=UNHEALTHY)

    return seen


def test_a_single_look_has_its_hints_and_its_exit_code(
    look: Callable[[], Look], capsys: pytest.CaptureFixture[str]
) -> None:
    assert looked(look, TABLE, watch=False) == UNHEALTHY
    out, err = capsys.readouterr()
    assert out.split() == ["N", "0"]
    assert err == "a hint\n"


def test_programs_get_a_line_for_each_look(
    look: Callable[[], Look], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "sleep", lambda _: None)
    assert look_on(look, JSON, count=3) == UNHEALTHY
    out, err = capsys.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert err == ""


def test_a_terminal_is_cleared_and_a_pipe_is_not(
    look: Callable[[], Look], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "sleep", lambda _: None)
    look_on(look, TABLE, count=2)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "0 there  " in out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    look_on(look, TABLE, count=2)
    assert capsys.readouterr().out.count("\x1b[2J") == 2


def test_watching_ends_well_with_ctrl_c(
    look: Callable[[], Look], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def interrupted(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(looking, "sleep", interrupted)
    assert looked(look, TABLE, watch=True) == OK
    assert "1 there" in capsys.readouterr().out
    assert pauses == [looking.EVERY_S] * 2


def test_a_sidecar_that_goes_away_ended_whoever_watched_it(
    look: Callable[[], Look], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[bool] = [True, False, False, True, False, True]

    def seen() -> Look:
        if not answers.pop(0):
            raise BackendError("No sidecar answers.")
        return look()

    monkeypatch.setattr(looking, "sleep", lambda _: None)
    look_on(seen, JSON, count=3)
    out, err = capsys.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert err.count("No sidecar answers. Looking again ...") == 2, "once for each time"
    answers[:] = [False]
    with pytest.raises(BackendError):  # nobody was ever there
        look_on(seen, JSON)
