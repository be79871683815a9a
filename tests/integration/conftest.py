"""Where the barrier's databases are, and the truth about them."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import psycopg
import pytest

from halfhitch.client import in_use, recorded
from harness.databases import Truth, open_shop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.databases import Shop, Way
    from harness.mariadb import EmbeddedMariaDb
    from harness.postgres import EmbeddedPostgres


@pytest.fixture(autouse=True)
def _no_other_sidecar(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that asks the sidecar at the default address met whoever had `dev` running."""
    monkeypatch.setenv("HALFHITCH_ADMIN_PORT", "1")


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as attempts go: a traceback may keep another test's, which had the same id."""
    monkeypatch.setattr(recorded, "_EXPECTED", WeakValueDictionary())
    monkeypatch.setattr(in_use, "_PREPARED", OrderedDict())
    monkeypatch.setattr(in_use, "_TALKS", WeakValueDictionary())


@pytest.fixture
def addresses(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Of a server: its port. Of SQLite: a file of the test's own.

    The file is in WAL mode from the beginning, and stays open: two first connections at once, or
    one that comes while the last one leaves, are told "database is locked" without any waiting.
    """
    path = tmp_path / "shop.db"
    with ExitStack() as stack:

        def address(server: str) -> Any:
            if server == "sqlite":
                if not path.exists():
                    first = stack.enter_context(closing(sqlite3.connect(path)))
                    first.execute("PRAGMA journal_mode=WAL").fetchone()
                return str(path)
            fixture = {"postgresql": "postgres"}.get(server, server)
            return request.getfixturevalue(fixture).port

        yield address


@pytest.fixture
def truths(
    request: pytest.FixtureRequest, addresses: Callable[[str], Any]
) -> Iterator[Callable[[str], Truth]]:
    """The truth about a server, with empty tables."""
    made: list[Truth] = []

    def truth(server: str) -> Truth:
        if server == "sqlite":
            path = addresses(server)
            found = Truth("sqlite", lambda: sqlite3.connect(path, timeout=60, isolation_level=None))
            found.make_tables()
            made.append(found)
        else:
            name = "mariadb_truth" if server == "mariadb" else "postgres_truth"
            found = request.getfixturevalue(name)
            found.empty_tables()
        return found

    yield truth
    for one in made:
        one.close()


@pytest.fixture
def truth(way: Way, truths: Callable[[str], Truth]) -> Truth:
    """About the server of the module's `way`."""
    return truths(way.server)


@pytest.fixture
def shop(way: Way, truth: Truth, addresses: Callable[[str], Any]) -> Iterator[Shop]:
    """Reached by the module's `way`."""
    made = open_shop(way, addresses(way.server))
    yield made
    made.close()


@pytest.fixture(scope="module")
def postgres_truth(postgres: EmbeddedPostgres) -> Iterator[Truth]:
    yield from _opened(Truth("postgresql", lambda: psycopg.connect(postgres.dsn, autocommit=True)))


@pytest.fixture(scope="module")
def mariadb_truth(mariadb: EmbeddedMariaDb) -> Iterator[Truth]:
    import pymysql

    yield from _opened(
        Truth("mariadb", lambda: pymysql.connect(**mariadb.arguments(autocommit=True)))
    )


def _opened(truth: Truth) -> Iterator[Truth]:
    truth.make_tables()
    yield truth
    truth.close()
