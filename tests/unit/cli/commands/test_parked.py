"""`halfhitch parked` against a door."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from halfhitch.errors import TransactionNotFound
from harness.fake_operations import FakeOperations

if TYPE_CHECKING:
    from pathlib import Path


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


def test_parked_list_and_show(run: Any) -> None:
    code, out, _ = run("parked", "list")
    assert code == 0
    assert [row[0] for row in rows(out)[1:]] == ["P1", "P2"]
    assert rows(out)[2][-3:] == ["undeliverable", "15", "commit"]
    code, out, _ = run("parked", "show", "P2")
    assert code == 0
    assert "Set the topic right first" in out
    assert "\x1b" not in out
    assert "v\\x1b[2J" in out
    assert "a=base64:/w==" in out
    code, out, _ = run("parked", "show", "P2", "-o", "json")
    assert json.loads(out)["messages"][0]["value"] == "v\x1b[2J"
    code, _, err = run("parked", "show", "T1")
    assert code == 1
    assert "parked list" in err


def test_export_writes_json_lines_and_changes_nothing(
    run: Any, operations: FakeOperations, tmp_path: Path
) -> None:
    path = tmp_path / "parked.jsonl"
    code, out, err = run("parked", "export", "--all-matching", "--to", str(path))
    assert (code, out) == (0, "")
    assert "2 of 2" in err
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["transaction"]["transaction_id"] for line in lines] == ["P1", "P2"]
    assert lines[0]["messages"][0]["value"] == "v\x1b[2J"
    assert path.stat().st_mode & 0o077 == 0
    code, out, _ = run("parked", "export", "P1")
    assert json.loads(out) == lines[0]
    code, _, err = run("parked", "export", "P1", "--to", str(path))
    assert code == 1
    assert "not there yet" in err
    assert operations.done() == []


def test_an_export_that_lacks_something_says_what(run: Any, operations: FakeOperations) -> None:
    operations.fails = {"P1": TransactionNotFound("put back meanwhile")}
    code, out, err = run("parked", "export", "--all-matching")
    assert code == 1
    assert json.loads(out)["transaction"]["transaction_id"] == "P2"
    assert "1 of 2" in err
    assert "put back meanwhile" in err
