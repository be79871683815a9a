"""`halfhitch tx` against a door: what is shown, asked and done."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.errors import ContraryDecision
from halfhitch.service.api import ParkedMessage
from halfhitch.wire.plain import is_plain
from halfhitch_cli import looking
from harness.fake_operations import FakeOperations, parked, undecided

if TYPE_CHECKING:
    from pathlib import Path

Run = "Callable[..., tuple[int, str, str]]"
WHY = ("--reason", "asked the shop")


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


# -- looking -------------------------------------------------------------------------------------


def test_tx_list_shows_ages_and_checks(run: Any, operations: FakeOperations) -> None:
    code, out, err = run("tx", "list")
    assert (code, err) == (0, "")
    assert [" ".join(row) for row in rows(out)[1:]] == [
        "T1 shop orders,points 2 1m35s 3/15 42s unknown shop-1",
        "T2 bank orders,points 2 2h01m 3/15 no producer unknown shop-1",
    ]
    code, out, _ = run("tx", "list", "-o", "json")
    assert [t["transaction_id"] for t in json.loads(out)["transactions"]] == ["T1", "T2"]


def test_what_a_list_leaves_out_is_told(run: Any, operations: FakeOperations) -> None:
    operations.missing_partitions = [1, 3]
    code, _, err = run("tx", "list", "--limit", "1")
    assert code == 0
    assert "1 of 2 shown" in err
    assert "half partitions 1, 3 are other instances'" in err
    operations.left_out_count = 5
    _, _, err = run("parked", "list", "--limit", "1")
    assert "1 of 2 shown" in err
    assert "5 more parked messages" in err


def test_an_empty_list_was_a_head_without_a_word(run: Any, operations: FakeOperations) -> None:
    operations.pending.clear()
    operations.given_up.clear()
    code, _, err = run("tx", "list")
    assert code == 0
    assert "Nothing is undecided. What was given up: halfhitch parked list." in err
    assert "halfhitch verify" in err
    operations.missing_partitions = [0]  # as right after a start: they are being taken over
    _, _, err = run("tx", "list")
    assert "None is seen. What was given up" in err
    assert "Nothing is undecided" not in err
    operations.missing_partitions = []
    _, _, err = run("tx", "list", "--group", "shop")
    assert "No undecided transaction matches the filters." in err
    _, _, err = run("parked", "list")
    assert "Nothing is parked. What nobody has decided yet: halfhitch tx list." in err
    code, out, err = run("tx", "list", "-o", "json")
    assert (code, err, json.loads(out)["transactions"]) == (0, "", [])


def test_a_check_that_nobody_can_be_asked_for_was_said_to_be_on_its_way(run: Any) -> None:
    code, out, err = run("tx", "check", "T1", "T2")
    assert code == 0
    assert "to be checked" in out
    assert "No producer of group bank is connected to any instance, so 1 transaction waits" in err
    assert "halfhitch tx explain --group bank T2" in err
    assert "group shop" not in err


def test_show_looks_among_the_parked_too(run: Any) -> None:
    code, out, _ = run("tx", "show", "T1")
    assert code == 0
    assert ["state", "undecided"] in rows(out)
    code, out, _ = run("tx", "show", "P1", "-o", "json")
    answer = json.loads(out)
    assert (answer["where"], answer["transaction"]["reason"]) == ("parked", "checks_exhausted")
    code, _, err = run("tx", "show", "T9")
    assert code == 1
    assert "halfhitch tx list" in err


def test_watch_looks_so_often_and_ends_well_with_ctrl_c(
    run: Any, operations: FakeOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = run("tx", "watch", "--count", "3", "--every-s", "0.1")
    assert code == 0
    assert out.count("2 undecided") == 3

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(looking, "sleep", interrupt)  # of this module: others threads sleep too
    for command in (("watch",), ("list", "--watch"), ("list", "-w")):
        code, out, _ = run("tx", *command)
        assert (code, out.count("2 undecided")) == (0, 1)


def test_what_has_ended_is_not_watched_as_a_list(run: Any, operations: FakeOperations) -> None:
    code, _, err = run("tx", "list", "--state", "ended", "--watch")
    assert code == 2
    assert "halfhitch tail TOPIC" in err


# -- doing ---------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_one_that_is_parked_is_to_be_put_back_first(run: Any, operations: FakeOperations) -> None:
    for command in (("commit", *WHY), ("check",)):
        code, _, err = run("tx", *command, "P1", "--yes")
        assert code == 1
        assert "halfhitch parked resume" in err
    assert operations.done() == []


# -- export --------------------------------------------------------------------------------------


def test_a_name_of_old_that_lies_is_escaped_wherever_it_is_shown(
    run: Any, operations: FakeOperations, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Such names are refused today; what was stored before is still to be found and ended."""
    name, group = "T\u202e1\x9b2J\u2028x\x85", "g\u202e\u200b"
    operations.pending[:] = [undecided(name, group, next_check_s=None)]
    operations.given_up[:] = [parked(name, group, decision_reason="\u202epaid\x9b")]
    operations.messages[:] = [ParkedMessage("orders", None, b"k", "v\u2066".encode(), [])]
    monkeypatch.setattr(sys, "stdin", Terminal("n\nn\n"))
    told = [
        run("tx", "rollback", name, *WHY),
        run("parked", "resume", *WHY, "--all-matching"),
        run("parked", "show", name),
        run("parked", "export", name),
        run("parked", "export", name, "--to", str(tmp_path / "export")),
        run("tx", "show", f"{name}y"),
        run("tx", "check", name),
    ]
    assert "Roll back 1 transaction of group g\\u202e\\u200b?" in told[0][2]
    for form in ("table", "json", "yaml"):
        told += [
            run("tx", "list", "-o", form),
            run("tx", "show", name, "-o", form),
            run("tx", "explain", name, "-o", form),
            run("tx", "rollback", name, *WHY, "--dry-run", "-o", form),
            run("parked", "list", "-o", form),
            run("parked", "show", name, "-o", form),
        ]
    operations.fails[name] = ContraryDecision(
        f"{name} of {group} is decided", decided="committed", requested="rolled_back"
    )
    told.append(run("tx", "rollback", name, *WHY, "--yes"))
    del operations.fails[name]
    told.append(run("tx", "rollback", name, *WHY, "--yes", "-o", "json"))
    exported = (tmp_path / "export").read_text()
    for text in (exported, *(out + err for _, out, err in told)):
        assert is_plain(text.replace("\n", ""))
    assert len(exported.splitlines()) == 1
    assert json.loads(exported)["transaction"]["transaction_id"] == name
    assert json.loads(told[-1][1])["done"] == [{"transaction_id": name, "producer_group": group}]
