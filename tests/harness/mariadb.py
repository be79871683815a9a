"""A real MariaDB for tests, Debian's: started, killed and paused like the other servers.

Nothing it writes is worth keeping: no fsync, small files, and a temporary folder.
"""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pymysql

from halfhitch.embedded.processes import ServerProcess
from harness.private_server import PrivateServer
from harness.unprivileged import as_user, give, program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.held_log import HeldLog

DATABASE = "shop"
_QUICK = (
    "--innodb-buffer-pool-size=16M",
    "--innodb-log-file-size=8M",
    "--innodb-flush-log-at-trx-commit=2",  # it may be killed, the machine does not fail
    "--innodb-doublewrite=0",
    "--innodb-use-native-aio=0",  # containers often have none
    "--innodb-fast-shutdown=2",
    "--innodb-buffer-pool-dump-at-shutdown=0",
    # A table's statistics are written at its first use and later by a thread of their own; a
    # SELECT waits for both, for ever where the log is held.
    "--innodb-stats-persistent=0",
)


class EmbeddedMariaDb(PrivateServer):
    """One MariaDB on loopback; the user is root without a password, the database `shop`."""

    start_s_max = 60.0

    def __init__(self, *, has_binary_log: bool = True, log: HeldLog | None = None) -> None:
        """Without a binary log it is as Debian installs it; `log` can hold what InnoDB writes."""
        self._has_binary_log = has_binary_log
        self._log = log
        super().__init__()

    @property
    def url(self) -> str:
        """For SQLAlchemy, over PyMySQL; its dialect is `mysql`."""
        return f"mysql+pymysql://root@127.0.0.1:{self.port}/{DATABASE}?charset=utf8mb4"

    @property
    def aio_url(self) -> str:
        """For SQLAlchemy, over aiomysql."""
        return self.url.replace("+pymysql", "+aiomysql")

    def arguments(self, **others: Any) -> dict[str, Any]:
        """For `pymysql.connect` and `aiomysql.connect`."""
        address = {"host": "127.0.0.1", "port": self.port, "user": "root"}
        return {**address, "database": DATABASE, "charset": "utf8mb4", **others}

    def start(self) -> Self:
        # Where programs are that are missing is said before anything is made.
        install = program("mariadb-install-db")
        self._folder = Path(tempfile.mkdtemp(prefix="halfhitch-mariadb-"))
        self.port = self._ports.take()
        try:
            give(self._folder)
            self._make_data(install)
            self.restart()
            with self.connection(database=None) as connection:
                connection.cursor().execute(f"CREATE DATABASE {DATABASE}")
        except BaseException:
            self.stop()
            raise
        return self

    def restart(self) -> None:
        """On the same port, with the same data; after a `kill` it recovers."""
        folder = self._used_folder()
        command = [
            *(program("mariadbd"), "--no-defaults", f"--datadir={folder / 'data'}"),
            *("--bind-address=127.0.0.1", f"--port={self.port}", "--skip-name-resolve"),
            *(f"--socket={folder / 'socket'}", f"--pid-file={folder / 'pid'}"),
            *(f"--tmpdir={folder}", "--max-connections=100", *_QUICK),
        ]
        if self._has_binary_log:
            # As where there are replicas: how it is written down decides what is allowed.
            binary = folder / "data" / "binlog"
            command += [f"--log-bin={binary}", "--server-id=1", "--sync-binlog=0"]
        self._process = ServerProcess(
            "the embedded MariaDB",
            as_user(command),
            log=folder / "mariadb.log",
            sweep=folder,
            environment=None if self._log is None else self._log.environment(),
        )
        self._await_answer()

    def kill(self) -> None:
        """At once, all connections broken; it must recover when it is started again."""
        assert self._process is not None
        self._process.kill()

    @contextmanager
    def connection(self, **others: Any) -> Iterator[Any]:
        """Closed at the end; `others` go to `pymysql.connect`."""
        made = pymysql.connect(**self.arguments(**{"autocommit": True, **others}))
        try:
            yield made
        finally:
            made.close()

    def _make_data(self, install: str) -> None:
        folder = self._used_folder()
        command = [
            *(install, "--no-defaults", f"--datadir={folder / 'data'}", f"--tmpdir={folder}"),
            *("--auth-root-authentication-method=normal", "--skip-test-db"),
            *("--skip-name-resolve", *_QUICK),
        ]
        done = subprocess.run(
            as_user(command), capture_output=True, text=True, timeout=120, check=False, cwd="/"
        )
        assert done.returncode == 0, f"mariadb-install-db failed:\n{done.stdout}\n{done.stderr}"

    def _answers(self) -> bool:
        try:
            with self.connection(database=None, connect_timeout=5):
                return True
        except pymysql.OperationalError:
            return False
