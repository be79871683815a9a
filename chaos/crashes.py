"""The crash matrix from its plan to its verdict, and its record.

Every program of the documents lives once undisturbed, which records its steps. Then each life is
struck at one of them, on every database; what has died is begun again or not, and checks are
answered as by a process that was started again. At the end everything must be decided, and rows and
visible messages must agree. `share` bounds how many steps of each class are struck.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.matrix import life, plan, programs, wire
from chaos.matrix.points import Step
from chaos.matrix.site import Site, by_lane
from chaos.matrix.stores import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.matrix.lane import Job
    from chaos.matrix.plan import Blow

RECORD = Path(__file__).with_name("crashes.jsonl")

#: Nothing is done at a step: the program does by itself what the documents advise against.
SWALLOWED, PREFORKED = "a failed send is swallowed", "checks answered by preforked workers"
_STORM = 12
_EXAMPLES_MAX = 20


@dataclass(slots=True)
class Crashed:
    """What came of it, as it stands in the record."""

    at: str
    seed: int
    share: int | None
    verdict: str = "red"
    reason: str = ""
    databases: list[str] = field(default_factory=list)
    lives: int = 0
    struck: int = 0
    asked_while_paused: int = 0
    #: Steps that were recorded, of all programs together, and how many of them were struck.
    steps: int = 0
    steps_struck: int = 0
    #: By form, then by what was done: lives, and how many of them were wrong.
    cells: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    found: dict[str, int] = field(default_factory=dict)
    whole: int = 0
    empty: int = 0
    beyond: int = 0
    examples: list[str] = field(default_factory=list)
    hung: list[str] = field(default_factory=list)
    seconds: float = 0.0
    machine_load: float = 0.0


def crash(site: Site, seed: int, share: int | None) -> Crashed:
    """All of it on a site that stands. `share`: steps of each class; None: every one."""
    began_s = time.monotonic()
    rng = random.Random(seed)
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    told = Crashed(at, seed, share, databases=site.kinds)
    recorded = record(site)
    told.steps = sum(map(len, recorded.values()))
    blows = list(_chosen(recorded, rng, share))
    rng.shuffle(blows)
    jobs = [_job_of(site, number, blow) for number, blow in enumerate(blows)]
    told.steps_struck = len({(blow.kind, blow.form, blow.step) for blow in blows})
    jobs += _swallowing(site)
    site.run(by_lane(jobs))
    _prefork(site)
    site.settle()
    _note(site, told)
    told.seconds = round(time.monotonic() - began_s, 1)
    told.machine_load = round(os.getloadavg()[0], 1)
    return told


def record(site: Site) -> dict[tuple[str, programs.Form], list[Step]]:
    """One undisturbed life of each program on each database: its steps, in order."""
    pairs = list(itertools.product(site.kinds, programs.FORMS))
    jobs = []
    for number, (kind, form) in enumerate(pairs):
        lane = number % site.lane_count
        jobs.append((lane, site.job(lane, kind, form, is_recorded=True)))
    site.run(by_lane(jobs))
    found = {}
    for pair, (_, job) in zip(pairs, jobs, strict=True):
        lived = site.lived[job.number]
        assert lived.endings == ["-"], f"undisturbed, {job.title} ended so: {lived}"
        found[pair] = [Step(*step) for step in lived.steps]
    return found


def _chosen(
    recorded: dict[tuple[str, programs.Form], list[Step]], rng: random.Random, share: int | None
) -> Iterator[Blow]:
    for (kind, form), steps in recorded.items():
        for of_class in plan.blows(kind, form, steps, rng):
            yield from of_class[:share]


def _job_of(site: Site, number: int, blow: Blow) -> tuple[int, Job]:
    lane = number % site.lane_count
    job = site.job(
        lane,
        blow.kind,
        blow.form,
        action=blow.action,
        place=blow.step.place,
        visit=blow.step.visit,
        retry=blow.retry,
        is_asked=blow.is_asked,
    )
    return lane, job


def _swallowing(site: Site) -> Iterator[tuple[int, Job]]:
    """A send that fails for sure, whose error the program forgets."""
    for number, (kind, form) in enumerate(itertools.product(site.kinds, programs.FORMS)):
        lane = number % site.lane_count
        yield lane, site.job(lane, kind, form, misuse=programs.SWALLOWS)


def _prefork(site: Site) -> None:
    """Checks of many that died pile up; then all are asked at once, of workers just forked."""
    if "postgresql" not in site.kinds:
        return
    form = programs.Form(programs.BLOCK)
    jobs = []
    for number in range(_STORM):
        place = (wire.BEFORE, wire.IN)[number % 2]
        more = {"way": "prefork", "action": life.KILL, "place": place}
        jobs.append((0, site.job(0, "postgresql", form, **more)))
    site.run(by_lane(jobs), is_answered=False)
    first = jobs[0][1]
    with site.preforked(first.group, Store(*first.store)):
        site.settle()


def _cell_of(job: Job) -> str:
    if job.group.endswith("prefork"):
        return PREFORKED
    return SWALLOWED if job.misuse == programs.SWALLOWS else job.action or "undisturbed"


def _note(site: Site, told: Crashed) -> None:
    verdict = site.judge()
    told.whole, told.empty = verdict.whole_count, verdict.empty_count
    told.beyond = verdict.beyond_count
    told.found = dict(Counter(what for wrong in verdict.wrong.values() for what in wrong))
    by_id = {job.order_id: job for job in site.jobs.values()}
    cells: dict[tuple[str, str], Counter[str]] = {}
    for number, lived in site.lived.items():
        job = site.jobs[number]
        counted = cells.setdefault((job.form, _cell_of(job)), Counter())
        counted["lives"] += 1
        is_wrong = {job.order_id, f"{job.order_id}-child"} & set(verdict.wrong)
        counted["wrong"] += bool(is_wrong)
        told.struck += lived.is_struck
        told.asked_while_paused += lived.was_asked and job.action == life.PAUSE
        if lived.is_hung:
            told.hung.append(job.title)
    told.lives = len(site.lived)
    for (form, cell), counted in cells.items():
        told.cells.setdefault(form, {})[cell] = counted["lives"], counted["wrong"]
    for order_id, wrong in list(verdict.wrong.items())[:_EXAMPLES_MAX]:
        job = by_id.get(order_id.removesuffix("-child"))
        endings = site.lived[job.number].endings if job is not None else []
        title = "nobody's" if job is None else job.title
        told.examples.append(f"{', '.join(wrong)}: {title}; it ended {endings}")
    told.verdict, told.reason = _verdict(told)


def _verdict(told: Crashed) -> tuple[str, str]:
    """A run in which next to nothing was struck says nothing, whatever agrees."""
    if told.found:
        return "red", ", ".join(f"{count} {what}" for what, count in told.found.items())
    if told.hung:
        return "red", f"{len(told.hung)} lives did not end"
    struck_share = told.struck / max(told.lives, 1)
    if not (told.whole and told.empty and told.asked_while_paused and struck_share > 0.5):
        return "red", f"too little happened: {told.struck} of {told.lives} lives were struck"
    return "green", ""


def recorded() -> list[dict[str, Any]]:
    """All runs that are on record."""
    if not RECORD.exists():
        return []
    return [json.loads(line) for line in RECORD.read_text().splitlines() if line]


def keep(told: Crashed) -> None:
    """Append it to the record."""
    with RECORD.open("a") as file:
        file.write(json.dumps(asdict(told)) + "\n")


def run(seed: int, share: int | None, lane_count: int = 6) -> Crashed:
    """Servers, matrix, verdict."""
    from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis
    from harness.mariadb import EmbeddedMariaDb
    from harness.postgres import EmbeddedPostgres

    with (
        EmbeddedKafka(short_lived=True) as kafka,
        EmbeddedRedis() as redis,
        EmbeddedPostgres() as postgres,
        EmbeddedMariaDb() as mariadb,
        Site(
            kafka.bootstrap,
            redis.url,
            postgresql_port=postgres.port,
            mariadb_port=mariadb.port,
            lane_count=lane_count,
        ) as site,
    ):
        return crash(site, seed, share)
