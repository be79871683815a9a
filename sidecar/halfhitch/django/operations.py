"""The barrier's table as an operation of a migration. It is no model: nobody is to change rows."""

from typing import Any

from django.db.migrations.operations.base import Operation

from halfhitch.barrier.table import ddl_statements
from halfhitch.django.process import settings


class CreateBarrierTable(Operation):
    """Makes the table in the database that `HALFHITCH["USING"]` names, unless it is there."""

    reduces_to_sql = True
    reversible = True

    def state_forwards(self, app_label: str, state: Any) -> None:
        """No model comes of it."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        """`sqlmigrate` shows the statements."""
        connection, chosen = schema_editor.connection, settings()
        if connection.alias == chosen.using:
            for statement in ddl_statements(connection.vendor, chosen.table):
                schema_editor.execute(statement)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        """What was committed is forgotten: checks would fence it."""
        chosen = settings()
        if schema_editor.connection.alias == chosen.using:
            schema_editor.execute(f"DROP TABLE IF EXISTS {chosen.table}")

    def describe(self) -> str:
        """For `migrate` and `sqlmigrate`."""
        return "Create the table of Half Hitch's barrier"

    @property
    def migration_name_fragment(self) -> str:
        """Of a migration that is named after its operations."""
        return "halfhitch_barrier"
