"""Of a curve the middle repeat counts, and the page and the pictures show what was measured."""

from __future__ import annotations

import json

import pytest

from bench.curves import draw, page
from bench.curves.plan import PLACES, read_plan
from bench.curves.points import Curve, Point, busiest, middle

FACTS = {"cores": 2, "processor": "P", "kafka": "4", "halfhitch": "0", "is_fast": True}


def point(at: float, per_s: float, **more: float) -> Point:
    return Point(at, {"commits_per_s": per_s, **more}, {"sidecar: python": 0.4})


def test_the_middle_repeat_counts_and_keeps_the_least_and_the_most() -> None:
    found = middle([point(4, 30, x=1), point(4, 10, x=2), point(4, 20, x=3)], "commits_per_s")
    assert found.values == {
        "commits_per_s": 20, "x": 3, "commits_per_s_low": 10, "commits_per_s_high": 30
    }  # fmt: skip


def test_numbered_threads_count_together_and_idle_ones_are_left_out() -> None:
    spent_s = {
        "sidecar": {"rdk:broker1": 2.0, "rdk:broker2": 3.0, "python": 4.9},
        "Kafka": {"idle-1": 0.1},
    }
    assert busiest(spent_s) == {"sidecar: rdk:broker": 0.5, "sidecar: python": 0.49}
    assert busiest({"sidecar": {"python": 0.0}}) == {}


def test_a_curve_is_read_as_it_was_kept() -> None:
    curve = Curve("payload", FACTS, 6.0, [point(0.1, 5), point(1_000, 2, mib_per_s=3)])
    assert Curve.read(json.loads(json.dumps(curve.as_dict()))) == curve
    assert curve.values("mib_per_s") == ([1_000], [3])


def test_the_table_says_the_spread_and_leaves_out_what_is_not_known() -> None:
    values = {"commits_per_s_low": 1_900, "commits_per_s_high": 2_100, "others_percent": 40}
    text = page.figures(Curve("payload", FACTS, 6.0, [point(1_000, 2_000, **values)]))
    assert "| 1,000 | 2,000 | 1,900 to 2,100 |  |" in text
    assert "other programs took 40 % of the machine" in text
    assert "at 1,000: sidecar: python 40 %" in text


def test_every_curve_has_a_table_and_a_picture() -> None:
    assert set(PLACES) == set(page.TABLES) == set(draw.PICTURES)


@pytest.mark.parametrize("name", PLACES)
def test_what_a_picture_shows_is_measured(name: str) -> None:
    shown = {value for panel in draw.PICTURES[name][2] for value, _ in panel.lines}
    told = {value for _, value, _ in page.TABLES[name][1]}
    assert shown <= told


def test_a_picture_keeps_its_places_to_a_hundredth_and_its_letters() -> None:
    assert draw.smaller('  <path d="M 1.239876 -20.5 "/> \n<text>0.1</text>\n') == (
        '<path d="M 1.23 -20.5 "/>\n<text>0.1</text>\n'
    )


def test_a_curve_may_be_cut_short() -> None:
    assert read_plan(["--only", "undecided", "--most", "1e5"]).places == {
        "undecided": (1_000, 10_000, 100_000)
    }


@pytest.mark.parametrize("words", [["--only", "bodies"], ["--most", "3"]])
def test_a_wrong_plan_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_plan(words)
    assert "--only" in capsys.readouterr().err
