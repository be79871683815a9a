"""Tables for people, JSON and YAML for programs."""

import json
import sys

import pytest
import typer
import yaml
from hypothesis import given
from hypothesis import strategies as st

from halfhitch_cli.output import OutputForm, Table, emit, emit_line, say, to_yaml

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


IDS = Table(
    columns=("Transaction", "group", "topics", "age"),
    rows=[["0123456789abcdef0123456789abcdef", "a-long-group-name", "orders,points", "2m"]],
    right=frozenset(("age",)),
    whole=frozenset(("Transaction", "group")),
    drop=("topics",),
)


@pytest.mark.parametrize("columns", [20, 60, 80, 100])
def test_an_id_on_a_narrow_terminal_could_not_be_copied(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))
    emit(OutputForm.TABLE, DATA, [IDS])
    out = capsys.readouterr().out
    assert "0123456789abcdef0123456789abcdef" in out
    assert "a-long-group-name" in out
    assert ("orders,points" in out) is (columns >= 80)
    emit(OutputForm.WIDE, DATA, [IDS])
    wide = capsys.readouterr().out
    assert "orders,points" in wide
    assert len(wide.splitlines()) == 3  # the head, its line, the row


def test_names_are_a_line_each(capsys: Capture) -> None:
    rows = [{"transaction_id": "T1", "producer_group": "g"}, {"transaction_id": "T\x1b2"}]
    emit(OutputForm.NAME, {"transactions": rows}, [])
    emit(OutputForm.NAME, {"transaction": rows[0]}, [])
    emit(OutputForm.NAME, {"stories": rows[:1]}, [])
    emit(OutputForm.NAME, {"groups": [{"producer_group": "g"}]}, [])
    assert capsys.readouterr().out == "T1\nT\\x1b2\nT1\nT1\ng\n"
    with pytest.raises(typer.BadParameter, match="-o name is for lists"):
        emit(OutputForm.NAME, DATA, [TABLE])


def test_many_results_in_a_row_are_a_line_each(capsys: Capture) -> None:
    for _ in range(2):
        emit_line(OutputForm.JSON, DATA, [TABLE])
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [DATA, DATA]
    for _ in range(2):
        emit_line(OutputForm.YAML, DATA, [TABLE])
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == [DATA, DATA]
    emit_line(OutputForm.TABLE, DATA, [TABLE])
    assert "Name" in capsys.readouterr().out
