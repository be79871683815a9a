"""What the committed record says of Half Hitch still holds, by RocketMQ's own client.

The quick part of the comparison, against Half Hitch alone: a minute of Java. The whole of it, with
the real RocketMQ beside, is `make conformance`. Also here: the comparison itself can go red.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

from conformance.cases import CASES, Case, Difference, Verdict
from conformance.comparison import changes, compare, findings, rows, text, verdicts
from conformance.servers import HalfHitchSide
from conformance.suite import build, run
from conformance.whole import RECORD, page
from harness.kafka import fresh_name
from harness.native import FOLDER, needs_native
from harness.rocketmq import MavenUnavailable

if TYPE_CHECKING:
    from pathlib import Path

    from conformance.whole import Record
    from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis

_CLIENT = "client-5"


@pytest.fixture(scope="module")
def record() -> Record:
    loaded: Record = json.loads(RECORD.read_text("utf-8"))
    return loaded


@pytest.mark.kafka
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["interpreted", pytest.param("native", marks=needs_native)])
def test_rocketmqs_client_sees_what_the_record_says(
    kafka: EmbeddedKafka, redis_server: EmbeddedRedis, tmp_path: Path, record: Record, way: str
) -> None:
    try:
        build(_CLIENT)
    except MavenUnavailable as missing:
        pytest.skip(f"RocketMQ's client cannot be had here: {missing}")
    prefix = fresh_name("conformance") + "."
    path = os.pathsep.join(filter(None, [str(FOLDER), os.environ.get("PYTHONPATH")]))
    environment = {"PYTHONPATH": path} if way == "native" else {}
    with HalfHitchSide(
        tmp_path, kafka.bootstrap, redis_server.url, prefix=prefix, environment=environment
    ) as side:
        result = run(side, _CLIENT, tmp_path, groups="quick")
        metrics = f"http://127.0.0.1:{side.sidecar.admin_port}/metrics"
        with urlopen(metrics, timeout=5) as answer:
            shown = answer.read().decode()
    found = re.search(r"^halfhitch_rocketmq_native_requests_total (\S+)$", shown, re.MULTILINE)
    native_count = float(found[1]) if found else 0.0
    assert (native_count > 20) == (way == "native"), "the restarts of the cases begin it anew"
    assert result.failed == {}
    assert len(result.observed) >= 15, result.said
    unlike = [
        f"{name}: {change}"
        for name, observed in result.observed.items()
        for change in changes(CASES[name], record[_CLIENT][name]["halfhitch"], observed)
    ]
    assert unlike == []


def test_the_record_has_every_case_and_nothing_that_is_not_meant(record: Record) -> None:
    wrong = [f"{client}: {one}" for client, cases in record.items() for one in findings(cases)]
    assert wrong == []
    assert {case for cases in record.values() for case in cases} == set(CASES)


def test_no_case_is_worse_than_rocketmq(record: Record) -> None:
    for cases in record.values():
        assert Verdict.WORSE not in verdicts(cases).values()


def test_the_page_is_made_from_the_record(record: Record) -> None:
    document = RECORD.parents[2] / "docs" / "conformance.md"
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
