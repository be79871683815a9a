"""The crash matrix is not blind: programs and checks that are wrong turn it red.

Each mistake is tried beside the same lives without it, which agree.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from chaos.matrix import hook, life, programs
from chaos.matrix.judge import INVENTED, LOST
from chaos.matrix.points import Step
from chaos.matrix.site import Site, by_lane
from chaos.matrix.stores import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.matrix.lane import Job
    from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis
    from harness.mariadb import EmbeddedMariaDb
    from harness.postgres import EmbeddedPostgres

RAW = programs.Form(programs.RAW)
_LIVES = 4


@pytest.fixture(scope="module")
def site(
    kafka: EmbeddedKafka,
    redis_server: EmbeddedRedis,
    postgres: EmbeddedPostgres,
    mariadb: EmbeddedMariaDb,
) -> Iterator[Site]:
    with Site(
        kafka.bootstrap,
        redis_server.url,
        postgresql_port=postgres.port,
        mariadb_port=mariadb.port,
        lane_count=_LIVES,
    ) as made:
        yield made


def _steps(site: Site, misuse: str) -> list[Step]:
    job = site.job(0, "sqlite", RAW, way=f"steps-{misuse}", misuse=misuse, is_recorded=True)
    site.run({0: [job]})
    return [Step(*step) for step in site.lived[job.number].steps]


def _struck(
    site: Site, misuse: str, action: str, step: Step, form: programs.Form = RAW
) -> list[Job]:
    """The same stroke in every lane; rows and messages are as they will stay."""
    jobs = [
        site.job(
            lane,
            "sqlite",
            form,
            way=f"mutant-{misuse}-{form.name}",
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


@pytest.mark.timeout(300)
def test_a_listener_that_takes_an_error_of_its_commit_for_a_roll_back(site: Site) -> None:
    after_commit = Step("return of sqlite3 commit", 0)
    mutant, form = programs.ERROR_ROLLS_BACK, programs.Form(programs.LISTENER)
    assert _wrong(site, _struck(site, mutant, life.ERROR, after_commit, form)) == {LOST}
    assert _wrong(site, _struck(site, "", life.ERROR, after_commit, form)) == set()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_a_commit_that_is_not_asked_whether_it_holds_the_record(site: Site, kind: str) -> None:
    """A hook has lost the transaction: an empty one is committed, and the messages follow."""
    found = {}
    for misuse in (programs.UNWATCHED, ""):
        jobs = _lost_in_hooks(site, kind, misuse)
        site.run(by_lane(jobs))
        site.settle()
        wrong = site.judge([job for _, job in jobs]).wrong
        for _, job in jobs:
            (ending,) = site.lived[job.number].endings
            print(job.title, ending, wrong.get(job.order_id), sep=" | ")
            assert site.lived[job.number].is_struck
            found[misuse, job.form, job.action] = ending.split()[0], wrong.get(job.order_id, [])
    for form, action in {(form, action) for _, form, action in found}:
        assert found["", form, action] == ("InvalidRequest", [])
        # An end by hand asks what became of the record itself, and is refused without that guard.
        is_by_hand = form.startswith(programs.HAND)
        expected = ("TransactionMisused", []) if is_by_hand else ("-", [INVENTED])
        assert found[programs.UNWATCHED, form, action] == expected


def _lost_in_hooks(site: Site, kind: str, misuse: str) -> list[tuple[int, Job]]:
    forms = [form for form in programs.FORMS if form.has_session]
    blows = itertools.product(forms, hook.LOSES)
    return [
        (
            n % _LIVES,
            site.job(n % _LIVES, kind, form, misuse=misuse, action=action, place=hook.HOOK),
        )
        for n, (form, action) in enumerate(blows)
    ]
