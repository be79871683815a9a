"""The record and its page say nothing that is worse or not meant; a comparison can go red."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from conformance.cases import CASES, Case, Difference, Verdict
from conformance.comparison import changes, compare, findings, rows, text, verdicts
from conformance.whole import RECORD, page

if TYPE_CHECKING:
    from conformance.whole import Record


@pytest.fixture(scope="module")
def record() -> Record:
    loaded: Record = json.loads(RECORD.read_text("utf-8"))
    return loaded


def test_the_record_has_every_case_and_nothing_that_is_not_meant(record: Record) -> None:
    wrong = [f"{client}: {one}" for client, cases in record.items() for one in findings(cases)]
    assert wrong == []
    assert {case for cases in record.values() for case in cases} == set(CASES)


def test_no_case_is_worse_than_rocketmq(record: Record) -> None:
    for cases in record.values():
        assert Verdict.WORSE not in verdicts(cases).values()


def test_the_page_is_made_from_the_record(record: Record) -> None:
    document = RECORD.parents[1] / "docs" / "conformance.md"
    assert document.read_text("utf-8") == page(record)


# -- the comparison itself -----------------------------------------------------------------------

_MEANT = Case(
    "a case",
    {
        "copies": Difference(Verdict.BETTER, "once is enough"),
        "name": Difference(Verdict.ELSE, "other names"),
    },
    varies=frozenset({"luck"}),
)


@pytest.mark.parametrize(
    ("rocketmq", "halfhitch", "verdict", "unexplained_count"),
    [
        ({"copies": 1}, {"copies": 1}, Verdict.EQUAL, 0),
        ({"copies": 2}, {"copies": 1}, Verdict.BETTER, 0),
        ({"name": "a"}, {"name": "b"}, Verdict.ELSE, 0),
        ({"name": "a", "copies": 2}, {"name": "b", "copies": 1}, Verdict.BETTER, 0),
        ({"body": "a"}, {"body": "b"}, Verdict.WORSE, 1),
        ({"copies": 2}, {}, Verdict.WORSE, 1),
        ({}, {"copies": 2}, Verdict.WORSE, 1),
        ({"lastMs": 1}, {"lastMs": 2}, Verdict.EQUAL, 0),
    ],
)
def test_a_difference_is_meant_or_found(
    rocketmq: dict[str, Any], halfhitch: dict[str, Any], verdict: Verdict, unexplained_count: int
) -> None:
    compared = compare(_MEANT, rocketmq, halfhitch)
    assert compared.verdict is verdict
    assert len(compared.unexplained) == unexplained_count


def test_a_change_is_found_but_for_times_and_luck() -> None:
    before = {"copies": 1, "luck": 1, "lastMs": 1}
    assert list(changes(_MEANT, before, {"copies": 1, "luck": 2, "lastMs": 2})) == []
    assert list(changes(_MEANT, before, {"copies": 2, "luck": 1, "lastMs": 1})) == [
        "copies: was 1, is 2"
    ]
    assert len(list(changes(_MEANT, before, {}))) == 1


def test_a_case_that_is_unknown_or_seen_on_one_server_is_found() -> None:
    whole = {"rocketmq": {"visible": 1}, "halfhitch": {"visible": 1}}
    assert list(findings({"several-topics": whole})) == []
    assert len(list(findings({"no such case": whole}))) == 1
    assert len(list(findings({"several-topics": {"rocketmq": {}}}))) == 1
    assert len(list(findings({"several-topics": {**whole, "halfhitch": {"visible": 2}}}))) == 1


def test_a_cell_of_the_table_is_one_line_of_words() -> None:
    assert text({"b": {"1 checks": 2.0}, "a": True, "c": [], "xMs": 4, "d": "x|y\nz"}) == (
        "a: yes; b: 2 x 1 checks; c: none; d: x\\|y z"
    )
    assert text({"a": 1, "b": {"n": "x"}}, unlike={"a": 1}) == "b: n = x; else the same"
    sides = {"rocketmq": {"copies visible": 2}, "halfhitch": {"copies visible": 1}}
    table = list(rows({"commit-twice": sides}))
    assert len(table) == 3
    assert "**better on purpose**: the first decision wins" in table[2]
