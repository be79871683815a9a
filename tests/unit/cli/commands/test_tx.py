"""`halfhitch tx` and `halfhitch parked` against a door: what is shown, asked and done."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.errors import BackendError, ContraryDecision, TransactionNotFound
from halfhitch.service.api import ParkedMessage
from halfhitch_cli import bulk, explain
from halfhitch_cli.app import main
from halfhitch_cli.client import AdminClient
from halfhitch_cli.commands import tx
from harness.admin_door import admin_door
from harness.fake_operations import FakeOperations, parked, undecided

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Run = "Callable[..., tuple[int, str, str]]"
SETTINGS = {"checks.give_up": "park", "checks.age_s_max": 259_200}
WHY = ("--reason", "asked the shop")


@pytest.fixture
def operations() -> FakeOperations:
    return FakeOperations(
        [undecided("T1"), undecided("T2", "bank", next_check_s=None, age_s=7_300)],
        [
            parked("P1"),
            parked("P2", reason="undeliverable", decision="commit", decision_reason="it was paid"),
        ],
        [ParkedMessage("orders", None, b"k", b"v\x1b[2J", [("a", b"\xff")])],
    )


@pytest.fixture
def run(
    operations: FakeOperations, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[int, str, str]]]:
    with admin_door(operations, SETTINGS) as port:

        def run(*arguments: str) -> tuple[int, str, str]:
            code = main([*arguments[:2], "--admin-port", str(port), *arguments[2:]])
            captured = capsys.readouterr()
            return code, captured.out, captured.err

        yield run


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


def test_filters_reach_the_sidecar(run: Any, operations: FakeOperations) -> None:
    flags = ("--group", "a b", "--topic", "ü", "--older-than", "1h30m", "--min-checks", "3")
    for command in ("tx", "parked"):
        assert run(command, "list", *flags, "--id", "T1", "--limit", "7")[0] == 0
        wanted = operations.calls.pop()[1]
        assert (wanted.producer_group, wanted.topic, wanted.transaction_id) == ("a b", "ü", "T1")
        assert (wanted.older_than_s, wanted.check_count_min, wanted.count_max) == (5_400.0, 3, 7)


@pytest.mark.parametrize("text", ["10", "m", "10 m", "-5m", "1h30", "1,5h", "10ms"])
def test_a_time_that_is_none_is_wrong_usage(text: str, run: Any) -> None:
    code, _, err = run("tx", "list", "--older-than", text)
    assert code == 2
    assert "10m" in err
    assert err.count("\n") == 1


def test_what_a_list_leaves_out_is_told(run: Any, operations: FakeOperations) -> None:
    operations.missing_partitions = [1, 3]
    code, _, err = run("tx", "list", "--limit", "1")
    assert code == 0
    assert "1 of 2 shown" in err
    assert "half partitions 1, 3 belong to other instances" in err
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


def test_an_id_of_two_groups_asks_which(run: Any, operations: FakeOperations) -> None:
    operations.pending.append(undecided("T1", "bank"))
    code, _, err = run("tx", "show", "T1")
    assert code == 1
    assert "--group (bank, shop)" in err
    code, out, _ = run("tx", "show", "T1", "--group", "bank")
    assert code == 0
    assert ["producer", "group", "bank"] in rows(out)


def test_explain_tells_why_what_next_and_what_to_do(run: Any) -> None:
    code, out, _ = run("tx", "explain", "T1")
    assert code == 0
    for words in (
        "T1 of group shop: 2 messages for orders, points, prepared 1m35s ago",
        "Check 3 of 15 has reached a producer (shop-1); its answer: it cannot say yet.",
        "The next check is due in 42s.",
        "or when it is 3d00h old, its messages are parked",
        "halfhitch tx check --group shop T1",
    ):
        assert words in out
    code, out, _ = run("tx", "explain", "T2", "-o", "json")
    assert "No producer of group bank is connected" in " ".join(json.loads(out)["explanation"])
    code, out, _ = run("tx", "explain", "P2")
    assert "did not take it" in out or "does not take the message" in out
    assert "a commit is on record" in out
    assert "The reason that was given for that: it was paid." in out
    assert "halfhitch parked resume --group shop P2" in out


def test_explain_of_what_is_too_old_promised_checks_up_to_an_age_that_was_over(
    run: Any, operations: FakeOperations
) -> None:
    operations.pending = [undecided("T1", age_s=8 * 86_400.0)]
    code, out, _ = run("tx", "explain", "T1")
    assert code == 0
    text = " ".join(out.split())
    assert "It is older than 3d00h (checks.age_s_max): unless its producers say at the next" in text
    assert "its messages are parked" in text
    assert "or when it is" not in text


def test_explain_tells_why_a_check_could_not_be_answered() -> None:
    said = "RuntimeError: db down"
    lines = explain.undecided(asdict(undecided("T1", last_reason=said)), {})
    assert "its answer: it cannot say yet, because: RuntimeError: db down." in " ".join(lines)
    lines = explain.parked(asdict(parked("P1", last_answer="no_answer", last_reason="status 500")))
    assert "no answer (an error of the callback), because: status 500." in " ".join(lines)


def test_watch_looks_so_often_and_ends_well_with_ctrl_c(
    run: Any, operations: FakeOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = run("tx", "watch", "--count", "3", "--every-s", "0.1")
    assert code == 0
    assert out.count("2 undecided") == 3

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tx, "sleep", interrupt)  # of this module: others threads sleep too
    code, out, _ = run("tx", "watch")
    assert (code, out.count("2 undecided")) == (0, 1)


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


# -- doing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["commit", "rollback"])
def test_a_decision_names_reason_and_operator(
    name: str, run: Any, operations: FakeOperations
) -> None:
    code, out, _ = run("tx", name, *WHY, "T1", "T2", "--yes", "--operator", "ann", "-o", "json")
    assert code == 0
    assert sorted(operations.done()) == [
        (name, "bank", "T2", "asked the shop", "ann"),
        (name, "shop", "T1", "asked the shop", "ann"),
    ]
    answer = json.loads(out)
    assert (answer["action"], answer["done_count"], answer["failed"]) == (name, 2, [])


def test_without_an_operator_it_is_the_user_of_the_machine(
    run: Any, operations: FakeOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk.getpass, "getuser", lambda: "ann")
    monkeypatch.setattr(bulk.socket, "gethostname", lambda: "node-7")
    assert run("tx", "commit", *WHY, "T1", "--yes")[0] == 0
    assert operations.done()[0][-1] == "ann@node-7"

    def nobody() -> str:
        raise KeyError

    monkeypatch.setattr(bulk.getpass, "getuser", nobody)
    assert run("tx", "commit", *WHY, "T1", "--yes")[0] == 0
    assert operations.done()[1][-1] == "somebody@node-7"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tx", "commit", "T1"], "--reason"),
        (["tx", "rollback", "T1", "--reason", " "], "--reason"),
        (["parked", "resume", "P1", "--reason", "two\nlines"], "--reason"),
        (["tx", "commit", *WHY], "--all-matching"),
        (["tx", "commit", *WHY, "T1", "--all-matching"], "not both"),
        (["tx", "commit", *WHY, "T1", "--topic", "orders"], "--all-matching"),
        (["tx", "commit", *WHY, "T1"], "--yes"),
        (["tx", "rollback", *WHY, "--all-matching", "--yes"], "would take all groups"),
        (["parked", "resume", *WHY, "--all-matching"], "2 transactions of group shop"),
        (["tx", "check", "--all-matching"], "2 transactions of 2 groups"),
    ],
)
def test_what_was_not_said_clearly_is_not_done(
    arguments: list[str], words: str, run: Any, operations: FakeOperations,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert operations.done() == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 130), ("\n", 130)])
def test_the_number_is_confirmed_on_a_terminal(
    answer: str, code: int, run: Any, operations: FakeOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    found, _, err = run("parked", "resume", *WHY, "--all-matching")
    assert found == code
    assert "Resume 2 transactions of group shop?" in err
    assert "P2  (undeliverable)" in err
    assert len(operations.done()) == (2 if code == 0 else 0)
    assert ("Nothing was changed." in err) is (code != 0)


def test_a_dry_run_shows_and_does_nothing(run: Any, operations: FakeOperations) -> None:
    code, out, _ = run("tx", "commit", *WHY, "--all-matching", "--older-than", "0s", "--dry-run")
    assert code == 0
    assert " ".join(rows(out)[1]) == "T1 shop would be committed"
    code, out, _ = run("parked", "resume", *WHY, "P1", "--dry-run", "-o", "json")
    answer = json.loads(out)
    assert (answer["dry_run"], answer["done_count"]) == (True, 0)
    assert answer["selected"] == [{"transaction_id": "P1", "producer_group": "shop"}]
    assert operations.done() == []


def test_filters_choose_what_is_done(run: Any, operations: FakeOperations) -> None:
    assert run("tx", "rollback", *WHY, "--all-matching", "--group", "bank", "--yes")[0] == 0
    assert [call[:3] for call in operations.done()] == [("rollback", "bank", "T2")]
    code, out, err = run("tx", "rollback", *WHY, "--all-matching", "--group", "none", "-o", "json")
    assert (code, json.loads(out)["done_count"]) == (0, 0)
    assert "Nothing matches" in err


def test_failures_are_listed_and_stop_no_other(run: Any, operations: FakeOperations) -> None:
    operations.pending = [undecided(f"T{n}") for n in range(50)]
    operations.fails = {
        "T3": TransactionNotFound("nobody knows it"),
        "T40": ContraryDecision("it is rolled back", decided="r", requested="c"),
    }
    code, out, err = run(
        "tx", "commit", *WHY, "--all-matching", "--group", "shop", "--yes", "-o", "json"
    )
    answer = json.loads(out)
    assert code == 1
    assert (answer["done_count"], answer["failed_count"]) == (48, 2)
    assert {f["transaction_id"]: f["reason"] for f in answer["failed"]} == {
        "T3": "nobody knows it", "T40": "it is rolled back",
    }  # fmt: skip
    assert "48 committed, 2 not." in err
    assert len(operations.done()) == 50


def test_a_check_asks_at_once_and_needs_no_reason(run: Any, operations: FakeOperations) -> None:
    code, out, _ = run("tx", "check", "T1")
    assert code == 0
    assert " ".join(rows(out)[1]) == "T1 shop to be checked"
    assert operations.done() == [("check", "shop", "T1")]


def test_what_this_sidecar_cannot_see_is_looked_for_when_the_group_is_named(
    run: Any, operations: FakeOperations
) -> None:
    operations.missing_partitions = [2]
    code, _, err = run("tx", "commit", *WHY, "T9", "--yes")
    assert code == 1
    assert "With --group it looks further" in err
    assert run("tx", "commit", *WHY, "T9", "--group", "shop", "--yes")[0] == 0
    assert operations.done()[0][:3] == ("commit", "shop", "T9")


def test_one_that_is_parked_is_to_be_put_back_first(run: Any, operations: FakeOperations) -> None:
    for command in (("commit", *WHY), ("check",)):
        code, _, err = run("tx", *command, "P1", "--yes")
        assert code == 1
        assert "halfhitch parked resume" in err
    assert operations.done() == []


def test_when_nobody_answers_any_more_the_rest_is_left_alone(
    run: Any, operations: FakeOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise BackendError("no answer")

    operations.given_up = [parked(f"P{n:03}") for n in range(150)]
    monkeypatch.setattr(AdminClient, "post", away)
    code, out, _ = run("parked", "resume", *WHY, "--all-matching", "--yes", "-o", "json")
    assert code == 1
    failed = [row["reason"] for row in json.loads(out)["failed"]]
    assert failed == ["no answer"] * 128 + ["not tried: nobody answers"] * 22


# -- export --------------------------------------------------------------------------------------


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
        assert text.replace("\n", "").isprintable()
    assert len(exported.splitlines()) == 1
    assert json.loads(exported)["transaction"]["transaction_id"] == name
    assert json.loads(told[-1][1])["done"] == [{"transaction_id": name, "producer_group": group}]
