"""A real pgbouncer for tests, Debian's: in transaction mode, before a PostgreSQL.

In transaction mode a server connection belongs to a client for one transaction only; what a client
has set for its session stays behind on a connection that others use.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psycopg

from halfhitch.embedded.processes import ServerProcess
from harness.private_server import PrivateServer
from harness.unprivileged import as_user, give, program

if TYPE_CHECKING:
    from harness.postgres import EmbeddedPostgres

_SETTINGS = """\
[databases]
* = host=127.0.0.1 port={server_port} user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
admin_users = postgres
pool_mode = transaction
default_pool_size = {pool_count}
max_client_conn = 100
ignore_startup_parameters = extra_float_digits
logfile =
pidfile =
"""


class EmbeddedPgBouncer(PrivateServer):
    """One pgbouncer on loopback; the user is `postgres`, no password, the databases the server's.

    `pool_count` is how many server connections all clients of a database share.
    """

    def __init__(self, server: EmbeddedPostgres, *, pool_count: int = 10) -> None:
        self._server = server
        self._pool_count = pool_count
        super().__init__()

    @property
    def dsn(self) -> str:
        """For psycopg."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres?connect_timeout=5"

    @property
    def url(self) -> str:
        """For SQLAlchemy, over psycopg; blocking and asyncio."""
        return self.dsn.replace("postgresql://", "postgresql+psycopg://")

    @property
    def asyncpg_url(self) -> str:
        """For SQLAlchemy, over asyncpg."""
        return f"postgresql+asyncpg://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> Self:
        pgbouncer = program("pgbouncer")
        self._folder = Path(tempfile.mkdtemp(prefix="halfhitch-pgbouncer-"))
        self.port = self._ports.take()
        try:
            give(self._folder)
            settings = self._folder / "pgbouncer.ini"
            settings.write_text(
                _SETTINGS.format(
                    port=self.port, server_port=self._server.port, pool_count=self._pool_count
                )
            )
            self._process = ServerProcess(
                "the embedded pgbouncer",
                as_user([pgbouncer, str(settings)]),
                log=self._folder / "pgbouncer.log",
                sweep=self._folder,
            )
            self._await_answer()
        except BaseException:
            self.stop()
            raise
        return self

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self.dsn, autocommit=True) as connection:
                return connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False
