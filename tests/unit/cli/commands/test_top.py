"""`halfhitch top` as a command: what it needs, and what it says without it."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch_cli.app import main
from halfhitch_cli.top.app import TopApp

if TYPE_CHECKING:
    from halfhitch_cli.client import AdminClient


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)


def test_without_textual_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("halfhitch.extras.is_here", lambda _: False)
    assert main(["top"]) == 2
    assert capsys.readouterr().err == (
        "halfhitch: `halfhitch top` needs halfhitch[top]: pip install 'halfhitch[top]'\n"
    )


def test_without_a_terminal_it_says_what_programs_ask(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top"]) == 2
    assert "halfhitch top needs a terminal. Programs ask" in capsys.readouterr().err


def test_it_speaks_to_the_sidecar_that_is_named(
    terminal: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Any] = []

    def init(self: TopApp, client: AdminClient, interval_s: float, colours: str) -> None:
        begun.append((client.address, interval_s, colours))

    monkeypatch.setattr(TopApp, "__init__", init)
    monkeypatch.setattr(TopApp, "run", lambda _: None)
    assert main(["top", "--server", "http://127.0.0.1:18341"]) == 0
    assert main(["top", "--admin-port", "7", "--interval", "9", "--colours", "light"]) == 0
    assert begun == [
        ("http://127.0.0.1:18341", 2.0, "terminal"),
        ("http://127.0.0.1:7", 9, "light"),
    ]


@pytest.mark.parametrize("wrong", [("--interval", "0"), ("--colours", "pink"), ("--server", "x")])
def test_what_is_wrong_is_said_before_the_screen_begins(
    wrong: tuple[str, str], terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", *wrong]) == 2
    assert wrong[0] in capsys.readouterr().err


def test_the_list_of_commands_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "top" in capsys.readouterr().out
