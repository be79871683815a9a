"""Each text file beside this one is a story of the ledger; harness/scenario.py says how to read it.

After a change that is meant: `pytest tests/scenarios --rewrite`, then read the difference.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.scenario import Scenario, ScenarioError, parse, rewritten

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_ledger_does_what_the_scenario_says(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text(encoding="utf-8")
    now = rewritten(text)
    # The option is unknown when pytest was started for other folders too.
    if request.config.getoption("--rewrite", default=False) and now != text:
        path.write_text(now, encoding="utf-8")
    else:
        assert now == text


def test_every_scenario_begins_with_what_it_tells() -> None:
    assert len(FILES) >= 50
    assert [path.stem for path in FILES if not path.read_text().startswith("# ")] == []


# -- the reader of scenarios can fail ------------------------------------------------------------


def test_what_is_expected_wrongly_is_seen() -> None:
    text = "half A\n----\nhalf 0: B\n"
    assert rewritten(text) != text
    assert "half 0: A" in rewritten(text)


def test_what_was_rewritten_is_left_alone_the_next_time() -> None:
    text = rewritten("# Comments stay.\nhalf A\nread\n----\n\ndecide A commit\nturn\n----\n")
    assert text.startswith("# Comments stay.\nhalf A\nread\n----\nhalf 0: A\n")
    assert rewritten(text) == text


def test_lines_are_counted_for_people() -> None:
    assert [block.line for block in parse("half A\n----\n\n\nhalf B\n----\nx\n\nread\n----\n")] == [
        1,
        5,
        9,
    ]


@pytest.mark.parametrize(
    ("commands", "reason"),
    [
        (["have A"], "no such command"),
        (["half A mesage=1"], "not one of message="),
        (["time 61"], "not a time"),
        (["time 61h5"], "not a time"),
        (["half A", "rules checks=1"], "first record"),
        (["producers orders"], "permits"),
        (["half A", "report A shrugged"], "shrugged"),
        (["confirm"], "plan first"),
        (["abort"], "plan first"),
        (["crash", "read"], "replay first"),
        (["replay"], "crash first"),
        (["half A", "memory"], "first command"),
        (["half A", "decide A commit", "read", "plan", "read"], "while a step is out"),
        (["half A", "decide A commit", "read", "plan", "commit", "commit"], "committed already"),
        (["half A", "decide A commit", "read", "plan", "commit", "abort"], "any more"),
    ],
)
def test_a_command_that_makes_no_sense_is_refused(commands: list[str], reason: str) -> None:
    with pytest.raises(ScenarioError, match=reason):
        Scenario().run(commands)


def test_a_block_without_its_rule_is_refused() -> None:
    with pytest.raises(ScenarioError, match="line 4"):
        parse("half A\n----\n\nhalf B\n")


def test_a_scenario_in_which_something_becomes_visible_twice_fails() -> None:
    scenario = Scenario()
    scenario.run(["half A", "decide A commit", "turn"])
    scenario._op_log[1] = None  # the done mark is lost
    scenario._stored = (0, 0)
    with pytest.raises(ScenarioError, match="delivered twice: A"):
        scenario.run(["crash", "replay", "turn"])


def test_a_scenario_in_which_a_watermark_passes_what_is_needed_fails() -> None:
    scenario = Scenario()
    scenario._stored = (1, 0)
    with pytest.raises(ScenarioError, match="half 0 lies below the watermark"):
        scenario.run(["half A"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"immunity_ms": 60_000}, "A is checked early: it is 7s old"),
        ({"delivered": -1}, "A: number 1 is written before 0 arrived"),
    ],
)
def test_a_scenario_with_a_check_that_must_not_be_fails(
    change: dict[str, int], reason: str
) -> None:
    scenario = Scenario()
    scenario.run(["producers orders=1", "half A", "turn", "time +7s"])
    for name, value in change.items():
        setattr(scenario._lives["A"], name, value)
    with pytest.raises(ScenarioError, match=reason):
        scenario.run(["turn"])


def test_a_scenario_with_more_checks_than_allowed_fails() -> None:
    scenario = Scenario()
    scenario.run(["producers orders=1", "half A", "turn", "time +7s"])
    scenario._rules = replace(scenario._rules, count_max=0)
    with pytest.raises(ScenarioError, match="A is checked more often than allowed: 1"):
        scenario.run(["turn"])
