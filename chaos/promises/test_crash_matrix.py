"""Rows and visible messages agree, wherever a program of the documents is struck.

This is a seeded part of the matrix, on real servers; `make crash-matrix` strikes every step.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from chaos import crashes
from chaos.matrix import life, programs
from chaos.matrix.site import Site
from chaos.matrix.stores import Store
from halfhitch.wire.topics import InternalTopics
from harness.check_sidecars import clock_settings
from harness.kafka import read_all, wait_until

if TYPE_CHECKING:
    import random

    from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis
    from harness.mariadb import EmbeddedMariaDb
    from harness.postgres import EmbeddedPostgres

_DAY_S = 86_400


@pytest.mark.timeout(1_200)
def test_rows_and_messages_agree_wherever_a_program_is_struck(
    kafka: EmbeddedKafka,
    redis_server: EmbeddedRedis,
    postgres: EmbeddedPostgres,
    mariadb: EmbeddedMariaDb,
    rng: random.Random,
) -> None:
    with Site(
        kafka.bootstrap,
        redis_server.url,
        postgresql_port=postgres.port,
        mariadb_port=mariadb.port,
    ) as site:
        told = crashes.crash(site, rng.randrange(2**32), share=1)
    print(told)
    assert told.verdict == "green", "\n".join([told.reason, *told.examples, *told.hung])


@pytest.mark.timeout(300)
def test_a_transaction_that_slept_through_a_purge_is_fenced_by_nobody(
    kafka: EmbeddedKafka, redis_server: EmbeddedRedis
) -> None:
    """It has committed; its row is older than `keep_s` and gone; nobody can tell any more."""
    with Site(kafka.bootstrap, redis_server.url, lane_count=1) as site:
        form = programs.Form(programs.BLOCK)
        stroke = {"action": life.KILL, "place": "return of sqlite3 commit"}
        job = site.job(0, "sqlite", form, way="sleeper", visit=0, **stroke)
        site.run({0: [job]}, is_answered=False)
        store = Store(*job.store)
        assert store.has(job.order_id), "it was to be killed after its local commit"
        site.sidecar.terminate()

        barrier = site.barrier(store, job.group)
        _run(store, "UPDATE halfhitch_barrier SET at = datetime('now', '-8 days')")
        assert barrier.purge() == 1
        site.start_sidecar(**clock_settings(site.folder, 8 * _DAY_S))
        site.answer(job.group, store)

        parked = InternalTopics(site.prefix).parked

        def kept_for_a_person() -> bool:
            found = read_all(kafka.bootstrap, parked)
            return sum(("UNIQ_KEY", job.order_id.encode()) in r.headers for r in found) == 2

        wait_until(kept_for_a_person, 90, interval_s=0.5, what="both messages are parked, whole")
        rows = _run(store, "SELECT outcome FROM halfhitch_barrier")
        assert rows == [], "a committed transaction was fenced"
        assert (site.asked / job.order_id).exists()


def _run(store: Store, statement: str) -> list[tuple[object, ...]]:
    with contextlib.closing(store.connect()) as connection:
        found = connection.execute(statement).fetchall()
        connection.commit()
    return found
