"""The record must be in the database that checks ask: what servers say of themselves is compared.

A session over another engine may work in another database where the same table exists: its record
would be committed there, and a check would fence it here, and answer ROLLBACK for ever. Two engines
of one database are fine, whatever names, poolers or drivers they reach it by. So not addresses are
compared but what the server says, once for each engine that is not the barrier's.

What cannot be found out (a database of which nothing is known, SQLite's in memory) is let pass.
"""

from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

from sqlalchemy.engine import Connection
from sqlalchemy.pool import Pool

from halfhitch.barrier import mysql, sqlite
from halfhitch.barrier.sql_home import HomeEngine
from halfhitch.errors import InvalidRequest

#: When the server was started, to the microsecond, tells it from all others.
_POSTGRESQL: Final = (
    "SELECT CAST(EXTRACT(EPOCH FROM pg_postmaster_start_time()) AS TEXT), current_database()"
)
_MYSQL: Final = (
    "SHOW VARIABLES WHERE Variable_name IN"
    " ('hostname', 'port', 'datadir', 'server_id', 'server_uuid', 'group_replication_group_name')"
)
#: All servers of a cluster take what one of them was given.
_GALERA: Final = "SHOW STATUS WHERE Variable_name = 'wsrep_cluster_state_uuid'"
_GROUP: Final = "group_replication_group_name"
_SQLITE: Final = "PRAGMA database_list"


class OwnDatabase:
    """The one of a barrier's engine."""

    def __init__(self, home: HomeEngine, table: str) -> None:
        self._home = home
        self._table = table
        self._known: WeakSet[Pool] = WeakSet()

    def require(self, connection: Connection) -> None:
        """Before a record. Raises InvalidRequest when this connection is of another database."""
        own, other = self._home.here(), connection.engine
        if other.pool is own.pool or other.pool in self._known:
            return
        there = _identity(connection, self._table)
        with own.connect() as ours:
            here = _identity(ours, self._table)
        if there is not None and here is not None and there != here:
            raise _another(other.url.render_as_string(), own.url.render_as_string())
        self._known.add(other.pool)


def _identity(connection: Connection, table: str) -> tuple[Any, ...] | None:
    name = connection.dialect.name
    if name == "sqlite":
        return _file_of(connection)
    if name == "postgresql":
        return (name, *connection.exec_driver_sql(_POSTGRESQL).one())
    if name in mysql.NAMES:
        return ("mysql", *_server_of(connection, table))
    return None


def _file_of(connection: Connection) -> tuple[Any, ...] | None:
    # On the application's connection, behind rows that it has written.
    files = sqlite.rows_at_once(connection.connection.driver_connection, _SQLITE)
    if files is None:
        files = list(connection.exec_driver_sql(_SQLITE))
    for _, name, path in files:
        if name == "main" and path:
            try:
                found = Path(path).stat()
            except OSError:
                return None
            return ("sqlite", found.st_dev, found.st_ino)
    return None


def _server_of(connection: Connection, table: str) -> tuple[str, ...]:
    said = {str(name): str(value) for name, value in connection.exec_driver_sql(_MYSQL)}
    clusters = [str(value) for _, value in connection.exec_driver_sql(_GALERA)]
    cluster = "".join(clusters) or said.get(_GROUP, "")
    server = [cluster] if cluster else [f"{name}={said[name]}" for name in sorted(said)]
    database = None
    if "." not in table:  # which names its database
        database = connection.exec_driver_sql("SELECT DATABASE()").scalar()
    return (*server, str(database))


def _another(there: str, here: str) -> InvalidRequest:
    return InvalidRequest(
        f"this session works in another database ({there}) than the barrier's engine ({here}), by"
        " what the two servers say of themselves: the record would be committed there, and a check"
        " would look for it here, fence it and answer ROLLBACK. Give the barrier an engine of the"
        " session's database, of its primary and not of a replica; or record on a session of the"
        " barrier's"
    )
