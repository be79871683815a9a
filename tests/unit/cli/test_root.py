"""The root as typer has it: help and version."""

import pytest

import halfhitch
from halfhitch_cli import root
from halfhitch_cli.app import COMMANDS, main
from halfhitch_cli.speed import version_text
from halfhitch_cli.table import ROOT_OPTIONS, CommandRow

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_lists_every_command_under_its_heading(capsys: Capture) -> None:
    code, out, err = run(capsys, "--help")
    assert (code, err) == (0, "")
    for row in COMMANDS:
        assert f"\n{row.panel}:\n" in out
        assert f"  {row.name} " in out
        assert row.help in out


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_every_command_has_help(row: CommandRow, capsys: Capture) -> None:
    name = row.name
    code, out, _ = run(capsys, name, "--help")
    assert code == 0
    assert out.startswith(f"Usage: halfhitch {name}")
    assert run(capsys, name, "-h")[0] == 0


def test_help_without_typer_is_typers_help(capsys: Capture) -> None:
    by_itself = run(capsys, "--help")
    assert run(capsys, "-h") == by_itself
    assert root.app(args=["--help"], prog_name="halfhitch", standalone_mode=False) == 0
    assert capsys.readouterr().out == by_itself[1]
    options = {
        name
        for parameter in root.typer.main.get_command(root.app).params
        for name in (*parameter.opts, "--help")
    }
    assert options == {name.removeprefix("-h, ") for name, _ in ROOT_OPTIONS}
    assert max(len(line) for line in by_itself[1].splitlines()) <= 90


def test_version(capsys: Capture) -> None:
    shown = version_text() + "\n"
    assert shown.startswith(f"halfhitch {halfhitch.__version__}")
    assert run(capsys, "--version") == (0, shown, "")
    assert root.app(args=["--version"], prog_name="halfhitch", standalone_mode=False) == 0
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("arguments", [(), ("topics",)])
def test_a_group_without_a_command_shows_its_help_and_is_wrong_usage(
    arguments: tuple[str, ...], capsys: Capture
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: halfhitch")


def test_completion_is_offered_for_commands_and_flags(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def complete(words: str) -> str:
        monkeypatch.setenv("_HALFHITCH_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        with pytest.raises(SystemExit):
            main([])
        return capsys.readouterr().out

    assert complete("halfhitch st").split() == ["status"]
    assert "--kafka-bootstrap" in complete("halfhitch serve --kafka-").split()
