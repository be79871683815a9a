"""Which step of which program is struck how: all of it, or a seeded part of every class.

A class is a database, a form and an action. Steps at the program's own lines, at its driver's calls
and on the wire are the ones where something ends or begins; a sample takes half of its steps there.
No I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chaos.matrix import hook, life, programs, wire
from chaos.matrix.points import Step

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping, Sequence

    from chaos.matrix.programs import Form

_BOTH = (
    life.KILL,
    life.PAUSE,
    life.INTERRUPT,
    life.EXIT,
    life.ERROR,
    life.CUT_DATABASE,
    life.CUT_DOOR,
    life.AWAY,
)
_BLOCKING = (*_BOTH, life.FORK)
_ASYNCIO = (*_BOTH, life.CANCEL, life.CANCEL_SOON)
#: The relay stands between the process and its server, and knows nothing of the sidecar.
_NOT_ON_WIRE = frozenset({life.ERROR, life.FORK, life.CUT_DOOR, life.AWAY, life.CANCEL_SOON})

#: What comes as an exception at the step itself.
_RAISED = frozenset({life.ERROR, life.INTERRUPT, life.EXIT})

#: Which of the program's own lines is the first one behind an answered send, if not the third.
_BEHIND_SEND = {programs.FIRST: 3, programs.LISTENER: 1}


class Blow(NamedTuple):
    """One life that is struck."""

    kind: str
    form: Form
    action: str
    step: Step
    retry: str
    is_asked: bool


def actions(form: Form) -> tuple[str, ...]:
    """What can be done to it."""
    lost = hook.LOSES if form.has_session else ()
    return (*(_ASYNCIO if form.is_async else _BLOCKING), *lost)


def _is_apt(action: str, kind: str, form: Form) -> bool:
    if action == life.CUT_DATABASE:
        return kind != "sqlite"  # there is nothing that could be cut
    if action == life.FORK:
        # SQLite forbids it: a process that was forked with a connection open must not use the file.
        return kind != "sqlite" and not form.is_async
    return True


def blows(
    kind: str, form: Form, recorded: Sequence[Step], rng: random.Random
) -> Iterator[list[Blow]]:
    """Of each action, all there are, those that tell most first; order and retries are seeded."""
    asked = _asked(recorded, form)
    steps = [*recorded]
    if kind != "sqlite":
        steps += [Step(wire.BEFORE, 0), Step(wire.IN, 0)]
    if form.has_session:
        steps.append(Step(hook.HOOK, 0))
    for action in actions(form):
        if not _is_apt(action, kind, form):
            continue
        fit = [step for step in steps if _fits(action, form, step)]
        rng.shuffle(fit)
        near = [step for step in fit if step.kind != "line"]
        far = [step for step in fit if step.kind == "line"]
        yield [
            Blow(kind, form, action, step, _retry(action, form, rng), step in asked)
            for step in _in_turn(near, far)
        ]


def _fits(action: str, form: Form, step: Step) -> bool:
    if action in hook.LOSES:
        return step.place == hook.HOOK
    if step.place in (wire.BEFORE, wire.IN):
        return action not in _NOT_ON_WIRE
    if action in _RAISED and not step.may_raise:
        return False
    if action in _RAISED and form.is_async and step.kind == "driver":
        return False  # a coroutine that is put aside "returns" too, and nothing is raised there
    # An application's own error comes out of its own lines, or out of its driver.
    return action != life.ERROR or step.kind != "line"


def _retry(action: str, form: Form, rng: random.Random) -> str:
    """A second attempt under one's own id, of some; not of what goes on by itself."""
    if action in (life.PAUSE, life.FORK):
        return ""
    return rng.choice(("", *form.attempts))


def _in_turn(first: list[Step], second: list[Step]) -> Iterator[Step]:
    """One of each, and then what is left."""
    shorter = min(len(first), len(second))
    for one, other in zip(first, second, strict=False):
        yield from (one, other)
    yield from (*first[shorter:], *second[shorter:])


def _asked(recorded: Sequence[Step], form: Form) -> frozenset[Step]:
    """The steps between the first answered send and the commit of the messages."""
    behind = _BEHIND_SEND.get(form.name, 2)
    # Requests before the last one: two sends, or a listener's one.
    earlier = 1 if form.name == programs.LISTENER else 2
    lines = [n for n, step in enumerate(recorded) if step.kind == "program"]
    visits: Mapping[str, int] = {step.place: step.visit for step in recorded}
    requests = [
        n
        for n, step in enumerate(recorded)
        if "_connections.py:" in step.place and step.visit == visits[step.place] >= earlier
    ]
    between = recorded[lines[behind - 1] + 1 : min(requests, default=0)]
    after_send = {*recorded[lines[behind] :]} if len(lines) > behind else set()
    outside = {Step(place, 0) for place in (wire.BEFORE, wire.IN, hook.HOOK)}
    return frozenset({step for step in between if step in after_send} | outside)
