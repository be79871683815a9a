"""The servers that the barrier's tests stand on are what they are taken for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from harness.pgbouncer import EmbeddedPgBouncer

if TYPE_CHECKING:
    from harness.mariadb import EmbeddedMariaDb
    from harness.postgres import EmbeddedPostgres


def test_mariadb_keeps_what_was_committed_over_a_kill(mariadb: EmbeddedMariaDb) -> None:
    with mariadb.connection() as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE kept (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO kept VALUES (1)")
    mariadb.kill()
    mariadb.restart()
    with mariadb.connection() as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT id, VERSION() FROM kept")
        ((kept, version),) = cursor.fetchall()
        cursor.execute("DROP TABLE kept")
    assert kept == 1
    assert "MariaDB" in version


def test_what_a_session_sets_stays_behind_in_pgbouncer(postgres: EmbeddedPostgres) -> None:
    with (
        EmbeddedPgBouncer(postgres, pool_count=1) as pgbouncer,
        psycopg.connect(pgbouncer.dsn, autocommit=True) as one,
        psycopg.connect(pgbouncer.dsn, autocommit=True) as other,
    ):
        one.execute("SET work_mem = '7MB'")
        assert other.execute("SHOW work_mem").fetchone() == ("7MB",)
