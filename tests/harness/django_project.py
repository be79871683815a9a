"""A Django project with one table, on a database that a test names.

Django has its settings once for a process, so they stand here; databases and HALFHITCH are each
test's own.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import django
import pymysql
from django.conf import settings
from django.core.management import call_command
from django.db import connections, transaction
from django.http import HttpResponse
from django.test import override_settings
from django.urls import path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPIC = "orders"
GROUP = "shop"


def order(item: str) -> None:
    """A row and its message."""
    import halfhitch.django

    add(item)
    halfhitch.django.send(TOPIC, item)


@transaction.atomic
def atomic_order(item: str) -> None:
    """The same as a block of its own."""
    order(item)


def add(item: str) -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute("INSERT INTO items VALUES (%s)", [item])


def view(request: Any, item: str) -> HttpResponse:
    """Of a project with ATOMIC_REQUESTS; one item cannot be had."""
    order(item)
    if item == "moon":
        raise ValueError(item)
    return HttpResponse(item)


urlpatterns = [path("orders/<item>", view)]


def sqlite(folder: Path) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(folder / "shop.db"),
        "OPTIONS": {"init_command": "PRAGMA journal_mode=wal", "timeout": 20},
    }


def postgresql(port: int) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "USER": "postgres",
        "HOST": "127.0.0.1",
        "PORT": str(port),
    }


def mariadb(arguments: dict[str, Any]) -> dict[str, Any]:
    """Over PyMySQL, which Django takes under the name and version of mysqlclient."""
    pymysql.version_info = (2, 2, 7, "final", 0)
    pymysql.install_as_MySQLdb()
    return {
        "ENGINE": "django.db.backends.mysql",
        "NAME": arguments["database"],
        "USER": arguments["user"],
        "HOST": arguments["host"],
        "PORT": str(arguments["port"]),
    }


@dataclass
class Project:
    """What is in its database, and on its topic."""

    coordinator: Any

    def rows(self) -> list[str]:
        return [row[0] for row in self._select("SELECT item FROM items ORDER BY item")]

    def recorded(self) -> dict[str, str]:
        rows = self._select("SELECT transaction_id, outcome FROM halfhitch_barrier")
        return {key.decode() if isinstance(key, bytes) else key: outcome for key, outcome in rows}

    def messages(self) -> list[str]:
        return sorted(message.value.decode() for message in self.coordinator.messages(TOPIC))

    def _select(self, statement: str) -> list[tuple[Any, ...]]:
        with connections["default"].cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def require(self, *items: str) -> None:
        """Rows and messages agree, and nothing is left to a check."""
        assert (self.rows(), self.messages()) == ([*items], [*items])
        assert self.coordinator.pending() == []


@contextmanager
def project(coordinator: Any, database: dict[str, Any], **given: Any) -> Iterator[Project]:
    """Migrated, with an empty table; nothing of it is left behind but the files of SQLite."""
    if not settings.configured:
        settings.configure(
            ALLOWED_HOSTS=["*"],
            DATABASES={},
            INSTALLED_APPS=["halfhitch.django"],
            LOGGING_CONFIG=None,
            ROOT_URLCONF="harness.django_project",
            SECRET_KEY="of tests",
            USE_TZ=True,
        )
        django.setup()
    before = connections.settings
    connections.settings = connections.configure_settings({"default": database})
    halfhitch = {
        "GROUP": GROUP,
        "ADDRESS": coordinator.address,
        "BARRIER": {"wait_s": 10.0},
        **given,
    }
    try:
        with override_settings(HALFHITCH=halfhitch):
            call_command("migrate", verbosity=0)
            with connections["default"].cursor() as cursor:
                cursor.execute("DROP TABLE IF EXISTS items")
                cursor.execute("CREATE TABLE items (item VARCHAR(64))")
                cursor.execute(f"DELETE FROM {halfhitch.get('TABLE', 'halfhitch_barrier')}")
            yield Project(coordinator)
    finally:
        connections["default"].close()
        del connections["default"]
        connections.settings = before


@contextmanager
def refused(kind: type[Exception]) -> Iterator[None]:
    """An atomic block whose work raises; the exception has left it."""
    try:
        with transaction.atomic():
            yield
    except kind:
        return
    raise AssertionError(f"nothing has raised {kind.__name__}")
