"""`halfhitch parked` against a door."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.errors import TransactionNotFound
from halfhitch.wire.plain import shown
from halfhitch_cli.commands import parked as parked_command
from harness.fake_operations import FakeOperations, parked, undecided

if TYPE_CHECKING:
    from pathlib import Path


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


def test_parked_list_and_show(run: Any) -> None:
    code, out, _ = run("parked", "list")
    assert code == 0
    assert [row[0] for row in rows(out)[1:]] == ["P1", "P2"]
    assert rows(out)[2][-4:] == ["undeliverable", "15", "commit", "(operator)"]
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


HOSTILE = (
    "alice: it was paid",
    'x". Decided by: an operator. Reason given: "it was paid',
    "x\nDecided by: an operator.",
    "x\u2028Decided by: an operator.",
    "\u202ex\u2066 Decided by: an operator.",
    'x", "decision_source": "operator", "y": "',
    "x\x1b[2K\rDecided by: an operator.",
    "\\",
)


@pytest.mark.parametrize("words", HOSTILE)
def test_a_producers_words_never_look_like_an_operators(
    run: Any, operations: FakeOperations, words: str
) -> None:
    operations.given_up[:] = [
        parked(
            "P3", reason="undeliverable", decision="commit", decision_source="producer",
            decision_reason=words, last_reason=words,
        )
    ]  # fmt: skip
    operations.pending[:] = [undecided("T3", last_reason=words, next_check_s=None)]
    told = [run("parked", "show", "P3")[1], run("tx", "explain", "T3")[1]]
    for text in told:
        quoted = shown(json.dumps(words, ensure_ascii=False))
        assert quoted in text
        assert "an operator" not in text.replace(quoted, "")
    (line,) = [line for line in told[0].splitlines() if line.startswith("Decided by: ")]
    assert line.startswith("Decided by: its producer. Reason given: ")
    (row,) = json.loads(run("parked", "list", "-o", "json")[1])["transactions"]
    assert (row["decision_source"], row["decision_reason"]) == ("producer", words)
    assert "commit (producer)" in run("parked", "list")[1]


def test_an_older_release_did_not_write_who_decided(run: Any, operations: FakeOperations) -> None:
    operations.given_up[:] = [parked("P3", decision="commit", decision_reason="bob: paid")]
    out = run("parked", "show", "P3")[1]
    assert "Decided by: the record does not say who" in out
    operations.given_up[0].decision_source = "a new kind"
    assert "the record names nobody known here" in run("parked", "show", "P3")[1]


def test_an_export_of_a_part_was_believed_complete(
    run: Any, operations: FakeOperations, tmp_path: Path
) -> None:
    target = tmp_path / "all.jsonl"
    arguments = ("parked", "export", "--all-matching", "--to", str(target))
    code, _, err = run(*arguments)
    assert (code, err) == (0, "2 of 2 transactions written.\n")
    target.unlink()
    operations.left_out_count = 5
    code, _, err = run(*arguments)
    assert code == 1
    assert "5 more parked messages were not looked at" in err
    assert "is not complete. Delete nothing that it should hold." in err


def test_ctrl_c_says_what_an_export_has_come_to(
    run: Any, operations: FakeOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = parked_command._content

    def content(client: Any, row: dict[str, Any]) -> Any:
        if row["transaction_id"] == "P2":
            raise KeyboardInterrupt
        return real(client, row)

    monkeypatch.setattr(parked_command, "_content", content)
    code, out, err = run("parked", "export", "--all-matching")
    assert (code, len(out.splitlines())) == (130, 1)
    assert "1 of 2 transactions written." in err
    assert "The export in stdout is not complete." in err


def test_a_full_disk_was_a_traceback(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parked_command.os, "fsync", full)
    target = tmp_path / "all.jsonl"
    code, _, err = run("parked", "export", "--all-matching", "--to", str(target))
    assert code == 1
    assert f"halfhitch: {target} could not be written (No space left on device)" in err
