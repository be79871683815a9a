"""What it takes to spoil a played installation on purpose, and to ask both judges about it.

Owns `LOSSES`, which losses.py fills. Each spoils a world that has come to rest, by its own random
choices, and says whose transactions it has hurt; `judged` asks both judges, `halfhitch verify` and
the checker of the fault runs. verify must find each, or say why it cannot tell; the checker, which
knows what applications were told, must find each.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from chaos.kit.played import check_played
from halfhitch.core.model import Resolution, TransactionId
from halfhitch.verify.bounds import Rules
from halfhitch.verify.report import Kind, Unjudged, Verdict
from halfhitch.verify.run import verify
from harness.verify_logs import WorldLogs
from harness.verify_world import BY_BROKER, TARGETS, World

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from halfhitch.verify.report import Findings
    from harness.verify_world import Life, Stored

#: A step of a world takes some milliseconds.
RULES = Rules(step_ms=30, memory_ms=300, grown_ms=300)
LONG_MS = 10_000
DAY_MS = 86_400_000
C, R, P = Resolution.COMMIT, Resolution.ROLLBACK, Resolution.PARK


@dataclass(slots=True)
class Spoiled:
    """What was done: to whom, and with what settings of its topics verify is to look at it."""

    lives: list[Life]
    compacted: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loss:
    """One class. `verify`: a kind of violation, or why it cannot be judged; None: see `blind`."""

    name: str
    spoil: Callable[[World], Spoiled]
    verify: frozenset[Kind | Unjudged]
    checker: frozenset[str]
    #: Why nothing in the logs can tell verify of it.
    blind: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """What both judges said of one."""

    found: bool  # by verify, as a violation
    not_judged: bool  # by verify, as something that it cannot tell; all who were hurt, both
    is_clean: bool  # what verify says of it all
    checked: frozenset[str]  # classes of the checker that name all who were hurt
    findings: Findings
    told: str


LOSSES: dict[str, Loss] = {}


def loss(
    verify: Kind | Unjudged | Iterable[Kind | Unjudged] | None,
    *checker: str,
    blind: str = "",
) -> Callable[[Callable[[World], Spoiled | Life]], Callable[[World], Spoiled | Life]]:
    """A class of losses: what verify must say, and one of what the checker must say."""

    def note(spoil: Callable[[World], Spoiled | Life]) -> Callable[[World], Spoiled | Life]:
        def spoiled(world: World) -> Spoiled:
            found = spoil(world)
            return found if isinstance(found, Spoiled) else Spoiled([found])

        name = spoil.__name__.replace("_", " ")
        wanted = () if verify is None else (verify,) if isinstance(verify, str) else verify
        LOSSES[name] = Loss(name, spoiled, frozenset(wanted), frozenset(checker), blind)
        return spoil

    return note


def played(seed: int, *, prefix: str = "") -> World:
    """A world that has done all sorts of things and come to rest; nothing is wrong with it."""
    world = World(random.Random(seed), target_time=BY_BROKER, prefix=prefix)
    world.trims = False
    world.run(120)
    world.settle()
    return world


def judged(name: str, seed: int) -> Judged:
    """Spoil a world, and ask both."""
    world = played(seed)
    one = LOSSES[name]
    spoiled = one.spoil(world)
    findings = verify(
        WorldLogs(world, patience=60, compacted=spoiled.compacted), rules=RULES, limit=1_000
    ).findings
    report = check_played(world)
    hurt = {life.identity for life in spoiled.lives}
    accused = {(v.producer_group, v.transaction_id) for v in findings.violations}
    doubted = sum(findings.unjudged[why] for why in one.verify if isinstance(why, Unjudged))
    found = bool(hurt) and hurt <= accused
    return Judged(
        found=found,
        not_judged=not found and doubted >= len(hurt - accused) > 0,
        is_clean=findings.verdict(1.0) is Verdict.CLEAN,
        checked=frozenset(
            name
            for name, sentences in report.violations.items()
            if all(any(repr(one) in told for told in sentences) for one in hurt)
        ),
        findings=findings,
        told=f"{name}, seed {seed}: {sorted(hurt)[:3]}\n{findings.violations}\n"
        f"{findings.unjudged}\n{report}",
    )


# -- parts ---------------------------------------------------------------------------------------


def a_life(world: World, count: int, resolution: Resolution = C, **more: Any) -> Life:
    """One more transaction, with so many messages, ended so and carried out."""
    life = world.prepare(count, **more)
    world.decide(life, resolution)
    world.settle()
    return life


def gone(records: Iterable[Stored]) -> None:
    for record in records:
        record.state = "aborted"


def again(world: World, record: Stored, **changes: Any) -> Stored:
    """Written once more, by somebody's plain producer."""
    place = changes.get("place", record.place)
    value = changes.get("value", record.stored_value)
    headers = changes.get("headers", record.stored_headers)
    return world.append(place, record.stored_key, value, headers)


def forwarded(world: World, *topics: str) -> list[tuple[Stored, Life]]:
    """All records on these targets, whose they are, from the oldest on."""
    lives = {life.identity[1].encode(): life for life in world.lives}
    return [
        (record, lives[dict(record.stored_headers)["UNIQ_KEY"] or b""])
        for place, log in world.logs.items()
        if place[0] in (topics or TARGETS)
        for record in log.records[log.start :]
        if record.state == "visible"
    ]


def of_lives(found: Collection[tuple[Stored, Life]]) -> Spoiled:
    """Remove them."""
    gone(record for record, _ in found)
    return Spoiled(list({life.identity: life for _, life in found}.values()))


def no_other_home(count: int, **fixed: int) -> list[tuple[str, bytes, bytes, int]]:
    """Messages to both topics, on partitions that their producer chose."""
    topics = list(TARGETS)
    return [(topics[i % 2], b"k", b"%d" % i, fixed.get("at", 0)) for i in range(count)]


def nobody(life: Life, name: str) -> Life:
    """Like this one, under an id that nobody has used."""
    return replace(life, identity=(life.identity[0], TransactionId(name)))
