"""Decisions about several transactions: agreed to, carried out, accounted for."""

from __future__ import annotations

import getpass
import io
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.errors import BackendError, ContraryDecision, TransactionNotFound
from halfhitch_cli import bulk
from halfhitch_cli.client import AdminClient
from harness.fake_operations import FakeOperations, parked, undecided

if TYPE_CHECKING:
    pass

WHY = ("--reason", "asked the shop")


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")
    monkeypatch.setattr(bulk.socket, "gethostname", lambda: "node-7")
    assert run("tx", "commit", *WHY, "T1", "--yes")[0] == 0
    assert operations.done()[0][-1] == "ann@node-7"

    def nobody() -> str:
        raise KeyError

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert run("tx", "commit", *WHY, "T1", "--yes")[0] == 0
    assert operations.done()[1][-1] == "somebody@node-7"


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
