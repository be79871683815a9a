"""The ground truth: what was written is what is folded, whoever was killed while writing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from chaos.kit.history import Message, Outcome, Writer, read_history, read_lines, sha256_of
from harness.checkers import Fate

if TYPE_CHECKING:
    from pathlib import Path

    from chaos.kit.history import Truth

T = ("orders", "T")
SENT = Message.of("t", b"value", b"\xff key", partition=3, headers=[("h", b"\xfe"), ("h", None)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "app.jsonl"


def only(*files: Path) -> Truth:
    (truth,) = read_history(files).values()
    return truth


def test_a_message_survives_its_line(file: Path) -> None:
    with Writer(file) as writer:
        writer.begin("prepare", T, [SENT], immunity_s=1.5).ok()
    truth = only(file)
    assert truth.messages == {0: [SENT]}
    assert (truth.prepared, truth.acked_count, truth.immunity_ms) == (Outcome.OK, 1, 1500)
    assert sha256_of(None) != sha256_of(b"")


def test_a_line_is_there_before_the_call(file: Path) -> None:
    writer = Writer(file)
    writer.begin("commit", T)
    assert [line["phase"] for line in read_lines(file)] == ["invoke"]


@pytest.mark.parametrize(
    ("calls", "fates"),
    [
        ([], {"PENDING"}),
        ([("commit", "ok")], {"COMMITTED"}),
        ([("rollback", "ok")], {"ROLLED_BACK"}),
        ([("commit", "fail")], {"PENDING"}),
        ([("commit", "info")], {"COMMITTED", "PENDING"}),
        ([("commit", None)], {"COMMITTED", "PENDING"}),
        ([("commit", "info"), ("commit", "ok")], {"COMMITTED"}),
        ([("commit", "ok"), ("rollback", "fail")], {"COMMITTED"}),
        ([("commit", "ok"), ("rollback", "info")], {"COMMITTED", "ROLLED_BACK"}),
        ([("commit", "ok"), ("rollback", "ok")], {"COMMITTED", "ROLLED_BACK"}),
        ([("rollback", "info"), ("commit", "info")], {"COMMITTED", "PENDING", "ROLLED_BACK"}),
    ],
)
def test_the_fates_that_are_possible(
    file: Path, calls: list[tuple[str, str | None]], fates: set[str]
) -> None:
    with Writer(file) as writer:
        writer.begin("prepare", T, [SENT]).ok()
        for op, outcome in calls:
            call = writer.begin(op, T)
            if outcome == "ok":
                call.ok()
            elif outcome is not None:
                getattr(call, outcome)("some_error")
    truth = only(file)
    assert {fate.name for fate in truth.fates} == fates
    assert truth.fate is (Fate[fates.pop()] if len(fates) == 1 else Fate.UNKNOWN)
    assert truth.is_contested is ({Fate.COMMITTED, Fate.ROLLED_BACK} <= truth.fates)


def test_an_answer_to_a_check_decides_only_when_it_is_known_to_have_arrived(file: Path) -> None:
    with Writer(file) as writer:
        writer.begin("prepare", T, [SENT]).ok()
        writer.begin("check", T, number=1).say("ok", answer="UNKNOWN")
        writer.begin("check", T, number=2).say("ok", answer="COMMIT")
    truth = only(file)
    assert [(c.number, c.answer, c.process) for c in truth.checks] == [
        (1, "UNKNOWN", "app.jsonl"),
        (2, "COMMIT", "app.jsonl"),
    ]
    assert truth.fates == {Fate.COMMITTED, Fate.PENDING}
    with Writer(file) as writer:
        writer.begin("check", T, number=2).ok("COMMIT")
    assert only(file).fate is Fate.COMMITTED
    assert {a.source for a in only(file).asked} == {"check"}


def test_files_of_many_processes_are_one_truth(tmp_path: Path) -> None:
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    with Writer(files[0]) as a, Writer(files[1]) as b:
        a.begin("prepare", T, [SENT]).ok()
        b.begin("commit", T).ok()
        a.begin("rollback", T).fail("contrary_decision")
    assert only(*files).fate is Fate.COMMITTED


def test_added_messages_follow_those_that_are_surely_stored(file: Path) -> None:
    other, third = Message.of("t", b"2"), Message.of("t", b"3")
    with Writer(file) as writer:
        writer.begin("prepare", T, [SENT]).ok()
        writer.begin("add", T, [other]).info("unavailable")
        writer.begin("add", T, [third]).ok()  # the same handle: the same index
    truth = only(file)
    assert truth.messages == {0: [SENT], 1: [other, third]}
    assert truth.acked_count == 2


def test_a_repeated_prepare_is_acknowledged_when_one_of_them_is(file: Path) -> None:
    with Writer(file) as writer:
        writer.begin("prepare", T, [SENT]).info("timeout")
        writer.begin("prepare", T, [SENT]).ok()
        writer.begin("prepare", T, [SENT]).fail("too_many")
    truth = only(file)
    assert (truth.prepared, truth.acked_count, truth.messages) == (Outcome.OK, 1, {0: [SENT]})


def test_what_no_commit_may_leave_out_was_acknowledged_before_it_was_said(file: Path) -> None:
    with Writer(file) as writer:
        call = writer.begin("prepare", T, [SENT])
        call.ok()
        question = writer.begin("check", T, number=1)
        writer.begin("add", T, [SENT]).ok()
        writer.begin("add", T, [SENT]).info("timeout")
    assert only(file).surely_committed() == set()
    assert only(file).surely_committed(decided_ms=1 << 62) == {0, 1}
    with Writer(file) as writer:
        # The question came before the second message; the answer is what counts.
        writer.write(op="check", phase="ok", id="T", group="orders", call=question.number, n=1,
                     answer="COMMIT")  # fmt: skip
    assert only(file).surely_committed() == {0, 1}
    with Writer(file) as writer:
        writer.write(op="commit", phase="invoke", id="T", group="orders", t_ms=1)
    assert only(file).surely_committed() == set(), "it asked for nothing of what came later"


def test_answers_find_their_calls_when_two_are_under_way(file: Path) -> None:
    with Writer(file) as writer:
        first, second = writer.begin("commit", T), writer.begin("commit", T)
        first.ok()
        second.fail("gone")
    assert [a.outcome for a in only(file).asked] == [Outcome.OK, Outcome.FAIL]


def test_without_numbers_an_answer_is_that_of_the_latest_call(file: Path) -> None:
    file.parent.mkdir()
    line = {"op": "commit", "id": "T", "group": "orders", "t_ms": 1}
    phases = ("invoke", "invoke", "ok")  # the first was killed before its answer
    file.write_text("\n".join(json.dumps({**line, "phase": phase}) for phase in phases))
    assert [a.outcome for a in only(file).asked] == [Outcome.INFO, Outcome.OK]


@pytest.mark.parametrize("cut", [1, 20, -1])
def test_a_torn_last_line_is_passed_over(file: Path, cut: int) -> None:
    with Writer(file) as writer:
        writer.begin("prepare", T, [SENT]).ok()
        writer.begin("commit", T)
    whole = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(whole[:-1]) + whole[-1][:cut])
    # Only the line's end may be missing: then it says what it says.
    assert only(file).fates == ({Fate.COMMITTED, Fate.PENDING} if cut == -1 else {Fate.PENDING})
    with Writer(file) as writer:  # the next process of the same name
        writer.begin("rollback", T).ok()
    assert Fate.ROLLED_BACK in only(file).fates


def test_a_line_glued_to_a_torn_one_is_found(file: Path) -> None:
    with Writer(file) as writer:
        writer.begin("prepare", T, [SENT]).ok()
        writer.begin("commit", T).ok()
    torn = b'{"op":"prepare","phase":"inv'
    lines = file.read_bytes().splitlines()
    file.write_bytes(b"\n".join([*lines[:2], torn + lines[2], lines[3]]))
    assert only(file).fate is Fate.COMMITTED


def test_garbage_in_the_middle_is_no_torn_line(file: Path) -> None:
    with Writer(file) as writer:
        writer.begin("prepare", T, [SENT]).ok()
    lines = file.read_bytes().splitlines()
    file.write_bytes(b"\n".join([lines[0], b"?", lines[1]]))
    with pytest.raises(ValueError, match="line 2 is no JSON"):
        read_lines(file)


def test_an_answer_without_a_call_is_an_error(file: Path) -> None:
    with Writer(file) as writer:
        writer.write(op="commit", phase="ok", id="T", group="orders")
    with pytest.raises(ValueError, match="never made"):
        read_history([file])
