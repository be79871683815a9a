"""The migration makes the table, in the database that the settings name."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.test import override_settings

from harness.django_project import project, sqlite


def tables():
    return set(connections["default"].introspection.table_names())


def test_the_table_comes_and_goes_with_its_migration(shop):
    assert "halfhitch_barrier" in tables()
    call_command("migrate", "halfhitch", "zero", verbosity=0)
    assert "halfhitch_barrier" not in tables()
    call_command("migrate", "halfhitch", verbosity=0)
    assert "halfhitch_barrier" in tables()


def test_sqlmigrate_shows_what_a_person_would_run(shop):
    shown = StringIO()
    call_command("sqlmigrate", "halfhitch", "0001", stdout=shown)
    assert "CREATE TABLE IF NOT EXISTS halfhitch_barrier" in shown.getvalue()
    assert "Create the table of Half Hitch's barrier" in shown.getvalue()


def test_a_project_has_no_further_migration_to_make(shop):
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
    (migration,) = (
        migration
        for (label, _), migration in MigrationLoader(None).disk_migrations.items()
        if label == "halfhitch"
    )
    assert migration.suggest_name() == "initial"


@pytest.mark.parametrize("way", ["halfhitch", "zero"])
def test_another_database_is_left_alone(halfhitch_coordinator, tmp_path, way):
    with project(halfhitch_coordinator, sqlite(tmp_path)) as shop:
        before = tables()
        with override_settings(HALFHITCH={"GROUP": "shop", "USING": "other"}):
            call_command("migrate", "halfhitch", *([way] if way == "zero" else []), verbosity=0)
        assert tables() == before
        assert shop.recorded() == {}
        call_command("migrate", "halfhitch", verbosity=0)
