"""`halfhitch tx trace` and `tx list --state ended`: what people and programs are shown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.wire.story import SKIPPED, Event
from halfhitch_cli.commands.trace import lines_of
from harness.told import BEGAN_MS, answered, asked, ended

if TYPE_CHECKING:
    from harness.told import ToldLog


def test_a_transaction_is_told_line_by_line(run: Any, told_log: ToldLog) -> None:
    told_log.entries = [asked(), answered(), ended(source="check", reason="the row is there")]
    code, out, err = run("tx", "trace", "E1")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "E1 of group shop: 1 message for orders."
    assert lines[1] == "It is committed, by check (the row is there)."
    told = [" ".join(line.split()[2:]) for line in lines[3:]]
    assert told == [
        "prepared on pod-7, orders",
        "+6.000s asked check 1",
        "+0.500s answered check 1, unknown, by pod-8, after 480 ms, (not yet)",
        "+0.500s decided commit, by check, (the row is there)",
        "+2.000s forwarded on pod-9, orders",
    ]


def test_what_was_put_back_was_told_as_pending_by_the_policy() -> None:
    story = {
        "transaction_id": "E1", "producer_group": "shop", "message_count": 1, "topics": ["orders"],
        "state": "pending", "decided_by": "policy", "reason": "no decision after 15 checks",
    }  # fmt: skip
    assert lines_of(story)[1] == (
        "It is pending again; it was decided before by policy (no decision after 15 checks)."
    )
    assert lines_of(story | {"decided_by": None, "reason": None})[1] == "It is pending."


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_programs_get_all_of_it(run: Any, told_log: ToldLog, form: str) -> None:
    told_log.entries = [ended()]
    code, out, _ = run("tx", "trace", "E1", "-o", form)
    assert code == 0
    assert "E1" in out
    if form == "json":
        assert json.loads(out)["stories"][0]["events"][0]["what"] == "prepared"


def test_a_key_tells_of_all_its_transactions(run: Any, told_log: ToldLog) -> None:
    told_log.entries = [ended("E1"), ended("E2", ending=0), ended("E3", key=None)]
    code, out, _ = run("tx", "trace", "--key", "k", "--topic", "orders")
    assert code == 0
    assert "E1 of group shop" in out
    assert "It is rolled back, by producer." in out
    assert "E3" not in out


def test_an_unknown_id_says_how_far_was_looked(run: Any, told_log: ToldLog) -> None:
    code, _, err = run("tx", "trace", "E9", "--group", "shop")
    assert code == 1
    assert "Nothing is known of transaction E9 of group shop. What has ended is kept since" in err
    told_log.found = {"kept_since_ms": None}
    assert "the audit topic is empty" in run("tx", "trace", "E9")[2]
    told_log.trouble = "It is switched off."
    assert "It is switched off." in run("tx", "trace", "--key", "k", "--topic", "orders")[2]


@pytest.mark.parametrize("given", [(), ("E1", "--key", "k"), ("--key", "k"), ("--topic", "t")])
def test_what_is_traced_is_named_in_one_way(run: Any, given: tuple[str, ...]) -> None:
    assert run("tx", "trace", *given)[0] == 2


def test_what_has_ended_is_listed(run: Any, told_log: ToldLog) -> None:
    told_log.entries = [ended("E1"), ended("E2", source="operator", reason="ann: a test", ending=0)]
    code, out, err = run("tx", "list", "--state", "ended", "--since", "2h")
    assert (code, err) == (0, "")
    rows = [" ".join(line.split()[2:]) for line in out.splitlines()[1:]]
    assert rows == [
        "E2 shop rolled_back operator 0 orders ann: a test",
        "E1 shop committed producer 0 orders",
    ]
    assert told_log.searches[0].since_ms == BEGAN_MS + 100_000 - 7_200_000
    told_log.entries = []
    _, _, err = run("tx", "list", "--state", "ended")
    assert "Nothing has ended in the last 1h that is known here." in err


def test_what_is_not_shown_is_told(run: Any, told_log: ToldLog) -> None:
    told_log.entries = [ended("E1"), ended("E2")]
    told_log.found = {"kept_since_ms": 1, "hidden_count": 500, "unknown_count": 2}
    _, _, err = run("tx", "list", "--state", "ended", "--limit", "1")
    assert "There are more" in err
    assert "500 records" in err
    assert "2 records are of a newer release" in err


@pytest.mark.parametrize(
    "given", [("--state", "ended", "--older-than", "1h"), ("--since", "1h"),
              ("--state", "ended", "--since", "soon")],
)  # fmt: skip
def test_filters_that_do_not_go_together_are_refused(run: Any, given: tuple[str, ...]) -> None:
    assert run("tx", "list", *given)[0] == 2


def test_where_its_messages_lie_is_told_under_the_story(run: Any, told_log: ToldLog) -> None:
    told_log.entries = [ended(ending=2, message_count=2)]
    code, out, err = run("tx", "trace", "E1", "--offsets")
    assert (code, err) == (0, "")
    assert [line.split()[:3] for line in out.splitlines()[-2:]] == [
        ["orders/2@17", "message", "1,"], ["orders/2@18", "message", "2,"],
    ]  # fmt: skip
    assert "key=" not in out
    told_log.targets.trouble = "2 of 3 found: gone"
    assert "Of E1, 2 of 3 found: gone." in run("tx", "trace", "E1", "--offsets")[2]
    told_log.entries = [ended(ending=0)]
    assert "E1 was not forwarded" in run("tx", "trace", "E1", "--offsets")[2]


def test_values_drive_no_terminal_and_fill_no_screen(run: Any, told_log: ToldLog) -> None:
    told_log.entries = [ended()]
    told_log.targets.value = b"\x1b[31mred\n" + b"x" * 5_000
    code, out, _ = run("tx", "trace", "E1", "--values")
    assert code == 0
    line = out.splitlines()[-1]
    assert "key=k" in line
    assert "value=\\x1b[31mred\\nxxx" in line
    assert "… (5009 bytes)" in line
    assert len(line) < 400
    assert "kind=order  raw=base64:/w==" in line
    content = json.loads(run("tx", "trace", "E1", "--values", "-o", "json")[1])["stories"][0]
    assert len(content["events"][-1]["landed"][0]["content"]["value"]) == 5_009


def test_records_that_were_passed_over_are_listed_with_who_and_why(
    run: Any, told_log: ToldLog
) -> None:
    told_log.entries = [Event("", "", SKIPPED, BEGAN_MS, 1742, "ann", "half-3", "forged"), ended()]
    code, out, err = run("topics", "skipped")
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split()[2:] == ["half-3", "1742", "ann", "forged"]
    told_log.entries = [ended()]
    assert "No record was passed over" in run("topics", "skipped")[2]


def test_whoever_decides_what_has_ended_is_told_how_it_ended(run: Any, told_log: ToldLog) -> None:
    """It said "it has ended", and took a second command at night."""
    told_log.entries = [ended("E1")]
    code, _, err = run("tx", "rollback", "E1", "--reason", "late", "--yes")
    assert code == 1
    assert "No transaction E1 is undecided: it is committed" in err
    told_log.entries = []
    code, _, err = run("tx", "rollback", "E1", "--reason", "late", "--yes")
    assert "it ended before what is kept begins, or the id is misspelled" in err
