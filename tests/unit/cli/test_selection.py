"""Which transactions a command speaks of."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch_cli import selection
from harness.fake_operations import FakeOperations, undecided

if TYPE_CHECKING:
    pass

WHY = ("--reason", "asked the shop")


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


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


def test_an_id_of_two_groups_asks_which(run: Any, operations: FakeOperations) -> None:
    operations.pending.append(undecided("T1", "bank"))
    code, _, err = run("tx", "show", "T1")
    assert code == 1
    assert "--group (bank, shop)" in err
    code, out, _ = run("tx", "show", "T1", "--group", "bank")
    assert code == 0
    assert ["producer", "group", "bank"] in rows(out)


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


def test_filters_choose_what_is_done(run: Any, operations: FakeOperations) -> None:
    assert run("tx", "rollback", *WHY, "--all-matching", "--group", "bank", "--yes")[0] == 0
    assert [call[:3] for call in operations.done()] == [("rollback", "bank", "T2")]
    code, out, err = run("tx", "rollback", *WHY, "--all-matching", "--group", "none", "-o", "json")
    assert (code, json.loads(out)["done_count"]) == (0, 0)
    assert "Nothing matches" in err


def test_one_misspelled_id_among_several_says_that_nothing_was_done(
    run: Any, operations: FakeOperations
) -> None:
    code, _, err = run("tx", "commit", *WHY, "T1", "nosuch", "--yes")
    assert code == 1
    assert "No transaction nosuch is undecided" in err
    assert "Nothing was done to the others either." in err
    assert operations.done() == []


def test_what_this_sidecar_cannot_see_is_looked_for_when_the_group_is_named(
    run: Any, operations: FakeOperations
) -> None:
    operations.missing_partitions = [2]
    code, _, err = run("tx", "commit", *WHY, "T9", "--yes")
    assert code == 1
    assert "With --group it looks further" in err
    assert run("tx", "commit", *WHY, "T9", "--group", "shop", "--yes")[0] == 0
    assert operations.done()[0][:3] == ("commit", "shop", "T9")


@pytest.mark.parametrize(
    ("age_s", "told"),
    [(0.4, "0s"), (59.7, "59s"), (60, "1m00s"), (3_599, "59m59s"), (108_000, "30h00m"),
     (172_800, "2d00h")],
)  # fmt: skip
def test_a_length_of_time_is_told_in_two_units_at_most(age_s: float, told: str) -> None:
    assert selection.age(age_s) == told
