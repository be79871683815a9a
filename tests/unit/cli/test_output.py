"""Tables for people, JSON and YAML for programs."""

import json
import sys

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from halfhitch_cli.output import OutputForm, Table, emit, say, to_yaml

DATA = {"ready": True, "reasons": [], "info": {"a": None, "b": 1.5}, "rows": [{"n": 1}, {"n": 2}]}
TABLE = Table(
    columns=("Name", "Count"),
    rows=[["[red]x", "1"], ["long " * 40, "20"]],
    right=frozenset(("Count",)),
    styles={"1": "green"},
)
Capture = pytest.CaptureFixture[str]

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abyno_.-19 :", min_size=1), inner),
    max_leaves=15,
)  # fmt: skip


def test_json_is_json_and_nothing_else_is_on_stdout(capsys: Capture) -> None:
    say("on the way")
    emit(OutputForm.JSON, DATA, [TABLE])
    captured = capsys.readouterr()
    assert json.loads(captured.out) == DATA
    assert captured.err == "on the way\n"


def test_yaml_reads_back_as_the_same(capsys: Capture) -> None:
    emit(OutputForm.YAML, DATA, [TABLE])
    assert yaml.safe_load(capsys.readouterr().out) == DATA


@given(values)
def test_any_data_survives_yaml(data: object) -> None:
    assert yaml.safe_load(to_yaml(data)) == data


def test_a_piped_table_is_plain_aligned_and_not_cut(capsys: Capture) -> None:
    emit(OutputForm.TABLE, DATA, [TABLE, TABLE])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    first, second, third = out.splitlines()[:3]
    assert first.split() == ["Name", "Count"]
    assert "[red]x" in second
    assert "long " * 40 in third
    assert not any(line != line.rstrip() for line in out.splitlines())
    assert out.count("Name") == 2


def test_colours_are_for_terminals_without_no_color(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    emit(OutputForm.TABLE, DATA, [TABLE])
    assert "\x1b[32m" in capsys.readouterr().out
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("NO_COLOR", "1")
    emit(OutputForm.TABLE, DATA, [TABLE])
    assert "\x1b[32m" not in capsys.readouterr().out
