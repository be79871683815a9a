"""The crash matrix is not blind: programs and checks that are wrong turn it red.

Each mistake is tried beside the same lives without it, which agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from faults import crashes
from faults.matrix import life, plan, programs
from faults.matrix.judge import DOUBLED, INVENTED, LOST, OTHER, TORN, Message, judge
from faults.matrix.points import Step
from faults.matrix.site import Site
from faults.matrix.stores import Store

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from faults.matrix.lane import Job
    from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis

RAW = programs.Form(programs.RAW)
_LIVES = 4


@pytest.fixture(scope="module")
def site(kafka: EmbeddedKafka, redis_server: EmbeddedRedis) -> Iterator[Site]:
    with Site(kafka.bootstrap, redis_server.url, lane_count=_LIVES) as made:
        yield made


def _steps(site: Site, misuse: str) -> list[Step]:
    job = site.job(0, "sqlite", RAW, way=f"steps-{misuse}", misuse=misuse, is_recorded=True)
    site.run({0: [job]})
    return [Step(*step) for step in site.lived[job.number].steps]


def _struck(site: Site, misuse: str, action: str, step: Step) -> list[Job]:
    """The same stroke in every lane; rows and messages are as they will stay."""
    jobs = [
        site.job(
            lane,
            "sqlite",
            RAW,
            way=f"mutant-{misuse}-{programs.RAW}",
            misuse=misuse,
            action=action,
            place=step.place,
            visit=step.visit,
            is_asked=action == life.PAUSE,
        )
        for lane in range(_LIVES)
    ]
    for job in jobs:
        site.answer(job.group, Store(*job.store), misuse=misuse, is_raw=True)
    site.run({lane: [job] for lane, job in enumerate(jobs)})
    site.settle()
    assert all(site.lived[job.number].is_struck for job in jobs)
    return jobs


def _wrong(site: Site, jobs: list[Job]) -> set[str]:
    return {what for found in site.judge(jobs).wrong.values() for what in found}


@pytest.mark.timeout(300)
def test_messages_that_are_committed_before_their_rows(site: Site) -> None:
    def last_line(misuse: str) -> Step:
        return [step for step in _steps(site, misuse) if step.kind == "program"][-1]

    mutant = programs.MESSAGES_FIRST
    assert _wrong(site, _struck(site, mutant, life.KILL, last_line(mutant))) == {INVENTED}
    assert _wrong(site, _struck(site, "", life.KILL, last_line(""))) == set()


@pytest.mark.timeout(300)
def test_a_check_that_takes_a_missing_row_for_a_roll_back(site: Site) -> None:
    before_commit = Step("call of sqlite3 commit", 0)
    mutant = programs.ROLLS_BACK_MISSING
    assert _wrong(site, _struck(site, mutant, life.PAUSE, before_commit)) == {LOST}
    assert _wrong(site, _struck(site, "", life.PAUSE, before_commit)) == set()


@pytest.mark.timeout(300)
def test_a_block_that_rolls_back_whatever_leaves_it(site: Site) -> None:
    after_commit = Step("return of sqlite3 commit", 0)
    mutant = programs.ALWAYS_ROLLS_BACK
    assert _wrong(site, _struck(site, mutant, life.EXIT, after_commit)) == {LOST}
    assert _wrong(site, _struck(site, "", life.EXIT, after_commit)) == set()


# -- the judge, the plan and the verdict ---------------------------------------------------------


def _messages(order_id: str, *indexes: int) -> list[Message]:
    return [Message(order_id, n, programs.order_value(order_id, n)) for n in indexes]


@pytest.mark.parametrize(
    ("rows", "visible", "wrong"),
    [
        ({"a": 2}, _messages("a", 0, 1), []),
        ({}, [], []),
        ({"a": 2}, [], [LOST]),
        ({}, _messages("a", 0, 1), [INVENTED]),
        ({"a": 2}, _messages("a", 0), [TORN]),
        ({"a": 2}, _messages("a", 0, 1, 2), [TORN]),
        ({"a": 2}, _messages("a", 0, 1, 1), [DOUBLED]),
        ({"a": 1}, [Message("a", 0, b"another's")], [OTHER]),
    ],
)
def test_what_does_not_agree_is_named(
    rows: dict[str, int], visible: list[Message], wrong: list[str]
) -> None:
    assert judge(["a"], rows, visible).wrong.get("a", []) == wrong


def test_an_order_that_nobody_tried_is_wrong_whatever_it_has() -> None:
    assert judge([], {"a": 1}, _messages("a", 0)).wrong == {"a": [INVENTED]}


def test_attempts_that_sent_other_messages_may_show_more_and_never_less() -> None:
    more = judge(["a"], {"a": 2}, _messages("a", 0, 1, 2), sent_others={"a"})
    assert (more.wrong, more.beyond_count) == ({}, 1)
    less = judge(["a"], {"a": 2}, _messages("a", 0, 2), sent_others={"a"})
    assert less.wrong == {"a": [TORN]}


def test_every_class_strikes_where_something_ends_and_between(rng: random.Random) -> None:
    recorded = [
        *(Step(f"<program>:{n}", 0) for n in range(5, 9)),
        *(Step("client/sync.py:200", n) for n in range(9)),
        Step("call of psycopg commit", 0),
        Step("return of psycopg commit", 0),
    ]
    classes = list(plan.blows("postgresql", RAW, recorded, rng))
    assert {found[0].action for found in classes} == set(plan.actions(RAW))
    for found in classes:
        assert len({blow.step for blow in found}) == len(found)
        kinds = {blow.step.kind for blow in found[:2]}
        assert kinds == ({"program", "driver"} & kinds) | (
            set() if found[0].action == life.ERROR else {"line"}
        )


def _told(**values: object) -> crashes.Crashed:
    told = crashes.Crashed("now", 1, None, lives=10, struck=9, whole=5, empty=5)
    told.asked_while_paused = 1
    for name, value in values.items():
        setattr(told, name, value)
    return told


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({}, "green"),
        ({"found": {LOST: 1}}, "red"),
        ({"hung": ["one"]}, "red"),
        ({"struck": 2}, "red"),
        ({"empty": 0}, "red"),
        ({"asked_while_paused": 0}, "red"),
    ],
)
def test_a_run_in_which_nothing_happened_is_not_green(
    values: dict[str, object], verdict: str
) -> None:
    assert crashes._verdict(_told(**values))[0] == verdict
