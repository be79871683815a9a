"""The crash matrix' judge, its plan and its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chaos import crashes
from chaos.matrix import hook, life, plan, programs
from chaos.matrix.judge import DOUBLED, INVENTED, LOST, OTHER, TORN, Message, judge
from chaos.matrix.points import Step

if TYPE_CHECKING:
    import random

RAW = programs.Form(programs.RAW)


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


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
@pytest.mark.parametrize("form", programs.FORMS, ids=lambda form: form.title)
def test_a_transaction_is_lost_before_the_commit_of_each_session_that_has_recorded(
    kind: str, form: programs.Form, rng: random.Random
) -> None:
    recorded = [Step(f"<program>:{n}", 0) for n in range(9)]
    found = [blow for of_class in plan.blows(kind, form, recorded, rng) for blow in of_class]
    lost = [(blow.action, blow.step.place) for blow in found if blow.action in hook.LOSES]
    hooked = {blow.action for blow in found if blow.step.place == hook.HOOK}
    if form.has_session:
        assert lost == [(action, hook.HOOK) for action in hook.LOSES]
        assert {life.KILL, life.PAUSE, life.ERROR} < hooked
    else:
        assert (lost, hooked) == ([], set())


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
